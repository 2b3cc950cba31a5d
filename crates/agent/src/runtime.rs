//! CoreCLR as the engine's `Runtime`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use clr::{CodeRange, FunctionId, IlMapping, Info, ModuleId, ReJitId};
use engine::{Assembly, Code, IlStep, MethodName, ModuleKey, Runtime};

use crate::assemblies::Assemblies;
use crate::names;
use crate::unloading::{Asking, NoAsking};

/// How long an unloading thread waits for a look-up that is under way. A look-up takes some ten
/// microseconds, or as long as the collector has to wait for a processor, which can be seconds if a
/// hundred threads want each; it could only take longer if it waited for the unloading thread
/// itself. One that goes on while code is freed faults.
const UNLOAD_WAIT_MAX: Duration = Duration::from_secs(10);
/// Between two looks at whether an unloading, or a look-up, is over: at first, and at most.
const ASK_AGAIN_MIN: Duration = Duration::from_micros(100);
const ASK_AGAIN_MAX: Duration = Duration::from_millis(5);

/// A wait that grows, so that a long one costs no more than a short one.
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(ASK_AGAIN_MIN)
    }
}

impl Pause {
    fn sleep(&mut self) {
        std::thread::sleep(self.0);
        self.0 = self.0.saturating_mul(2).min(ASK_AGAIN_MAX);
    }
}

/// The runtime.
pub struct Clr {
    info: Info,
    /// Whether to ask which IL code is of.
    lines: AtomicBool,
    /// Held during a look-up: the numbers that the runtime gives are good until something is
    /// unloaded, so unloading waits for it.
    looking_up: Mutex<Assemblies>,
    /// Something was unloaded during a look-up, and is to be forgotten at the next.
    is_stale: AtomicBool,
    no_asking: &'static NoAsking,
}

impl Clr {
    /// Over the runtime's interface, which must not be asked at times.
    pub fn new(info: Info, no_asking: &'static NoAsking) -> Self {
        Self {
            info,
            lines: AtomicBool::new(false),
            looking_up: Mutex::default(),
            is_stale: AtomicBool::new(false),
            no_asking,
        }
    }

    /// Profiling begins; `lines` says whether profiles are to have places in methods. What was
    /// unloaded before nobody may have told.
    pub fn begin(&self, lines: bool) {
        self.lines.store(lines, Ordering::Relaxed);
        self.is_stale.store(true, Ordering::Release);
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
    pub fn wait_for_look_up(&self) -> Option<MutexGuard<'_, Assemblies>> {
        let (start, mut pause) = (Instant::now(), Pause::default());
        loop {
            match self.looking_up.try_lock() {
                Ok(assemblies) => return Some(assemblies),
                Err(TryLockError::Poisoned(held)) => return Some(held.into_inner()),
                Err(TryLockError::WouldBlock) if start.elapsed() > UNLOAD_WAIT_MAX => return None,
                Err(TryLockError::WouldBlock) => pause.sleep(),
            }
        }
    }

    /// The same, for a module, which is forgotten; look-ups wait until its code is gone.
    pub fn unloading(&self, module: ModuleId) {
        // Before the wait: a look-up that begins after it sees this.
        self.no_asking.begins();
        match self.wait_for_look_up() {
            Some(mut assemblies) => assemblies.forget(module),
            None => self.is_stale.store(true, Ordering::Release),
        }
    }

