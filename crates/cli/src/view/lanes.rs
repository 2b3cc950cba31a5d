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
    let mut lanes = Slots::new(window, threads, &order);
    for source in shown(columns, window) {
        lanes.add(columns, source, window);
    }
    let lanes: Vec<Json> = order
        .iter()
        .enumerate()
        .map(|(lane, thread)| json!({ "thread": thread, "runs": lanes.runs(lane) }))
        .collect();
    json!({ "from": window.from, "to": window.to, "slots": window.slots, "threads": all,
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
    lane_of: Vec<u32>,
    slots: usize,
    us: Vec<u32>,
}

impl Slots {
    fn new(window: &Window<'_>, threads: usize, order: &[usize]) -> Self {
        let slots = window.slots.clamp(1, SLOTS_MAX);
        let mut lane_of = vec![u32::MAX; threads];
        for (lane, thread) in (0..).zip(order) {
            lane_of[*thread] = lane;
        }
        Self { lane_of, slots, us: vec![0; order.len() * slots * STATES] }
    }

    fn add(&mut self, columns: &Columns, source: &Source, window: &Window<'_>) {
        let (rows, moments) = (&columns.rows, &columns.moments);
        if source.moments.is_empty() {
            return self.add_whole(columns, source, window);
        }
        for at in within(columns, source, (window.from, window.to)) {
            let row = moments.row[at] as usize;
            let lane = self.lane_of[rows.thread[row] as usize];
            if lane != u32::MAX {
                let begin = moments.begin_us[at];
                let end = begin.saturating_add(moments.duration_us[at].into());
                self.put(window, lane, rows.state[row], (begin, end));
            }
        }
    }

    /// Of a source that doesn't say when: each thread's states, one after the other, each as long
    /// as it was.
    fn add_whole(&mut self, columns: &Columns, source: &Source, window: &Window<'_>) {
        let rows = &columns.rows;
        let mut sums = vec![[0_u64; STATES]; self.lane_of.len()];
        for row in source.rows.clone() {
            let ns = rows.values[1][row].max(rows.values[0][row]);
            sums[rows.thread[row] as usize][usize::from(rows.state[row])] += ns / 1_000;
        }
        for (thread, sums) in sums.iter().enumerate() {
            let lane = self.lane_of[thread];
            let whole: u64 = sums.iter().sum();
            if lane == u32::MAX || whole == 0 {
                continue;
            }
            let mut begin = source.begin_us;
            for (state, us) in (0_u8..).zip(sums) {
                let length = source.duration_us.min(whole.max(source.duration_us));
                let end = begin
                    + u64::try_from(
                        u128::from(length) * u128::from(*us)
                            / u128::from(whole.max(source.duration_us)),
                    )
                    .unwrap_or(0);
                self.put(window, lane, state, (begin, end));
                begin = end;
            }
        }
    }

    fn put(&mut self, window: &Window<'_>, lane: u32, state: u8, (begin, end): (u64, u64)) {
        let width = (window.to - window.from).max(1) as f64 / self.slots as f64;
        let place = |time: u64| time.saturating_sub(window.from) as f64 / width;
        let (begin, end) = (place(begin), place(end.min(window.to)).min(self.slots as f64));
        let first = begin as usize;
        let base = lane as usize * self.slots;
        let mut slot = first;
        while slot < self.slots && (slot as f64) < end {
            let part = (end.min(slot as f64 + 1.0) - begin.max(slot as f64)).max(0.0);
            let us = &mut self.us[(base + slot) * STATES + usize::from(state)];
            *us = us.saturating_add((part * width).ceil() as u32);
            slot += 1;
        }
    }

    fn runs(&self, lane: usize) -> Vec<u32> {
        let mut runs: Vec<u32> = Vec::new();
        for slot in 0..self.slots {
            let at = (lane * self.slots + slot) * STATES;
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
