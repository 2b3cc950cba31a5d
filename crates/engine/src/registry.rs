//! The thread list: who is tracked, under which record, and what keeps sampling it. The runtime
//! tells of managed threads; `natives` finds the others.
//!
//! Callbacks come on the runtime's threads, mostly on the very thread they speak of, and in any
//! order: a name may come before its thread. Entries are keyed by the runtime's thread number and
//! made by whichever callback comes first.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::limits::{NATIVE_LAG_NS_MAX, THREAD_NAME_BYTES_MAX, THREAD_START_CPU_NS_MAX};
use model::{Loss, ThreadClass};
use rustc_hash::{FxHashMap, FxHashSet};
use signal::context::Context;
use signal::handler::Shared;
use signal::record::ThreadRef;
use sys::proc::{Stat, thread_ids, thread_name};
use sys::stacks::stacks_of;
use sys::thread::StackRange;
use sys::{alternate_stack, clock, disposition, thread};

use crate::balance::Balance;
use crate::cpu::{CpuSampler, Watch};
use crate::event::{Event, Inbox};

mod charges;
mod homes;
mod readings;
mod rooms;

use charges::Clocks;
use homes::Home;
pub use readings::Readings;
use rooms::Rooms;

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
    /// A thread is the scan sampler's from now on.
    Scanned {
        /// Which.
        thread: ThreadRef,
        /// The kernel's id.
        tid: u32,
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

/// A thread that the runtime doesn't tell of.
#[derive(Clone, Debug)]
pub struct Native {
    /// The kernel's id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// What it is there for.
    pub class: ThreadClass,
    /// Its stack, if that is known.
    pub stack: Option<StackRange>,
    /// When it began, in the kernel's ticks since boot.
    pub start_ticks: u64,
}

/// Who told of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Id {
    /// The runtime, by its number.
    Managed(ManagedId),
    /// The kernel, by its id.
    Native(u32),
}

/// Whether a signal does no harm to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signals {
    /// It has room for them.
    Fine,
    /// That is to be seen to first.
    Later,
    /// It must get none.
    Never,
}

impl Signals {
    fn fine_if(is_fine: bool) -> Self {
        if is_fine { Self::Fine } else { Self::Never }
    }
}

/// What is known of a thread when it comes.
struct Arrival {
    tid: u32,
    stack: Option<StackRange>,
    signals: Signals,
    class: ThreadClass,
}

/// A thread that has a record.
struct Tracked {
    thread: ThreadRef,
    tid: u32,
    /// From where on its CPU clock its time is charged.
    from_ns: u64,
}

#[derive(Default)]
struct Entry {
    name: Option<String>,
    tracked: Option<Tracked>,
}

/// What tells a thread from a later one of the same id.
#[derive(Clone, Copy, Debug)]
struct Life {
    start_ticks: u64,
    /// Its CPU clock when it was last looked at.
    cpu_ns: u64,
}

impl Life {
    /// Whether it is still that thread. One that has not run is: any other has another clock.
    fn goes_on(&mut self, tid: u32) -> bool {
        let Some(cpu_ns) = clock::thread_cpu_ns(tid) else { return false };
        let before_ns = std::mem::replace(&mut self.cpu_ns, cpu_ns);
        cpu_ns == before_ns
            || (cpu_ns > before_ns
                && Stat::read(tid).is_some_and(|stat| stat.start_ticks == self.start_ticks))
    }
}

/// All that is known, under one lock.
struct Threads {
    cpu: Arc<CpuSampler>,
    entries: FxHashMap<Id, Entry>,
    /// Those that the runtime doesn't tell of.
    natives: FxHashMap<u32, Life>,
    /// Threads that have no record, and up to where on their CPU clocks their time has been charged
    /// or is none of ours.
    charged: FxHashMap<u32, u64>,
    /// How many there may be before those of threads that have ended are looked for.
    charged_max: usize,
    /// Against the kernel's count for the process; `None` if natives are not looked for.
    balance: Option<Balance>,
    /// What samples each tracked thread.
    watches: FxHashMap<ThreadRef, Watch>,
    /// Those whose room for signals is to be seen to.
    rooms: Rooms,
    /// The kernel's ids of threads whose context a tracer writes.
    traced: FxHashSet<u32>,
    /// By the kernel's ids; empty unless stopped.
    homes: FxHashMap<u32, Home>,
    free: Vec<u32>,
    used: u32,
    changes: Vec<Change>,
    stopped: bool,
}

/// The list.
pub struct Registry {
    shared: &'static Shared,
    inbox: Arc<Inbox>,
    threads: Mutex<Threads>,
}

impl Registry {
    /// An empty list.
    #[must_use]
    pub fn new(shared: &'static Shared, inbox: Arc<Inbox>, cpu: CpuSampler) -> Self {
        Self { shared, inbox, threads: Mutex::new(Threads::new(cpu)) }
    }

