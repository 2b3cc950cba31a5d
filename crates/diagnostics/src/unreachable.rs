//! Why a process's runtime can't be talked to.

use std::fmt;
use std::path::PathBuf;

use crate::{Hidden, RequestError};

/// Why a process's runtime can't be talked to.
#[derive(Debug)]
pub enum Unreachable {
    /// There is no such process.
    NoProcess,
    /// The number is that of a thread, of this process.
    Thread {
        /// The thread's number, which was asked for.
        tid: u32,
        /// The process's.
        pid: u32,
    },
    /// It has no .NET runtime.
    NotDotnet,
    /// It was compiled ahead of time.
    NativeAot,
    /// It runs on Mono.
    Mono,
    /// A variable of its environment switches the socket off, such as `DOTNET_EnableDiagnostics=0`.
    SwitchedOff(String),
    /// It belongs to this other user, and we are not root.
    OtherUser(u32),
    /// It was started a moment ago, and has no socket yet.
    Starting,
    /// It was stopped by a signal, as by Ctrl-Z, and its number.
    Stopped(u32),
    /// There is no socket of it in these folders.
    NoSocket(Vec<PathBuf>),
    /// `/proc` does not tell enough of it.
    Hidden(Hidden),
    /// The socket is there, and the runtime does not answer.
    Silent(RequestError),
}

impl Unreachable {
    /// Why, in some words.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::NoProcess => "there is no such process".to_owned(),
            Self::Thread { tid, pid } => format!("{tid} is a thread of process {pid}"),
            Self::NotDotnet => "it is no .NET process".to_owned(),
            Self::NativeAot => {
                "compiled ahead of time (NativeAOT), so it loads no profiler".to_owned()
            }
            Self::Mono => "it runs on Mono, which loads no such profiler".to_owned(),
            Self::SwitchedOff(setting) => format!("its diagnostics are switched off by {setting}"),
            Self::OtherUser(user) => match user_name(*user) {
                Some(name) => format!("it belongs to another user, {name} (number {user})"),
                None => format!("it belongs to another user (number {user})"),
            },
            Self::Starting => "its runtime is still starting".to_owned(),
            Self::Stopped(_) => "it is stopped by a signal (SIGSTOP or Ctrl-Z)".to_owned(),
            Self::NoSocket(folders) => {
                let folders: Vec<_> =
                    folders.iter().map(|path| path.display().to_string()).collect();
                format!("it has no diagnostics socket in {}", folders.join(" or "))
            }
            Self::Hidden(Hidden::Denied) => "the system doesn't let us look at it".to_owned(),
            Self::Hidden(Hidden::Gone) => "it has ended".to_owned(),
            Self::Hidden(Hidden::Failed(kind)) => format!("it can't be looked at: {kind}"),
            Self::Silent(error) => error.to_string(),
        }
    }

    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> String {
        let remedy = match self {
            Self::Thread { pid, .. } => return format!("name the process: {pid}"),
            Self::Stopped(pid) => return format!("`kill -CONT {pid}` has it go on"),
            Self::NoProcess | Self::NotDotnet => "see what there is with `corprof ps`",
            Self::NativeAot | Self::Mono => "publish it for CoreCLR, without PublishAot",
            Self::SwitchedOff(_) => {
                "start it without that variable; where only the socket is off (…_IPC), `corprof \
                 run` and `corprof env` work as it is"
            }
            Self::OtherUser(_) => "run corprof as that user, or as root",
            Self::Starting => "try again in a moment",
            Self::NoSocket(_) => {
                "if the socket was deleted (by a cleaner of /tmp), or TMPDIR is a folder that \
                 can't be written to, restart the process; from its start it can be profiled \
                 without the socket: `corprof run`"
            }
            Self::Hidden(Hidden::Gone) => "see what there is with `corprof ps`",
            Self::Hidden(_) => {
                "run corprof as the process's own user or as root; in a container root needs the \
                 capability SYS_PTRACE for it"
            }
            Self::Silent(error) => error.remedy(),
        };
        remedy.to_owned()
    }
}

/// What the system calls a user, by number.
#[cfg(unix)]
#[must_use]
pub fn user_name(user: u32) -> Option<String> {
    use nix::unistd::{Uid, User};
    User::from_uid(Uid::from_raw(user)).ok().flatten().map(|user| user.name)
}

/// Numbers are not asked for here.
#[cfg(windows)]
fn user_name(_user: u32) -> Option<String> {
    None
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason(), self.remedy())
    }
}

impl std::error::Error for Unreachable {}
