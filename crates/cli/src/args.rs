//! What can be typed.

mod options;
mod processes;
mod rows;
mod running;
mod sending;
mod serving;
mod tips;
mod viewing;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::filters::Filters;

pub use options::{NOTHING, ProfilerOptions};
use processes::{DOCTOR_EXAMPLES, DOCTOR_LONG, PS_EXAMPLES, PS_LONG};
pub use processes::{DoctorArgs, PsArgs};
use rows::by;
pub use rows::{By, Clock, Sort};
use running::{ATTACH_EXAMPLES, ATTACH_LONG, CTL_EXAMPLES, CTL_LONG};
pub use running::{AttachArgs, CtlAction, CtlArgs};
use sending::{FLUSH_EXAMPLES, FLUSH_LONG, UPLOAD_EXAMPLES, UPLOAD_LONG};
pub use sending::{FlushArgs, UploadArgs};
pub use serving::ServeArgs;
use serving::{SERVE_EXAMPLES, SERVE_LONG};
use tips::with_tip;
use viewing::{
    CONVERT_EXAMPLES, CONVERT_LONG, DIFF_EXAMPLES, DIFF_LONG, FLAMEGRAPH_EXAMPLES, FLAMEGRAPH_LONG,
    VIEW_EXAMPLES, VIEW_LONG,
};
pub use viewing::{ConvertArgs, DiffArgs, FlamegraphArgs, OwnOrTotal, ViewArgs};

/// Reads the command line; ends the process if it makes no sense, or asks for help.
pub fn parse() -> Cli {
    let mut command = command();
    let result = command.try_get_matches_from_mut(std::env::args_os());
    let cli = result.and_then(|matches| Cli::from_arg_matches(&matches));
    cli.unwrap_or_else(|error| with_tip(error.with_cmd(&command), &command).exit())
}

/// The command line, with what differs between commands that share options.
fn command() -> clap::Command {
    let help = |text: &str, var: &str| format!("{text} [{var}]");
    let run_period = help(
        "Time between two files [1s to 1h; default here: 5s, and 60s without `corprof run`]",
        "CORPROF_UPLOAD_PERIOD",
    );
    let run_out = help(
        "Folder that profiles are written to, made if it is not there [default: a fresh one in \
         corprof-out]",
        "CORPROF_OUTPUT_DIR",
    );
    let env_out = help(
        "Folder that profiles are written to, made if it is not there [default: corprof-out in the \
         current folder; with --docker and --k8s /var/lib/corprof]",
        "CORPROF_OUTPUT_DIR",
    );
    let (attach_period, attach_out) = (run_period.clone(), run_out.clone());
    Cli::command()
        .mut_subcommand("run", |run| {
            run.mut_arg("upload-period", |arg| arg.help(run_period))
                .mut_arg("out", |arg| arg.help(run_out))
        })
        .mut_subcommand("attach", |attach| {
            attach
                .mut_arg("upload-period", |arg| arg.help(attach_period))
                .mut_arg("out", |arg| arg.help(attach_out))
        })
        .mut_subcommand("env", |env| env.mut_arg("out", |arg| arg.help(env_out)))
}

const EXIT_CODES: &str = "\
Exit codes:
  0    success; also if the reader of the output went away
  1    a file or folder could not be read or written, or nothing fits the filters (the message says)
       `corprof doctor` also if something prevents profiling
  2    the command line makes no sense
  3    `corprof diff --fail-if`: something became more expensive by more than that
  `corprof run` ends with the program's own code, 128+n if signal n ended it, or
  125  the program was not started: no usable agent, no place for profiles or the report
  126  the program can't be executed
  127  there is no such program";

