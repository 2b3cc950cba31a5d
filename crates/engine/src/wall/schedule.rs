//! When each thread is visited next: those that may move soon at each tick, a few of them; those
//! that have rested for long in rounds, which are rare, so that many of them cost little.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::limits::{RESTING_A_ROUND_MAX, RESTING_DISTANCE_NS_MIN, RESTING_ROUND_NS};
use signal::record::ThreadRef;

type Queue = BinaryHeap<Reverse<(u64, ThreadRef)>>;

/// The threads, by when they are due, in monotonic nanoseconds.
#[derive(Debug, Default)]
pub struct Schedule {
    moving: Queue,
    resting: Queue,
    /// When the next round of those that rest begins.
    round_ns: u64,
    /// How many more are looked at in this round.
    places: usize,
}

impl Schedule {
    /// A thread is due at that time; if that is far enough from `now_ns` for it to rest, then in
    /// the next round.
    pub fn put(&mut self, thread: ThreadRef, now_ns: u64, due_ns: u64) {
        let rests = due_ns.saturating_sub(now_ns) >= RESTING_DISTANCE_NS_MIN;
        let queue = if rests { &mut self.resting } else { &mut self.moving };
        queue.push(Reverse((due_ns, thread)));
    }

    /// The next of the threads that may move, if it is due.
    pub fn pop_moving(&mut self, now_ns: u64) -> Option<ThreadRef> {
        pop(&mut self.moving, now_ns)
    }

    /// The next of those that rest, if it is due, and its round has come.
    pub fn pop_resting(&mut self, now_ns: u64) -> Option<ThreadRef> {
        if now_ns >= self.round_ns {
            self.round_ns = now_ns.saturating_add(RESTING_ROUND_NS);
            self.places = RESTING_A_ROUND_MAX;
        }
        self.places.checked_sub(1)?;
        let thread = pop(&mut self.resting, now_ns)?;
        self.places = self.places.saturating_sub(1);
        Some(thread)
    }

    /// When somebody is due next.
    pub fn next_due_ns(&self) -> Option<u64> {
        let first = |queue: &Queue| queue.peek().map(|Reverse((due_ns, _))| *due_ns);
        let round_ns = first(&self.resting).map(|due_ns| due_ns.max(self.round_ns));
        [first(&self.moving), round_ns].into_iter().flatten().min()
    }

    /// How many there are, those that have ended and were not due since among them.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.moving.len().saturating_add(self.resting.len())
    }
}

fn pop(queue: &mut Queue, now_ns: u64) -> Option<ThreadRef> {
    let is_due = queue.peek().is_some_and(|Reverse((due_ns, _))| *due_ns <= now_ns);
    is_due.then(|| queue.pop()).flatten().map(|Reverse((_, thread))| thread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::thread;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn who_rests_is_looked_at_in_rounds_however_many_there_are() {
        let mut schedule = Schedule::default();
        let mut now_ns = SECOND_NS;
        for index in 0..10_000 {
            schedule.put(thread(index, 1), now_ns, now_ns + RESTING_ROUND_NS);
        }
        schedule.put(thread(20_000, 1), now_ns, now_ns + RESTING_DISTANCE_NS_MIN - 1);
        let end_ns = now_ns + 10 * SECOND_NS;
        let (mut wakes, mut seen) = (0_u64, 0_u64);
        while let Some(due_ns) = schedule.next_due_ns().filter(|due_ns| *due_ns < end_ns) {
            assert!(due_ns > now_ns || wakes == 0, "time passes between two wakes");
            now_ns = now_ns.max(due_ns);
            wakes += 1;
            while let Some(thread) = schedule.pop_moving(now_ns) {
                assert_eq!(thread.index, 20_000, "who may move waits for nobody");
            }
            while let Some(thread) = schedule.pop_resting(now_ns) {
                seen += 1;
                schedule.put(thread, now_ns, now_ns + SECOND_NS);
            }
        }
        let rounds = 10 * SECOND_NS / RESTING_ROUND_NS;
        assert!(wakes <= rounds + 1, "{wakes} wakes for {rounds} rounds");
        assert_eq!(seen, (wakes - 1) * RESTING_A_ROUND_MAX as u64);
        assert_eq!(schedule.len(), 10_000);
    }
}
