//! The timeline: what each thread did when, as wide as a picture of it is.

use serde_json::{Value as Json, json};

use super::columns::{Columns, Source};
use super::selection::within;
use model::ThreadState;

/// Lanes that are sent; of more threads, those that did most.
const LANES_MAX: usize = 60;
/// Columns of a picture.
const SLOTS_MAX: usize = 2_000;
const STATES: usize = ThreadState::ALL.len() + 1;
/// How much a state weighs against another in one slot: what a thread did must not vanish in what
/// it waited for before.
const BUSY_WEIGHT: u32 = 4;

/// What of the time is drawn, and of which sources.
pub struct Window<'a> {
    /// Microseconds since 1970.
    pub from: u64,
    pub to: u64,
    pub slots: usize,
    pub sources: &'a dyn Fn(usize, &Source) -> bool,
}

/// The lanes in that time: for each thread runs of slots with one state, as `[slots, state, …]`,
/// state 0 for nothing.
pub fn lanes(columns: &Columns, window: &Window<'_>) -> Json {
    let threads = columns.threads.list.len();
    let busy = busy(columns, window);
    let mut order: Vec<usize> = (0..threads).filter(|thread| busy[*thread] > 0).collect();
    let all = order.len();
    order.sort_by(|a, b| busy[*b].cmp(&busy[*a]).then(a.cmp(b)));
    order.truncate(LANES_MAX);
    let mut slots = Slots::new(window, threads, &order);
    for source in shown(columns, window) {
        slots.add(columns, source);
    }
    let lanes: Vec<Json> = order
        .iter()
        .enumerate()
        .map(|(lane, thread)| {
            let name = &columns.threads.list[*thread];
            json!({ "thread": thread, "name": name, "runs": slots.runs(lane) })
        })
        .collect();
    json!({ "from": window.from, "to": window.to, "slots": slots.count, "threads": all,
            "lanes": lanes })
}

fn shown<'a>(columns: &'a Columns, window: &Window<'_>) -> impl Iterator<Item = &'a Source> {
    let is_in = |source: &Source| source.begin_us < window.to && source.end_us() > window.from;
    let all = columns.sources.iter().enumerate();
    all.filter(move |(at, source)| is_in(source) && (window.sources)(*at, source)).map(|(_, s)| s)
}

/// Nanoseconds in which threads did something, and a little for those that only waited.
fn busy(columns: &Columns, window: &Window<'_>) -> Vec<u64> {
    let rows = &columns.rows;
    let mut busy = vec![0_u64; columns.threads.list.len()];
    for source in shown(columns, window) {
        for row in source.rows.clone() {
            let [cpu, wall, gc] = [0, 1, 2].map(|value: usize| rows.values[value][row]);
            // Pauses are of the whole program.
            if gc > 0 && cpu == 0 && wall == 0 {
                continue;
            }
            let worked = if rows.idle[row] { 0 } else { wall };
            let sum = &mut busy[rows.thread[row] as usize];
            *sum = sum.saturating_add(cpu).saturating_add(worked / 1_000).saturating_add(1);
        }
    }
    busy
}

/// Microseconds by lane, slot and state.
struct Slots {
    /// By thread: its lane, or [`NO_LANE`].
    lane_of: Vec<usize>,
    count: usize,
    /// Where each slot begins, in microseconds since 1970; and where the last one ends.
    edges: Vec<u64>,
    us: Vec<u32>,
}

/// What is not drawn: no thread's lane, no row's place.
const NO_LANE: usize = usize::MAX;

impl Slots {
    fn new(window: &Window<'_>, threads: usize, order: &[usize]) -> Self {
        let count = window.slots.clamp(1, SLOTS_MAX);
        let mut lane_of = vec![NO_LANE; threads];
        for (lane, thread) in order.iter().enumerate() {
            lane_of[*thread] = lane;
        }
        let length = u128::from(window.to.saturating_sub(window.from));
        let edge = |slot: usize| {
            let us = u64::try_from(length * slot as u128 / count as u128);
            window.from.saturating_add(us.unwrap_or_default())
        };
        let edges = (0..=count).map(edge).collect();
        let us = vec![0; order.len() * count * STATES];
        Self { lane_of, count, edges, us }
    }

    /// Where a thread's time in a state is summed up, in the first slot; none if it has no lane.
    fn place(&self, thread: usize, state: u8) -> usize {
        match self.lane_of[thread] {
            NO_LANE => NO_LANE,
            lane => lane * self.count * STATES + usize::from(state),
        }
    }

