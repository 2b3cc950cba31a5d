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

use signal::record::ThreadRef;
use sys::proc::Blocked;
use sys::{alternate_stack, clock, disposition};

use super::{Change, Registry, Threads};
use crate::cpu::Watch;
use crate::event::Event;

/// Between two looks at a thread, in nanoseconds.
const LOOK_NS: u64 = 5_000_000;
/// How long a thread is waited for, in nanoseconds.
const PATIENCE_NS: u64 = 100_000_000;
/// The kernel's number of the system call `futex`.
const FUTEX: u32 = 202;

/// A thread whose room nobody has seen yet.
#[derive(Clone, Copy, Debug)]
pub struct Unseen {
    thread: ThreadRef,
    tid: u32,
    since_ns: u64,
    next_ns: u64,
    is_sampled: bool,
}

impl Registry {
    /// Notes that a thread's room is to be seen to before it is sampled.
    pub(super) fn see_to_room(&self, threads: &mut Threads, thread: ThreadRef, tid: u32) {
        let Some(record) = self.shared.records.get(thread.index as usize) else { return };
        record.want_room(alternate_stack::SPARE_BYTES, 0);
        let since_ns = clock::monotonic_ns();
        threads.unseen.push(Unseen { thread, tid, since_ns, next_ns: since_ns, is_sampled: false });
    }

    /// Looks after threads whose room has not been seen yet; for the ticker. Returns whether there
    /// are any.
    pub fn look_for_room(&self) -> bool {
        let mut threads = self.lock();
        if threads.unseen.is_empty() {
            return false;
        }
        let now_ns = clock::monotonic_ns();
        let mut unseen = std::mem::take(&mut threads.unseen);
        unseen.retain_mut(|one| !self.is_seen(&mut threads, one, now_ns));
        threads.unseen = unseen;
        !threads.unseen.is_empty()
    }

    /// Whether a thread has room, or is no longer tracked.
    fn is_seen(&self, threads: &mut Threads, one: &mut Unseen, now_ns: u64) -> bool {
        let Unseen { thread, tid, since_ns, next_ns, .. } = *one;
        let Some(record) = self.shared.records.get(thread.index as usize) else { return true };
        if !record.is(thread.generation, tid) {
            return true;
        }
        let room = record.has_room();
        let is_late = now_ns.saturating_sub(since_ns) > PATIENCE_NS;
        if !one.is_sampled && (room == Some(true) || is_late) {
            one.is_sampled = true;
            self.begin_to_sample(threads, thread, tid);
        }
        if room == Some(false)
            && record.wanted_room().is_some_and(|(spare, _)| spare == 0)
            && let Some(spare) = alternate_stack::spare()
        {
            record.want_room(alternate_stack::SPARE_BYTES, spare);
        }
        if now_ns >= next_ns && room != Some(true) {
            one.next_ns = now_ns.saturating_add(LOOK_NS);
            if let Some(Blocked::At { call: Some(FUTEX), .. }) = Blocked::read(tid) {
                // If it has ended, or its queue is full, it is looked at again.
                let _again = disposition::send(tid, threads.cpu.signal(), thread.to_value());
            }
        }
        room == Some(true)
    }

    fn begin_to_sample(&self, threads: &mut Threads, thread: ThreadRef, tid: u32) {
        let Some(record) = self.shared.records.get(thread.index as usize) else { return };
        // Else the first sample would carry it all.
        if let Some(now_ns) = clock::thread_cpu_ns(tid) {
            let cpu_ns = record.take_cpu_ns(now_ns);
            self.inbox.post(Event::Unsampled { thread: Some(thread), cpu_ns });
        }
        let watch = self.watch(threads, thread, tid, true);
        if matches!(watch, Watch::Scanned) {
            threads.changes.push(Change::Scanned { thread, tid });
        }
        threads.watches.insert(thread, watch);
    }
}
