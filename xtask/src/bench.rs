//! `cargo xtask bench`: what the profiler costs, as ratios of runs that alternate.
//!
//! The machine may be shared and its speed may change, so nothing is compared with another time:
//! the settings take turns, and what is told are medians, with their spread, beside those of the
//! setting without.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rig::{Net8, Net9, Rig};
use serde_json::Value;

use crate::cost::{self, Wanted, statistics};
use crate::product::{self, Product};
use crate::{
    attach_cost, export_cost, handler_cost, micro_cost, thread_cost, wake_cost, workspace,
};

const USAGE: &str = "\
usage: cargo xtask bench [--quick] [--write] [NAME]... [OPTION]...

names, all if none is given:
  peers      programs with the agent, EventPipe, perf, and nothing
               [--workload NAME]... [--setting NAME]... [--series N] [--rounds N]
  curves     by idle threads, depth of stacks and rate [--curve threads|depth|rate]...
  latency    answers of a web service at a constant load [--rounds N]
  start      what a program pays that ends at once [--rounds N]
  memory     of a program that compiles without an end [--minutes N]
  spans pipeline web
             what a request costs, alone, in ASP.NET Core, and under load [--rounds N]
  micro      the parts that work for each sample, alone [--check]
  handler    instructions of a walk, by depth
  wake       the least that a thread costs which wakes at the sampler's beat [--rounds N]
  threads    many threads that wait [--threads N]... [--seconds N]
  attach     a service that the profiler has left [--rounds N]
  export     a service that sends its profiles [--rounds N]
and, alone: cargo xtask bench serve [--minutes N], twenty agents that push to `corprof serve`

--check      fail if a count is not what it was; with --quick, as `cargo xtask test` does: only
             what is quickly counted, in programs that were built for tests
--quick      only enough to see that it works
--write      have docs/performance.md show the tables and plots of the first five";
const ROUNDS: usize = 5;
/// Benchmarks that need no .NET; see `micro_cost`, `handler_cost` and `wake_cost`.
const MICRO: &str = "micro";
const HANDLER: &str = "handler";
const WAKE: &str = "wake";
/// The one of idle threads; see `thread_cost`.
const THREADS: &str = "threads";
/// The one of a service that the profiler has left; see `attach_cost`.
const ATTACH: &str = "attach";
/// The one of a service that sends its profiles; see `export_cost`.
const EXPORT: &str = "export";
/// Longer than any of the programs runs, however busy the machine.
const LIMIT: Duration = Duration::from_secs(300);

/// How a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    /// Without a profiler.
    Bare,
    /// With the agent.
    Agent,
    /// With the agent and the startup hook.
    Spans,
}

impl Setting {
    fn name(self) -> &'static str {
        match self {
            Self::Bare => "no profiler",
            Self::Agent => "agent",
            Self::Spans => "agent and spans",
        }
    }
}

/// A number that a program tells of itself.
struct Figure {
    text: &'static str,
    unit: &'static str,
    of: fn(&Value) -> Option<f64>,
}

/// A program whose figures are compared.
struct Bench {
    name: &'static str,
    what: &'static str,
    settings: &'static [Setting],
    command: fn(&Rig) -> Result<Command>,
    figures: &'static [Figure],
}

