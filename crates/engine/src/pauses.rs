//! Pauses: when the runtime had stopped all managed threads, what for, and for how long each thread
//! was held up by it.
//!
//! The runtime's callbacks come while the world stands still, and some from within a signal handler
//! of the runtime's. So they do no more than read a clock and change atomic numbers: no lock, no
//! allocation, no list that could be full. Sums are all that is kept.
//!
//! - A *pause* is from the moment at which the runtime begins to stop managed threads to the one
//!   before it lets them go: as the runtime itself counts.
//! - The *world's* counter goes on until they are let go, which on a busy machine may take a while:
//!   the thread that does it may have no processor. The first of them to run tells.
//! - A *thread's* counter goes along with the world's while the thread is held up. So it doesn't
//!   count the time that the thread needs to get a processor once it may run again.
//!
//! Stops follow each other, since the thread that makes one holds the runtime's lock of threads. So
//! there is one writer at a time of all that is said of "the stop"; a collection in the background
//! ends outside of stops, but the collector makes one step after the other.
//!
//! The runtime doesn't say which collections of generation 2 go on in the background. One that does
//! may begin with one of generation 0 or 1 in the same stop, of which only the end is told: then
//! both kinds look alike until the end of the one in the background is told, outside of stops.
//! Until that, or until it can't come any more, the pause waits in `Undecided`.

mod counter;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use self::counter::Counter;
use crate::gc_waits::InPause;
use profile::SelfReport;
use signal::handler::Shared;
use signal::record::ThreadRef;
use sys::{clock, thread};

/// Why all managed threads are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PauseReason {
    /// None that is known.
    Other,
    /// A garbage collection.
    Gc,
    /// A step of one in the background, or something that the collector prepares.
    GcPreparation,
    /// Methods get other code.
    ReJit,
    /// A profiler asked for it.
    Profiler,
    /// A debugger.
    Debugger,
    /// The end of the runtime.
    Shutdown,
}

/// What a pause was for, and which frames stand for it, the leaf first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    frames: &'static [&'static str],
    is_gc: bool,
}

const GC: &str = "Garbage Collector";
const BLOCKING: &str = "generation 2, blocking";
const BACKGROUND: &str = "generation 2, background";
const INDUCED: &str = "induced";
const AUTOMATIC: &str = "automatic";
const RUNTIME: &str = ".NET runtime";

const fn gc(frames: &'static [&'static str]) -> Kind {
    Kind { frames, is_gc: true }
}

const fn other(frames: &'static [&'static str]) -> Kind {
    Kind { frames, is_gc: false }
}

/// All kinds: collections by generation and by whether they are induced, then the rest.
const KINDS: [Kind; 14] = [
    gc(&[AUTOMATIC, "generation 0", GC]),
    gc(&[INDUCED, "generation 0", GC]),
    gc(&[AUTOMATIC, "generation 1", GC]),
    gc(&[INDUCED, "generation 1", GC]),
    gc(&[AUTOMATIC, BLOCKING, GC]),
    gc(&[INDUCED, BLOCKING, GC]),
    gc(&[AUTOMATIC, BACKGROUND, GC]),
    gc(&[INDUCED, BACKGROUND, GC]),
    gc(&["preparation", GC]),
    other(&["code changed by ReJIT", RUNTIME]),
    other(&["stopped by a profiler", RUNTIME]),
    other(&["stopped by a debugger", RUNTIME]),
    other(&["shutdown", RUNTIME]),
    other(&["stopped", RUNTIME]),
];
const KIND_BLOCKING: usize = 4;
const KIND_BACKGROUND: usize = 6;
const KIND_PREPARATION: usize = 8;
const KIND_REJIT: usize = 9;
const KIND_PROFILER: usize = 10;
const KIND_DEBUGGER: usize = 11;
const KIND_SHUTDOWN: usize = 12;
const KIND_OTHER: usize = 13;

