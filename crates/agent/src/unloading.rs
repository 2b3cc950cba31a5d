//! When the runtime must not be asked: while it unloads code.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clr::SuspendReason;
use sys::clock;

/// How long the runtime may take from the word that it unloads a module to the end of the module's
/// code, in nanoseconds. In 997 unloadings on .NET 8 and 9, on a busy machine, it took up to 53 ms.
const NO_ASKING_NS_MAX: u64 = 500_000_000;

/// When the runtime must not be asked what lies at an address: it goes through the code of modules
/// that it has freed already, and answers with methods whose module is no more. The time begins as
/// it says that it unloads a module, and ends with the stop of all threads in which it takes the
/// code out. (`LoaderAllocator::GCLoaderAllocators`, .NET 8 to 10; on 8 `GetFunctionFromIP3` itself
/// faulted in between.)
#[derive(Debug)]
pub struct NoAsking {
    /// On the monotonic clock, in nanoseconds; 0 if it may be asked.
    since_ns: AtomicU64,
    /// Whether all threads are stopped for it.
    is_stopped: AtomicBool,
}

impl NoAsking {
    /// It may be asked.
    pub const fn new() -> Self {
        Self { since_ns: AtomicU64::new(0), is_stopped: AtomicBool::new(false) }
    }

    /// A module begins to be unloaded.
    pub fn begins(&self) {
        self.since_ns.store(clock::monotonic_ns(), Ordering::SeqCst);
    }

    /// All threads are about to be stopped.
    pub fn suspending(&self, reason: SuspendReason) {
        if reason == SuspendReason::Unloading {
            self.is_stopped.store(true, Ordering::SeqCst);
        }
    }

    /// They are about to go on.
    pub fn resuming(&self) {
        if self.is_stopped.swap(false, Ordering::SeqCst) {
            self.since_ns.store(0, Ordering::SeqCst);
        }
    }

    /// Whether it may be asked now. If the stop is never told of, as without
    /// `CORPROF_GC_ENABLED`, it may after a time in which no unloading was seen to be under way.
    pub fn is_over(&self) -> bool {
        match self.since_ns.load(Ordering::SeqCst) {
            0 => true,
            since_ns => clock::monotonic_ns().saturating_sub(since_ns) > NO_ASKING_NS_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_until_the_code_is_out() {
        let no_asking = NoAsking::new();
        assert!(no_asking.is_over());
        no_asking.begins();
        for reason in [SuspendReason::Gc, SuspendReason::Other] {
            no_asking.suspending(reason);
            no_asking.resuming();
            assert!(!no_asking.is_over(), "{reason:?}");
        }
        no_asking.suspending(SuspendReason::Unloading);
        assert!(!no_asking.is_over());
        no_asking.resuming();
        assert!(no_asking.is_over());
        // Nobody tells of the stop.
        no_asking.begins();
        let since_ns = clock::monotonic_ns() - NO_ASKING_NS_MAX - 1;
        no_asking.since_ns.store(since_ns, Ordering::SeqCst);
        assert!(no_asking.is_over());
    }
}
