//! What can be typed after `corprof ps` and `corprof doctor`.

use std::path::PathBuf;

use clap::Args;

use super::process_id;

/// What `corprof ps --help` says first.
pub const PS_LONG: &str = "\
List the .NET processes of this machine, those in containers too, and whether the profiler could be
attached to each of them now: yes, profiled (it is in it already), or no and the reason. What to do
about a reason is said by `corprof doctor PID`.

Of other users' processes only those are known that root or the system lets us look at. Everything
takes less than a second; a process that doesn't answer in that time is listed as such.";

/// What it says last.
pub const PS_EXAMPLES: &str = "\
Examples:
  corprof ps
  sudo corprof ps --all
  corprof ps --json | jq -r '.processes[] | select(.profilable) | .pid'";

/// `corprof ps`.
#[derive(Args, Debug)]
pub struct PsArgs {
    /// Also the numbers of processes that may be .NET's and could not be looked at
    #[arg(long)]
    pub all: bool,

    /// JSON on standard output, with remedies
    #[arg(long)]
    pub json: bool,

    /// The agent that is to fit the processes [default: the one that `corprof run` would use]
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,
}

/// What `corprof doctor --help` says first.
pub const DOCTOR_LONG: &str = "\
Look for what would keep a program from being profiled, or make its profile worse: in this machine
and this environment, as `corprof run` would use them, or with a PID in a running process and in the
environment that it was started with.

Each finding has its remedy. `prevents` means no profile, `degrades` a worse one (samples, names or
requests are missing), `note` is good to know. All checks are told in docs/troubleshooting.md.";

/// What it says last.
pub const DOCTOR_EXAMPLES: &str = "\
Examples:
  corprof doctor
  corprof doctor 4711
  corprof doctor --export
  corprof doctor --json | jq '.checks[] | select(.level == \"prevents\")'

Exit codes:
  0    nothing prevents profiling
  1    something does, or there is no such process
  2    the command line makes no sense";

/// `corprof doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// A running process; without it this machine and this environment
    #[arg(value_name = "PID", value_parser = process_id)]
    pub pid: Option<u32>,

    /// Send a tiny profile to each target that the variables name, and nothing else
    #[arg(long, conflicts_with_all = ["pid", "agent"])]
    pub export: bool,

    /// Also what is in order
    #[arg(long)]
    pub all: bool,

    /// JSON on standard output, with what is in order
    #[arg(long)]
    pub json: bool,

    /// The agent, as the process sees its path [default: the one that `corprof run` would use]
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,
}
