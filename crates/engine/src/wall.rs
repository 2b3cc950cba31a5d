//! The wall sampler: where each thread's elapsed time goes, without disturbing those that wait.
//!
//! Elapsed time between two visits of a thread has three parts, and the kernel counts two of them:
//! the time on a processor (its CPU clock) and the time ready for one (its run-queue delay). The
//! rest it waited. Time on a processor is charged by the CPU samples, each to its own stack, so it
//! is not touched here. For the wait:
//!
//! - The clock has not moved: the thread has not run, so its stack is what it was. Nothing to do.
//! - It ran at the last visit, and is blocked now: the wait is charged to where it is.
//! - It has run, and is blocked again: the wait is charged half to the stack it was blocked at and
//!   half to the one it is blocked at now, since the change lay somewhere between. Over many
//!   visits that is right whatever the thread's rhythm, and no visit is ever more than a 64th of
//!   the wait late (or one tick, or a round of those that rest). Unless a tracer wrote the thread's
//!   context: visits then come soon after a change, and ask [`crate::watched`] when that was.
//! - It had a processor once, and is blocked at the same stack again: it was nowhere else, so all
//!   of the wait belongs there, and it rests as if it had not woken.
//! - It is running: the wait was at the stack it was last blocked at.
//!
//! A delay ([`crate::delays`]) is charged to the thread's next sample, since it was late to do what
//! it did then; if much has gathered, that sample is taken as soon as the thread runs. But if it
//! came after a wait, it belongs to the place of the wait.
//!
//! A thread that the runtime has stopped, mostly for a garbage collection, waited for nothing of
//! its own: that time is known exactly ([`crate::pauses`]) and is taken out before the rest is
//! looked at. It goes to the thread's next sample, as delays do.
//!
//! So the sum over a thread is its elapsed time, exactly, and a thread that sleeps costs a clock
//! reading a visit, at growing distances.

use std::sync::Arc;

use model::limits::{WALL_BACKOFF_DIVISOR, WALL_DISTANCE_NS_MAX};
use model::{Loss, ThreadState};
use rustc_hash::FxHashMap;
use signal::context::SpanContext;
use signal::handler::Shared;
use signal::record::ThreadRef;
use sys::clock;
use sys::proc::SchedStat;
use sys::thread_files::ThreadFiles;

use crate::blocked::{BlockedReader, Looked};
use crate::delays::{Delays, Passed};
use crate::event::{BlockedStack, Event, Inbox, Within};
use crate::pauses::{HeldUp, Pauses};
use crate::registry::{Readings, Registry};
use crate::watched::{Shares, Watched};

mod marks;
mod schedule;
mod traced;
mod wall_thread;

use schedule::Schedule;
use traced::Traced;
use wall_thread::WallThread;

/// Delays of a thread that may wait for its next sample, in nanoseconds; with more, one is taken.
const DELAY_NS_MAX: u64 = 2_000_000;
/// A thread that stands so long at a place where it was found in a pause, in nanoseconds, and now
/// there is none, waits for something else. What waits for the end of the pause is woken by it, and
/// on a busy machine runs some time after.
const OUTLASTED_NS: u64 = 250_000_000;
/// Visits that may find a thread moving before its time is charged without a new stack.
const MOVES_MAX: u32 = 3;

/// Time without a processor that is too short to be looked into, in nanoseconds; it is when it has
/// become more. What computes all the time, or spins, is thus hardly ever looked at, which takes
/// several files of `/proc`.
const UNSEEN_NS_MAX: u64 = 200_000;

/// What a visit asks about a thread; a test answers from its own world.
pub trait Kernel {
    /// Monotonic nanoseconds.
    fn now_ns(&mut self) -> u64;
    /// The thread's CPU clock; `None` once it has ended.
    fn cpu_ns(&mut self, tid: u32) -> Option<u64>;
    /// Its turns and delays; `None` once it has ended, or if the kernel doesn't count.
    fn sched_stat(&mut self, tid: u32) -> Option<SchedStat>;
    /// How often it has given up the processor by itself.
    fn voluntary_switches(&mut self, tid: u32) -> Option<u64>;
    /// Where it is, given its CPU clock of just now.
    fn look(&mut self, thread: ThreadRef, tid: u32, cpu_ns: u64) -> Looked;
    /// How the runtime has held it up, given both clocks of just now.
    fn held_up(&mut self, thread: ThreadRef, now_ns: u64, cpu_ns: u64) -> HeldUp;
    /// Has it sampled as soon as it runs.
    fn sample_soon(&mut self, thread: ThreadRef);
}

