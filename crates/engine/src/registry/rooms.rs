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

use model::limits::WALL_DISTANCE_NS_MAX;
use signal::record::{Record, ThreadRef};
use sys::proc::Blocked;
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
    is_sampled: bool,
}

#[cfg(test)]
impl Unseen {
    /// When it is looked at again.
    pub fn next_look_ns(&self) -> u64 {
        self.next_ns
    }

    /// Has it looked at the next time.
    pub fn look_now(&mut self) {
        self.next_ns = 0;
    }
}

impl Registry {
    /// Notes that a thread's room is to be seen to before it is sampled.
    pub(super) fn see_to_room(&self, threads: &mut Threads, thread: ThreadRef, tid: u32) {
        let Some(record) = self.shared.records.get(thread.index as usize) else { return };
        record.want_room(alternate_stack::SPARE_BYTES, 0);
        let since_ns = clock::monotonic_ns();
        threads.unseen.push(Unseen { thread, tid, since_ns, next_ns: since_ns, is_sampled: false });
    }

    /// Looks after threads whose room has not been seen yet; for the ticker. Returns whether some
    /// of them are not sampled yet.
    pub fn look_for_room(&self) -> bool {
        // Not under the lock, for which new threads would wait: each look reads a file.
        let mut unseen = std::mem::take(&mut self.lock().unseen);
        if unseen.is_empty() {
            return false;
        }
        let now_ns = clock::monotonic_ns();
        unseen.retain_mut(|one| one.next_ns > now_ns || !self.is_seen(one, now_ns));
        let waits = unseen.iter().any(|one| !one.is_sampled);
        self.lock().unseen.append(&mut unseen);
        waits
    }

    /// Whether a thread has room, or is no longer tracked.
    fn is_seen(&self, one: &mut Unseen, now_ns: u64) -> bool {
        let Some(record) = self.shared.records.get(one.thread.index as usize) else { return true };
        if !record.is(one.thread.generation, one.tid) {
            return true;
        }
        let has_room = record.has_room();
        let age_ns = now_ns.saturating_sub(one.since_ns);
        if !one.is_sampled && (has_room == Some(true) || age_ns > PATIENCE_NS) {
            one.is_sampled = true;
            self.begin_to_sample(record, one.thread, one.tid);
        }
        if has_room == Some(true) {
            return true;
        }
        if has_room == Some(false) && record.wanted_room().is_some_and(|(spare, _)| spare == 0) {
            let spare = alternate_stack::spare().unwrap_or(0);
            record.want_room(alternate_stack::SPARE_BYTES, spare);
        }
        // A thread that never waits in a futex, such as one that accepts connections, is looked at
        // ever less often.
        let distance_ns = if one.is_sampled { age_ns.min(WALL_DISTANCE_NS_MAX) } else { LOOK_NS };
        one.next_ns = now_ns.saturating_add(distance_ns);
        if Blocked::read(one.tid).is_some_and(|blocked| blocked.is_in_futex()) {
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
