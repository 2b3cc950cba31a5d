//! What can be asked of the runtime's diagnostics server.

/// A command: its set and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Attach a profiler, since .NET Core 3.0.
    AttachProfiler,
    /// Process id, command line, architecture; since .NET 5.
    ProcessInfo,
    /// The environment; since .NET 5.
    Environment,
    /// The same as `ProcessInfo`, with the assembly and the runtime's version; since .NET 6.
    ProcessInfo2,
    /// The same as `ProcessInfo2`, with the portable runtime id; since .NET 8.
    ProcessInfo3,
    /// An answer: success.
    Ok,
    /// An answer: an error code follows.
    Error,
    /// Any other.
    Other(u8, u8),
}

impl Command {
    /// The two bytes that a header has for it.
    #[must_use]
    pub fn code(self) -> (u8, u8) {
        match self {
            Self::AttachProfiler => (0x03, 0x01),
            Self::ProcessInfo => (0x04, 0x00),
            Self::Environment => (0x04, 0x02),
            Self::ProcessInfo2 => (0x04, 0x04),
            Self::ProcessInfo3 => (0x04, 0x08),
            Self::Ok => (0xff, 0x00),
            Self::Error => (0xff, 0xff),
            Self::Other(set, number) => (set, number),
        }
    }

    /// The command with these two bytes.
    #[must_use]
    pub fn of(set: u8, number: u8) -> Self {
        let known = [
            Self::AttachProfiler,
            Self::ProcessInfo,
            Self::Environment,
            Self::ProcessInfo2,
            Self::ProcessInfo3,
            Self::Ok,
            Self::Error,
        ];
        let found = known.into_iter().find(|command| command.code() == (set, number));
        found.unwrap_or(Self::Other(set, number))
    }
}
