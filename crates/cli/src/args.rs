//! What can be typed.

mod processes;
mod running;
mod sending;
mod serving;
mod viewing;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{
    Arg, ArgAction, ArgMatches, Args, CommandFactory as _, FromArgMatches, Parser, Subcommand,
    ValueEnum,
};
use config::{Kind, OPTIONS, Opt};

use crate::filters::Filters;

use processes::{DOCTOR_EXAMPLES, DOCTOR_LONG, PS_EXAMPLES, PS_LONG};
pub use processes::{DoctorArgs, PsArgs};
use running::{ATTACH_EXAMPLES, ATTACH_LONG, CTL_EXAMPLES, CTL_LONG};
pub use running::{AttachArgs, CtlAction, CtlArgs};
use sending::{FLUSH_EXAMPLES, FLUSH_LONG, UPLOAD_EXAMPLES, UPLOAD_LONG};
pub use sending::{FlushArgs, UploadArgs};
pub use serving::ServeArgs;
use serving::{SERVE_EXAMPLES, SERVE_LONG};
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
    cli.unwrap_or_else(|error| with_suggestion(error.with_cmd(&command), &command).exit())
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

/// Adds the flag with the same letters, which clap's measure of likeness misses in short words:
/// `--fro` for `--for`.
fn with_suggestion(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument
        && error.get(ContextKind::SuggestedArg).is_none()
        && let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg)
    {
        let letters = |word: &str| {
            let mut letters: Vec<char> = word.chars().collect();
            letters.sort_unstable();
            letters
        };
        let wanted = letters(wrong.trim_start_matches('-'));
        let flags = command.get_subcommands().flat_map(|command| command.get_arguments());
        let mut flags = flags.filter_map(Arg::get_long);
        if let Some(flag) = flags.find(|flag| letters(flag) == wanted) {
            let flag = ContextValue::String(format!("--{flag}"));
            error.insert(ContextKind::SuggestedArg, flag);
        }
    }
    error
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

/// What a row of a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A function
    Function,
    /// A thread
    Thread,
    /// What threads were doing (wall time)
    State,
    /// An assembly or a native library
    Module,
    /// An endpoint, as requests go to
    Endpoint,
    /// A span of a trace
    Span,
    /// A value of the label with this name
    Label(String),
}

/// As it is typed.
impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function => f.write_str("function"),
            Self::Thread => f.write_str("thread"),
            Self::State => f.write_str("state"),
            Self::Module => f.write_str("module"),
            Self::Endpoint => f.write_str("endpoint"),
            Self::Span => f.write_str("span"),
            Self::Label(name) => write!(f, "label:{name}"),
        }
    }
}

fn by(text: &str) -> Result<By, String> {
    let plain = [By::Function, By::Thread, By::State, By::Module, By::Endpoint, By::Span];
    let names = || plain.clone().map(|by| by.to_string()).join(", ");
    let label = text.strip_prefix("label:").filter(|name| !name.is_empty());
    let label = label.map(|name| By::Label(name.to_owned()));
    let found = plain.iter().find(|by| by.to_string() == text).cloned().or(label);
    found.ok_or_else(|| format!("none of {}, label:NAME", names()))
}

/// What a table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Time in the function itself
    #[value(name = "self")]
    Own,
    /// Time in the function and in what it called
    Total,
}

/// Which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    /// Time on a processor
    Cpu,
    /// Time on the clock, waiting included
    Wall,
}

/// What to say of options that switch everything off.
pub const NOTHING: &str = "with CPU and wall time both off (--cpu-enabled, --wall-enabled) there \
                           is nothing to profile; leave one on";

/// The profiler's options that were given, from the one list in crate `config`.
#[derive(Clone, Debug, Default)]
pub struct ProfilerOptions {
    /// Options with their values, which are good ones.
    pub given: Vec<(&'static Opt, String)>,
}

impl ProfilerOptions {
    /// Whether they switch everything off, together with the variables that are set.
    pub fn profiles_nothing(&self, var: impl Fn(&str) -> Option<String>) -> bool {
        let value = |name: &'static str| {
            let value = self.get(name).map(str::to_owned).or_else(|| var(name))?;
            Some((name.to_owned(), value))
        };
        let vars = ["CORPROF_CPU_ENABLED", "CORPROF_WALL_ENABLED"].into_iter().filter_map(value);
        let config = config::Config::from_vars(vars, "").0;
        !config.cpu_enabled && !config.wall_enabled
    }

    /// Names of variables, and the values given for them. Paths are absolute: the process that
    /// they are for has another folder, or may change it.
    pub fn settings(&self) -> Vec<(String, String)> {
        let absolute = |value: &String| std::path::absolute(value).ok();
        let pair = |(option, value): &(&'static Opt, String)| {
            let path = option.is_path().then(|| absolute(value)).flatten();
            let value = path.map_or_else(|| value.clone(), |p| p.to_string_lossy().into_owned());
            (option.var.to_owned(), value)
        };
        self.given.iter().map(pair).collect()
    }

    /// The value given for a variable.
    pub fn get(&self, var: &str) -> Option<&str> {
        self.given.iter().find(|(option, _)| option.var == var).map(|(_, value)| value.as_str())
    }
}

impl FromArgMatches for ProfilerOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value = |option: &'static Opt| {
            let value = matches.get_one::<String>(option.flag?)?;
            Some((option, value.clone()))
        };
        let given: Vec<_> = OPTIONS.iter().filter_map(value).collect();
        let options = Self { given };
        if options.profiles_nothing(|_| None) {
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, format!("{NOTHING}\n")));
        }
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ProfilerOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(OPTIONS.iter().filter_map(argument))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// Options with a flag whose values are addresses.
const ADDRESSES: [&str; 3] =
    ["CORPROF_SERVER_URL", "CORPROF_PYROSCOPE_URL", "CORPROF_OTLP_ENDPOINT"];

fn argument(option: &'static Opt) -> Option<Arg> {
    let (values, default) = (option.values(), option.default_text());
    let help = format!("{} [{values}; default: {default}] [{}]", option.help, option.var);
    let check = |value: &str| {
        if matches!(option.kind, Kind::Duration { .. }) {
            has_unit(value, |text| option.check(text).is_ok())?;
        }
        option.check(value).map_err(|reason| reason.to_string())?;
        if ADDRESSES.contains(&option.var) && !value.trim().is_empty() {
            export::Address::parse(value)
                .map_err(|why| format!("no address: {why}; write it as http://host:port"))?;
        }
        Ok::<_, String>(value.to_owned())
    };
    let argument = Arg::new(option.flag?)
        .long(option.flag?)
        .action(ArgAction::Set)
        .value_name(option.placeholder())
        .help(help)
        .help_heading("Profiler options")
        .value_parser(check);
    Some(argument)
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
