//! The tasks of the repository.
#![forbid(unsafe_code)]

mod attach_cost;
mod bench;
mod build;
mod callgrind;
mod closure;
mod cost;
mod demo;
mod export_cost;
mod handler_cost;
mod interleave;
mod long;
mod managed;
mod micro_cost;
mod product;
mod servers;
mod serving;
mod setup;
mod test;
mod thread_cost;
mod tidy;
mod truth;
mod ui;
mod wake_cost;
mod windows;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

tasks:
  bench [--quick] [--write] [NAME]... [OPTION]...
           what the profiler costs: beside other profilers; by threads, depth and rate; idle; after
           it has left; and each part alone (bench --help tells names and options)
  bench serve [--minutes N]
           twenty agents that push to `corprof serve` while it is asked
  chaos [--minutes N] [--net VERSION]
           a program that does everything at once under the profiler, for minutes
  build    build all that users get into target/release
  loom     try all orders in which threads can meet in the ring and at the gate
  demo [web|roslyn|split]... [--quick]
           profile real programs and show what the profiler says of them
  fuzz intake [--minutes N]
           push changed bodies to `corprof serve`
  outage [--minutes N] [--net VERSION] [TEST]...
           programs whose profiles can't be sent: a target that is down for minutes, servers that
           misbehave, a full disk, SIGKILL
  test     everything that has to hold: format, lints, build, all tests; with a summary
  truth [--write] [--from OUTPUT]
           run the truth tests and print, or write to docs/truth.md, what they measured
  servers  build an OpenTelemetry collector, a Pyroscope server, Pyroscope's official API and
           Datadog's own exporter, and hold what is sent against them
  setup    install the pinned .NET runtimes and compilers and compile the test programs
  signal-closure [--lib PATH]
           follow all that the signal handler can reach in the linked library
  tidy     check the rules that neither the compiler nor clippy knows
  ui [--check]
           build the pages in ui/dist, or check that they are what their sources say
  whole [--seconds N] [--net VERSION] [TEST]...
           CPU time of all kinds of programs against the kernel's count, in long runs
  windows [--build-only] [--minutes N] [TEST]...
           build the agent and the command line for Windows, and run their truth tests in Wine;
           installs Debian's cross compiler, Wine 10 and .NET for Windows (needs root)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("bench") if arguments.get(1).is_some_and(|what| what == "serve") => {
            serving::bench(&arguments[2..])
        }
        Some("bench") => bench::run(&arguments[1..]),
        Some("build") => build::run(&arguments[1..]),
        Some("chaos") => long::chaos(&arguments[1..]),
        Some("loom") => interleave::run(&arguments[1..]),
        Some("fuzz") => serving::fuzz(&arguments[1..]),
        Some("demo") => demo::run(&arguments[1..]),
        Some("test") => test::run(&arguments[1..]),
        Some("truth") => truth::run(&arguments[1..]),
        Some("servers") => servers::run(&arguments[1..]),
        Some("outage") => long::outage(&arguments[1..]),
        Some("setup") => setup::run(&arguments[1..]),
        Some("signal-closure") => closure::run(&arguments[1..]),
        Some("tidy") => tidy::run(&arguments[1..]),
        Some("ui") => ui::run(&arguments[1..]),
        Some("whole") => long::whole(&arguments[1..]),
        Some("windows") => windows::run(&arguments[1..]),
        Some("help" | "--help" | "-h") => {
            print!("{USAGE}");
            Ok(())
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