/// The kernel that there is.
pub struct Linux {
    files: ThreadFiles,
    reader: BlockedReader,
    registry: Arc<Registry>,
    pauses: Arc<Pauses>,
}

impl Kernel for Linux {
    fn now_ns(&mut self) -> u64 {
        clock::monotonic_ns()
    }

    fn cpu_ns(&mut self, tid: u32) -> Option<u64> {
        clock::thread_cpu_ns(tid)
    }

    fn sched_stat(&mut self, tid: u32) -> Option<SchedStat> {
        self.files.sched_stat(tid)
    }

    fn voluntary_switches(&mut self, tid: u32) -> Option<u64> {
        self.files.voluntary_switches(tid)
    }

    fn look(&mut self, thread: ThreadRef, tid: u32, cpu_ns: u64) -> Looked {
        self.reader.look(&mut self.files, thread, tid, cpu_ns)
    }

    fn held_up(&mut self, thread: ThreadRef, now_ns: u64, cpu_ns: u64) -> HeldUp {
        self.pauses.held_up(thread, now_ns, cpu_ns)
    }

    fn sample_soon(&mut self, thread: ThreadRef) {
        self.registry.sample_soon(thread);
    }
}

/// What a visit has read.
#[derive(Clone, Copy, Debug)]
struct Now {
    time_ns: u64,
    cpu_ns: u64,
    held_up: HeldUp,
}

/// The wall sampler.
pub struct WallSampler<K = Linux> {
    shared: &'static Shared,
    inbox: Arc<Inbox>,
    kernel: K,
    threads: FxHashMap<ThreadRef, WallThread>,
    schedule: Schedule,
    beat: Beat,
    samples: u64,
    traced: Traced,
}

/// How often the sampler looks, and at how many.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    /// Between two ticks, in nanoseconds.
    pub tick_ns: u64,
    /// Threads that are looked at in a tick, in turn.
    pub threads: usize,
    /// And so many more, of those that have a span.
    pub span_threads: usize,
}

impl WallSampler {
    /// A sampler at that beat.
    #[must_use]
    pub fn new(
        shared: &'static Shared,
        registry: Arc<Registry>,
        pauses: Arc<Pauses>,
        inbox: Arc<Inbox>,
        beat: Beat,
    ) -> Self {
        let reader = BlockedReader::new(shared);
        let kernel = Linux { files: ThreadFiles::default(), reader, registry, pauses };
        Self::over(kernel, shared, inbox, beat)
    }

    /// Keeps files of threads open from now on; to be called by the thread that will tick.
    pub fn keep_files(&mut self) {
        self.kernel.files.keep();
    }
}

impl<K: Kernel> WallSampler<K> {
    fn over(kernel: K, shared: &'static Shared, inbox: Arc<Inbox>, beat: Beat) -> Self {
        Self {
            shared,
            inbox,
            kernel,
            threads: FxHashMap::default(),
            schedule: Schedule::default(),
            beat,
            samples: 0,
            traced: Traced::default(),
        }
    }

    /// Begins to account for a thread's time.
    pub fn add(&mut self, thread: ThreadRef, tid: u32, time_ns: u64, cpu_ns: u64) {
        let stat = self.kernel.sched_stat(tid).unwrap_or_default();
        let new = WallThread {
            tid,
            time_ns,
            cpu_ns,
            delays: Delays::new(stat, self.kernel.voluntary_switches(tid)),
            held_up: HeldUp::default(),
            blocked_since_ns: None,
            found_in_pause: false,
            has_stack: false,
            owed_ns: 0,
            owed_within: Within::default(),
            within: Within::default(),
            moves: 0,
            delayed_ns: 0,
            look_ns: 0,
            told_late_ns: 0,
            watched: Watched::default(),
            turned_ns: 0,
            place: None,
            place_context: SpanContext::default(),
        };
        self.threads.insert(thread, new);
        // New threads go first: a short one may never be seen otherwise.
        self.schedule.put(thread, 0, 0);
    }