/// A continuous profiler for .NET: CPU and wall time, from a running program to a table or a file.
#[derive(Debug, Parser)]
#[command(name = "corprof", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program under the profiler; at its end: a table, the files, what it cost
    #[command(long_about = RUN_LONG, after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Profile a process that runs already; then a table, the files, what it cost
    #[command(long_about = ATTACH_LONG, after_help = ATTACH_EXAMPLES)]
    Attach(Box<AttachArgs>),
    /// Speak to the agent in a process: status, start, stop, other settings, detach
    #[command(long_about = CTL_LONG, after_help = CTL_EXAMPLES)]
    Ctl(Box<CtlArgs>),
    /// Show where time went, from profile files
    #[command(long_about = TOP_LONG, after_help = TOP_EXAMPLES)]
    Top(TopArgs),
    /// Write profiles in the format of another program: speedscope, Firefox Profiler, and more
    #[command(long_about = CONVERT_LONG, after_help = CONVERT_EXAMPLES)]
    Convert(ConvertArgs),
    /// Write a page that shows where time went: a flame graph that works without a network
    #[command(long_about = FLAMEGRAPH_LONG, after_help = FLAMEGRAPH_EXAMPLES)]
    Flamegraph(FlamegraphArgs),
    /// Look at profiles in the browser: timeline, flame graph, requests, what changed
    #[command(long_about = VIEW_LONG, after_help = VIEW_EXAMPLES)]
    View(ViewArgs),
    /// Compare profiles: what became more expensive or cheaper, by more than chance may explain
    #[command(long_about = DIFF_LONG, after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Take the profiles that agents push, keep them on disk, and show them
    #[command(long_about = SERVE_LONG, after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Print the variables that profile a program without `corprof run`
    #[command(long_about = ENV_LONG, after_help = ENV_EXAMPLES)]
    Env(EnvArgs),
    /// List the .NET processes of this machine, and which of them can be profiled now
    #[command(long_about = PS_LONG, after_help = PS_EXAMPLES)]
    Ps(PsArgs),
    /// Look for what would keep a program from being profiled, or make its profile worse
    #[command(long_about = DOCTOR_LONG, after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Send profile files to `corprof serve`, Pyroscope, Datadog or an OpenTelemetry collector
    #[command(long_about = UPLOAD_LONG, after_help = UPLOAD_EXAMPLES)]
    Upload(UploadArgs),
    /// Send the profiles that wait in a spool folder
    #[command(long_about = FLUSH_LONG, after_help = FLUSH_EXAMPLES)]
    Flush(FlushArgs),
}

/// What `corprof run` has for the time between two files if nobody says one.
pub const RUN_PERIOD: &str = "5s";

const RUN_LONG: &str = "\
Run a program under the profiler; at its end: a table, the files, what it cost.

The program keeps its standard input and output, its signals and its exit code. The report goes to
standard error, so that the program's output stays its own. Child processes are profiled too, and
merged in the report; it lists each process's total.

The agent writes a file every 5 seconds here, and the last one when the program returns from Main,
calls Environment.Exit or gets SIGTERM. Ctrl-C of a plain console program, a crash, FailFast and
SIGKILL give it no time for that: up to 5 seconds are then missing, and the report says so.";

const RUN_EXAMPLES: &str = "\
Examples:
  corprof run -- dotnet MyApp.dll --its-own-flag
  corprof run --for 30s --out /tmp/profile -- ./MyServer
  corprof run --cpu-interval 1ms --sampler scan -- dotnet MyApp.dll
  corprof run --json=report.json --top 5 -- ./MyTool

Exit codes:
  the program's own; 128+n if signal n ended it, also after --for
  125  it was not started: no usable agent, no place for profiles or the report
  126  it can't be executed
  127  there is no such program";

/// `corprof run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// End the program after this time, such as 30s: SIGTERM, and SIGKILL 10 s later
    #[arg(long = "for", value_name = "DURATION", value_parser = time_limit)]
    pub time_limit: Option<Duration>,

    /// How the report is shown.
    #[command(flatten)]
    pub report: ReportArgs,

    /// The agent, libcorprof.so; otherwise CORPROF_AGENT, then beside corprof, then
    /// ../lib/corprof from there
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,

    /// The profiler's own options.
    #[command(flatten)]
    pub options: ProfilerOptions,

    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// How the report of profiling a process is shown.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Write the report as JSON instead of tables; without =FILE to report.json beside the
    /// profiles, with =- to standard output after the program's own
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "")]
    pub json: Option<OsString>,

    /// Rows of each table [default: 20], and of JSON [default: all]
    #[arg(long, value_name = "N", visible_alias = "limit", allow_negative_numbers = true,
          value_parser = rows)]
    pub top: Option<usize>,

    /// Then look at the profiles in the browser, as with `corprof view`; also switches --timeline
    /// on
    #[arg(long)]
    pub view: bool,
}

