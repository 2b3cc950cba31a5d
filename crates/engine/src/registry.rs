//! The managed thread list: who is tracked, under which record, and what keeps sampling it.
//!
//! Callbacks come on the runtime's threads, mostly on the very thread they speak of, and in any
//! order: a name may come before its thread. Entries are keyed by the runtime's thread number and
//! made by whichever callback comes first.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Loss;
use model::limits::{THREAD_NAME_BYTES_MAX, THREAD_START_CPU_NS_MAX, THREADS_MAX};
use rustc_hash::{FxHashMap, FxHashSet};
use signal::context::Context;
use signal::handler::Shared;
use signal::record::ThreadRef;
use sys::{alternate_stack, clock, thread};

use crate::cpu::{CpuSampler, Watch};
use crate::event::{Event, Inbox};

/// The runtime's number for a managed thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ManagedId(pub usize);

/// What the ticker has to know of threads that come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A thread is tracked from now on.
    Started {
        /// Which.
        thread: ThreadRef,
        /// The kernel's id.
        tid: u32,
        /// When, in monotonic nanoseconds.
        time_ns: u64,
        /// Its CPU clock then.
        cpu_ns: u64,
        /// Whether it is the scan sampler's.
        scanned: bool,
    },
    /// A tracer writes the thread's context from now on.
    Traced {
        /// Which.
        thread: ThreadRef,
    },
    /// A thread is no longer tracked.
    Ended {
        /// Which.
        thread: ThreadRef,
        /// When, in monotonic nanoseconds.
        time_ns: u64,
        /// Its CPU clock then.
        cpu_ns: u64,
    },
}

/// A thread that has a record.
struct Tracked {
    thread: ThreadRef,
    tid: u32,
}

#[derive(Default)]
struct Entry {
    name: Option<String>,
    tracked: Option<Tracked>,
}

#[derive(Default)]
struct Threads {
    entries: FxHashMap<ManagedId, Entry>,
    /// What samples each tracked thread.
    watches: FxHashMap<ThreadRef, Watch>,
    /// The kernel's ids of threads whose context a tracer writes.
    traced: FxHashSet<u32>,
    free: Vec<u32>,
    used: u32,
    changes: Vec<Change>,
    stopped: bool,
}

/// The list.
pub struct Registry {
    shared: &'static Shared,
    inbox: Arc<Inbox>,
    cpu: CpuSampler,
    threads: Mutex<Threads>,
}