    /// Takes the lock for a look-up, when nothing is being unloaded; `None` if it won't be asked
    /// any more.
    fn begin_look_up(&self) -> Option<MutexGuard<'_, Assemblies>> {
        let mut pause = Pause::default();
        loop {
            let assemblies = self.looking_up.lock().unwrap_or_else(PoisonError::into_inner);
            match self.no_asking.asking() {
                Asking::Allowed => return Some(assemblies),
                Asking::Never => return None,
                // Samples wait in the ring meanwhile.
                Asking::Later => drop(assemblies),
            }
            pause.sleep();
        }
    }

    fn code(
        &self,
        address: u64,
        function: FunctionId,
        rejit: ReJitId,
        module: ModuleKey,
        wants_il: bool,
    ) -> Code {
        let starts = self.info.code_starts(function, rejit);
        let versions = starts.iter().map(|start| (*start, self.info.code_ranges(*start)));
        let holds = |range: &CodeRange| {
            let start = range.start as u64;
            (start..start.saturating_add(range.size as u64)).contains(&address)
        };
        let found = versions.into_iter().find(|(_, ranges)| ranges.iter().any(holds));
        let found = found.or_else(|| self.code_around(address));
        let (start, ranges) = found.unwrap_or_default();
        let il = if wants_il { self.il(start, &ranges) } else { Vec::new() };
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
            il,
        }
    }

    /// Which IL the code of a version is of.
    fn il(&self, start: usize, ranges: &[CodeRange]) -> Vec<IlStep> {
        let mut map = self.info.il_map(start);
        // An empty entry stands before the one that begins at the same place.
        map.sort_by_key(|mapping| (mapping.start, mapping.end));
        let (mut steps, mut before) = (Vec::with_capacity(map.len()), None);
        for mapping in &map {
            let il = match mapping.il {
                IlMapping::NONE => None,
                // A method is entered on behalf of its first statement, and left by the one that
                // returns.
                IlMapping::PROLOG => Some(0),
                IlMapping::EPILOG => before,
                il => Some(il),
            };
            before = il;
            if mapping.start < mapping.end {
                let address = address_of(ranges, mapping.start);
                steps.extend(address.map(|address| IlStep { address, il }));
            }
        }
        steps
    }
}

/// Whether a PDB can tell lines of an assembly: it names one, or is a file beside which one may be.
/// Nothing tells lines of types that the program emits. The runtime keeps some 650 bytes for each
/// method whose IL it was asked for, as long as the method's module is there: of a program that
/// emits types without an end, without an end.
fn has_lines(assembly: &Assembly) -> bool {
    !assembly.build_id.is_empty() || Path::new(&assembly.file).is_absolute()
}

/// The address of a byte of a version's code, whose runs are counted one after the other.
fn address_of(ranges: &[CodeRange], offset: u32) -> Option<u64> {
    let mut offset = usize::try_from(offset).ok()?;
    for range in ranges {
        if offset < range.size {
            return Some(range.start.saturating_add(offset) as u64);
        }
        offset = offset.saturating_sub(range.size);
    }
    None
}

impl Clr {
    /// The code around an address whose method has no version of that code: a precompiled stub of a
    /// P/Invoke method. The runtime tells its extent to those who know its start, so that is looked
    /// for, once a method; stubs are small.
    fn code_around(&self, address: u64) -> Option<(usize, Vec<CodeRange>)> {
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
        let mut assemblies = self.begin_look_up()?;
        if self.is_stale.swap(false, Ordering::AcqRel) {
            assemblies.forget_all();
        }
        let (function, rejit) = self.info.function_at(address)?;
        let (module, name) = names::of(&self.info, function, &mut assemblies);
        let is_of_file = name.as_ref().is_some_and(|name| has_lines(&name.assembly));
        // A method whose IL another profiler has rewritten: its offsets are no longer those of the
        // file.
        let wants_il = is_of_file && self.lines.load(Ordering::Relaxed) && rejit.0 == 0;
        let code = self.code(address, function, rejit, module, wants_il);
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
    fn il_is_asked_for_where_something_can_tell_lines() {
        let has = |file: &str, build_id: &str| {
            has_lines(&Assembly { file: file.to_owned(), build_id: build_id.to_owned() })
        };
        let file = std::env::temp_dir().join("Shop.dll");
        assert!(has(&file.to_string_lossy(), "") && has("", "0123") && has("Shop", "0123"));
        // Emitted; and a dynamic method.
        assert!(!has("RefEmit_InMemoryManifestModule", "") && !has("", ""));
    }
}