const TOP_LONG: &str = "\
Show where time went, from profile files: time in functions themselves and with what they called,
CPU and wall side by side; then the totals, what profiling cost and what was lost.

What says nothing about the program is left out, unless --all is given: wall time of threads that
wait for work, the frames below a thread's first method, and the methods that only pass work on
(pool, tasks, async). A wait is charged to the method that waits, not to the system call.

Of a program that tells the profiler about its requests there is a table of endpoints too: how many
requests ended, and of one of them the CPU time, the time from begin to end, and the time that
threads spent on it, waits on them included.

A folder stands for the profiles (*.pb.gz) in it. All files are merged. A file that can't be read
is named on standard error and passed over, and the exit code is then 1.";

const TOP_EXAMPLES: &str = "\
Examples:
  corprof top corprof-out/MyApp-20261129-101500
  corprof top a.pb.gz b.pb.gz --by thread
  corprof top profiles/ --sort total --value wall --limit 50 --all
  corprof top profiles/ --state lock
  corprof top profiles/ --lines --symbols /var/symbols
  corprof top profiles/ --by endpoint
  corprof top profiles/ --endpoint 'GET /orders/*' --label tenant=acme
  corprof top profiles/ --span 4bf92f3577b34da6a3ce929d0e0e4736
  corprof top profiles/ --json | jq '.rows[0]'";

/// `corprof top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Profiles (pprof, gzipped or plain, also of other tools), or folders of them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// What a row is: function, thread, state (what threads were doing; wall time), module,
    /// endpoint, span, or label:NAME (the values of a label of the program)
    #[arg(long, value_name = "WHAT", default_value_t = By::Function, value_parser = by)]
    pub by: By,

    /// Rows of each table [default: 20], and of JSON [default: all]
    #[arg(long, value_name = "N", visible_alias = "top", allow_negative_numbers = true,
          value_parser = rows)]
    pub limit: Option<usize>,

    /// Only the table sorted by own time, or the one with callees' [default: both]
    #[arg(long, value_enum)]
    pub sort: Option<Sort>,

    /// Which time rows are sorted by [default: cpu, or wall if there is no cpu]
    #[arg(long, value_enum)]
    pub value: Option<Clock>,

    /// Everything as in the files: also waits for work, thread starts and task plumbing
    #[arg(long)]
    pub all: bool,

    /// Rows of functions by source line: FUNCTION FILE:LINE, where the debug information of the
    /// same build is on this machine: a portable PDB beside the assembly or in it; of native code
    /// in the library, beside it, or below /usr/lib/debug
    #[arg(long)]
    pub lines: bool,

    /// A folder of PDBs and debug files, searched after the places of --lines; may be given more
    /// than once
    #[arg(long, value_name = "DIR", requires = "lines")]
    pub symbols: Vec<PathBuf>,

    /// JSON on standard output; times are nanoseconds, and everything is in it as with --all
    #[arg(long)]
    pub json: bool,

    /// Which samples are looked at.
    #[command(flatten)]
    pub filters: Filters,
}

const ENV_LONG: &str = "\
Print the variables that profile a program without `corprof run`: for services that run for long.
Profiles then appear in CORPROF_OUTPUT_DIR, every minute and at the end.

For a shell, use them in a subshell as below: left in your own, they would profile every .NET
program that you start from it.";

