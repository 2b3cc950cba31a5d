//! What a thread was doing, and what a frame is.

/// What a thread was doing during a wall sample; the `state` label of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ThreadState {
    /// On a processor.
    Running,
    /// Ready, but another thread had the processor (the kernel's run-queue delay).
    Runnable,
    /// In a sleep that the program asked for.
    Sleeping,
    /// Waiting for a lock that another thread holds.
    Lock,
    /// Waiting for a file, a socket or a device.
    Io,
    /// Waiting for anything else: an event, a timer, work to come.
    Waiting,
    /// Stopped by the runtime for a garbage collection.
    GcPause,
    /// Stopped by the runtime for something else.
    Suspended,
}

impl ThreadState {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Running,
        Self::Runnable,
        Self::Sleeping,
        Self::Lock,
        Self::Io,
        Self::Waiting,
        Self::GcPause,
        Self::Suspended,
    ];

    /// The label's value in a profile.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Sleeping => "sleeping",
            Self::Lock => "lock",
            Self::Io => "io",
            Self::Waiting => "waiting",
            Self::GcPause => "gc pause",
            Self::Suspended => "suspended",
        }
    }
}

/// What a frame is; decides its colour and whether it counts as the application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FrameKind {
    /// A method with metadata, or a dynamic method.
    Managed,
    /// A function of a native library or of the executable.
    Native,
    /// Code of the runtime that has no method: stubs, write barriers.
    Runtime,
    /// Not code: an end reason, `[unsampled]`, a root such as `Garbage Collector`.
    Synthetic,
}
