//! From an address in a stack to a named frame, learning unknown methods on the way.

use std::sync::Arc;

use model::limits::{REWALKS_MAX, SYMBOLS_KEPT_BYTES_MAX};
use model::{EndReason, FrameKind};
use profile::{Aggregate, Frame, FrameId, ModuleId, ModuleInfo};
use rustc_hash::FxHashMap;
use signal::cache::Cache;
use signal::epilogue::EPILOGUE_BYTES;
use signal::frames::Frames;
use signal::sample::StackCopy;
use signal::tables::Tables;
use signal::walk::{Bounds, Guess, Start, walk};
use sys::clock::monotonic_ns;
use sys::memory::copy_own;
use sys::proc::executable_ranges;
use unwind::mangled;
use unwind::modules::{Kind, Module};
use unwind::native::{Refresh, TableBuilder};
use unwind::prologue;
use unwind::symbols::Symbols;

use crate::methods::{Methods, Note};
use crate::publish::Publisher;
use crate::runtime::{Assembly, ModuleKey, Runtime};
use crate::waits::Wait;

/// Addresses whose frames are kept at hand; beyond it all are looked up anew.
const CACHED_ADDRESSES_MAX: usize = 100_000;
/// How much longer the pause after a publication is than the publication took: with tens of
/// thousands of methods, a table takes milliseconds.
const PUBLICATION_PAUSE: u64 = 200;
/// The frame of code that is no method's.
const STUB: &str = "[stub]";
/// The frame of an address that is in no code at all: the walk went astray.
const NOT_CODE: &str = "[not code]";

/// What is kept of an address.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its frame.
    pub frame: FrameId,
    /// It is a native function without a name: one in a row says as much as ten.
    pub anonymous: bool,
    /// Tells methods apart as long as they are known; 0 for all that is none.
    pub method: usize,
    /// It is an exception handler of its method. Called by its method, it is not told apart: a
    /// `finally` is a part of the method for who wrote it.
    pub funclet: bool,
    /// What a thread that is blocked below this frame waits for.
    pub wait: Option<Wait>,
    /// Whether the address has that name until [`Symbolizer::version`] changes.
    pub is_lasting: bool,
}

/// A stack that was walked again.
#[derive(Clone, Debug)]
pub struct Rewalked {
    /// Its frames, leaf first.
    pub frames: Box<[u64]>,
    /// Why the walk ended.
    pub end: EndReason,
    /// Whether no guess is left in it; else its root end is as it was guessed.
    pub whole: bool,
}

/// The names of a method, kept with its code.
#[derive(Clone, Debug, Default)]
struct Name {
    display: String,
    raw: String,
    assembly: Arc<Assembly>,
    token: u32,
    kind: Option<FrameKind>,
}

impl Note for Arc<Name> {
    fn bytes(&self) -> usize {
        // The two counts beside a shared one.
        const SHARED_BYTES: usize = size_of::<Name>() + 2 * size_of::<usize>();
        SHARED_BYTES.saturating_add(self.display.capacity()).saturating_add(self.raw.capacity())
    }
}

/// Names addresses; owns what is known of native and managed code.
pub struct Symbolizer {
    runtime: Arc<dyn Runtime>,
    publisher: Publisher,
    native: TableBuilder,
    /// By module, as the address of its shared description; `None` if it has no symbols.
    symbols: FxHashMap<usize, Option<Symbols>>,
    methods: Methods<Arc<Name>>,
    executable: Executable,
    next_publication_ns: u64,
    cache: FxHashMap<u64, Named>,
    version: u64,
    modules: FxHashMap<String, Option<ModuleId>>,
    assemblies: FxHashMap<Arc<Assembly>, Option<ModuleId>>,
}

/// Whether hardly any walk comes by a module: the C++ library, which has a sixth of all unwind
/// data. The agent's own has as much, but while methods are compiled it is on many stacks.
fn is_hardly_met(module: &Module) -> bool {
    module.kind == Kind::Library && module.name().starts_with("libstdc++.so")
}

