//! Why a profiler could not be attached.

use std::fmt;
use std::path::PathBuf;

use crate::{Hresult, Libc, NotALibrary, RequestError, machine_name};

/// Why a profiler could not be attached.
#[derive(Debug)]
pub enum AttachError {
    /// The path is not absolute, or no text that .NET could read.
    BadPath(PathBuf),
    /// The process does not see the library under this path: it has another root.
    NotVisible(PathBuf),
    /// The process's user may not read this file or folder.
    NotReadable(PathBuf, u32),
    /// The file is no library.
    NotALibrary(PathBuf, NotALibrary),
    /// The library is made for the first processor, the process for the second.
    OtherMachine(u16, u16),
    /// The library needs the first C library, the process has the second.
    OtherLibc(Libc, Libc),
    /// Profilers are switched off in its environment, as by `DOTNET_EnableDiagnostics_Profiler=0`.
    SwitchedOff(String),
    /// A profiler is loaded already: this library, if it is known.
    AlreadyAttached(Option<PathBuf>),
    /// The runtime did not finish starting in the time there was.
    Starting,
    /// The runtime could not load or start the profiler.
    Refused(Hresult),
    /// The request got no answer.
    Request(RequestError),
}

impl AttachError {
    /// Why, in some words.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::BadPath(path) => format!("{} is not an absolute path", path.display()),
            Self::NotVisible(path) => {
                format!("the process sees no {}: its file system is another one", path.display())
            }
            Self::NotReadable(path, user) => {
                format!("the process's user ({user}) may not read {}", path.display())
            }
            Self::NotALibrary(path, why) => format!("{}: {why}", path.display()),
            Self::OtherMachine(library, process) => format!(
                "the agent is made for {}, and the process runs on {}",
                machine_name(*library),
                machine_name(*process)
            ),
            Self::OtherLibc(needs, has) => format!(
                "the agent needs {}, and the process has {}",
                libc_name(*needs),
                libc_name(*has)
            ),
            Self::SwitchedOff(setting) => format!("profilers are switched off there by {setting}"),
            Self::AlreadyAttached(Some(library)) => {
                format!("a profiler is loaded already: {}", library.display())
            }
            Self::AlreadyAttached(None) => "a profiler is loaded already".to_owned(),
            Self::Starting => "its runtime did not finish starting in time".to_owned(),
            Self::Refused(code) => format!("the runtime could not load the agent: {code}"),
            Self::Request(error) => error.to_string(),
        }
    }

    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::BadPath(_) => "name the agent by its whole path with --agent".to_owned(),
            Self::NotVisible(path) => format!(
                "put the agent into the container (docker cp, kubectl cp, a volume), and name it \
                 with --agent as it is seen there, such as {}",
                path.display()
            ),
            Self::NotReadable(path, _) => {
                format!("let it be read by others: chmod o+rX {}", path.display())
            }
            Self::NotALibrary(..) => "name libcorprof.so with --agent".to_owned(),
            Self::OtherMachine(..) | Self::OtherLibc(..) => {
                "take the agent for that system; see \"The agent does not fit\" in \
                 docs/troubleshooting.md"
                    .to_owned()
            }
            Self::SwitchedOff(_) => "start it without that variable".to_owned(),
            Self::AlreadyAttached(Some(library)) if library.ends_with("libcorprof.so") => {
                "corprof is in it already: see `corprof ctl PID status`".to_owned()
            }
            Self::AlreadyAttached(_) => {
                ".NET has one such place: end the other profiler, or load corprof beside it from \
                 the start, as a notification profiler (docs/troubleshooting.md)"
                    .to_owned()
            }
            Self::Starting => "try again in a moment".to_owned(),
            Self::Refused(_) => {
                "the process's own output may say more; `corprof doctor PID` looks \
                                 for the usual reasons"
                    .to_owned()
            }
            Self::Request(error) => error.remedy().to_owned(),
        }
    }
}

fn libc_name(libc: Libc) -> String {
    match libc {
        Libc::Glibc(major, minor) => format!("glibc {major}.{minor}"),
        Libc::Musl => "musl (Alpine)".to_owned(),
        Libc::None => "none".to_owned(),
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason(), self.remedy())
    }
}

impl std::error::Error for AttachError {}

impl From<RequestError> for AttachError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}
