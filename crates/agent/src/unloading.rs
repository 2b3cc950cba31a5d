//! When the runtime must not be asked: while it unloads code.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clr::SuspendReason;
use sys::clock;

/// How long the runtime may take from the word that it unloads a module to the end of the module's
/// code, in nanoseconds. In 997 unloadings on .NET 8 and 9 it took up to 53 ms; where fifty
/// threads wanted each processor, up to 974 ms.
const NO_ASKING_NS_MAX: u64 = 10_000_000_000;

/// Whether the runtime may be asked what lies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// It may.
    Allowed,
    /// Not now.
    Later,
    /// Not now, and there will be no later.
    Never,
}

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
    /// Whether the runtime shuts down: what it has begun it may not end.
    is_closed: AtomicBool,
}

impl NoAsking {
    /// It may be asked.
    pub const fn new() -> Self {
        Self {
            since_ns: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
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

    /// The runtime shuts down.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Whether it may be asked now. If the stop is never told of, since the runtime refuses to, it
    /// may after a time that no unloading takes.
    pub fn asking(&self) -> Asking {
        let since_ns = self.since_ns.load(Ordering::SeqCst);
        let is_over =
            since_ns == 0 || clock::monotonic_ns().saturating_sub(since_ns) > NO_ASKING_NS_MAX;
        match (is_over, self.is_closed.load(Ordering::SeqCst)) {
            (true, _) => Asking::Allowed,
            (false, false) => Asking::Later,
            (false, true) => Asking::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_until_the_code_is_out() {
        let no_asking = NoAsking::new();
        assert_eq!(no_asking.asking(), Asking::Allowed);
        no_asking.begins();
        for reason in [SuspendReason::Gc, SuspendReason::Other] {
            no_asking.suspending(reason);
            no_asking.resuming();
            assert_eq!(no_asking.asking(), Asking::Later, "{reason:?}");
        }
        no_asking.suspending(SuspendReason::Unloading);
        assert_eq!(no_asking.asking(), Asking::Later);
        no_asking.resuming();
        assert_eq!(no_asking.asking(), Asking::Allowed);
    }

    /// On a machine where the thread that unloads hardly gets a processor.
    #[test]
    fn it_may_take_seconds_but_not_for_ever() {
        let no_asking = NoAsking::new();
        for (ago_ns, expected) in
            [(NO_ASKING_NS_MAX / 2, Asking::Later), (NO_ASKING_NS_MAX + 1, Asking::Allowed)]
        {
            let since_ns = clock::monotonic_ns().saturating_sub(ago_ns).max(1);
            no_asking.since_ns.store(since_ns, Ordering::SeqCst);
            assert_eq!(no_asking.asking(), expected, "{ago_ns}");
        }
    }

    #[test]
    fn nobody_waits_for_a_runtime_that_shuts_down() {
        let no_asking = NoAsking::new();
        no_asking.close();
        assert_eq!(no_asking.asking(), Asking::Allowed);
        no_asking.begins();
        assert_eq!(no_asking.asking(), Asking::Never);
    }
}