impl Symbolizer {
    /// A symbolizer that knows the native modules of now, and has published them.
    #[must_use]
    pub fn new(runtime: Arc<dyn Runtime>, publisher: Publisher) -> Self {
        let mut symbolizer = Self {
            runtime,
            publisher,
            native: TableBuilder::waiting(sys::memory::copy_own, is_hardly_met),
            symbols: FxHashMap::default(),
            methods: Methods::default(),
            executable: Executable::default(),
            next_publication_ns: 0,
            cache: FxHashMap::default(),
            version: 0,
            modules: FxHashMap::default(),
            assemblies: FxHashMap::default(),
        };
        symbolizer.refresh();
        symbolizer
    }

    /// Notices modules that came or went, and publishes what was learned since the last call.
    pub fn refresh(&mut self) {
        let start_ns = monotonic_ns();
        let native_changed = self.native.refresh() != Refresh::Unchanged;
        if native_changed {
            self.forget_names();
            let entries = self.native.entries();
            self.symbols.retain(|key, _| entries.iter().any(|entry| key_of(&entry.module) == *key));
        }
        if (native_changed || start_ns >= self.next_publication_ns) && self.publish(native_changed)
        {
            // What was learned meanwhile is not lost: stacks with unknown methods are walked again.
            let took_ns = monotonic_ns().saturating_sub(start_ns);
            let pause_ns = took_ns.saturating_mul(PUBLICATION_PAUSE);
            self.next_publication_ns = start_ns.saturating_add(pause_ns);
        }
        self.publisher.free();
    }

    /// Publishes what is known; whether there was anything new, or native code's is.
    fn publish(&mut self, native_changed: bool) -> bool {
        let table = self.methods.table_if_changed(native_changed);
        let is_new = table.is_some();
        if let Some(table) = table {
            self.publisher.publish(self.native.table(), table, self.native.hijack());
        }
        is_new
    }

    /// A walk came by these addresses: modules of theirs whose unwind data has waited for that wait
    /// no longer.
    pub fn meet(&mut self, addresses: &[u64]) {
        let met = addresses.iter().fold(false, |met, address| self.native.meet(*address) | met);
        if met {
            let _published = self.publish(true);
        }
    }

    fn forget_names(&mut self) {
        self.cache.clear();
        self.version = self.version.wrapping_add(1);
    }