const ENV_EXAMPLES: &str = "\
Examples:
  ( eval \"$(corprof env --out /var/tmp/profiles)\"; exec dotnet MyApp.dll )
  corprof env --docker --agent /opt/corprof/libcorprof.so >> Dockerfile
  corprof env --k8s --service orders --cpu-interval 20ms";

/// `corprof env`.
#[derive(Args, Debug)]
pub struct EnvArgs {
    /// Lines for a shell (the default)
    #[arg(long, group = "form")]
    pub shell: bool,

    /// An ENV instruction for a Dockerfile
    #[arg(long, group = "form")]
    pub docker: bool,

    /// The `env:` of a container, for Kubernetes
    #[arg(long, group = "form")]
    pub k8s: bool,

    /// Beside another profiler (an APM's), whose variables stay: .NET 6 and later
    #[arg(long)]
    pub beside: bool,

    /// The agent's path where the program runs [default: the agent that `corprof run` would use;
    /// with --docker and --k8s /opt/corprof/libcorprof.so]
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,

    /// The profiler's own options.
    #[command(flatten)]
    pub options: ProfilerOptions,
}

/// Refuses a number alone, and says what may be meant of what is good. In a variable it is
/// milliseconds, and who types `--for 30` means none.
fn has_unit(text: &str, is_good: impl Fn(&str) -> bool) -> Result<(), String> {
    let text = text.trim();
    if text.is_empty() || !text.chars().all(|letter| letter.is_ascii_digit() || letter == '.') {
        return Ok(());
    }
    // Seconds are what most have in mind, where they are allowed.
    let meant: Vec<String> = ["s", "ms", "m"]
        .iter()
        .map(|unit| format!("{text}{unit}"))
        .filter(|t| is_good(t))
        .collect();
    Err(match meant.as_slice() {
        [] => format!("{text} has no unit, such as s or ms"),
        [one] => format!("{text} has no unit: write {one}"),
        [one, other, ..] => format!("{text} has no unit: write {one} or {other}"),
    })
}

fn rows(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(rows) => Ok(rows),
        Err(_) => Err("not a number of rows, such as 20".to_owned()),
    }
}

fn process_id(text: &str) -> Result<u32, String> {
    let not_one = || "not the number of a process; `corprof ps` lists them".to_owned();
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(not_one)
}

fn time_limit(text: &str) -> Result<Duration, String> {
    has_unit(text, |text| config::duration_from_text(text).is_some_and(|time| !time.is_zero()))?;
    match config::duration_from_text(text) {
        Some(Duration::ZERO) => Err("it must be more than nothing".to_owned()),
        Some(duration) => Ok(duration),
        None => Err("not a duration such as 30s, 5m or 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_is_a_flag_of_run() {
        let words = ["corprof", "run", "--wall-threads", "7", "--out=x", "--", "a", "--top", "3"];
        let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("not run")
        };
        assert_eq!(args.options.get("CORPROF_WALL_THREADS"), Some("7"));
        assert_eq!(args.options.get("CORPROF_OUTPUT_DIR"), Some("x"));
        assert_eq!(args.command, ["a", "--top", "3"]);
        assert_eq!(args.report.top, None);
    }

    #[test]
    fn a_programs_own_flags_are_its_own_without_dashes_too() {
        let Command::Run(args) =
            Cli::try_parse_from(["corprof", "run", "a", "--top", "3"]).unwrap().command
        else {
            panic!("not run")
        };
        assert_eq!(args.command, ["a", "--top", "3"]);
    }

    #[test]
    fn what_is_no_process_is_told() {
        for words in [&["attach", "abc"][..], &["doctor", "x"], &["ctl", "0", "status"]] {
            let words = ["corprof"].iter().chain(words);
            let error = Cli::try_parse_from(words).unwrap_err().to_string();
            assert!(error.contains("not the number of a process; `corprof ps`"), "{error}");
        }
    }

    #[test]
    fn bad_values_are_refused_with_the_reason() {
        for (words, reason) in [
            (&["--cpu-interval", "fast"][..], "not a duration such as 10ms"),
            (&["--wall-threads", "65"], "not between 1 and 64"),
            (&["--sampler", "perf"], "none of timer, scan"),
            (&["--service", "a\nb"], "not a name: it has control characters"),
            (&["--service", "a\0b"], "not a name: it has control characters"),
            (&["--for", "30"], "30 has no unit: write 30s or 30ms\n"),
            (&["--upload-period", "60"], "60 has no unit: write 60s or 60m\n"),
            (&["--cpu-interval", "5"], "5 has no unit: write 5ms\n"),
            (&["--for", "0"], "0 has no unit, such as s or ms\n"),
            (&["--server-url", "foo"], "'foo' for '--server-url <TEXT>': no address: it begins "),
            (&["--cpu-enabled", "no", "--wall-enabled=false"], "nothing to profile"),
            (&["--for", "x"], "not a duration such as 30s"),
            (&["--for", "0s"], "more than nothing"),
            (&["--limit", "0"], "it must be at least 1"),
            (&["--top", "all"], "not a number of rows, such as 20"),
            (&["--top", "-1"], "not a number of rows, such as 20"),
        ] {
            let words = ["corprof", "run"].iter().chain(words).chain(&["--", "a"]);
            let error = Cli::try_parse_from(words).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