    /// Goes on after [`Registry::stop`], with that sampler. Nobody is tracked yet.
    pub fn resume(&self, cpu: CpuSampler) {
        let mut threads = self.lock();
        threads.cpu = Arc::new(cpu);
        threads.leave_homes_of_the_dead();
        threads.entries.retain(|id, _| matches!(id, Id::Managed(_)));
        threads.natives.clear();
        threads.balance = None;
        threads.changes.clear();
        threads.rooms = Rooms::default();
        threads.stopped = false;
    }

    /// Forgets the threads that the runtime has told of: it will not tell when they end.
    pub fn forget(&self) {
        let mut threads = self.lock();
        if threads.stopped {
            threads.entries.clear();
        }
    }

    /// Threads that are there already, by the runtime's numbers and the kernel's ids.
    pub fn present(&self, managed: &[(ManagedId, u32)]) {
        let tids: Vec<u32> = managed.iter().map(|(_, tid)| *tid).collect();
        let programs = thread_name(std::process::id());
        let is_enough = alternate_stack::runtimes_is_enough();
        let signals = if is_enough { Signals::Fine } else { Signals::Later };
        let stacks = stacks_of(&tids);
        self.lock().rooms.allow_spares(stacks.mappings);
        for ((id, tid), stack) in managed.iter().zip(stacks.of_threads) {
            let name = thread_name(*tid).unwrap_or_default();
            let class = ThreadClass::of_managed(&name, ThreadClass::Managed);
            // A thread without a name of its own has the program's.
            if !name.is_empty() && Some(&name) != programs.as_ref() {
                self.named_if_nameless(*id, name);
            }
            let arrival = Arrival { tid: *tid, stack, signals, class };
            self.track(Id::Managed(*id), &arrival);
        }
        self.say_refusal();
    }

    /// The kernel's name of a thread is cut after 15 bytes, so one that the runtime told is better.
    fn named_if_nameless(&self, id: ManagedId, name: String) {
        let is_nameless = {
            let threads = self.lock();
            threads.entries.get(&Id::Managed(id)).is_none_or(|entry| entry.name.is_none())
        };
        if is_nameless {
            self.named(id, name);
        }
    }

    fn say_refusal(&self) {
        let cpu = Arc::clone(&self.lock().cpu);
        cpu.say_refusal();
    }

    /// Begins to count: what threads have used before now is none of the profile's. With `natives`,
    /// threads that the runtime doesn't tell of are tracked, too. Returns the process's CPU clock
    /// at that instant, in nanoseconds.
    pub fn begin(&self, natives: bool) -> u64 {
        let mut threads = self.lock();
        let Clocks { threads: clocks, process_ns } = Clocks::now();
        let balance = Balance::begin(process_ns, thread::spawned_cpu_ns());
        threads.balance = natives.then_some(balance);
        threads.charged = clocks;
        process_ns
    }

