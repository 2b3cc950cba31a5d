//! Room for signals within signals, in threads that were there before the profiler.
//!
//! A thread that the runtime tells of as it starts sees to its room itself, before it gets any
//! signal (`sys::alternate_stack`). One that is there already can't be asked to. It takes a larger
//! alternate stack out of a signal's context, as the handler returns; but that first signal could
//! already be the one that finds no room, in a thread that handles a fault just then. So it is sent
//! while the thread waits in a futex, where it handles none, and where the runtime and the C
//! library go on waiting. A thread that computes all the time, and never waits, gets its timer
//! after a moment all the same: that it throws a null reference at just that instant has to be
//! risked.

use model::limits::{ROOM_DISTANCE_NS_MAX, SPARE_MAPPINGS_SHARE};
use signal::record::{Record, ThreadRef};
use sys::proc::Blocked;
use sys::stacks::mappings_max;
use sys::{alternate_stack, clock, disposition};

use super::{Change, Registry, Threads};
use crate::cpu::Watch;
use crate::event::Event;

/// Between two looks at a thread that is not sampled yet, in nanoseconds.
const LOOK_NS: u64 = 5_000_000;
/// How long a thread is waited for before it is sampled, in nanoseconds.
const PATIENCE_NS: u64 = 100_000_000;

/// A thread whose room nobody has seen yet.
#[derive(Clone, Copy, Debug)]
pub struct Unseen {
    thread: ThreadRef,
    tid: u32,
    since_ns: u64,
    next_ns: u64,
    /// Its CPU clock when it was last seen to wait elsewhere than in a futex.
    elsewhere_cpu_ns: Option<u64>,
    is_sampled: bool,
}

/// The threads whose room nobody has seen yet.
#[derive(Debug, Default)]
pub struct Rooms {
    unseen: Vec<Unseen>,
    /// When the next of them is to be looked at, at the earliest.
    next_ns: u64,
    /// Whether some of them are not sampled yet.
    waits: bool,
    /// How many larger stacks may still be made.
    spares: usize,
}

impl Rooms {
    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.unseen.len()
    }

    /// When the first of them is looked at again.
    #[cfg(test)]
    pub fn next_look_ns(&self) -> u64 {
        self.unseen[0].next_ns
    }

    /// Has the first of them looked at the next time.
    #[cfg(test)]
    pub fn look_now(&mut self) {
        self.unseen[0].next_ns = 0;
        self.next_ns = 0;
    }

    /// Says how many larger stacks may be made, in a process that has so many mappings: the kernel
    /// allows only so many, and a host that needs more of them dies.
    pub fn allow_spares(&mut self, mappings: usize) {
        let left = mappings_max().map_or(0, |max| max.saturating_sub(mappings));
        let each = SPARE_MAPPINGS_SHARE.saturating_mul(alternate_stack::SPARE_MAPPINGS);
        self.spares = left.checked_div(each).unwrap_or(0);
    }

    /// How many larger stacks may still be made.
    #[cfg(test)]
    pub fn spares(&self) -> usize {
        self.spares
    }

    fn add(&mut self, one: Unseen) {
        self.waits = true;
        self.next_ns = self.next_ns.min(one.next_ns);
        self.unseen.push(one);
    }

    /// A larger stack, if there may be one.
    fn take_spare(&mut self) -> Option<u64> {
        self.spares = self.spares.checked_sub(1)?;
        alternate_stack::spare()
    }
}

impl Unseen {
    /// Whether it waits in a futex. Who has not run since waits where it did.
    fn is_in_futex(&mut self) -> bool {
        let cpu_ns = clock::thread_cpu_ns(self.tid);
        if cpu_ns.is_some() && cpu_ns == self.elsewhere_cpu_ns {
            return false;
        }
        let blocked = Blocked::read(self.tid);
        let is_in_futex = blocked.is_some_and(|blocked| blocked.is_in_futex());
        let is_elsewhere = !is_in_futex && matches!(blocked, Some(Blocked::At { .. }));
        self.elsewhere_cpu_ns = cpu_ns.filter(|_| is_elsewhere);
        is_in_futex
    }
}