/// Garbage collections, and all else: counted apart.
const CAUSES: usize = 2;
const CAUSE_GC: usize = 0;
const CAUSE_OTHER: usize = 1;

/// A collection in the background that takes longer, in nanoseconds, is no longer waited for: its
/// first pause is taken for one of a collection that blocks.
const UNDECIDED_NS_MAX: u64 = 60_000_000_000;

/// Nobody stops anybody.
const NOBODY: u32 = 0;

/// How a thread was held up so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUp {
    /// By garbage collections and by other stops, in nanoseconds; without what the thread computed
    /// meanwhile, as the one does that collects.
    pub ns: [u64; CAUSES],
    /// How often.
    pub times: u64,
    /// Whether it is just now.
    pub now: bool,
    /// Whether all managed threads are, and how often.
    pub all: InPause,
}

impl HeldUp {
    /// The later of two readings, whose sums never go back: one that was made in the middle of a
    /// change may have been a little ahead.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let [one, two] = [self.ns, other.ns];
        let ns = std::array::from_fn(|cause| {
            let at = |sums: &[u64; CAUSES]| sums.get(cause).copied().unwrap_or(0);
            at(&one).max(at(&two))
        });
        Self { ns, ..self }
    }
}

/// A thread's counters; zero bytes are valid.
#[derive(Default)]
pub struct Stop {
    /// Of the record's user that the rest is about.
    generation: AtomicU32,
    times: AtomicU32,
    counters: [Counter; CAUSES],
}

#[derive(Default)]
struct Sum {
    pauses: AtomicU64,
    ns: AtomicU64,
}

impl Sum {
    fn add(&self, pauses: u64, ns: u64) {
        self.ns.fetch_add(ns, Ordering::Relaxed);
        self.pauses.fetch_add(pauses, Ordering::Relaxed);
    }

    fn take(&self) -> (u64, u64) {
        // The count first: a pause that ends in between is in the next period with both, or its
        // time is in this one and its count in the next.
        (self.pauses.swap(0, Ordering::Relaxed), self.ns.swap(0, Ordering::Relaxed))
    }
}

/// A collection of generation 2 that has ended as far as is known, or goes on in the background.
#[derive(Default)]
struct Undecided {
    /// The kind if it has ended, plus one; 0 for none. Who takes it away decides.
    kind: AtomicU8,
    /// The pause that it began with, in nanoseconds.
    ns: AtomicU64,
    /// When that ended.
    end_ns: AtomicU64,
    /// Pauses without a collection since then: the later steps of one in the background.
    steps: Sum,
}

/// What is known of pauses.
pub struct Pauses {
    shared: &'static Shared,
    /// By the index of a thread's record.
    stops: &'static [Stop],
    world: [Counter; CAUSES],
    /// When profiling began.
    begin_ns: AtomicU64,
    /// What the world's counters were at then.
    before_ns: AtomicU64,
    /// When the stop began.
    since_ns: AtomicU64,
    reason: AtomicU8,
    /// When it let them go, as far as is known, while nobody has told that they run again; else 0.
    releasing_ns: AtomicU64,
    /// The thread that stops the others.
    suspender: AtomicU32,
    /// Its CPU clock when it said that it is held up itself, plus one; 0 if it did not.
    suspender_cpu_ns: AtomicU64,
    /// The kind of the last collection that began in this stop, plus one; 0 for none.
    collection: AtomicU8,
    /// Whether that has not ended.
    collecting: AtomicBool,
    /// The kind of the collection that goes on in the background, plus one; 0 for none.
    background: AtomicU8,
    undecided: Undecided,
    sums: [Sum; KINDS.len()],
    longest_ns: AtomicU64,
    collections: [AtomicU64; 3],
    backgrounds: AtomicU64,
    before_backgrounds: AtomicU64,
}

/// The pauses of a period of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paused {
    /// The frames that stand for it, the leaf first.
    pub frames: &'static [&'static str],
    /// How long they were, in nanoseconds.
    pub ns: u64,
}

