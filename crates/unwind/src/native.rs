//! The unwind table of all native modules, kept up to date as they come and go.

use std::ops::Range;
use std::sync::Arc;

use model::limits::UNWIND_ROWS_MAX;
use signal::rule::Rule;
use signal::table::{Region, Row, Table};

use crate::blocks::{Block, Blocks, Losses};
use crate::bytes::ReadMemory;
use crate::modules::{self, Counters, Fresh, Module, NoUnwindData, UnwindData};
use crate::rules::Rules;

/// A finished table. It owns its memory, never changes, and is shared with the handlers by whoever
/// publishes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeTable {
    regions: Vec<Region>,
    rows: Vec<Row>,
    rules: Vec<Rule>,
}

const _: () = assert!(size_of::<Row>() == 8, "half a million rows are held; each byte is 0.5 MB");

impl NativeTable {
    /// What a handler searches.
    #[must_use]
    pub fn view(&self) -> Table<'_> {
        Table { regions: &self.regions, rows: &self.rows, rules: &self.rules }
    }

    /// Heap bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let regions = self.regions.capacity().saturating_mul(size_of::<Region>());
        let rows = self.rows.capacity().saturating_mul(size_of::<Row>());
        let rules = self.rules.capacity().saturating_mul(size_of::<Rule>());
        regions.saturating_add(rows).saturating_add(rules)
    }

    fn rows_of(&self, region: &Region) -> &[Row] {
        let start = region.rows_start as usize;
        self.rows.get(start..start.saturating_add(region.rows_len as usize)).unwrap_or_default()
    }

    fn region_at(&self, start: u64) -> Option<&Region> {
        let index = self.regions.binary_search_by_key(&start, |region| region.start).ok()?;
        self.regions.get(index)
    }
}

/// A module of the current table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The module.
    pub module: Arc<Module>,
    /// What of its unwind data could not be used.
    pub losses: Losses,
    /// Why it has no unwind data at all.
    pub missing: Option<NoUnwindData>,
    /// Its unwind data, as long as no walk has met it.
    waiting: Option<Box<UnwindData>>,
    /// Where the runtime's return hijacker begins; see `crate::hijack`.
    pub hijack: Option<u64>,
}

/// What a refresh did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// The loader has done nothing since the last one.
    Unchanged,
    /// There is a new table.
    Changed {
        /// Modules that are new in it.
        added: usize,
        /// Modules that are gone.
        removed: usize,
    },
}

/// Builds tables. Rows of modules that stay are copied from the last table, not computed again.
///
/// Modules that hardly any walk meets may wait: they have no region in the table, so that a walk
/// takes their code for a method that it does not know, guesses, and keeps a copy of the stack.
/// Who walks that copy again has their rows made first ([`TableBuilder::meet`]).
#[derive(Clone, Debug)]
pub struct TableBuilder {
    rules: Rules,
    entries: Vec<Entry>,
    table: Arc<NativeTable>,
    counters: Counters,
    skipped: u32,
    read_memory: ReadMemory,
    waits: fn(&Module) -> bool,
}

impl TableBuilder {
    /// A builder with an empty table, which reads code and modules by that function. No module
    /// waits.
    #[must_use]
    pub fn new(read_memory: ReadMemory) -> Self {
        Self::waiting(read_memory, |_| false)
    }

    /// The same; modules of which `waits` is true have no rows before a walk meets them.
    #[must_use]
    pub fn waiting(read_memory: ReadMemory, waits: fn(&Module) -> bool) -> Self {
        Self {
            rules: Rules::default(),
            entries: Vec::new(),
            table: Arc::default(),
            counters: Counters::default(),
            skipped: 0,
            read_memory,
            waits,
        }
    }

    /// Looks at the loader; builds a new table if modules were added or removed since the last
    /// call.
    pub fn refresh(&mut self) -> Refresh {
        // A loader without counters shows zeros: then each call must look.
        let now = modules::counters();
        if now == self.counters && now != Counters::default() {
            return Refresh::Unchanged;
        }
        let previous: Vec<_> = self.entries.iter().map(|entry| entry.module.clone()).collect();
        let scan = modules::scan(&previous, self.read_memory);
        self.counters = scan.counters;
        self.skipped = scan.skipped;
        let removed = previous.len().saturating_sub(scan.kept.len());
        if scan.fresh.is_empty() && removed == 0 {
            return Refresh::Unchanged;
        }
        let added = scan.fresh.len();
        self.entries.retain(|entry| scan.kept.iter().any(|kept| Arc::ptr_eq(kept, &entry.module)));
        let mut blocks = Vec::new();
        for Fresh { module, unwind_data } in scan.fresh {
            let (mut new, entry) = self.add(module, unwind_data);
            blocks.append(&mut new);
            self.entries.push(entry);
        }
        self.assemble(blocks);
        Refresh::Changed { added, removed }
    }

