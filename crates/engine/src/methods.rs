//! What is known of the runtime's code: which method an address lies in, and how to walk out of it.
//!
//! Methods are learned when they are first seen in a stack, off the handler, and forgotten when
//! their module is unloaded, since their memory may then hold another's code.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::limits::{CODE_BYTES_KEPT, CODE_KEPT_PERIODS, CODE_RUNS_MAX, IL_MAPS_BYTES_MAX};
use rustc_hash::{FxHashMap, FxHashSet};
use signal::rule::Rule;
use signal::table::{Region, Row, Table};
use sys::code::describe;
use sys::memory::copy_own;
use unwind::managed::{Method, Shape, Step};
use unwind::pe::unwind_info::{self, Function};

use crate::il::IlMap;
use crate::runtime::{Code, ModuleKey};

/// Bytes around an address that is no method's which are taken to be a stub. Stubs and helpers are
/// that close together only with their like.
const STUB_BYTES: u64 = 64;
/// Longest code read of one run; longer methods are read up to there.
const CODE_BYTES_MAX: u64 = 256 * 1024;

/// What the caller keeps with a run of code, such as its name.
pub trait Note: Clone {
    /// Bytes held, besides its own size.
    fn bytes(&self) -> usize;
}

/// A run of code that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<N> {
    /// One past the last address.
    pub end: u64,
    /// Where it came from; `None` for stubs.
    pub module: Option<ModuleKey>,
    /// Where the method's exception handlers begin, which are functions of their own behind its
    /// body; `end` if it has none.
    pub funclets: u64,
    /// The rules, by offset from the first address.
    steps: Vec<(u32, Rule)>,
    /// Which IL it is of.
    pub il: IlMap,
    /// What the caller keeps with it.
    pub note: N,
    /// The period in which it was last asked for.
    seen: u32,
}

impl<N: Note> Known<N> {
    /// Bytes held, roughly.
    fn bytes(&self) -> usize {
        // A step is kept here and again as a row; a run has its node and its region.
        const RUN_BYTES: usize = 256;
        const STEP_BYTES: usize = size_of::<(u32, Rule)>() + size_of::<Row>();
        let steps = self.steps.len().saturating_mul(STEP_BYTES);
        let parts = [RUN_BYTES, steps, self.note.bytes(), self.il.bytes()];
        parts.into_iter().fold(0, usize::saturating_add)
    }
}

/// The unwind table of methods that is published.
#[derive(Clone, Debug, Default)]
pub struct MethodTable {
    regions: Vec<Region>,
    rows: Vec<Row>,
    rules: Vec<Rule>,
}

impl MethodTable {
    /// What a handler searches.
    #[must_use]
    pub fn view(&self) -> Table<'_> {
        Table { regions: &self.regions, rows: &self.rows, rules: &self.rules }
    }
}

/// All known code, by first address; runs don't overlap.
#[derive(Clone, Debug)]
pub struct Methods<N> {
    runs: BTreeMap<u64, Known<N>>,
    /// Those that any code is known of: most dynamic methods go without ever having been seen.
    modules: FxHashSet<ModuleKey>,
    /// Bytes of all their IL maps.
    il_bytes: usize,
    /// Bytes of all runs, with their IL maps.
    run_bytes: usize,
    /// Periods that have ended with much code known.
    period: u32,
    changed: bool,
}

impl<N> Default for Methods<N> {
    fn default() -> Self {
        Self {
            runs: BTreeMap::new(),
            modules: FxHashSet::default(),
            il_bytes: 0,
            run_bytes: 0,
            period: 0,
            changed: false,
        }
    }
}

impl<N: Note> Methods<N> {
    /// The run that an address lies in, which is in use.
    #[must_use]
    pub fn see(&mut self, address: u64) -> Option<(u64, &Known<N>)> {
        let (start, known) = self.runs.range_mut(..=address).next_back()?;
        if address >= known.end {
            return None;
        }
        known.seen = self.period;
        Some((*start, known))
    }