impl Pauses {
    /// Nothing is known yet; `stops` has one for each record.
    #[must_use]
    pub fn new(shared: &'static Shared, stops: &'static [Stop]) -> Self {
        Self {
            shared,
            stops,
            world: [const { Counter::new() }; CAUSES],
            begin_ns: AtomicU64::new(0),
            before_ns: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            reason: AtomicU8::new(PauseReason::Other as u8),
            releasing_ns: AtomicU64::new(0),
            suspender: AtomicU32::new(NOBODY),
            suspender_cpu_ns: AtomicU64::new(0),
            collection: AtomicU8::new(0),
            collecting: AtomicBool::new(false),
            background: AtomicU8::new(0),
            undecided: Undecided::default(),
            sums: std::array::from_fn(|_| Sum::default()),
            longest_ns: AtomicU64::new(0),
            collections: [const { AtomicU64::new(0) }; 3],
            backgrounds: AtomicU64::new(0),
            before_backgrounds: AtomicU64::new(0),
        }
    }

    /// What was told so far is of no period: nobody profiled.
    pub fn begin(&self) {
        let now_ns = clock::monotonic_ns();
        drop(self.take_at(&mut SelfReport::default(), true, now_ns));
        self.begin_ns.store(now_ns, Ordering::Relaxed);
        self.before_ns.store(sum(self.world_at(now_ns)), Ordering::Relaxed);
    }

    /// The runtime tells no more, perhaps in the middle of a stop.
    pub fn forget(&self) {
        self.suspender.store(NOBODY, Ordering::Relaxed);
        self.releasing_ns.store(0, Ordering::Relaxed);
        self.background.store(0, Ordering::Relaxed);
        self.world.iter().for_each(|counter| counter.stop(0, 0));
    }

    /// The calling thread begins to stop all managed threads.
    pub fn suspending(&self, reason: PauseReason) {
        self.suspending_at(reason, clock::monotonic_ns(), thread::own_id());
    }

    fn suspending_at(&self, reason: PauseReason, now_ns: u64, tid: u32) {
        // Nobody was held up by the last stop, or nobody has had a processor since.
        self.released_at(self.releasing_ns.load(Ordering::Relaxed));
        self.reason.store(reason as u8, Ordering::Relaxed);
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.collection.store(0, Ordering::Relaxed);
        self.collecting.store(false, Ordering::Relaxed);
        self.suspender_cpu_ns.store(0, Ordering::Relaxed);
        self.suspender.store(tid, Ordering::Relaxed);
        self.world_of(reason as u8).start(now_ns);
    }

    /// The calling thread, which stopped them, is about to let all managed threads run again.
    pub fn resuming(&self) {
        self.resuming_at(clock::monotonic_ns(), clock::own_cpu_ns());
    }

