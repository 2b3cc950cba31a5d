//! What can be typed after `corprof attach` and `corprof ctl`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{ProfilerOptions, ReportArgs, process_id, time_limit};

/// What `corprof attach --help` says first.
pub const ATTACH_LONG: &str = "\
Profile a process that runs already, without a restart; then a table, the files, what it cost.

The runtime of the process loads the agent at our request, and lets it go when the time is over or
at Ctrl-C: no signal handler, timer, thread or file of the agent stays behind. It runs beside
another profiler (an APM's). If this command is killed, the agent leaves by itself some seconds
after --for.

It takes the same user as the process, or root. A process in a container gets the agent and a folder
for profiles in its own temporary folder, and both are taken away again.";

/// What it says last.
pub const ATTACH_EXAMPLES: &str = "\
Examples:
  corprof attach 4711 --for 30s
  corprof attach 4711 --for 1m --out /tmp/profile --cpu-interval 5ms
  sudo corprof attach $(pgrep -f MyApp.dll)
  corprof attach 4711 --for 10s --json=- | jq .";

/// `corprof attach`.
#[derive(Args, Debug)]
pub struct AttachArgs {
    /// The process, as `corprof ps` lists it
    #[arg(value_name = "PID", value_parser = process_id)]
    pub pid: u32,

    /// End after this time, such as 30s; until Ctrl-C without it
    #[arg(long = "for", value_name = "DURATION", value_parser = time_limit)]
    pub time_limit: Option<Duration>,

    /// How the report is shown.
    #[command(flatten)]
    pub report: ReportArgs,

    /// The agent, libcorprof.so; otherwise as `corprof run`
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,

    /// The profiler's own options.
    #[command(flatten)]
    pub options: ProfilerOptions,
}

/// What `corprof ctl --help` says first.
pub const CTL_LONG: &str = "\
Speak to the agent in a process, by a socket in its temporary folder that only the same user and
root can open; no port is opened.

  status   whether it profiles, and how
  start    profile, with other settings if some are given
  stop     write what there is and don't profile until `start`: nothing of it runs meanwhile
  set      go on with other settings; a profile is written first
  detach   stop, and have the runtime let the agent go";

/// What it says last.
pub const CTL_EXAMPLES: &str = "\
Examples:
  corprof ctl 4711 status
  corprof ctl 4711 set --cpu-interval 5ms --wall-enabled false
  corprof ctl 4711 stop";

/// `corprof ctl`.
#[derive(Args, Debug)]
pub struct CtlArgs {
    /// The process
    #[arg(value_name = "PID", value_parser = process_id)]
    pub pid: u32,

    /// What to do
    #[arg(value_enum, value_name = "ACTION")]
    pub action: CtlAction,

    /// JSON on standard output
    #[arg(long)]
    pub json: bool,

    /// The profiler's own options.
    #[command(flatten)]
    pub options: ProfilerOptions,
}

/// What an agent can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CtlAction {
    /// Whether it profiles, and how
    Status,
    /// Profile
    Start,
    /// Don't profile until `start`
    Stop,
    /// Go on with other settings
    Set,
    /// Have the runtime let the agent go
    Detach,
}