impl Registry {
    /// Notes that a thread's room is to be seen to before it is sampled.
    pub(super) fn see_to_room(&self, threads: &mut Threads, thread: ThreadRef, tid: u32) {
        let Some(record) = self.shared.records.get(thread.index as usize) else { return };
        record.want_room(alternate_stack::SPARE_BYTES, 0);
        let since_ns = clock::monotonic_ns();
        threads.rooms.add(Unseen {
            thread,
            tid,
            since_ns,
            next_ns: since_ns,
            elsewhere_cpu_ns: None,
            is_sampled: false,
        });
    }

    /// Looks after threads whose room has not been seen yet; for the ticker. Returns whether some
    /// of them are not sampled yet.
    pub fn look_for_room(&self) -> bool {
        let now_ns = clock::monotonic_ns();
        // Not under the lock, for which new threads would wait: each look reads a file.
        let mut unseen = {
            let rooms = &mut self.lock().rooms;
            if rooms.unseen.is_empty() || rooms.next_ns > now_ns {
                return rooms.waits;
            }
            rooms.next_ns = u64::MAX;
            std::mem::take(&mut rooms.unseen)
        };
        unseen.retain_mut(|one| one.next_ns > now_ns || !self.is_seen(one, now_ns));
        let waits = unseen.iter().any(|one| !one.is_sampled);
        let rooms = &mut self.lock().rooms;
        let next_ns = unseen.iter().map(|one| one.next_ns).min().unwrap_or(u64::MAX);
        rooms.next_ns = rooms.next_ns.min(next_ns);
        rooms.unseen.append(&mut unseen);
        // Who has come meanwhile is sampled no sooner than at the next look.
        rooms.waits = waits || rooms.next_ns <= now_ns;
        rooms.waits
    }

    /// Whether a thread has room or can't have any, or is no longer tracked.
    fn is_seen(&self, one: &mut Unseen, now_ns: u64) -> bool {
        let Some(record) = self.shared.records.get(one.thread.index as usize) else { return true };
        if !record.is(one.thread.generation, one.tid) {
            return true;
        }
        let mut is_settled = record.has_room() == Some(true);
        let lacks_spare = || record.wanted_room().is_some_and(|(spare, _)| spare == 0);
        if record.has_room() == Some(false) && lacks_spare() {
            match self.lock().rooms.take_spare() {
                Some(spare) => record.want_room(alternate_stack::SPARE_BYTES, spare),
                None => is_settled = true,
            }
        }
        let age_ns = now_ns.saturating_sub(one.since_ns);
        if !one.is_sampled && (is_settled || age_ns > PATIENCE_NS) {
            one.is_sampled = true;
            self.begin_to_sample(record, one.thread, one.tid);
        }
        if is_settled {
            return true;
        }
        // A thread that never waits in a futex, such as one that accepts connections, is looked at
        // ever less often.
        let distance_ns = if one.is_sampled { age_ns.min(ROOM_DISTANCE_NS_MAX) } else { LOOK_NS };
        one.next_ns = now_ns.saturating_add(distance_ns);
        if one.is_in_futex() {
            let signal = self.lock().cpu.signal();
            // If it has ended, or its queue is full, it is looked at again.
            let _again = disposition::send(one.tid, signal, one.thread.to_value());
        }
        false
    }

    fn begin_to_sample(&self, record: &Record, thread: ThreadRef, tid: u32) {
        let mut threads = self.lock();
        // It may have ended meanwhile.
        if threads.stopped || !record.is(thread.generation, tid) {
            return;
        }
        // Else the first sample would carry it all.
        if let Some(now_ns) = clock::thread_cpu_ns(tid) {
            let cpu_ns = record.take_cpu_ns(now_ns);
            self.inbox.post(Event::Unsampled { thread: Some(thread), cpu_ns });
        }
        let watch = self.watch(&threads, thread, tid, true);
        if matches!(watch, Watch::Scanned) {
            threads.changes.push(Change::Scanned { thread, tid });
        }
        threads.watches.insert(thread, watch);
    }
}