impl Registry {
    /// An empty list.
    #[must_use]
    pub fn new(shared: &'static Shared, inbox: Arc<Inbox>, cpu: CpuSampler) -> Self {
        Self { shared, inbox, cpu, threads: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        // Every change leaves the list usable, so what a panicked holder left is too.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread exists. Its system thread may not be known yet.
    pub fn created(&self, id: ManagedId) {
        let mut threads = self.lock();
        if !threads.stopped {
            threads.entries.entry(id).or_default();
        }
    }

    /// A thread's system thread is known: it is tracked from now on.
    pub fn assigned(&self, id: ManagedId, tid: u32) {
        self.track(id, tid);
        self.cpu.say_refusal();
    }

    fn track(&self, id: ManagedId, tid: u32) {
        let own = tid == thread::own_id();
        // Asking for a stack may read a file, hence before the lock. Another thread's stack is not
        // known: its walks end at once and say so.
        let stack = if own { thread::own_stack() } else { None };
        // A thread without that room must get no signal: one during a fault would kill the process.
        // Another thread's signal stack can be neither seen nor changed; it is taken as it is.
        let room = !own || alternate_stack::make_room();
        let (stack_start, stack_end) = stack.map_or((0, 0), |range| (range.start, range.end));
        let cpu_ns = clock::thread_cpu_ns(tid).unwrap_or(0);
        let time_ns = clock::monotonic_ns();
        let mut threads = self.lock();
        if threads.stopped {
            return;
        }
        let known = threads.entries.get(&id).and_then(|entry| entry.tracked.as_ref());
        // A thread that another one told of is told of again by itself, which knows its stack.
        let learns_stack = stack.is_some() && known.is_some_and(|known| !self.has_stack(known));
        if known.is_some_and(|known| known.tid == tid) && !learns_stack {
            return;
        }
        let is_traced = threads.traced.contains(&tid);
        // What is ended here is taken again just below: a thread that is told of twice keeps its
        // record, and so the context that a tracer writes to.
        self.end(&mut threads, id);
        let Some(index) = threads.take_index() else {
            self.shared.count(Loss::TooManyThreads);
            return;
        };
        let Some(record) = self.shared.records.get(index as usize) else { return };
        // A thread's own start is its own work; a thread that has done more before the runtime knew
        // it did that for somebody else.
        let seen = if cpu_ns <= THREAD_START_CPU_NS_MAX { 0 } else { cpu_ns };
        let generation = record.open(tid, stack_start, stack_end, seen);
        let thread = ThreadRef { index, generation };
        self.shared.set_record_of(tid, index);
        let watch = if room {
            self.cpu.watch(thread, tid, self.shared)
        } else {
            self.shared.count(Loss::NoTimer);
            Watch::Off
        };
        let scanned = matches!(watch, Watch::Scanned);
        threads.changes.push(Change::Started { thread, tid, time_ns, cpu_ns, scanned });
        if is_traced {
            threads.traced.insert(tid);
            threads.changes.push(Change::Traced { thread });
        }
        self.inbox.post(Event::Started { thread, tid });
        let entry = threads.entries.entry(id).or_default();
        if let Some(name) = &entry.name {
            self.inbox.post(Event::Named { thread, name: name.clone() });
        }
        entry.tracked = Some(Tracked { thread, tid });
        threads.watches.insert(thread, watch);
    }

    fn has_stack(&self, tracked: &Tracked) -> bool {
        let record = self.shared.records.get(tracked.thread.index as usize);
        record.is_some_and(|record| record.stack() != (0, 0))
    }

    /// A thread has a name.
    pub fn named(&self, id: ManagedId, mut name: String) {
        let end = name.floor_char_boundary(THREAD_NAME_BYTES_MAX);
        name.truncate(end);
        let mut threads = self.lock();
        if threads.stopped {
            return;
        }
        let entry = threads.entries.entry(id).or_default();
        if let Some(tracked) = &entry.tracked {
            self.inbox.post(Event::Named { thread: tracked.thread, name: name.clone() });
        }
        entry.name = Some(name);
    }

    /// A thread is gone, or about to be.
    pub fn destroyed(&self, id: ManagedId) {
        let mut threads = self.lock();
        self.end(&mut threads, id);
        threads.entries.remove(&id);
    }

    /// Ends the tracking of a thread, if it is tracked: its last CPU time is handed on.
    fn end(&self, threads: &mut Threads, id: ManagedId) {
        let tracked = threads.entries.get_mut(&id).and_then(|entry| entry.tracked.take());
        let Some(Tracked { thread, tid }) = tracked else { return };
        let watch = threads.watches.remove(&thread);
        threads.traced.remove(&tid);
        let Some(record) = self.shared.records.get(thread.index as usize) else { return };
        // In this order: no signal is made any more, those under way are stale, and only then is
        // the rest read, so that no time is counted twice.
        drop(watch);
        let seen_ns = record.close();
        self.shared.forget_record_of(tid, thread.index);
        // A clock that lies behind the mark is another thread's, which got the number since.
        let cpu_ns = clock::thread_cpu_ns(tid).filter(|now| *now >= seen_ns).unwrap_or(seen_ns);
        let rest_ns = cpu_ns.saturating_sub(seen_ns);
        self.inbox.post(Event::CpuRest { thread, cpu_ns: rest_ns });
        let time_ns = clock::monotonic_ns();
        threads.changes.push(Change::Ended { thread, time_ns, cpu_ns });
        threads.free.push(thread.index);
    }

    /// Has a running thread sampled at the next tick of the kernel, if it has a timer: somebody
    /// wants to know where it is. It interrupts no system call, since timers expire only while it
    /// runs.
    pub fn sample_soon(&self, thread: ThreadRef) {
        let Some(record) = self.shared.records.get(thread.index as usize) else { return };
        // Under the lock the timer is there: its number could be another's by now otherwise.
        if let Some(Watch::Timer(timer)) = self.lock().watches.get_mut(&thread) {
            self.cpu.expire_soon(timer, record);
        }
    }

    /// The calling thread's context, for a tracer to write to; `None` if the thread isn't tracked.
    pub fn own_context(&self) -> Option<&'static Context> {
        let tid = thread::own_id();
        let place = self.shared.by_tid.get(tid as usize)?;
        let index = place.load(Ordering::Acquire).checked_sub(1)?;
        let record = self.shared.records.get(index as usize)?;
        let mut threads = self.lock();
        // Under the lock nobody ends it: it is this thread's, or has just been taken from it.
        if threads.stopped || record.tid() != tid {
            return None;
        }
        if threads.traced.insert(tid) {
            let thread = ThreadRef { index, generation: record.generation() };
            threads.changes.push(Change::Traced { thread });
        }
        Some(record.context())
    }

    /// Counts a loss.
    pub fn count(&self, loss: Loss) {
        self.shared.count(loss);
    }

    /// How often something was lost.
    #[cfg(test)]
    pub fn lost(&self, loss: Loss) -> u64 {
        crate::fake::lost(self.shared, loss)
    }

    /// What has changed since the last call; for the ticker.
    pub fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.lock().changes)
    }

    /// Ends the tracking of all threads: after it, no signal is made and the last CPU time of each
    /// has been handed on. The caller shuts the gate.
    pub fn stop(&self) {
        let mut threads = self.lock();
        threads.stopped = true;
        let ids: Vec<ManagedId> = threads.entries.keys().copied().collect();
        for id in ids {
            self.end(&mut threads, id);
        }
    }
}

impl Threads {
    fn take_index(&mut self) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = self.used;
        ((index as usize) < THREADS_MAX).then(|| {
            self.used = index.saturating_add(1);
            index
        })
    }
}

#[cfg(test)]
mod tests;