const BENCHES: [Bench; 3] = [
    Bench {
        name: "spans",
        what: "What the startup hook adds to a switch of the execution context, and to a span",
        settings: &[Setting::Agent, Setting::Spans],
        command: |rig| {
            let mut command = rig.app("activities")?.command(Net8)?;
            command.arg("--bench");
            Ok(command)
        },
        figures: &[
            Figure {
                text: "two switches, there and back",
                unit: "ns",
                of: |truth| Some(truth.get("two_switches_ps")?.as_f64()? / 1e3),
            },
            Figure {
                text: "bytes allocated by these",
                unit: "",
                of: |truth| truth.get("two_switches_bytes")?.as_f64(),
            },
            Figure {
                text: "start and end of a span in a request",
                unit: "ns",
                of: |truth| Some(truth.get("child_start_stop_ps")?.as_f64()? / 1e3),
            },
            Figure {
                text: "bytes allocated by these",
                unit: "",
                of: |truth| truth.get("child_start_stop_bytes")?.as_f64(),
            },
            Figure {
                text: "start and end of a request",
                unit: "ns",
                of: |truth| Some(truth.get("start_stop_ps")?.as_f64()? / 1e3),
            },
            Figure {
                text: "bytes allocated by these",
                unit: "",
                of: |truth| truth.get("start_stop_bytes")?.as_f64(),
            },
        ],
    },
    Bench {
        name: "pipeline",
        what: "A request through ASP.NET Core's pipeline on one thread, without a connection",
        settings: &[Setting::Agent, Setting::Spans],
        command: |rig| {
            let mut command = rig.app("web")?.command(Net9)?;
            command.args(["--pipeline", "100000"]);
            Ok(command)
        },
        figures: &[
            Figure {
                text: "a request",
                unit: "ns",
                of: |truth| Some(truth.get("request_ps")?.as_f64()? / 1e3),
            },
            Figure {
                text: "bytes allocated by it",
                unit: "",
                of: |truth| truth.get("request_bytes")?.as_f64(),
            },
        ],
    },
    Bench {
        name: "web",
        what: "An ASP.NET Core service under load from 8 clients on the same machine",
        settings: &[Setting::Bare, Setting::Agent, Setting::Spans],
        command: |rig| {
            let mut command = rig.app("web")?.command(Net9)?;
            command.args(["--load", "10", "--clients", "8"]);
            Ok(command)
        },
        figures: &[
            Figure {
                text: "answers in 10 s",
                unit: "",
                of: |truth| truth.get("load_answers")?.as_f64(),
            },
            Figure {
                text: "CPU time of the service for an answer",
                unit: "us",
                of: |truth| {
                    let answers = truth.get("load_answers")?.as_f64()?;
                    Some(truth.get("process_cpu_ns")?.as_f64()? / answers / 1e3)
                },
            },
        ],
    },
];

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    names: Vec<&'static str>,
    threads: Vec<usize>,
    seconds: u64,
    wanted: Wanted,
    check: bool,
}

/// The names of all benchmarks: what is asked for most comes first.
fn all() -> impl Iterator<Item = &'static str> {
    let benches = BENCHES.iter().map(|bench| bench.name);
    cost::NAMES.into_iter().chain(benches).chain([MICRO, HANDLER, WAKE, THREADS, ATTACH, EXPORT])
}

/// The benchmarks that an option says something of; `--quick` is for all.
fn used_by(option: &str) -> Vec<&'static str> {
    match option {
        "--workload" | "--setting" | "--series" => vec!["peers"],
        "--curve" => vec!["curves"],
        "--minutes" => vec!["memory"],
        "--threads" | "--seconds" => vec![THREADS],
        "--check" => vec![MICRO],
        "--write" => cost::NAMES.to_vec(),
        "--rounds" => {
            vec!["peers", "latency", "start", "spans", "pipeline", "web", WAKE, ATTACH, EXPORT]
        }
        _ => all().collect(),
    }
}

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return Ok(());
    }
    let asked = Asked::parse(arguments)?;
    if asked.has(MICRO) {
        let target = workspace::metadata()?.target_directory;
        if asked.check && asked.wanted.quick {
            micro_cost::check_tests(&target)?;
        } else {
            micro_cost::run(&target, asked.check)?;
        }
    }
    if asked.has(HANDLER) {
        handler_cost::run(&workspace::metadata()?.target_directory)?;
    }
    if asked.has(WAKE) {
        wake_cost::run(asked.rounds(), asked.wanted.quick)?;
    }
    if asked.names.iter().all(|name| [MICRO, HANDLER, WAKE].contains(name)) {
        return Ok(());
    }
    // No browser, and of the programs those that run.
    let rig = Rig::ensure()?;
    // The rig stands in cargo's target folder, wherever that is.
    let target = rig.root().parent().context("the rig stands nowhere")?;
    let product = product::build(target)?;
    // Else it would write over what an earlier run has found.
    if cost::NAMES.iter().any(|name| asked.has(name)) {
        cost::run(&asked.names, &asked.wanted, rig, &product, target)?;
    }
    let rounds = asked.rounds();
    for bench in BENCHES.iter().filter(|bench| asked.has(bench.name)) {
        let runs = measure(bench, rounds, rig, &product, target)?;
        print!("{}", table(bench, &runs)?);
    }
    if asked.has(THREADS) {
        thread_cost::run(&asked.threads, asked.seconds, rig, &product, target)?;
    }
    if asked.has(ATTACH) {
        attach_cost::run(rounds, rig, &product, target)?;
    }
    if asked.has(EXPORT) {
        export_cost::run(rounds, rig, &product, target)?;
    }
    Ok(())
}

