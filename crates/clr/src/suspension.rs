//! Why the runtime stops all managed threads.

/// The reasons of `COR_PRF_SUSPEND_REASON` that are still in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspendReason {
    /// None that is told; also those that the runtime has no number for.
    Other,
    /// A garbage collection.
    Gc,
    /// Code is taken out that was unloaded: the old word for it is the shutdown of an AppDomain.
    Unloading,
    /// The runtime ends.
    Shutdown,
    /// A debugger in the process.
    Debugger,
    /// The collector prepares or finishes something, such as a collection in the background.
    GcPreparation,
    /// Methods get other code.
    ReJit,
    /// A profiler asked for it.
    Profiler,
}

impl SuspendReason {
    /// By the runtime's number.
    #[must_use]
    pub fn of_number(number: i32) -> Self {
        match number {
            1 => Self::Gc,
            2 => Self::Unloading,
            4 => Self::Shutdown,
            6 => Self::Debugger,
            7 => Self::GcPreparation,
            8 => Self::ReJit,
            9 => Self::Profiler,
            _ => Self::Other,
        }
    }
}
