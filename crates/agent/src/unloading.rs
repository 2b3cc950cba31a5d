//! Modules that are being unloaded, of which nothing must be asked.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clr::{Import, Info, ModuleId};

/// How long a module counts as unloading after the runtime has begun with it. Its memory may be
/// another's soon after.
const UNLOADING: Duration = Duration::from_millis(100);
/// Modules that unload at the same time; with more, those that began first are forgotten.
const UNLOADING_MAX: usize = 1024;

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
