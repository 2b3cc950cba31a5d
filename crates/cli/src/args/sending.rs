//! What can be typed after `corprof upload` and `corprof flush`.

use std::path::PathBuf;

use clap::Args;

/// What `corprof upload --help` says first.
pub const UPLOAD_LONG: &str = "\
Send profile files to `corprof serve`, Pyroscope, Datadog or an OpenTelemetry collector: files of
this profiler, and pprof files of others.

Where to is said with --to, or by the same variables that the agent reads (docs/export.md). Keys,
passwords and tokens come from variables only: a flag is seen by all users of the machine.";

/// What it says last.
pub const UPLOAD_EXAMPLES: &str = "\
Examples:
  corprof upload corprof-out/MyApp-20261129-101500 --to pyroscope=http://localhost:4040
  corprof upload profile.pb.gz --to otlp=http://localhost:4318 --to datadog
  PYROSCOPE_SERVER_ADDRESS=http://pyroscope:4040 corprof upload profiles/

Exit codes:
  0    all files were taken by all targets
  1    some were not
  2    the command line makes no sense";

/// `corprof upload`.
#[derive(Args, Debug)]
pub struct UploadArgs {
    /// Profile files, or folders of them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Where to: datadog, pyroscope, otlp or corprof, with its address unless a variable has it
    /// [default: as the variables say]
    #[arg(long, value_name = "TARGET[=URL]")]
    pub to: Vec<String>,
}

/// What `corprof flush --help` says first.
pub const FLUSH_LONG: &str = "\
Send the profiles that wait in a spool folder: those of processes that have ended before they could
send them. What belongs to a process that is alive is left to it.

Each goes to the target that it was made for, at the address that --to or the variables say now.";

/// What it says last.
pub const FLUSH_EXAMPLES: &str = "\
Examples:
  corprof flush /tmp/corprof-spool-1000 --to pyroscope=http://localhost:4040
  PYROSCOPE_SERVER_ADDRESS=http://pyroscope:4040 corprof flush /var/spool/corprof

Exit codes:
  0    nothing waits there any more for these targets
  1    something still waits, also of a process that is alive, or was refused
  2    the command line makes no sense";

/// `corprof flush`.
#[derive(Args, Debug)]
pub struct FlushArgs {
    /// The folder: CORPROF_SPOOL_DIR of the agents
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// Where to: datadog, pyroscope, otlp or corprof, with its address unless a variable has it
    /// [default: as the variables say]
    #[arg(long, value_name = "TARGET[=URL]")]
    pub to: Vec<String>,
}