impl Asked {
    fn parse(arguments: &[String]) -> Result<Self> {
        let (mut names, mut threads) = (Vec::new(), Vec::new());
        let (mut seconds, mut wanted, mut check) = (None, Wanted::default(), false);
        let mut options = Vec::new();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if let Some(name) = all().find(|name| name == argument) {
                names.push(name);
                continue;
            }
            options.push(argument);
            if let Some(words) = Wanted::words(argument) {
                let words = words.as_slice();
                let word = rest.next().filter(|word| words.contains(&word.as_str()));
                let word = word.with_context(|| format!("{argument} is one of {words:?}"))?;
                wanted.add(argument, word);
                continue;
            }
            let mut number = || number(argument, rest.next());
            match argument.as_str() {
                "--quick" => wanted.quick = true,
                "--write" => wanted.write = true,
                "--check" => check = true,
                "--rounds" => wanted.rounds = Some(number()?),
                "--minutes" => wanted.minutes = Some(number()?),
                "--series" => wanted.series = Some(number()?),
                "--threads" => threads.push(number()?),
                "--seconds" => seconds = Some(number()? as u64),
                _ => bail!("{argument} is no benchmark and no option\n{USAGE}"),
            }
        }
        if names.is_empty() {
            names = all().collect();
        }
        for option in options {
            let users = used_by(option);
            let is_used = users.iter().any(|user| names.contains(user));
            ensure!(is_used, "{option} is for {}, and {names:?} has none of it", users.join(", "));
        }
        let is_enough = !(wanted.quick && wanted.write);
        ensure!(is_enough, "--write is for what was measured in full, and --quick is not");
        if threads.is_empty() {
            threads = if wanted.quick { vec![100] } else { thread_cost::THREADS.to_vec() };
        }
        let otherwise = if wanted.quick { 5 } else { thread_cost::SECONDS };
        Ok(Self { names, threads, seconds: seconds.unwrap_or(otherwise), wanted, check })
    }

    fn rounds(&self) -> usize {
        self.wanted.rounds.unwrap_or(if self.wanted.quick { 1 } else { ROUNDS })
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }
}

fn number(option: &str, word: Option<&String>) -> Result<usize> {
    let number = word.and_then(|word| word.parse().ok()).filter(|number| *number > 0);
    let found = word.map_or("nothing".to_owned(), |word| format!("{word:?}"));
    number.with_context(|| format!("{option} needs a number from 1 on, and has {found}"))
}