    /// The run that an address lies in.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<(u64, &Known<N>)> {
        let (start, known) = self.runs.range(..=address).next_back()?;
        (address < known.end).then_some((*start, known))
    }

    /// Learns a method's code. Returns whether what was known of addresses holds no longer: there
    /// was other code, or so much that all of it was forgotten.
    pub fn learn(&mut self, code: &Code, note: &N) -> bool {
        let mut replaced = self.make_room();
        let tier0_m = || code.siblings.iter().find_map(|start| framed_m(*start));
        for (start, end) in &code.ranges {
            let steps = described_steps(*start, *end);
            let steps = if steps.is_empty() { read_steps(*start, *end, tier0_m) } else { steps };
            let has_room = self.il_bytes < IL_MAPS_BYTES_MAX;
            let il = if has_room { code.il.as_slice() } else { &[] };
            let il = IlMap::of_run(*start..*end, il);
            let known = Known {
                end: *end,
                module: Some(code.module),
                funclets: *end,
                steps,
                il,
                note: note.clone(),
                seen: self.period,
            };
            replaced |= self.insert(*start, known);
        }
        replaced
    }

    /// Learns that there is no method at an address: a stub, which pushes nothing. Returns the
    /// same.
    pub fn learn_stub(&mut self, address: u64, note: &N) -> bool {
        let forgot = self.make_room();
        let mut start = address & !(STUB_BYTES - 1);
        let mut end = start.saturating_add(STUB_BYTES);
        if let Some((_, before)) = self.runs.range(..=address).next_back() {
            start = start.max(before.end);
        }
        if let Some((next, _)) = self.runs.range(address..).next() {
            end = end.min(*next);
        }
        let steps = vec![(0, Rule::ENTRY)];
        let (il, note) = (IlMap::default(), note.clone());
        let seen = self.period;
        self.insert(start, Known { end, module: None, funclets: end, steps, il, note, seen });
        forgot
    }

    /// Begins anew if there is too much. Returns whether it was.
    fn make_room(&mut self) -> bool {
        let is_full = self.runs.len() >= CODE_RUNS_MAX;
        if is_full {
            *self = Self { changed: true, ..Self::default() };
        }
        is_full
    }

    fn insert(&mut self, start: u64, mut run: Known<N>) -> bool {
        let end = run.end;
        if start >= end {
            return false;
        }
        // Whatever was there before is stale: the memory has been given to this code since.
        let stale: Vec<u64> = self
            .runs
            .range(..end)
            .rev()
            .take_while(|(_, known)| known.end > start)
            .map(|(start, _)| *start)
            .collect();
        for old in stale.iter().filter_map(|start| self.runs.remove(start)) {
            self.il_bytes = self.il_bytes.saturating_sub(old.il.bytes());
            self.run_bytes = self.run_bytes.saturating_sub(old.bytes());
        }
        self.il_bytes = self.il_bytes.saturating_add(run.il.bytes());
        self.run_bytes = self.run_bytes.saturating_add(run.bytes());
        self.modules.extend(run.module);
        run.funclets = funclets_start(start, end, &run.steps);
        self.runs.insert(start, run);
        self.changed = true;
        !stale.is_empty()
    }

    /// Ends a period. If much is known, what no stack has had for some periods is forgotten: else a
    /// program that compiles code without an end would have ever more of it. Returns whether
    /// addresses whose names are at hand have to be asked for anew: those in use are to be seen.
    pub fn end_period(&mut self) -> bool {
        if self.bytes() < CODE_BYTES_KEPT {
            return false;
        }
        self.period = self.period.saturating_add(1);
        let oldest = self.period.saturating_sub(CODE_KEPT_PERIODS);
        let before = self.runs.len();
        self.runs.retain(|_, known| known.seen >= oldest);
        if self.runs.len() != before {
            self.count();
            self.modules = self.runs.values().filter_map(|known| known.module).collect();
            self.changed = true;
        }
        true
    }

    /// Forgets a module's code. Returns whether there was any.
    pub fn forget(&mut self, module: ModuleKey) -> bool {
        let known = self.modules.remove(&module);
        if known {
            self.runs.retain(|_, known| known.module != Some(module));
            self.count();
            self.changed = true;
        }
        known
    }

    /// Forgets all stubs, so that they are asked for anew: a method may have been compiled there
    /// since. Returns whether there were any.
    pub fn forget_stubs(&mut self) -> bool {
        let before = self.runs.len();
        self.runs.retain(|_, known| known.module.is_some());
        let forgot = self.runs.len() != before;
        if forgot {
            self.count();
            self.changed = true;
        }
        forgot
    }

    /// Counts anew, where all runs were gone through anyway.
    fn count(&mut self) {
        self.il_bytes = self.runs.values().map(|known| known.il.bytes()).sum();
        self.run_bytes = self.runs.values().map(Known::bytes).sum();
    }

    /// Bytes held, roughly.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.run_bytes
    }

    /// A new table if anything was learned or forgotten since the last one, or if one is wanted.
    pub fn table_if_changed(&mut self, wanted: bool) -> Option<Arc<MethodTable>> {
        (std::mem::take(&mut self.changed) || wanted).then(|| Arc::new(self.table()))
    }

    fn table(&self) -> MethodTable {
        Self::table_of(self.runs.iter())
    }

    /// A table of no more than the methods that some addresses lie in: a stack's worth of methods
    /// instead of tens of thousands.
    #[must_use]
    pub fn small_table(&self, addresses: &[u64]) -> MethodTable {
        let runs = addresses.iter().filter_map(|address| self.at(*address));
        let runs: BTreeMap<u64, &Known<N>> = runs.collect();
        Self::table_of(runs.iter().map(|(start, known)| (start, *known)))
    }

    fn table_of<'a>(runs: impl Iterator<Item = (&'a u64, &'a Known<N>)>) -> MethodTable
    where
        N: 'a,
    {
        let mut table = MethodTable::default();
        let mut numbers = FxHashMap::default();
        for (start, known) in runs {
            let rows_start = u32::try_from(table.rows.len()).unwrap_or(u32::MAX);
            for (offset, rule) in &known.steps {
                let number = *numbers.entry(*rule).or_insert_with(|| {
                    table.rules.push(*rule);
                    u32::try_from(table.rules.len() - 1).unwrap_or(Row::NO_RULE)
                });
                table.rows.push(Row { offset: *offset, rule: number });
            }
            let rows_len = u32::try_from(known.steps.len()).unwrap_or(0);
            table.regions.push(Region { start: *start, end: known.end, rows_start, rows_len });
        }
        table
    }
}

