//! Modules that are being unloaded, of which nothing must be asked.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clr::{Import, Info, ModuleId, SuspendReason};
use sys::clock;

/// How long a module counts as unloading after the runtime has begun with it. Its memory may be
/// another's soon after.
const UNLOADING: Duration = Duration::from_millis(100);
/// How long the runtime may take from that to the end of the module's code, in nanoseconds.
const NO_ASKING_NS_MAX: u64 = 500_000_000;
/// Modules that unload at the same time; with more, those that began first are forgotten.
const UNLOADING_MAX: usize = 1024;

/// When the runtime must not be asked what lies at an address: it goes through the code of modules
/// that it has freed already. The time begins as it says that it unloads a module, and ends with
/// the stop of all threads in which it takes the code out. (`LoaderAllocator::GCLoaderAllocators`;
/// seen on .NET 8, where `GetFunctionFromIP3` faulted in between.)
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

/// The modules that are being unloaded. The runtime frees a collectible module before it takes out
/// its code: meanwhile it still finds methods there, whose module is no more
/// (`LoaderAllocator::GCLoaderAllocators`, .NET 8 to 10), and asking for it would end the process.
#[derive(Default)]
pub struct Unloading(Mutex<VecDeque<(ModuleId, Instant)>>);

impl Unloading {
    /// A module begins to be unloaded.
    pub fn begins(&self, module: ModuleId) {
        let Ok(mut modules) = self.0.lock() else { return };
        if modules.len() >= UNLOADING_MAX {
            modules.pop_front();
        }
        modules.push_back((module, Instant::now()));
    }

    /// Whether nothing must be asked of a module.
    pub fn has(&self, module: ModuleId) -> bool {
        // After a panic nobody knows; a name is not worth a crash.
        let Ok(mut modules) = self.0.lock() else { return true };
        while modules.front().is_some_and(|(_, since)| since.elapsed() > UNLOADING) {
            modules.pop_front();
        }
        modules.iter().any(|(unloading, _)| *unloading == module)
    }
}

/// The runtime's interface, and of which modules it must not be asked.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The interface.
    pub info: &'a Info,
    /// The modules that are not asked for.
    pub unloading: &'a Unloading,
}

impl Asked<'_> {
    /// A module's metadata; `None` if there is none, or the module is being unloaded.
    pub fn metadata(&self, module: ModuleId) -> Option<Import> {
        if self.unloading.has(module) { None } else { self.info.metadata(module) }
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

    #[test]
    fn modules_unload_for_a_while() {
        let unloading = Unloading::default();
        unloading.begins(ModuleId(7));
        assert!(!unloading.has(ModuleId(8)));
        let old = Instant::now().checked_sub(2 * UNLOADING).expect("the machine runs for longer");
        unloading.0.lock().expect("no panic").push_front((ModuleId(8), old));
        assert!(!unloading.has(ModuleId(8)));
        let many = 2 * UNLOADING_MAX;
        (0..many).for_each(|n| unloading.begins(ModuleId(n)));
        let kept = unloading.0.lock().expect("no panic").len();
        assert!(kept <= UNLOADING_MAX, "{kept}");
    }
}