/// What each setting's runs told, in the order of the bench's settings.
fn measure(
    bench: &Bench,
    rounds: usize,
    rig: &Rig,
    product: &Product,
    target: &Path,
) -> Result<Vec<Vec<Value>>> {
    let mut runs = vec![Vec::new(); bench.settings.len()];
    for round in 0..rounds {
        // Every other round goes backwards, so that no setting always comes after the same one.
        let mut order: Vec<usize> = (0..bench.settings.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for position in order {
            let setting = bench.settings[position];
            eprintln!("bench: {}, round {} of {rounds}: {}", bench.name, round + 1, setting.name());
            let folder = target.join("bench").join(bench.name);
            let command = with(setting, (bench.command)(rig)?, product, &folder);
            runs[position].push(truth(command)?);
        }
    }
    Ok(runs)
}

/// The command in that setting.
fn with(setting: Setting, program: Command, product: &Product, folder: &Path) -> Command {
    let spans = match setting {
        Setting::Bare => return program,
        Setting::Agent => "--spans=false",
        Setting::Spans => "--spans=true",
    };
    // As a service would run: a profile a minute.
    let options = ["--upload-period=60s", spans, "--out"].map(OsStr::new);
    product.profiled(&program, options.into_iter().chain([folder.as_os_str()]))
}

/// Runs a program to its end; gives what it told of itself.
fn truth(command: Command) -> Result<Value> {
    let outcome = rig::run(command, LIMIT)?;
    let errors = &outcome.stderr;
    ensure!(outcome.status.success(), "the program failed ({}): {errors}", outcome.status);
    outcome.truth()
}

/// The figures of all settings, as a table of a document.
fn table(bench: &Bench, runs: &[Vec<Value>]) -> Result<String> {
    let mut text = format!("\n{} ({} runs each):\n\n| |", bench.what, runs[0].len());
    for setting in bench.settings {
        text.push_str(&format!(" {} |", setting.name()));
    }
    text.push_str(&format!("\n|---{}|\n", "|---".repeat(bench.settings.len())));
    for figure in bench.figures {
        text.push_str(&format!("| {} |", figure.text));
        let mut first = None;
        for runs in runs {
            let numbers: Option<Vec<f64>> = runs.iter().map(figure.of).collect();
            let mut numbers = numbers.with_context(|| format!("no figure: {}", figure.text))?;
            numbers.sort_by(f64::total_cmp);
            text.push_str(&format!(" {} |", cell(&numbers, figure.unit, &mut first)));
        }
        text.push('\n');
    }
    Ok(text)
}

/// A median, from the least to the most, and as a part of the first setting's.
fn cell(sorted: &[f64], unit: &str, first: &mut Option<f64>) -> String {
    let median = statistics::median(sorted).unwrap_or(f64::NAN);
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    let spread = format!("{median:.1}{unit} ({least:.1} to {most:.1})");
    match first {
        None => {
            *first = Some(median);
            spread
        }
        Some(first) if *first > 0.0 => format!("{spread}, ×{:.3}", median / *first),
        Some(_) => spread,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_benchmarks_or_options() {
        let parsed = |words: &[&str]| {
            Asked::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        let every = parsed(&[]).unwrap();
        assert_eq!(every.names, all().collect::<Vec<_>>());
        assert_eq!((every.rounds(), every.threads), (ROUNDS, thread_cost::THREADS.to_vec()));
        let words = ["web", "threads", "--rounds", "3", "--threads", "5", "--threads", "7"];
        let some = parsed(&words).unwrap();
        assert_eq!(
            (some.rounds(), some.names, some.threads),
            (3, vec!["web", THREADS], vec![5, 7])
        );
        let peers =
            parsed(&["peers", "--setting", "perf", "--workload", "cpu", "--quick"]).unwrap();
        assert_eq!((peers.wanted.settings, peers.wanted.quick), (vec!["perf".to_owned()], true));
        for (wrong, why) in [
            (&["wbe"][..], "wbe is no benchmark and no option"),
            (&["--setting", "web"], "--setting is one of [\"again\""),
            (&["--workload"], "--workload is one of [\"cpu\""),
            (&["--rounds"], "--rounds needs a number from 1 on, and has nothing"),
            (&["--rounds", "0"], "needs a number from 1 on, and has \"0\""),
            (&["--seconds", "x"], "needs a number from 1 on, and has \"x\""),
            (&["start", "--minutes", "3"], "--minutes is for memory, and [\"start\"] has none"),
            (&["wake", "--write"], "--write is for peers, curves"),
            (&["start", "--write", "--quick"], "--write is for what was measured in full"),
        ] {
            let error = parsed(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn medians_are_told_with_their_spread_and_ratio() {
        let runs = |numbers: &[u64]| -> Vec<Value> {
            let told =
                |n: &u64| serde_json::json!({ "load_answers": n, "process_cpu_ns": 2_000_000u64 });
            numbers.iter().map(told).collect()
        };
        let settings = [runs(&[100, 300, 150, 250]), runs(&[100; 4]), runs(&[50, 50, 400, 50])];
        let text = table(&BENCHES[2], &settings).unwrap();
        for part in [
            "| answers in 10 s | 200.0 (100.0 to 300.0) | 100.0 (100.0 to 100.0), ×0.500 |",
            "| 50.0 (50.0 to 400.0), ×0.250 |",
            "| CPU time of the service for an answer | 10.7 us (6.7 to 20.0) | 20.0 us",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }
}