    /// Another one each time that names of before may be out of date.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Bytes held, roughly.
    #[must_use]
    pub fn bytes(&self) -> usize {
        const CACHED_BYTES: usize = size_of::<(u64, Named)>() * 2;
        let symbols = self.symbol_bytes();
        let cache = self.cache.len().saturating_mul(CACHED_BYTES);
        let native = self.native.table().bytes().saturating_add(self.native.waiting_bytes());
        [native, symbols, self.methods.bytes(), cache]
            .iter()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// A period is over.
    pub fn end_period(&mut self) {
        // What was no method's code may be one's by now.
        let forgot_stubs = self.methods.forget_stubs();
        if self.methods.end_period() || forgot_stubs {
            self.forget_names();
        }
    }

    /// A module or dynamic method is gone.
    pub fn unloaded(&mut self, module: ModuleKey) {
        if self.methods.forget(module) {
            self.forget_names();
        }
    }

    /// The aggregate's tables were emptied: frames must be interned anew.
    pub fn ids_reset(&mut self) {
        self.forget_names();
        self.modules.clear();
        self.assemblies.clear();
    }

    /// Learns the methods of a stack whose frames were guessed, and walks its copy again; as often
    /// as that reaches further methods that are not known. `None` if a guess remains.
    pub fn rewalk(
        &mut self,
        copy: &StackCopy,
        first: &[u64],
        first_end: EndReason,
    ) -> Option<Rewalked> {
        let Guess { start, frames_before, last_before } = copy.guess;
        let sure = first.get(..frames_before as usize)?;
        self.learn_leaf(copy);
        let ip = start.registers.ip;
        let mut code = [0; EPILOGUE_BYTES];
        let leaf = start.exact && self.native.module(ip).is_none();
        let read = if leaf { copy_own(ip, &mut code) } else { 0 };
        let code = code.get(..read).unwrap_or_default();
        let bounds = Bounds { low: start.registers.sp, high: copy.stack_end, left: None };
        let mut frames = Box::<Frames>::default();
        let mut known = first.to_vec();
        for _ in 0..REWALKS_MAX {
            for address in &known {
                self.know(*address);
            }
            self.meet(&known);
            frames.clear();
            let methods = self.methods.small_table(&known);
            let now = self.publisher.current();
            let tables = Tables { managed: methods.view(), cache: Cache::default(), ..now };
            let read = |place| copy.read(place);
            let prologue = |set_at| prologue::read(set_at, copy_own);
            let walked = walk(&tables, bounds, start, code, read, prologue, &mut frames);
            let again = sure.iter().copied().chain(frames.iter()).collect();
            let before = std::mem::replace(&mut known, again);
            if walked.guess.is_some() {
                // The same frames once more: there is nothing left to learn.
                if known == before {
                    return None;
                }
                continue;
            }
            return match walked.end {
                // Beyond the copy, if both walks were there at the same frame, the first goes on.
                EndReason::OutsideStack => {
                    let (frames, met) = continued(&known, first)?;
                    // Where they met, the first walk may have had all its guesses behind it.
                    let whole = (last_before as usize) < met;
                    Some(Rewalked { frames, end: first_end, whole })
                }
                // Too deep for one list: the first walk is kept, its guesses counted.
                _ if frames.truncated() => None,
                end => Some(Rewalked { frames: known.into(), end, whole: true }),
            };
        }
        None
    }

    /// Code without unwind data pushes nothing: that is Windows' convention, and what the runtime's
    /// stubs do everywhere. So if what was interrupted is no code that anybody knows, as where
    /// memory became code a moment ago, and a return address is on top of its stack, it is a stub.
    fn learn_leaf(&mut self, copy: &StackCopy) {
        let Start { registers, exact } = copy.guess.start;
        if !exact || self.know(registers.ip) {
            return;
        }
        let on_top = copy.read(registers.sp);
        if on_top.is_some_and(|address| self.know(address.wrapping_sub(1))) {
            self.learn_stub(registers.ip);
        }
    }

    /// Whether an address lies in code, as far as anybody knows; learns it, if it is managed.
    pub fn know(&mut self, address: u64) -> bool {
        if !self.is_known(address) {
            self.learn(address);
        }
        self.is_known(address)
    }

    fn is_known(&self, address: u64) -> bool {
        self.native.module(address).is_some() || self.methods.at(address).is_some()
    }

    /// Whether two addresses are an exception handler and the method that called it.
    #[cfg(feature = "oracle")]
    pub fn is_own_funclet(&self, inner: u64, outer: u64) -> bool {
        let run = |address| self.methods.at(address);
        match (run(inner), run(outer)) {
            (Some((one, known)), Some((other, _))) => one == other && inner >= known.funclets,
            _ => false,
        }
    }

    /// An address's name, for a test's message.
    #[cfg(feature = "oracle")]
    pub fn text(&mut self, address: u64, aggregate: &mut Aggregate) -> String {
        if let Some(module) = self.native.module(address) {
            return format!("[{}]", module.name());
        }
        let _known = self.named(address, aggregate);
        let rule = self.publisher.current().managed.find(address);
        let name = self.methods.at(address).map(|(_, run)| run.note.display.clone());
        format!("{} {rule:?}", name.unwrap_or_default())
    }

    /// The frame at a lookup address.
    pub fn named(&mut self, address: u64, aggregate: &mut Aggregate) -> Named {
        if let Some(named) = self.cache.get(&address) {
            return *named;
        }
        self.know(address);
        let named = match self.native.module(address).cloned() {
            Some(module) => self.native_frame(&module, address, aggregate),
            None => match self.managed_frame(address, aggregate) {
                Some(named) => named,
                // Not kept: it may be code when it is seen again.
                None => return self.plain(NOT_CODE, FrameKind::Synthetic, aggregate),
            },
        };
        if self.cache.len() >= CACHED_ADDRESSES_MAX {
            self.cache.clear();
        }
        self.cache.insert(address, named);
        named
    }

    fn native_frame(
        &mut self,
        module: &Arc<Module>,
        address: u64,
        aggregate: &mut Aggregate,
    ) -> Named {
        let symbol = self.symbols_of(module).and_then(|symbols| symbols.find(address));
        let raw_name = symbol.map(|symbol| symbol.name.to_owned());
        let anonymous = raw_name.is_none();
        let name = match &raw_name {
            Some(raw_name) => mangled::readable(raw_name).unwrap_or_else(|| raw_name.clone()),
            None => anonymous_name(&module.name()),
        };
        let id = self.native_module(module, aggregate);
        let frame = aggregate.frame(&Frame {
            name: &name,
            raw_name: raw_name.as_deref().unwrap_or_default(),
            module: id,
            // Without a name, all are one: ten in a row say no more.
            address: if anonymous { 0 } else { address.wrapping_sub(module.bias) },
            kind: FrameKind::Native,
            file: None,
            line: None,
        });
        let wait = Wait::of_native(&module.name());
        Named { frame, anonymous, method: 0, funclet: false, wait, is_lasting: true }
    }

    /// A module's symbols, read when they are first asked for; `None` if there are none, or if what
    /// is kept of others is too much already.
    fn symbols_of(&mut self, module: &Arc<Module>) -> Option<&Symbols> {
        let bytes = self.symbol_bytes();
        let symbols = self.symbols.entry(key_of(module)).or_insert_with(|| {
            let symbols = Symbols::open(module, copy_own).ok()?;
            let together = bytes.saturating_add(symbols.bytes());
            (together <= SYMBOLS_KEPT_BYTES_MAX).then_some(symbols)
        });
        symbols.as_ref()
    }

    fn symbol_bytes(&self) -> usize {
        let symbols = self.symbols.values().flatten();
        symbols.fold(0, |sum, symbols| sum.saturating_add(symbols.bytes()))
    }

    fn native_module(&mut self, module: &Module, aggregate: &mut Aggregate) -> Option<ModuleId> {
        let file = module.path.to_string_lossy().into_owned();
        *self.modules.entry(file).or_insert_with_key(|file| {
            let build_id: String =
                module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            // As in the file, so that the same place is the same in each process.
            let in_file = |address: u64| address.wrapping_sub(module.bias);
            let start = module.code.first().map_or(0, |range| in_file(range.start));
            let limit = module.code.last().map_or(0, |range| in_file(range.end));
            aggregate.module(&ModuleInfo { file, build_id: &build_id, start, limit })
        })
    }

    fn managed_frame(&mut self, address: u64, aggregate: &mut Aggregate) -> Option<Named> {
        let (start, known) = self.methods.see(address)?;
        let funclet = address >= known.funclets;
        let name = Arc::clone(&known.note);
        let il = known.il.at(address.saturating_sub(start));
        let module = self.managed_module(&name.assembly, aggregate);
        let frame = aggregate.frame(&Frame {
            name: &name.display,
            raw_name: &name.raw,
            module,
            address: il.map_or(0, |il| il_address(name.token, il)),
            kind: name.kind.unwrap_or(FrameKind::Runtime),
            file: None,
            line: None,
        });
        let wait = Some(Wait::of_method(&name.display));
        let method = key_of(&name);
        Some(Named { frame, anonymous: false, method, funclet, wait, is_lasting: true })
    }

    fn managed_module(
        &mut self,
        assembly: &Arc<Assembly>,
        aggregate: &mut Aggregate,
    ) -> Option<ModuleId> {
        let Assembly { file, build_id } = assembly.as_ref();
        if file.is_empty() {
            return None;
        }
        *self
            .assemblies
            .entry(Arc::clone(assembly))
            .or_insert_with(|| aggregate.module(&ModuleInfo { file, build_id, start: 0, limit: 0 }))
    }

    fn plain(&mut self, name: &str, kind: FrameKind, aggregate: &mut Aggregate) -> Named {
        let frame = aggregate.frame(&Frame {
            name,
            raw_name: "",
            module: None,
            address: 0,
            kind,
            file: None,
            line: None,
        });
        let (anonymous, funclet) = (false, false);
        Named { frame, anonymous, method: 0, funclet, wait: None, is_lasting: false }
    }

    /// Asks the runtime what lies at an address, once for each method.
    fn learn(&mut self, address: u64) {
        let found = self.runtime.look_up(address);
        if found.is_none() {
            // A library that was loaded a moment ago would be taken for a stub, and a thread that
            // blocks in it is not looked at again until it moves.
            self.refresh();
            if self.native.module(address).is_some() {
                return;
            }
        }
        let Some((code, names)) = found else {
            if self.executable.holds(address) {
                self.learn_stub(address);
            }
            return;
        };
        let name = match names {
            Some(names) => Name {
                display: names.display,
                raw: names.raw,
                assembly: names.assembly,
                token: names.token,
                kind: Some(FrameKind::Managed),
            },
            None => stub(),
        };
        // Other code was there before: its addresses mean something else now.
        if self.methods.learn(&code, &Arc::new(name)) {
            self.forget_names();
        }
    }

    fn learn_stub(&mut self, address: u64) {
        if self.methods.learn_stub(address, &Arc::new(stub())) {
            self.forget_names();
        }
    }
}

/// The name of code that is no method's.
fn stub() -> Name {
    Name { display: STUB.to_owned(), ..Name::default() }
}

/// The place of an IL instruction in its assembly's file, as one number: the method's token, then
/// the offset in its IL. A token is never 0, so neither is this.
fn il_address(token: u32, il: u32) -> u64 {
    if token == 0 { 0 } else { u64::from(token) << 32 | u64::from(il) }
}

/// A walk that was cut short, carried on by another one of the same stack that met it; and where in
/// the other they met.
fn continued(short: &[u64], long: &[u64]) -> Option<(Box<[u64]>, usize)> {
    let last = short.last()?;
    // A method that calls itself has the same address many times: as often in both.
    let times = short.iter().filter(|address| *address == last).count();
    let mut places = long.iter().enumerate().filter(|(_, address)| *address == last);
    let (met, _) = places.nth(times.checked_sub(1)?)?;
    let rest = long.get(met.checked_add(1)?..)?;
    (!rest.is_empty()).then(|| ([short, rest].concat().into(), met))
}

/// The executable memory of this process, to tell the runtime's stubs from addresses that are none.
#[derive(Debug, Default)]
struct Executable {
    ranges: Vec<(u64, u64)>,
    read_ns: u64,
}

impl Executable {
    /// Whether an address lies in it; the list is read again if not, but not all the time.
    fn holds(&mut self, address: u64) -> bool {
        const AGE_NS_MAX: u64 = 100_000_000;
        let inside = |ranges: &[(u64, u64)]| {
            ranges.iter().any(|(start, end)| (*start..*end).contains(&address))
        };
        let now_ns = monotonic_ns();
        if !inside(&self.ranges) && now_ns.saturating_sub(self.read_ns) > AGE_NS_MAX {
            self.read_ns = now_ns;
            self.ranges = executable_ranges();
        }
        inside(&self.ranges)
    }
}

/// The frame of native functions without a name; the kernel's `[vdso]` has its brackets already.
fn anonymous_name(module: &str) -> String {
    if module.starts_with('[') { module.to_owned() } else { format!("[{module}]") }
}

/// Tells modules of the current list, or methods, apart.
fn key_of<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(short: &[u64], long: &[u64], joined: Option<&[u64]>) {
        let found = continued(short, long).map(|(frames, _)| frames);
        assert_eq!(found.as_deref(), joined, "{short:?} {long:?}");
    }

    #[test]
    fn walks_are_joined_where_they_meet() {
        check(&[1, 2, 3], &[1, 2, 3, 4, 5], Some(&[1, 2, 3, 4, 5]));
        // The longer one had skipped a frame, or seen one too many.
        check(&[1, 2, 3], &[1, 3, 4, 5], Some(&[1, 2, 3, 4, 5]));
        check(&[1, 2, 3], &[1, 9, 2, 3, 4], Some(&[1, 2, 3, 4]));
        // They never meet, or there is nothing beyond.
        check(&[1, 2, 3], &[1, 4, 5], None);
        check(&[1, 2, 3], &[1, 2, 3], None);
        check(&[], &[1], None);
        check(&[1], &[], None);
        // A method that calls itself is there as often as it was.
        check(&[1, 7, 7], &[1, 7, 7, 7, 7, 2], Some(&[1, 7, 7, 7, 7, 2]));
        check(&[1, 7, 7, 7], &[1, 7, 7], None);
    }
}