    /// Accounts for a thread's time up to its end.
    pub fn remove(&mut self, thread: ThreadRef, time_ns: u64, cpu_ns: u64) {
        let Some(mut ended) = self.threads.remove(&thread) else { return };
        ended.within = Within { since_ns: ended.time_ns, until_ns: time_ns };
        let off_cpu_ns = ended.off_cpu_ns(time_ns, cpu_ns.saturating_sub(ended.cpu_ns));
        let held_up = self.kernel.held_up(thread, time_ns, cpu_ns);
        let shares = Shares::unchanged(ended.place_context);
        let held_up_ns = self.charge_held_up(thread, &mut ended, held_up, off_cpu_ns, &shares);
        let wait_ns = off_cpu_ns.saturating_sub(held_up_ns);
        ended.owe(wait_ns);
        ended.post_owed(&self.inbox, thread);
        self.inbox.post(Event::Ended { thread });
    }

    /// Visits the threads that are due, as many as the beat says, and those that have a span.
    pub fn tick(&mut self) {
        let now_ns = self.kernel.now_ns();
        self.glance_at_resting(now_ns);
        let mut visited = 0;
        while visited < self.beat.threads
            && let Some(thread) = self.schedule.pop_moving(now_ns)
        {
            // A thread that has ended takes no visit from one that lives: were it counted, a
            // service that starts threads faster than they are visited would only look at dead
            // ones, in a list that grows.
            let Some(mut wall) = self.threads.remove(&thread) else { continue };
            visited = visited.saturating_add(1);
            let next_ns = self.visit(thread, &mut wall, UNSEEN_NS_MAX);
            self.threads.insert(thread, wall);
            self.schedule.put(thread, now_ns, next_ns);
        }
        self.visit_spans(now_ns);
    }

    /// Looks at threads that have been blocked for long, if it is time to. One that has moved takes
    /// its place among those that are visited, which costs more.
    fn glance_at_resting(&mut self, now_ns: u64) {
        while let Some(thread) = self.schedule.pop_resting(now_ns) {
            let Some(wall) = self.threads.get_mut(&thread) else { continue };
            self.samples = self.samples.saturating_add(1);
            let has_stayed = wall.glance(thread, self.shared, &mut self.kernel, &self.inbox);
            let next_ns = if has_stayed { wall.next_visit_ns(self.beat.tick_ns) } else { now_ns };
            self.schedule.put(thread, now_ns, next_ns);
        }
    }

    /// Charges all time up to now, or to when those clocks were read that are known.
    pub fn settle(&mut self, readings: &Readings) {
        let mut all = std::mem::take(&mut self.threads);
        for (thread, wall) in &mut all {
            let reading = readings.of(*thread, wall.time_ns);
            let has_stayed = reading.is_some_and(|reading| {
                wall.stays(*thread, reading, self.shared, &mut self.kernel, &self.inbox)
            });
            if !has_stayed {
                self.visit(*thread, wall, 0);
            }
            wall.post_owed(&self.inbox, *thread);
        }
        self.threads = all;
    }