    /// Whether threads that the runtime doesn't tell of are tracked: not before it has begun to
    /// count, and not after the end.
    pub fn tracks_natives(&self) -> bool {
        let threads = self.lock();
        threads.balance.is_some() && !threads.stopped
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        // Every change leaves the list usable, so what a panicked holder left is too.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread exists. Its system thread may not be known yet.
    pub fn created(&self, id: ManagedId) {
        let mut threads = self.lock();
        if !threads.stopped {
            threads.entries.entry(Id::Managed(id)).or_default();
        }
    }

    /// A thread's system thread is known: it is tracked from now on.
    pub fn assigned(&self, id: ManagedId, tid: u32) {
        let own = tid == thread::own_id();
        // Asking for a stack may read a file, hence before the lock. Another thread's stack is not
        // known: its walks end at once and say so.
        let stack = if own { thread::own_stack() } else { None };
        // A thread without that room must get no signal: one during a fault would kill the process.
        // Another thread's signal stack can be neither seen nor changed; it is taken as it is.
        let signals = Signals::fine_if(!own || alternate_stack::make_room());
        let name = thread_name(tid).unwrap_or_default();
        let class = ThreadClass::of_managed(&name, ThreadClass::Managed);
        if class != ThreadClass::Managed {
            // The runtime gives its own threads names that the program doesn't see.
            self.named(id, name);
        }
        self.track(Id::Managed(id), &Arrival { tid, stack, signals, class });
        self.say_refusal();
    }

    /// A thread that the runtime doesn't tell of is tracked from now on.
    pub fn adopt(&self, native: Native) {
        let Native { tid, name, class, stack, start_ticks } = native;
        let is_fine = class != ThreadClass::Native || !disposition::has_small_stacks();
        let signals = Signals::fine_if(is_fine);
        self.track(Id::Native(tid), &Arrival { tid, stack, signals, class });
        let mut threads = self.lock();
        let entry = threads.entries.get_mut(&Id::Native(tid));
        if let Some(entry) = entry
            && let Some(thread) = entry.tracked.as_ref().map(|tracked| tracked.thread)
        {
            self.inbox.post(Event::Named { thread, name: name.clone() });
            entry.name = Some(name);
            threads.natives.insert(tid, Life { start_ticks, cpu_ns: 0 });
        }
        drop(threads);
        self.say_refusal();
    }

    fn track(&self, id: Id, arrival: &Arrival) {
        let Arrival { tid, stack, signals, class } = *arrival;
        let (stack_start, stack_end) = stack.map_or((0, 0), |range| (range.start, range.end));
        let mut threads = self.lock();
        // The runtime may have told of it in this very moment.
        let is_late = matches!(id, Id::Native(_)) && self.is_tracked(tid);
        if threads.stopped || is_late || !self.is_news(&threads, id, tid, stack.is_some()) {
            return;
        }
        let is_traced = threads.traced.contains(&tid);
        // What is ended here is taken again just below: a thread that is told of twice keeps its
        // record, and so the context that a tracer writes to.
        self.end(&mut threads, id);
        let native_name = self.end_native(&mut threads, tid);
        let Some(index) = threads.take_index(tid) else {
            self.shared.count(Loss::TooManyThreads);
            return;
        };
        let Some(record) = self.shared.records.get(index as usize) else { return };
        let cpu_ns = clock::thread_cpu_ns(tid).unwrap_or(0);
        let time_ns = clock::monotonic_ns();
        let from_ns = threads.charged.remove(&tid).filter(|from| *from <= cpu_ns).unwrap_or(0);
        let before_ns = cpu_ns.saturating_sub(from_ns);
        // A managed thread's own start is its own work. One that has done more before the runtime
        // knew it did that for somebody else, and what others did is not known.
        let is_start = matches!(id, Id::Managed(_)) && before_ns <= THREAD_START_CPU_NS_MAX;
        let unsampled_ns = if is_start { 0 } else { before_ns };
        let seen_ns = from_ns.saturating_add(unsampled_ns);
        let generation = record.open(tid, stack_start, stack_end, seen_ns);
        let thread = ThreadRef { index, generation };
        self.shared.set_record_of(tid, index);
        let watch = match signals {
            Signals::Later => {
                self.see_to_room(&mut threads, thread, tid);
                Watch::Off
            }
            now => self.watch(&threads, thread, tid, now == Signals::Fine),
        };
        let scanned = matches!(watch, Watch::Scanned);
        threads.changes.push(Change::Started { thread, tid, time_ns, cpu_ns, scanned });
        if is_traced {
            threads.traced.insert(tid);
            threads.changes.push(Change::Traced { thread });
        }
        self.inbox.post(Event::Started { thread, tid });
        if class != ThreadClass::Managed {
            self.inbox.post(Event::Classed { thread, class });
        }
        if unsampled_ns > 0 {
            self.inbox.post(Event::Unsampled { thread: Some(thread), cpu_ns: unsampled_ns });
        }
        let entry = threads.entries.entry(id).or_default();
        // A native thread that has come to managed code is still the same, and has its name until
        // the runtime tells another. The first one's is that of the program.
        if entry.name.is_none() && tid != std::process::id() {
            entry.name = native_name;
        }
        if let Some(name) = &entry.name {
            self.inbox.post(Event::Named { thread, name: name.clone() });
        }
        entry.tracked = Some(Tracked { thread, tid, from_ns });
        threads.watches.insert(thread, watch);
    }

    /// Whether it is not known yet that this is the thread's id, or where its stack lies.
    fn is_news(&self, threads: &Threads, id: Id, tid: u32, knows_stack: bool) -> bool {
        let known = threads.entries.get(&id).and_then(|entry| entry.tracked.as_ref());
        // A thread that another one told of is told of again by itself, which knows its stack.
        let learns_stack = knows_stack && known.is_some_and(|known| !self.has_stack(known));
        known.is_none_or(|known| known.tid != tid) || learns_stack
    }

    fn watch(&self, threads: &Threads, thread: ThreadRef, tid: u32, takes_signals: bool) -> Watch {
        if takes_signals {
            return threads.cpu.watch(thread, tid, self.shared);
        }
        self.shared.count(Loss::NoTimer);
        Watch::Off
    }

    /// Whether a thread has a record, whoever told of it.
    pub fn is_tracked(&self, tid: u32) -> bool {
        let place = self.shared.by_tid.get(tid as usize);
        place.is_some_and(|place| place.load(Ordering::Acquire) != 0)
    }

    /// How many threads have a record.
    pub fn tracked_count(&self) -> usize {
        self.lock().watches.len()
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
        let entry = threads.entries.entry(Id::Managed(id)).or_default();
        if let Some(tracked) = &entry.tracked {
            self.inbox.post(Event::Named { thread: tracked.thread, name: name.clone() });
        }
        entry.name = Some(name);
    }

    /// A thread is gone, or about to be.
    pub fn destroyed(&self, id: ManagedId) {
        let mut threads = self.lock();
        self.end(&mut threads, Id::Managed(id));
        threads.entries.remove(&Id::Managed(id));
    }

    /// Ends the tracking of threads that the runtime didn't tell of and that are gone.
    pub fn end_gone_natives(&self) {
        let mut threads = self.lock();
        let is_gone = |(tid, life): (&u32, &mut Life)| (!life.goes_on(*tid)).then_some(*tid);
        let gone: Vec<u32> = threads.natives.iter_mut().filter_map(is_gone).collect();
        for tid in gone {
            self.end_native(&mut threads, tid);
        }
    }

    /// Ends the tracking of a thread as one that the runtime didn't tell of; gives its name.
    fn end_native(&self, threads: &mut Threads, tid: u32) -> Option<String> {
        threads.natives.remove(&tid)?;
        self.end(threads, Id::Native(tid));
        threads.entries.remove(&Id::Native(tid))?.name
    }

    /// Ends the tracking of a thread, if it is tracked: its last CPU time is handed on.
    fn end(&self, threads: &mut Threads, id: Id) {
        self.end_at(threads, id, clock::thread_cpu_ns);
    }

    /// The same, at that time of its CPU clock.
    fn end_at(&self, threads: &mut Threads, id: Id, now_ns: impl Fn(u32) -> Option<u64>) {
        let tracked = threads.entries.get_mut(&id).and_then(|entry| entry.tracked.take());
        let Some(Tracked { thread, tid, from_ns }) = tracked else { return };
        let watch = threads.watches.remove(&thread);
        let Some(record) = self.shared.records.get(thread.index as usize) else { return };
        // In this order: no signal is made any more, those under way are stale, and only then is
        // the rest read, so that no time is counted twice.
        drop(watch);
        let seen_ns = record.close();
        self.shared.forget_record_of(tid, thread.index);
        // A clock that lies behind the mark is another thread's, which got the number since.
        let cpu_ns = now_ns(tid).filter(|now| *now >= seen_ns).unwrap_or(seen_ns);
        let rest_ns = cpu_ns.saturating_sub(seen_ns);
        self.inbox.post(Event::CpuRest { thread, cpu_ns: rest_ns });
        let time_ns = clock::monotonic_ns();
        threads.changes.push(Change::Ended { thread, time_ns, cpu_ns });
        threads.give_back(tid, thread.index);
        if let Some(balance) = &mut threads.balance {
            balance.ended(cpu_ns.saturating_sub(from_ns));
        }
        threads.note_charged(tid, cpu_ns);
    }

    /// Has a running thread sampled at the next tick of the kernel, if it has a timer: somebody
    /// wants to know where it is. It interrupts no system call, since timers expire only while it
    /// runs.
    pub fn sample_soon(&self, thread: ThreadRef) {
        let Some(record) = self.shared.records.get(thread.index as usize) else { return };
        // Under the lock the timer is there: its number could be another's by now otherwise.
        let mut threads = self.lock();
        let cpu = Arc::clone(&threads.cpu);
        if let Some(Watch::Timer(timer)) = threads.watches.get_mut(&thread) {
            cpu.expire_soon(timer, record);
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
    /// has been handed on. The caller shuts the gate. Names go on being noted. Returns the
    /// process's CPU clock at that instant, in nanoseconds, unless it was stopped already.
    pub fn stop(&self) -> Option<u64> {
        let mut threads = self.lock();
        if threads.stopped {
            return None;
        }
        threads.stopped = true;
        // No more samples; else they would carry time from after the clocks were read.
        threads.watches.clear();
        let Clocks { threads: clocks, process_ns } = Clocks::now();
        let tracked: Vec<Id> = threads.entries.keys().copied().collect();
        for id in tracked {
            self.end_at(&mut threads, id, |tid| clocks.get(&tid).copied());
        }
        let ids: Vec<u32> = clocks.into_keys().collect();
        self.charge_unseen(&mut threads, process_ns, &ids, |_, _| {});
        Some(process_ns)
    }
}

impl Threads {
    fn new(cpu: CpuSampler) -> Self {
        Self {
            cpu: Arc::new(cpu),
            entries: FxHashMap::default(),
            natives: FxHashMap::default(),
            charged: FxHashMap::default(),
            charged_max: 0,
            balance: None,
            watches: FxHashMap::default(),
            rooms: Rooms::default(),
            traced: FxHashSet::default(),
            homes: FxHashMap::default(),
            free: Vec::new(),
            used: 0,
            changes: Vec::new(),
            stopped: false,
        }
    }
}

#[cfg(test)]
mod tests;
