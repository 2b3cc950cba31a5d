//! CoreCLR as the engine's `Runtime`.

use std::collections::VecDeque;
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use clr::{FunctionId, Import, Info, ModuleId, ReJitId};
use engine::{Code, MethodName, ModuleKey, Runtime};

use crate::names;

/// How long an unloading thread waits for a look-up that is under way. A look-up takes some ten
/// microseconds; it could only take long if it waited for the unloading thread itself.
const UNLOAD_WAIT_MAX: Duration = Duration::from_millis(50);

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
    fn begins(&self, module: ModuleId) {
        let Ok(mut modules) = self.0.lock() else { return };
        if modules.len() >= UNLOADING_MAX {
            modules.pop_front();
        }
        modules.push_back((module, Instant::now()));
    }

    /// Whether nothing must be asked of a module.
    fn has(&self, module: ModuleId) -> bool {
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
    unloading: &'a Unloading,
}

impl Asked<'_> {
    /// A module's metadata; `None` if there is none, or the module is being unloaded.
    pub fn metadata(&self, module: ModuleId) -> Option<Import> {
        if self.unloading.has(module) { None } else { self.info.metadata(module) }
    }
}

/// The runtime.
pub struct Clr {
    info: Info,
    /// Held during a look-up: the numbers that the runtime gives are good until something is
    /// unloaded, so unloading waits for it.
    looking_up: Mutex<()>,
    unloading: Unloading,
}

impl Clr {
    /// Over the runtime's interface.
    pub fn new(info: Info) -> Self {
        Self { info, looking_up: Mutex::new(()), unloading: Unloading::default() }
    }

    /// The runtime's interface.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The runtime's interface, for good.
    pub fn into_info(self) -> Info {
        self.info
    }

    /// A module begins to be unloaded: later look-ups leave it alone, and those that are under way
    /// are waited for.
    pub fn unloading(&self, module: ModuleId) {
        self.unloading.begins(module);
        self.wait_for_look_up();
    }

    /// Waits until no look-up is under way, for a short time at most: called by a thread that is
    /// about to unload code, and may hold locks that a look-up needs.
    pub fn wait_for_look_up(&self) {
        let start = Instant::now();
        while let Err(TryLockError::WouldBlock) = self.looking_up.try_lock() {
            if start.elapsed() > UNLOAD_WAIT_MAX {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn code(&self, address: u64, function: FunctionId, rejit: ReJitId, module: ModuleKey) -> Code {
        let starts = self.info.code_starts(function, rejit);
        let versions = starts.iter().map(|start| (*start, self.info.code_ranges(*start)));
        let holds = |range: &clr::CodeRange| {
            let start = range.start as u64;
            (start..start.saturating_add(range.size as u64)).contains(&address)
        };
        let found = versions.into_iter().find(|(_, ranges)| ranges.iter().any(holds));
        let found = found.or_else(|| self.code_around(address));
        let (start, ranges) = found.unwrap_or_default();
        let ranges = ranges.iter().map(|range| {
            let start = range.start as u64;
            (start, start.saturating_add(range.size as u64))
        });
        let others = starts.iter().filter(|other| **other != start);
        Code {
            module,
            start: start as u64,
            ranges: ranges.collect(),
            siblings: others.map(|start| *start as u64).collect(),
        }
    }
}

impl Clr {
    /// The code around an address whose method has no version of that code: a precompiled stub of a
    /// P/Invoke method. The runtime tells its extent to those who know its start, so that is looked
    /// for, once a method; stubs are small.
    fn code_around(&self, address: u64) -> Option<(usize, Vec<clr::CodeRange>)> {
        const STUB_BYTES_MAX: usize = 4096;
        let address = usize::try_from(address).ok()?;
        for start in (address.saturating_sub(STUB_BYTES_MAX)..=address).rev() {
            let ranges = self.info.code_ranges(start);
            // Asked in the middle of a method, it answers with nothing that begins there.
            let Some(first) = ranges.first().filter(|range| range.start == start) else { continue };
            let holds = address < start.saturating_add(first.size);
            return holds.then_some((start, ranges));
        }
        None
    }
}

impl Runtime for Clr {
    fn look_up(&self, address: u64) -> Option<(Code, Option<MethodName>)> {
        let _held = self.looking_up.lock();
        let (function, rejit) = self.info.function_at(address)?;
        let asked = Asked { info: &self.info, unloading: &self.unloading };
        let (module, name) = names::of(asked, function);
        if self.unloading.has(ModuleId(module.0)) {
            // Its code is about to be another's: only this address, and only until the collector
            // hears of the unloading.
            let ranges = vec![(address, address.saturating_add(1))];
            let code = Code { module, start: address, ranges, siblings: Vec::new() };
            return Some((code, None));
        }
        let code = self.code(address, function, rejit, module);
        Some((code, name))
    }

    #[cfg(feature = "oracle")]
    fn reported(&self, address: u64) -> Option<usize> {
        self.info.reported(address).map(|function| function.0)
    }

    fn version(&self) -> String {
        let version = self.info.runtime_version();
        if version.major == 0 {
            // .NET Core 3.1 answers with zeros.
            return format!("CoreCLR (ICorProfilerInfo{})", self.info.interface_version());
        }
        format!("CoreCLR {}.{}.{}", version.major, version.minor, version.build)
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