    /// When the next thread is due, or the next look for spans, in monotonic nanoseconds.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        let spans_due_ns = self.spans_due_ns();
        [spans_due_ns, self.schedule.next_due_ns()].into_iter().flatten().min()
    }

    /// Visits made so far.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Accounts for a thread's time since its last visit; returns when to visit it again. Less than
    /// `unseen_ns_max` without a processor, in nanoseconds, is left to a later visit: all else of
    /// such a thread's time is in samples.
    fn visit(&mut self, thread: ThreadRef, wall: &mut WallThread, unseen_ns_max: u64) -> u64 {
        self.samples = self.samples.saturating_add(1);
        // The time first: a clock that has not moved by then had not at that time.
        let now_ns = self.kernel.now_ns();
        let soon_ns = now_ns.saturating_add(self.beat.tick_ns);
        // A thread that has just ended: its end is on its way, with the right clock.
        let Some(cpu_ns) = self.kernel.cpu_ns(wall.tid) else { return soon_ns };
        let clocks = (now_ns, cpu_ns);
        if wall.stays(thread, clocks, self.shared, &mut self.kernel, &self.inbox) {
            return wall.next_visit_ns(self.beat.tick_ns);
        }
        if wall.unseen_ns(now_ns, cpu_ns).is_some_and(|ns| ns < unseen_ns_max) {
            // What comes later belongs to what it works for by now.
            wall.shares(thread, self.shared, now_ns);
            return soon_ns;
        }
        let held_up = self.kernel.held_up(thread, now_ns, cpu_ns);
        let looked = match self.kernel.look(thread, wall.tid, cpu_ns) {
            // It has not moved since, so this is where it was stopped at its work.
            Looked::Blocked(_) if held_up.now => Looked::Running,
            Looked::Blocked(stack) => {
                Looked::Blocked(BlockedStack { in_pause: held_up.all, ..stack })
            }
            looked => looked,
        };
        match &looked {
            Looked::Moved | Looked::Unreadable => {
                let moved = matches!(looked, Looked::Moved);
                self.shared.count(if moved { Loss::Moved } else { Loss::StateUnreadable });
                wall.moves = wall.moves.saturating_add(1);
                if wall.moves < MOVES_MAX {
                    return soon_ns;
                }
            }
            Looked::Running | Looked::Blocked(_) => {}
        }
        wall.moves = 0;
        let shares = wall.shares(thread, self.shared, now_ns);
        let is_blocked = matches!(looked, Looked::Blocked(_));
        let now = Now { time_ns: now_ns, cpu_ns, held_up };
        let wait_ns = self.elapse(thread, wall, now, is_blocked, &shares);
        match looked {
            Looked::Blocked(stack) => self.charge_to(thread, wall, wait_ns, &shares, stack),
            Looked::Running | Looked::Moved | Looked::Unreadable => {
                self.charge_unseen(thread, wall, wait_ns, &shares);
            }
        }
        wall.next_visit_ns(self.beat.tick_ns)
    }

    /// Moves a thread's marks to now, and charges what held it up and its delays. Returns how long
    /// it waited in between.
    fn elapse(
        &mut self,
        thread: ThreadRef,
        wall: &mut WallThread,
        now: Now,
        is_blocked: bool,
        shares: &Shares,
    ) -> u64 {
        wall.within = Within { since_ns: wall.time_ns, until_ns: now.time_ns };
        let run_ns = now.cpu_ns.saturating_sub(wall.cpu_ns);
        let off_cpu_ns = wall.off_cpu_ns(now.time_ns, run_ns);
        let held_up_ns = self.charge_held_up(thread, wall, now.held_up, off_cpu_ns, shares);
        let passed = Passed {
            run_ns,
            off_cpu_ns: off_cpu_ns.saturating_sub(held_up_ns),
            held_up_ns,
            was_blocked: wall.blocked_since_ns.is_some(),
            is_blocked,
        };
        let kernel = &mut self.kernel;
        let stat = kernel.sched_stat(wall.tid);
        // A thread gives up its processor when it is stopped, too, and that is no wait.
        let stops = now.held_up.times;
        let switches = || Some(kernel.voluntary_switches(wall.tid)?.saturating_sub(stops));
        let split = wall.delays.split(passed, stat, wall.owed_ns, switches);
        // What was taken for a wait until the kernel counted it is a delay of before.
        let is_older = split.mistaken_ns > 0;
        let within = if is_older { wall.within.and(wall.owed_within) } else { wall.within };
        wall.owed_ns = wall.owed_ns.saturating_sub(split.mistaken_ns);
        wall.time_ns = now.time_ns;
        wall.cpu_ns = now.cpu_ns;
        for (context, wall_ns) in shares.of_lateness(split.late_ns) {
            // Late out of a wait of another request, which nobody has seen, since it was short: the
            // place that is known is not that one.
            if context == wall.place_context {
                self.post(Event::Late { thread, wall_ns }, wall_ns, within);
            } else {
                wall.delayed_ns = wall.delayed_ns.saturating_add(wall_ns);
                self.post(Event::Delayed { thread, wall_ns, context }, wall_ns, within);
            }
        }
        wall.delayed_ns = wall.delayed_ns.saturating_add(split.delay_ns);
        for (context, wall_ns) in shares.both(split.delay_ns) {
            self.post(Event::Delayed { thread, wall_ns, context }, wall_ns, within);
        }
        split.wait_ns
    }

    /// Charges for how long the runtime has held a thread up since the last visit. Returns it: no
    /// more than the time in which the thread was on no processor.
    fn charge_held_up(
        &mut self,
        thread: ThreadRef,
        wall: &mut WallThread,
        now: HeldUp,
        mut off_cpu_ns: u64,
        shares: &Shares,
    ) -> u64 {
        let before = wall.held_up;
        let mut all_ns = 0_u64;
        let states = [ThreadState::GcPause, ThreadState::Suspended];
        for ((state, now_ns), before_ns) in states.into_iter().zip(now.ns).zip(before.ns) {
            let ns = now_ns.saturating_sub(before_ns).min(off_cpu_ns);
            off_cpu_ns = off_cpu_ns.saturating_sub(ns);
            all_ns = all_ns.saturating_add(ns);
            for (context, wall_ns) in shares.both(ns) {
                let event = Event::HeldUp { thread, wall_ns, context, state };
                self.post(event, wall_ns, wall.within);
            }
        }
        wall.held_up = now.max(before);
        wall.delayed_ns = wall.delayed_ns.saturating_add(all_ns);
        all_ns
    }

    /// Posts what says of so many nanoseconds that lie there, if there are any.
    fn post(&self, event: Event, wall_ns: u64, within: Within) {
        if wall_ns > 0 {
            self.inbox.post_within(event, within);
        }
    }

    /// Charges a wait of a thread that is not blocked now.
    fn charge_unseen(
        &mut self,
        thread: ThreadRef,
        wall: &mut WallThread,
        wait_ns: u64,
        shares: &Shares,
    ) {
        // Between two requests it most likely waited for the second.
        let context = if shares.changed { SpanContext::default() } else { shares.after };
        if wall.blocked_since_ns.is_some() || context == wall.place_context {
            wall.owe(wait_ns);
        } else {
            let event = Event::WaitedUnseen { thread, wall_ns: wait_ns, context };
            self.post(event, wait_ns, wall.within);
        }
        wall.blocked_since_ns = None;
        // Else its next sample may be far off, and somewhere else: a thread that spins for work
        // on a busy machine uses hardly any CPU time.
        if wall.delayed_ns >= DELAY_NS_MAX {
            wall.delayed_ns = 0;
            self.kernel.sample_soon(thread);
        }
    }

    /// Charges a wait of a thread that is blocked now, at a stack that is new.
    fn charge_to(
        &mut self,
        thread: ThreadRef,
        wall: &mut WallThread,
        wait_ns: u64,
        shares: &Shares,
        stack: BlockedStack,
    ) {
        // A thread that ran at the last visit has begun to wait since.
        let was_blocked = wall.blocked_since_ns.is_some();
        let before_ns = if was_blocked { shares.of_wait(wait_ns) } else { 0 };
        if wall.has_stack {
            wall.owe(before_ns);
            wall.post_owed(&self.inbox, thread);
        }
        let place = stack.place();
        let since_ns = wall.blocked_since_ns.filter(|_| wall.only_woke(place, &stack));
        wall.place = place;
        wall.place_context = stack.context;
        wall.found_in_pause = stack.in_pause.now;
        self.inbox.post(Event::Blocked { thread, stack });
        // The second opinion can only be had on the thread itself.
        #[cfg(feature = "oracle")]
        let _sent =
            sys::disposition::send(wall.tid, sys::disposition::PROFILING_SIGNAL, thread.to_value());
        wall.owe(wait_ns.saturating_sub(before_ns));
        wall.has_stack = true;
        wall.look_ns = clock::look_cost_ns();
        wall.blocked_since_ns = since_ns.or(Some(wall.time_ns));
    }
}

#[cfg(test)]
mod tests;
