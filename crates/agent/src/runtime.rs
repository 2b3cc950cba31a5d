//! CoreCLR as the engine's `Runtime`.

use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use clr::{FunctionId, Info, ReJitId};
use engine::{Code, MethodName, ModuleKey, Runtime};

use crate::names;

/// How long an unloading thread waits for a look-up that is under way. A look-up takes some ten
/// microseconds; it could only take long if it waited for the unloading thread itself.
const UNLOAD_WAIT_MAX: Duration = Duration::from_millis(50);

/// The runtime.
pub struct Clr {
    info: Info,
    /// Held during a look-up: the numbers that the runtime gives are good until something is
    /// unloaded, so unloading waits for it.
    looking_up: Mutex<()>,
}

impl Clr {
    /// Over the runtime's interface.
    pub fn new(info: Info) -> Self {
        Self { info, looking_up: Mutex::new(()) }
    }

    /// The runtime's interface.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The runtime's interface, for good.
    pub fn into_info(self) -> Info {
        self.info
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
        let (module, name) = names::of(&self.info, function);
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
