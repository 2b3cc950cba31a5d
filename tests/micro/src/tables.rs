//! Stacks and tables that are made, and walks of them.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;

use signal::arch::Registers;
use signal::cache::{Cache, ENTRIES};
use signal::frames::Frames;
use signal::rule::{Cfa, Rule, SavedBp};
use signal::table::{Region, Row, Table};
use signal::tables::Tables;
use signal::walk::{Bounds, Start, no_prologue, walk};

use crate::Operation;

const STACK: u64 = 0x7fff_0000_0000;
/// Words of each frame.
const WORDS: u64 = 6;
const ROW_BYTES: u64 = 16;
/// A step through a table that meets all its places: odd, and no neighbour's.
const STRIDE: u64 = 7_919;

/// A table that owns its memory.
struct Made {
    regions: Vec<Region>,
    rows: Vec<Row>,
    rules: Vec<Rule>,
    region_bytes: u64,
    rows_each: u32,
}

impl Made {
    fn new(first: u64, regions: u32, rows_each: u32, rule: Rule) -> Self {
        let region_bytes = u64::from(rows_each) * ROW_BYTES;
        let region = |n: u32| Region {
            start: first + u64::from(n) * region_bytes,
            end: first + u64::from(n + 1) * region_bytes,
            rows_start: n * rows_each,
            rows_len: rows_each,
        };
        let row = |n: u32| Row { offset: (n % rows_each) * ROW_BYTES as u32, rule: 0 };
        let regions_made = (0..regions).map(region).collect();
        let rows = (0..regions * rows_each).map(row).collect();
        Self { regions: regions_made, rows, rules: vec![rule], region_bytes, rows_each }
    }

    fn view(&self) -> Table<'_> {
        Table { regions: &self.regions, rows: &self.rows, rules: &self.rules }
    }

    /// Where frame `n` is, in code.
    fn address(&self, n: u64) -> u64 {
        let first = self.regions.first().map_or(0, |region| region.start);
        let regions = self.regions.len() as u64;
        let row = (n * STRIDE) % u64::from(self.rows_each);
        first + ((n * STRIDE) % regions) * self.region_bytes + row * ROW_BYTES + 8
    }
}

/// A stack with the tables that it is walked by.
pub struct Walks {
    native: Made,
    managed: Made,
    is_managed: bool,
    entries: Vec<AtomicU64>,
    stack: Vec<u64>,
    frames: Frames,
}

impl Walks {
    /// Of managed frames, found by frame pointers among 3,000 methods, with what walks of before
    /// have found or without.
    #[must_use]
    pub fn managed(frames: u64, cached: bool) -> Self {
        Self::new(frames, cached, true)
    }

    /// Of native frames without frame pointers, found among 400,000 rows of 40 modules.
    #[must_use]
    pub fn native(frames: u64, cached: bool) -> Self {
        Self::new(frames, cached, false)
    }

    fn new(count: u64, cached: bool, is_managed: bool) -> Self {
        let cfa = Cfa::Sp(8 * WORDS as i32);
        let native = Made::new(0x7f00_0000_0000, 40, 10_000, Rule { cfa, bp: SavedBp::Same });
        let managed = Made::new(0x7e00_0000_0000, 3_000, 4, Rule::FRAME);
        let made = if is_managed { &managed } else { &native };
        // The return address is a frame's last word, the saved frame pointer the one before.
        let mut stack = vec![0_u64; (count * WORDS) as usize];
        for (n, frame) in stack.chunks_mut(WORDS as usize).enumerate() {
            let next = n as u64 + 1;
            if next < count {
                frame[WORDS as usize - 2] = STACK + 8 * (next + 1) * WORDS - 16;
                frame[WORDS as usize - 1] = made.address(next);
            }
        }
        let entries = if cached { ENTRIES } else { 0 };
        let entries = (0..entries).map(|_| AtomicU64::new(0)).collect();
        Self { native, managed, is_managed, entries, stack, frames: Frames::default() }
    }

    fn made(&self) -> &Made {
        if self.is_managed { &self.managed } else { &self.native }
    }

    /// A walk of all of it.
    #[must_use]
    pub fn operation(mut self) -> Operation {
        let bp = Some(STACK + 8 * WORDS - 16);
        let registers = Registers { ip: self.made().address(0), sp: STACK, bp };
        let start = Start { registers, exact: true };
        let high = STACK + 8 * self.stack.len() as u64;
        Box::new(move || {
            let cache = Cache { entries: &self.entries };
            let (native, managed) = (self.native.view(), self.managed.view());
            let tables = Tables { native, managed, hijack: 0, cache };
            let bounds = Bounds::of_leaf(STACK, STACK, high);
            let stack = &self.stack;
            let read = |address: u64| stack.get(((address - STACK) / 8) as usize).copied();
            self.frames.clear();
            walk(black_box(&tables), bounds, start, &[], read, no_prologue, &mut self.frames);
            black_box(self.frames.pushed());
        })
    }

    /// The search for an address, each time another.
    #[must_use]
    pub fn search(self) -> Operation {
        let mut n = 0;
        Box::new(move || {
            n += 1;
            black_box(self.made().view().find(black_box(self.made().address(n))));
        })
    }
}