/// The rules of a run of code, as its prologues say.
fn read_steps(start: u64, end: u64, tier0_m: impl Fn() -> Option<i32>) -> Vec<(u32, Rule)> {
    let bytes = read_code(start, end);
    let plain = Method::read(&bytes, None);
    // Only an on-stack-replacement version needs its sibling's frame.
    let osr = matches!(plain.shape, Shape::Osr { .. });
    let method = if osr { Method::read(&bytes, tier0_m()) } else { plain };
    let steps = method.steps.iter();
    let step = |step: &Step| u32::try_from(step.offset).ok().map(|offset| (offset, step.rule));
    steps.filter_map(step).collect()
}

/// The rules of a run of code, as the system was told of its parts, where it is told of such: the
/// method's body, its exception handlers. Empty if it knows none.
fn described_steps(start: u64, end: u64) -> Vec<(u32, Rule)> {
    let mut rules = Vec::new();
    let mut at = start;
    while let Some(part) = describe(at).filter(|part| part.start >= start && part.end > at) {
        let function = Function {
            start: 0,
            end: u32::try_from(part.end.saturating_sub(part.start)).unwrap_or(u32::MAX),
            unwind: u32::try_from(part.unwind.saturating_sub(part.base)).unwrap_or(u32::MAX),
        };
        let read =
            |offset: u32, room: &mut [u8]| copy_own(part.base.saturating_add(offset.into()), room);
        let steps = unwind_info::steps(function, read);
        let offset = u32::try_from(part.start.saturating_sub(start)).unwrap_or(u32::MAX);
        let unknown = |_| vec![(0, Rule::UNSUPPORTED)];
        let steps = steps.unwrap_or_else(unknown).into_iter();
        rules.extend(steps.map(|(step, rule)| (offset.saturating_add(step), rule)));
        at = part.end;
        if at >= end {
            break;
        }
    }
    rules
}

/// Where a run's exception handlers begin: at the first place behind its start where a frame
/// begins.
fn funclets_start(start: u64, end: u64, steps: &[(u32, Rule)]) -> u64 {
    let entry = steps.iter().skip(1).find(|(_, rule)| *rule == Rule::ENTRY);
    entry.map_or(end, |(offset, _)| start.saturating_add(u64::from(*offset)))
}

/// The M of a version that keeps a frame pointer.
fn framed_m(start: u64) -> Option<i32> {
    /// A prologue is shorter.
    const PROLOGUE_BYTES: u64 = 256;
    match Method::read(&read_code(start, start.saturating_add(PROLOGUE_BYTES)), None).shape {
        Shape::Framed { m } => Some(m),
        Shape::Frameless { .. } | Shape::Osr { .. } | Shape::Unknown => None,
    }
}

/// Code bytes, as far as they are still mapped.
fn read_code(start: u64, end: u64) -> Vec<u8> {
    let length = end.saturating_sub(start).min(CODE_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let read = copy_own(start, &mut bytes);
    bytes.truncate(read);
    bytes
}

#[cfg(test)]
mod tests;