    fn add(&mut self, columns: &Columns, source: &Source) {
        let (rows, moments) = (&columns.rows, &columns.moments);
        if source.moments.is_empty() {
            return self.add_whole(columns, source);
        }
        // Found once a row, and not once a moment: there may be ten million.
        let place = |row: usize| self.place(rows.thread[row] as usize, rows.state[row]);
        let places: Vec<usize> = source.rows.clone().map(place).collect();
        let place = |at: usize| places[moments.row[at] as usize - source.rows.start];
        let all = within(columns, source, (self.edges[0], self.edges[self.count]));
        let mut next = all.start;
        // They are sorted by their beginnings, and nearly all lie within one slot.
        for slot in self.slot_of(source.begin_us)..self.count {
            let (from, to) = (self.edges[slot], self.edges[slot + 1]);
            let begins = &moments.begin_us[next..all.end];
            let last = next + begins.partition_point(|begin| *begin < to);
            for at in next..last {
                let (place, us) = (place(at), moments.duration_us[at]);
                let begin = moments.begin_us[at];
                let end = begin.saturating_add(us.into());
                if place == NO_LANE {
                    continue;
                }
                if begin >= from && end <= to {
                    let sum = &mut self.us[place + slot * STATES];
                    *sum = sum.saturating_add(us);
                } else {
                    self.put(place, begin, end);
                }
            }
            next = last;
            if next == all.end {
                break;
            }
        }
    }

    /// The slot in which a time is; of those before all, the first.
    fn slot_of(&self, time: u64) -> usize {
        self.edges.partition_point(|edge| *edge <= time).saturating_sub(1)
    }

    /// Of a source that doesn't say when: each thread's states, one after the other, each as long
    /// as it was; all of them as long as the source, if they were longer.
    fn add_whole(&mut self, columns: &Columns, source: &Source) {
        let rows = &columns.rows;
        let mut sums = vec![[0_u64; STATES]; self.lane_of.len()];
        for row in source.rows.clone() {
            let ns = rows.values[1][row].max(rows.values[0][row]);
            sums[rows.thread[row] as usize][usize::from(rows.state[row])] += ns / 1_000;
        }
        for (thread, sums) in sums.iter().enumerate() {
            if self.lane_of[thread] == NO_LANE {
                continue;
            }
            let whole: u64 = sums.iter().sum();
            let shrunk = source.duration_us as f64 / whole.max(source.duration_us).max(1) as f64;
            let mut begin = source.begin_us;
            for (state, us) in (0_u8..).zip(sums) {
                let end = begin.saturating_add((*us as f64 * shrunk) as u64);
                self.put(self.place(thread, state), begin, end);
                begin = end;
            }
        }
    }

    /// Adds a stretch of time at a place.
    fn put(&mut self, place: usize, begin: u64, end: u64) {
        for slot in self.slot_of(begin)..self.count {
            let (from, to) = (self.edges[slot], self.edges[slot + 1]);
            if from >= end {
                break;
            }
            let us = end.min(to).saturating_sub(begin.max(from));
            let sum = &mut self.us[place + slot * STATES];
            *sum = sum.saturating_add(u32::try_from(us).unwrap_or(u32::MAX));
        }
    }

    fn runs(&self, lane: usize) -> Vec<u32> {
        let mut runs: Vec<u32> = Vec::new();
        for slot in 0..self.count {
            let at = (lane * self.count + slot) * STATES;
            let state = strongest(&self.us[at..at + STATES]);
            match runs.as_mut_slice() {
                [.., slots, last] if *last == state => *slots += 1,
                _ => runs.extend([1, state]),
            }
        }
        runs
    }
}

/// The state that a slot is drawn in; 0 is none.
fn strongest(us: &[u32]) -> u32 {
    let weight = |state: usize, us: u32| {
        let waits = state.checked_sub(1).and_then(|at| ThreadState::ALL.get(at));
        match waits {
            Some(ThreadState::Sleeping | ThreadState::Waiting | ThreadState::Io) => us,
            _ => us.saturating_mul(BUSY_WEIGHT),
        }
    };
    let all = (0_u32..).zip(us).filter(|(_, us)| **us > 0);
    let of = |(state, us): &(u32, &u32)| weight(*state as usize, **us);
    // CPU samples of others have no state: they ran.
    all.max_by_key(of).map_or(0, |(state, _)| if state == 0 { RUNNING } else { state })
}

/// How rows have the state of a thread that runs.
const RUNNING: u32 = 1;
