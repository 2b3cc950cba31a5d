//! Why a request to a runtime got no answer.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::{Hresult, Malformed};

/// Why a request got no answer, or a bad one.
#[derive(Debug)]
pub enum RequestError {
    /// The socket could not be connected to, written or read.
    Io(io::Error),
    /// No answer came in this time.
    TimedOut(Duration),
    /// The runtime closed the connection: it ends, or is about to.
    Closed,
    /// The runtime said no.
    Refused(Hresult),
    /// What came is no answer.
    Malformed(Malformed),
    /// The request does not fit in a message of 64 KiB.
    TooLong,
}

impl RequestError {
    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "run corprof as the process's own user, or as root"
            }
            Self::TimedOut(_) => {
                "look whether it is stopped (`ps -o stat -p PID` says T), held by a debugger or \
                 out of processor time, and try again"
            }
            Self::Io(_) | Self::Closed => "look whether the process is still there, and try again",
            Self::Refused(_) => "profile it from its start instead: `corprof run`",
            Self::Malformed(_) => "look with `corprof ps` whether it is a .NET process",
            Self::TooLong => "give shorter paths and options",
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "its diagnostics socket can't be used: {error}"),
            Self::TimedOut(time) => write!(f, "the runtime did not answer within {time:?}"),
            Self::Closed => f.write_str("the runtime closed the connection"),
            Self::Refused(code) => write!(f, "the runtime refused: {code}"),
            Self::Malformed(what) => write!(f, "the answer can't be read: {what}"),
            Self::TooLong => f.write_str("the request is longer than a message can be (64 KiB)"),
        }
    }
}

impl std::error::Error for RequestError {}

impl From<Malformed> for RequestError {
    fn from(what: Malformed) -> Self {
        Self::Malformed(what)
    }
}