    fn resuming_at(&self, now_ns: u64, cpu_ns: u64) {
        let reason = self.reason.load(Ordering::Relaxed);
        let suspender = self.suspender.swap(NOBODY, Ordering::Relaxed);
        if suspender == NOBODY {
            return;
        }
        if let Some(since_ns) = self.suspender_cpu_ns.swap(0, Ordering::Relaxed).checked_sub(1)
            && let Some((stop, _)) = self.stop_of(suspender)
        {
            let worked_ns = cpu_ns.saturating_sub(since_ns);
            stop.stop(self.world_at(now_ns), cause_of(reason), worked_ns);
        }
        self.releasing_ns.store(now_ns.max(1), Ordering::Release);
        let ns = now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed));
        if cause_of(reason) == CAUSE_GC {
            self.longest_ns.fetch_max(ns, Ordering::Relaxed);
            self.note_gc(ns, now_ns);
        } else {
            self.note(kind_of(reason), 1, ns);
        }
    }

    /// All managed threads run again, or could.
    pub fn resumed(&self) {
        self.released_at(clock::monotonic_ns());
    }

    fn released_at(&self, now_ns: u64) {
        if self.releasing_ns.swap(0, Ordering::AcqRel) != 0 {
            self.world_of(self.reason.load(Ordering::Relaxed)).stop(now_ns, 0);
        }
    }

    /// Notes a pause of the garbage collector's that ends now.
    fn note_gc(&self, ns: u64, now_ns: u64) {
        let collection = self.collection.load(Ordering::Relaxed);
        let Some(kind) = usize::from(collection).checked_sub(1) else {
            return self.note_step(ns);
        };
        if kind < KIND_BLOCKING {
            self.note(kind, 1, ns);
        } else if self.collecting.load(Ordering::Relaxed) {
            // It has not ended, and managed threads run again.
            let kind = background_of(kind);
            self.background.store(plus_one(kind), Ordering::Relaxed);
            self.backgrounds.fetch_add(1, Ordering::Relaxed);
            self.note(kind, 1, ns);
        } else {
            self.undecided.ns.store(ns, Ordering::Relaxed);
            self.undecided.end_ns.store(now_ns, Ordering::Relaxed);
            self.undecided.kind.store(plus_one(kind), Ordering::Release);
        }
    }

    /// Notes a pause without a collection.
    fn note_step(&self, ns: u64) {
        let background = self.background.load(Ordering::Relaxed);
        if let Some(kind) = usize::from(background).checked_sub(1) {
            self.note(kind, 1, ns);
        } else if self.undecided.kind.load(Ordering::Relaxed) != 0 {
            self.undecided.steps.add(1, ns);
        } else {
            self.note(KIND_PREPARATION, 1, ns);
        }
    }

    /// The last collection of generation 2 went on in the background, or did not: its pauses are
    /// noted. Returns whether there was one.
    fn decide(&self, is_background: bool) -> bool {
        let kind = self.undecided.kind.swap(0, Ordering::Acquire);
        let Some(kind) = usize::from(kind).checked_sub(1) else { return false };
        let ns = self.undecided.ns.swap(0, Ordering::Relaxed);
        let (steps, steps_ns) = self.undecided.steps.take();
        let (kind, step) = if is_background {
            (background_of(kind), background_of(kind))
        } else {
            (kind, KIND_PREPARATION)
        };
        self.note(kind, 1, ns);
        self.note(step, steps, steps_ns);
        true
    }

    fn note(&self, kind: usize, pauses: u64, ns: u64) {
        if let Some(sum) = self.sums.get(kind) {
            sum.add(pauses, ns);
        }
    }

    /// The calling thread is held up by the stop.
    pub fn thread_suspended(&self) {
        self.thread_suspended_at(thread::own_id(), clock::monotonic_ns(), clock::own_cpu_ns);
    }

    fn thread_suspended_at(&self, tid: u32, now_ns: u64, cpu_ns: impl FnOnce() -> u64) {
        let Some((stop, generation)) = self.stop_of(tid) else { return };
        if tid == self.suspender.load(Ordering::Relaxed) {
            // Not if it is the collector's own thread: it holds up nobody's work.
            if self.reason.load(Ordering::Relaxed) == PauseReason::GcPreparation as u8 {
                return;
            }
            self.suspender_cpu_ns.store(cpu_ns().saturating_add(1), Ordering::Relaxed);
        }
        stop.start(generation, self.world_at(now_ns));
    }

    /// The calling thread is no longer held up.
    pub fn thread_resumed(&self) {
        self.thread_resumed_at(thread::own_id(), clock::monotonic_ns());
    }

    fn thread_resumed_at(&self, tid: u32, now_ns: u64) {
        self.released_at(now_ns);
        // Of the one that stopped the others it was noted when it let them go.
        if let Some((stop, _)) = self.stop_of(tid)
            && stop.is_on()
        {
            stop.stop(self.world_at(now_ns), CAUSE_GC, 0);
        }
    }

    /// A collection begins, of this generation and the younger ones.
    pub fn collection_started(&self, generation: u8, induced: bool) {
        let generation = generation.min(2);
        if let Some(count) = self.collections.get(usize::from(generation)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if generation == 2 {
            // It doesn't begin before one in the background has ended, and so that was none.
            self.decide(false);
        }
        let kind = generation.saturating_mul(2).saturating_add(induced.into());
        self.collection.store(kind.saturating_add(1), Ordering::Relaxed);
        self.collecting.store(true, Ordering::Relaxed);
    }

    /// A collection has ended: the one that began in this stop, else the one in the background.
    pub fn collection_finished(&self) {
        let is_in_stop = self.suspender.load(Ordering::Relaxed) != NOBODY;
        if is_in_stop && self.collecting.swap(false, Ordering::Relaxed) {
            return;
        }
        if self.background.swap(0, Ordering::Relaxed) == 0 && self.decide(true) {
            self.backgrounds.fetch_add(1, Ordering::Relaxed);
            // What had ended in its first stop was another collection.
            self.before_backgrounds.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How a thread was held up until now. `cpu_ns` is its CPU clock.
    #[must_use]
    pub fn held_up(&self, thread: ThreadRef, now_ns: u64, cpu_ns: u64) -> HeldUp {
        let all = self.in_pause(now_ns);
        let never = HeldUp { all, ..HeldUp::default() };
        let Some(stop) = self.stops.get(thread.index as usize) else { return never };
        if stop.generation.load(Ordering::Acquire) != thread.generation {
            return never;
        }
        let world = self.world_at(now_ns);
        let mut ns = [CAUSE_GC, CAUSE_OTHER].map(|cause| {
            let counter = stop.counters.get(cause);
            let at = world.get(cause).copied().unwrap_or(0);
            counter.map_or(0, |counter| counter.at(at))
        });
        let now = stop.is_on();
        if now
            && let Some(since_ns) = self.suspender_cpu_ns.load(Ordering::Relaxed).checked_sub(1)
            && let Some(sum) = ns.get_mut(cause_of(self.reason.load(Ordering::Relaxed)))
            && self.is_suspender(thread)
        {
            *sum = sum.saturating_sub(cpu_ns.saturating_sub(since_ns));
        }
        HeldUp { ns, times: stop.times.load(Ordering::Relaxed).into(), now, all }
    }

    fn in_pause(&self, now_ns: u64) -> InPause {
        let sum_ns = sum(self.world_at(now_ns));
        let paused_ns = sum_ns.saturating_sub(self.before_ns.load(Ordering::Relaxed));
        let all_ns = now_ns.saturating_sub(self.begin_ns.load(Ordering::Relaxed));
        let percent = paused_ns.saturating_mul(100).checked_div(all_ns).unwrap_or(0);
        InPause { now: self.is_stopped(), percent: u8::try_from(percent.min(100)).unwrap_or(100) }
    }

    /// Whether managed threads are stopped.
    fn is_stopped(&self) -> bool {
        self.world.iter().any(Counter::is_on)
    }

    /// The pauses since the last call, those of each kind; with `all` also what is undecided.
    pub fn take(&self, report: &mut SelfReport, all: bool) -> Vec<Paused> {
        self.take_at(report, all, clock::monotonic_ns())
    }

    fn take_at(&self, report: &mut SelfReport, all: bool, now_ns: u64) -> Vec<Paused> {
        let undecided_ns = now_ns.saturating_sub(self.undecided.end_ns.load(Ordering::Relaxed));
        if all || undecided_ns > UNDECIDED_NS_MAX {
            self.decide(false);
        }
        let mut all = Vec::new();
        for (kind, sum) in KINDS.iter().zip(&self.sums) {
            let (pauses, ns) = sum.take();
            let (count, total_ns) = if kind.is_gc {
                (&mut report.gc_pauses, &mut report.gc_pause_ns)
            } else {
                (&mut report.other_pauses, &mut report.other_pause_ns)
            };
            *count = count.saturating_add(pauses);
            *total_ns = total_ns.saturating_add(ns);
            if ns > 0 {
                all.push(Paused { frames: kind.frames, ns });
            }
        }
        report.gc_pause_max_ns = self.longest_ns.swap(0, Ordering::Relaxed);
        report.gc_background = self.backgrounds.swap(0, Ordering::Relaxed);
        report.gc_before_background = self.before_backgrounds.swap(0, Ordering::Relaxed);
        for (sum, count) in report.gc_collections.iter_mut().zip(&self.collections) {
            *sum = count.swap(0, Ordering::Relaxed);
        }
        all
    }

    fn world_at(&self, now_ns: u64) -> [u64; CAUSES] {
        self.world.each_ref().map(|counter| counter.at(now_ns))
    }

    fn world_of(&self, reason: u8) -> &Counter {
        let [gc, other] = &self.world;
        if cause_of(reason) == CAUSE_GC { gc } else { other }
    }

    /// A thread's counters and its record's generation, if it is tracked.
    fn stop_of(&self, tid: u32) -> Option<(&'static Stop, u32)> {
        let place = self.shared.by_tid.get(tid as usize)?;
        let index = place.load(Ordering::Acquire).checked_sub(1)?;
        let record = self.shared.records.get(index as usize)?;
        Some((self.stops.get(index as usize)?, record.generation()))
    }

    fn is_suspender(&self, thread: ThreadRef) -> bool {
        let record = self.shared.records.get(thread.index as usize);
        record.is_some_and(|record| record.tid() == self.suspender.load(Ordering::Relaxed))
    }
}

impl Stop {
    fn start(&self, generation: u32, world: [u64; CAUSES]) {
        if self.generation.load(Ordering::Relaxed) != generation {
            // The record's last user was another thread.
            self.counters.iter().for_each(Counter::reset);
            self.times.store(0, Ordering::Relaxed);
            self.generation.store(generation, Ordering::Release);
        }
        self.times.fetch_add(1, Ordering::Relaxed);
        self.counters.iter().zip(world).for_each(|(counter, at)| counter.start(at));
    }

    /// `less` is taken off the sum of that cause.
    fn stop(&self, world: [u64; CAUSES], cause: usize, less: u64) {
        for (index, (counter, at)) in self.counters.iter().zip(world).enumerate() {
            counter.stop(at, if index == cause { less } else { 0 });
        }
    }

    fn is_on(&self) -> bool {
        self.counters.iter().any(Counter::is_on)
    }
}

/// The kind of a collection in the background that seemed to be of this other kind.
fn background_of(kind: usize) -> usize {
    KIND_BACKGROUND.saturating_add(kind & 1)
}

fn plus_one(kind: usize) -> u8 {
    u8::try_from(kind.saturating_add(1)).unwrap_or(0)
}

/// The kind of a pause that was for no collection.
fn kind_of(reason: u8) -> usize {
    const REJIT: u8 = PauseReason::ReJit as u8;
    const PROFILER: u8 = PauseReason::Profiler as u8;
    const DEBUGGER: u8 = PauseReason::Debugger as u8;
    const SHUTDOWN: u8 = PauseReason::Shutdown as u8;
    match reason {
        REJIT => KIND_REJIT,
        PROFILER => KIND_PROFILER,
        DEBUGGER => KIND_DEBUGGER,
        SHUTDOWN => KIND_SHUTDOWN,
        _ => KIND_OTHER,
    }
}

fn sum(counters: [u64; CAUSES]) -> u64 {
    counters.into_iter().fold(0, u64::saturating_add)
}

/// Which of the world's counters a reason belongs to.
fn cause_of(reason: u8) -> usize {
    let is_gc = reason == PauseReason::Gc as u8 || reason == PauseReason::GcPreparation as u8;
    if is_gc { CAUSE_GC } else { CAUSE_OTHER }
}

#[cfg(test)]
mod tests;
