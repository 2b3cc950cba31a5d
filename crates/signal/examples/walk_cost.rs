//! `walk_cost KIND FRAMES TIMES CACHE`: walks a made stack so often and prints the median of their
//! nanoseconds. `cargo xtask bench handler` runs it under callgrind and counts the instructions of
//! `measured`.
//!
//! KIND `managed`: a chain of frame pointers through methods of a table of 3,000. KIND `native`:
//! frames without, each found among 400,000 rows of 40 modules. Which functions are called is
//! chosen so that searches do not repeat each other. CACHE `known`: the stack was walked before
//! with the same tables, as nearly all are; `new`: there is no cache.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::std_instead_of_core,
    reason = "the crate's lints are for handlers, not for what measures them"
)]

use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use signal::arch::Registers;
use signal::cache::{Cache, ENTRIES};
use signal::frames::Frames;
use signal::rule::{Cfa, Rule, SavedBp};
use signal::table::{Region, Row, Table};
use signal::tables::Tables;
use signal::walk::{Bounds, Start, Walked, no_prologue, walk};

const STACK: u64 = 0x7fff_0000_0000;
/// A step through a table that meets all its places: odd, and no neighbour's.
const STRIDE: u64 = 7_919;

/// A table that owns its memory.
struct Made {
    regions: Vec<Region>,
    rows: Vec<Row>,
    rules: Vec<Rule>,
    /// From one region's start to the next.
    region_bytes: u64,
    rows_each: u32,
}

const ROW_BYTES: u64 = 16;

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
        Self {
            regions: (0..regions).map(region).collect(),
            rows: (0..regions * rows_each).map(row).collect(),
            rules: vec![rule],
            region_bytes,
            rows_each,
        }
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

/// One walk: what callgrind counts.
#[inline(never)]
fn measured(tables: &Tables<'_>, start: Start, stack: &[u64], frames: &mut Frames) -> Walked {
    walk(tables, bounds(start, stack), start, &[], reader(stack), no_prologue, frames)
}

fn bounds(start: Start, stack: &[u64]) -> Bounds {
    Bounds::of_leaf(start.registers.sp, STACK, STACK + 8 * stack.len() as u64)
}

fn reader(stack: &[u64]) -> impl FnMut(u64) -> Option<u64> {
    |address| stack.get(((address - STACK) / 8) as usize).copied()
}

fn main() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "usage: walk_cost managed|native FRAMES TIMES known|new";
    /// Words of each frame.
    const WORDS: u64 = 6;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, count, times, cached] = words.as_slice() else { return Err(USAGE.into()) };
    let (count, times): (u64, u32) = (count.parse()?, times.parse()?);
    let cfa = Cfa::Sp(8 * WORDS as i32);
    let native = Made::new(0x7f00_0000_0000, 40, 10_000, Rule { cfa, bp: SavedBp::Same });
    let managed = Made::new(0x7e00_0000_0000, 3_000, 4, Rule::FRAME);
    let made = if kind == "managed" { &managed } else { &native };
    // The return address is a frame's last word, the saved frame pointer the one before.
    let mut stack = vec![0_u64; (count * WORDS) as usize];
    for n in 0..count {
        let end = ((n + 1) * WORDS) as usize;
        let is_last = n + 1 == count;
        let above = STACK + 8 * (n + 2) * WORDS - 16;
        if let Some([bp, ip]) = stack.get_mut(end - 2..end) {
            (*bp, *ip) = if is_last { (0, 0) } else { (above, made.address(n + 1)) };
        }
    }
    let bp = Some(STACK + 8 * WORDS - 16);
    let registers = Registers { ip: made.address(0), sp: STACK, bp };
    let start = Start { registers, exact: true };
    let entries: Vec<AtomicU64> = (0..ENTRIES).map(|_| AtomicU64::new(0)).collect();
    let cache = if cached == "known" { Cache { entries: &entries } } else { Cache::default() };
    let tables = Tables { native: native.view(), managed: managed.view(), hijack: 0, cache };
    let mut frames = Frames::default();
    walk(&tables, bounds(start, &stack), start, &[], reader(&stack), no_prologue, &mut frames);
    let mut times_ns = Vec::new();
    for _ in 0..times {
        frames.clear();
        let begin = Instant::now();
        black_box(measured(black_box(&tables), start, &stack, &mut frames));
        times_ns.push(begin.elapsed().as_nanos());
    }
    times_ns.sort_unstable();
    let nanos = times_ns.get(times_ns.len() / 2).copied().unwrap_or(0);
    if frames.pushed() as u64 != count {
        return Err(format!("{} frames of {count} were walked", frames.pushed()).into());
    }
    println!("{nanos}");
    Ok(())
}
