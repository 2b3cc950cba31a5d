//! Which record a thread has: any that is free, or the one that its tracer writes to.

use model::limits::THREADS_MAX;
use sys::proc::Stat;

use super::Threads;

/// The record of a thread that is not tracked while the profiler is stopped, but whose tracer
/// writes to it all the time: the thread gets the same one again.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    index: u32,
    /// When its thread began, in the kernel's ticks since boot.
    start_ticks: u64,
}

impl Threads {
    /// A record is free, unless a tracer still writes to it.
    pub(super) fn give_back(&mut self, tid: u32, index: u32) {
        let lives = self.stopped && self.traced.contains(&tid);
        if let Some(stat) = lives.then(|| Stat::read(tid)).flatten() {
            self.homes.insert(tid, Home { index, start_ticks: stat.start_ticks });
            return;
        }
        self.traced.remove(&tid);
        self.free.push(index);
    }

    pub(super) fn leave_homes_of_the_dead(&mut self) {
        let lives = |tid: u32, home: &Home| {
            Stat::read(tid).is_some_and(|stat| stat.start_ticks == home.start_ticks)
        };
        let dead = self.homes.extract_if(|tid, home| !lives(*tid, home));
        for (tid, home) in dead {
            self.traced.remove(&tid);
            self.free.push(home.index);
        }
    }

    /// A record for a thread: its own if it has a home, else any that is free.
    pub(super) fn take_index(&mut self, tid: u32) -> Option<u32> {
        let home = self.homes.remove(&tid).map(|home| home.index);
        if let Some(index) = home.or_else(|| self.free.pop()) {
            return Some(index);
        }
        let index = self.used;
        ((index as usize) < THREADS_MAX).then(|| {
            self.used = index.saturating_add(1);
            index
        })
    }
}