    /// Makes the rows of the module that holds an address, if it waits; whether it did, and there
    /// is a new table.
    pub fn meet(&mut self, address: u64) -> bool {
        let holds = |entry: &&mut Entry| entry.waiting.is_some() && entry.module.contains(address);
        let Some(entry) = self.entries.iter_mut().find(holds) else { return false };
        let Some(data) = entry.waiting.take() else { return false };
        let Blocks { blocks, losses, hijack } =
            modules::blocks(&data, &entry.module.code, &mut self.rules, self.read_memory);
        entry.losses = losses;
        entry.hijack = hijack;
        self.assemble(blocks);
        true
    }

    /// Heap bytes of unwind data that waits.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        let waiting = self.entries.iter().filter_map(|entry| entry.waiting.as_ref());
        waiting.fold(0, |sum, data| sum.saturating_add(data.bytes_held()))
    }

    /// The table as of the last refresh or meeting.
    #[must_use]
    pub fn table(&self) -> Arc<NativeTable> {
        Arc::clone(&self.table)
    }

    /// Its modules, in no particular order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The module whose code holds an address.
    #[must_use]
    pub fn module(&self, address: u64) -> Option<&Arc<Module>> {
        self.entries.iter().map(|entry| &entry.module).find(|module| module.contains(address))
    }

    /// Where the runtime's return hijacker begins; see `crate::hijack`.
    #[must_use]
    pub fn hijack(&self) -> Option<u64> {
        self.entries.iter().find_map(|entry| entry.hijack)
    }

    /// Modules left out, see [`modules::Scan::skipped`].
    #[must_use]
    pub fn skipped(&self) -> u32 {
        self.skipped
    }

    fn add(
        &mut self,
        module: Arc<Module>,
        unwind_data: Result<UnwindData, NoUnwindData>,
    ) -> (Vec<Block>, Entry) {
        match unwind_data {
            Ok(data) if (self.waits)(&module) => {
                let waiting = Some(Box::new(data));
                let losses = Losses::default();
                (Vec::new(), Entry { module, losses, missing: None, waiting, hijack: None })
            }
            Ok(data) => {
                let Blocks { blocks, losses, hijack } =
                    modules::blocks(&data, &module.code, &mut self.rules, self.read_memory);
                (blocks, Entry { module, losses, missing: None, waiting: None, hijack })
            }
            Err(missing) => {
                // Still regions, with no rows: an address in them is known to have no rule.
                let code = module.code.iter();
                let empty = |range: &Range<u64>| Block { range: range.clone(), rows: Vec::new() };
                let blocks = code.map(empty).collect();
                let losses = Losses::default();
                let missing = Some(missing);
                let entry = Entry { module, losses, missing, waiting: None, hijack: None };
                (blocks, entry)
            }
        }
    }

    /// Puts together the old table's regions of modules that stay and the new blocks.
    fn assemble(&mut self, new: Vec<Block>) {
        let fresh: Vec<(Region, &[Row])> = new
            .iter()
            .map(|block| {
                let Block { range, rows } = block;
                let region =
                    Region { start: range.start, end: range.end, rows_start: 0, rows_len: 0 };
                (region, rows.as_slice())
            })
            .collect();
        let old = Arc::clone(&self.table);
        let code = self.entries.iter().flat_map(|entry| entry.module.code.iter());
        let kept = code
            .filter(|range| !new.iter().any(|block| block.range.start == range.start))
            .filter_map(|range| old.region_at(range.start))
            .map(|region| (*region, old.rows_of(region)));
        let mut all: Vec<(Region, &[Row])> = fresh.into_iter().chain(kept).collect();
        all.sort_by_key(|(region, _)| region.start);

        let total: usize = all.iter().map(|(_, rows)| rows.len()).sum();
        let mut table = NativeTable {
            regions: Vec::with_capacity(all.len()),
            rows: Vec::with_capacity(total.min(UNWIND_ROWS_MAX)),
            rules: self.rules.as_slice().to_vec(),
        };
        let mut covered = 0u64;
        for (region, rows) in all {
            // Modules can't overlap; if they seem to, the first one keeps the addresses.
            if region.start < covered {
                continue;
            }
            covered = region.end;
            let fits = table.rows.len().saturating_add(rows.len()) <= UNWIND_ROWS_MAX;
            let rows = if fits { rows } else { &[] };
            let start = u32::try_from(table.rows.len()).unwrap_or(u32::MAX);
            let len = u32::try_from(rows.len()).unwrap_or(0);
            table.rows.extend_from_slice(rows);
            table.regions.push(Region { rows_start: start, rows_len: len, ..region });
        }
        self.table = Arc::new(table);
    }
}
