//! Why a command failed, and the exit code that says so.

use std::fmt::Display;
use std::io;

/// Exit code: a file or folder could not be read or written.
pub const FAILED: u8 = 1;
/// Exit code: the command line makes no sense.
pub const USAGE: u8 = 2;
/// Exit code of `diff --fail-if`: something became more expensive.
pub const REGRESSED: u8 = 3;
/// Exit code of `run`: the program was not started, for a reason of ours.
pub const NOT_STARTED: u8 = 125;
/// Exit code of `run`: the program is there and can't be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit code of `run`: there is no such program.
pub const NOT_FOUND: u8 = 127;

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What happened, why, and what to do.
    pub error: anyhow::Error,
}

impl Failure {
    /// A failure with a message.
    pub fn new(code: u8, message: impl Display) -> Self {
        Self { code, error: anyhow::anyhow!("{message}") }
    }

    /// Makes any error one with this exit code.
    pub fn with(code: u8) -> impl FnOnce(anyhow::Error) -> Self {
        move |error| Self { code, error }
    }

    /// Whether the reader of our output went away.
    pub fn is_broken_pipe(&self) -> bool {
        self.error.chain().any(|cause| {
            let error = cause.downcast_ref::<io::Error>();
            error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        })
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: FAILED, error: error.into() }
    }
}
