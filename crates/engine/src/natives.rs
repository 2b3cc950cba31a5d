//! Finds the threads that the runtime doesn't tell of: its own, such as those of the server GC, and
//! those of native libraries.
//!
//! The ticker looks a few times a second at how many threads there are, which is one system call
//! however many those are, and reads their list only if some are not known. A thread is taken in
//! when it has been there for a moment: most that are new are about to be told of by the runtime,
//! and most that were told to end are about to. What such a thread has used before is charged to it
//! all the same.
//!
//! **Signals to such threads.** Our handler runs on the stack that was interrupted, and uses no
//! alternate one. Whether that has room can be seen for the calling thread only
//! (`sys::alternate_stack`). For the others it is like this:
//!
//! - A thread of the runtime has the runtime's alternate stack of 16 KiB. It is on it for some
//!   microseconds after a fault, until the runtime's handler has moved on to the thread's normal
//!   stack. The small room is a danger to managed threads, for which a fault is a null reference
//!   and daily business. These threads run no managed code: a fault in one is the end of the
//!   process anyhow. (The finalizer's and the JIT's are managed threads, which see to their room
//!   themselves.)
//! - A thread of a library has a stack of a normal size, of which the signal takes some 4 KiB. If
//!   it has an alternate stack, then for faults, and the same holds.
//! - But a language's runtime may use stacks of a few KiB and count on handlers to leave them
//!   alone. Go's does. Where it is (`sys::disposition::has_small_stacks`), threads of libraries get
//!   no signal; their time is charged all the same, without stacks.
//!
//! A thread that has blocked the signal is in no danger, and gives no samples: its time goes to
//! `[unsampled]` with each profile.

use std::sync::Arc;

use model::ThreadClass;
use model::limits::{
    NATIVES_A_BEAT_MAX, NATIVES_BURST_NS_MAX, NATIVES_DISTANCE_NS_MAX, NATIVES_PAUSE,
};
use rustc_hash::{FxHashMap, FxHashSet};
use sys::proc::{Stat, thread_count, thread_ids, thread_name};
use sys::stacks::stacks_of;
use sys::{clock, thread};

use crate::registry::{Native, Readings, Registry};

/// Between two looks at the number of threads, in nanoseconds.
const BEAT_NS: u64 = 100_000_000;
/// The same after so many looks at which there was nobody new: most processes come to rest, and
/// what a thread uses before it is seen is charged to it all the same.
const QUIET_BEAT_NS: u64 = 500_000_000;
const QUIET_LOOKS: u32 = 50;
/// How long a thread has to be there, in nanoseconds.
const AGE_NS_MIN: u64 = 50_000_000;
/// After how long the list is read even if no thread is missing, in nanoseconds: two mistakes may
/// cancel out.
const LIST_NS_MAX: u64 = 300_000_000_000;
/// How often a thread's stack is looked for before it is taken in without one.
const STACK_TRIES: u32 = 5;

/// A thread that is not known yet.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    since_ns: u64,
    start_ticks: u64,
    tries: u32,
}

/// The finder.
pub struct Natives {
    registry: Arc<Registry>,
    candidates: FxHashMap<u32, Candidate>,
    next_ns: u64,
    /// Looks in a row at which there was nobody new.
    quiet_looks: u32,
    /// When the list is read at the latest.
    list_ns: u64,
    budget: Budget,
}

/// What looking may cost: a little at once, and a small share of a processor in the long run,
/// however many threads there are.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    /// CPU nanoseconds that were spent and have not been waited for yet.
    debt_ns: u64,
    /// When that was so.
    time_ns: u64,
}

impl Budget {
    /// How long to pause after a look that began then and took so long.
    fn pause_ns(&mut self, time_ns: u64, took_ns: u64) -> u64 {
        let earned_ns = time_ns.saturating_sub(self.time_ns) / NATIVES_PAUSE;
        self.debt_ns = self.debt_ns.saturating_sub(earned_ns).saturating_add(took_ns);
        self.time_ns = time_ns;
        let over_ns = self.debt_ns.saturating_sub(NATIVES_BURST_NS_MAX);
        over_ns.saturating_mul(NATIVES_PAUSE).clamp(BEAT_NS, NATIVES_DISTANCE_NS_MAX)
    }
}

impl Natives {
    /// A finder that tells the registry.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        let (candidates, budget) = (FxHashMap::default(), Budget::default());
        Self { registry, candidates, next_ns: 0, quiet_looks: 0, list_ns: 0, budget }
    }

    /// Looks for threads that have come or gone, if it is time to.
    pub fn tick(&mut self) {
        let start_ns = clock::monotonic_ns();
        if start_ns < self.next_ns || !self.registry.tracks_natives() {
            return;
        }
        let start_cpu_ns = clock::own_cpu_ns();
        self.registry.end_gone_natives();
        let is_time = start_ns >= self.list_ns;
        let is_quiet = self.candidates.is_empty() && !self.is_any_missing();
        self.quiet_looks = if is_quiet { self.quiet_looks.saturating_add(1) } else { 0 };
        if is_time || !is_quiet {
            self.list_ns = start_ns.saturating_add(LIST_NS_MAX);
            self.look(start_ns);
        }
        let took_ns = clock::own_cpu_ns().saturating_sub(start_cpu_ns);
        let beat_ns = if self.quiet_looks < QUIET_LOOKS { BEAT_NS } else { QUIET_BEAT_NS };
        let pause_ns = self.budget.pause_ns(start_ns, took_ns).max(beat_ns);
        self.next_ns = start_ns.saturating_add(pause_ns);
    }

    /// Charges all CPU time up to now that no sample will carry; returns the clocks that it read.
    pub fn settle(&mut self) -> Readings {
        // Nearly all threads are known nearly always, and their list is long if they are many.
        let now_ns = clock::monotonic_ns();
        let lists = now_ns >= self.list_ns || self.is_any_missing();
        let (ids, readings) = self.registry.settle(lists);
        let own = thread::spawned_ids().unwrap_or_default();
        let is_unknown = |tid: &u32| !self.registry.is_tracked(*tid) && !own.contains(tid);
        if ids.iter().any(is_unknown) {
            self.list_ns = now_ns;
        } else if lists {
            self.list_ns = now_ns.saturating_add(LIST_NS_MAX);
        }
        readings
    }

    fn is_any_missing(&self) -> bool {
        let own = thread::spawned_ids().map_or(0, |ids| ids.len());
        let known = self.registry.tracked_count().saturating_add(own);
        thread_count() != Some(known)
    }

    fn look(&mut self, now_ns: u64) {
        // One of ours that is just being made can't be told from the others; the next look will.
        let Some(own) = thread::spawned_ids() else { return };
        let Ok(mut ids) = thread_ids() else { return };
        ids.retain(|tid| !own.contains(tid) && !self.registry.is_tracked(*tid));
        let unknown: FxHashSet<u32> = ids.iter().copied().collect();
        self.candidates.retain(|tid, _| unknown.contains(tid));
        ids.truncate(NATIVES_A_BEAT_MAX);
        let ripe: Vec<(u32, Candidate)> =
            ids.iter().filter_map(|tid| self.ripe(*tid, now_ns)).collect();
        if ripe.is_empty() {
            return;
        }
        let tids: Vec<u32> = ripe.iter().map(|(tid, _)| *tid).collect();
        for ((tid, candidate), stack) in ripe.into_iter().zip(stacks_of(&tids).of_threads) {
            if stack.is_none() && candidate.tries < STACK_TRIES {
                let again = Candidate { tries: candidate.tries.saturating_add(1), ..candidate };
                self.candidates.insert(tid, again);
                continue;
            }
            self.candidates.remove(&tid);
            // The id may have become another thread's while its stack was looked for.
            if start_ticks(tid) != Some(candidate.start_ticks) {
                continue;
            }
            let name = thread_name(tid).unwrap_or_default();
            let class = ThreadClass::of_native(&name);
            let start_ticks = candidate.start_ticks;
            self.registry.adopt(Native { tid, name, class, stack, start_ticks });
        }
    }

    /// A thread that has been there for long enough; others are noted.
    fn ripe(&mut self, tid: u32, now_ns: u64) -> Option<(u32, Candidate)> {
        let start_ticks = start_ticks(tid)?;
        let new = Candidate { since_ns: now_ns, start_ticks, tries: 0 };
        let candidate = self.candidates.entry(tid).or_insert(new);
        if candidate.start_ticks != start_ticks {
            *candidate = new;
        }
        let age_ns = now_ns.saturating_sub(candidate.since_ns);
        (age_ns >= AGE_NS_MIN).then_some((tid, *candidate))
    }
}

fn start_ticks(tid: u32) -> Option<u64> {
    Some(Stat::read(tid)?.start_ticks)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use config::LogLevel;

    use super::*;
    use crate::cpu::CpuSampler;
    use crate::event::{Event, Inbox};
    use crate::fake::{events, shared_with_tids};
    use crate::log::Log;

    /// Longer than any look takes, however busy the machine.
    const LIMIT: Duration = Duration::from_secs(60);

    fn registry() -> (Arc<Registry>, Arc<Inbox>) {
        let inbox = Arc::new(Inbox::default());
        let cpu = CpuSampler::new(None, Duration::ZERO, 0, Log::new(LogLevel::Off, None));
        let registry = Registry::new(shared_with_tids(4096, 2), Arc::clone(&inbox), cpu);
        (Arc::new(registry), inbox)
    }

    /// Ticks until something holds.
    fn tick_until(natives: &mut Natives, mut holds: impl FnMut() -> bool) {
        let start = std::time::Instant::now();
        while !holds() {
            assert!(start.elapsed() < LIMIT, "it never holds");
            natives.tick();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn looks_cost_little_in_the_long_run() {
        for took_ns in [10_000, 1_000_000, 30_000_000] {
            let mut budget = Budget::default();
            let (mut time_ns, mut spent_ns) = (5_000_000_000_u64, 0_u64);
            let start_ns = time_ns;
            assert_eq!(budget.pause_ns(time_ns, 100_000), BEAT_NS, "the first ones are free");
            for _ in 0..1000 {
                time_ns += budget.pause_ns(time_ns, took_ns);
                spent_ns += took_ns;
            }
            let least = spent_ns.saturating_sub(NATIVES_BURST_NS_MAX + took_ns) * NATIVES_PAUSE;
            let longest_ns = 1000 * NATIVES_DISTANCE_NS_MAX;
            assert!(time_ns - start_ns >= least.min(longest_ns * 9 / 10), "{took_ns}");
            assert!(time_ns - start_ns <= longest_ns);
        }
    }

    #[test]
    fn threads_are_found_and_ours_are_not() {
        let (registry, inbox) = registry();
        let mut natives = Natives::new(Arc::clone(&registry));
        let (tell, told) = mpsc::channel();
        let body = |tell: mpsc::Sender<u32>, ended: mpsc::Receiver<()>| {
            move || {
                tell.send(thread::own_id()).expect("somebody listens");
                let _closed = ended.recv();
            }
        };
        let (end, ended) = mpsc::channel();
        let (end_own, ended_own) = mpsc::channel();
        let name = ".NET Server GC".to_owned();
        let theirs = std::thread::Builder::new().name(name).spawn(body(tell.clone(), ended));
        let tid = told.recv().expect("an id");
        thread::spawn("ours", body(tell, ended_own)).expect("a thread");
        let own = told.recv().expect("an id");
        natives.tick();
        assert!(!registry.is_tracked(tid), "nothing is tracked before it has begun");
        registry.begin(true);
        tick_until(&mut natives, || registry.is_tracked(tid));
        assert!(!registry.is_tracked(own));
        let heard = events(&inbox);
        let thread = heard.iter().find_map(|event| match event {
            Event::Started { thread, tid: started } if *started == tid => Some(*thread),
            _ => None,
        });
        let thread = thread.expect("started");
        assert!(heard.iter().any(|event| matches!(
            event,
            Event::Classed { thread: classed, class: ThreadClass::ServerGc } if *classed == thread
        )));
        assert!(heard.iter().any(|event| matches!(
            event,
            Event::Named { thread: named, name } if *named == thread && name == ".NET Server GC"
        )));
        drop(end);
        theirs.expect("a thread").join().expect("no panic");
        tick_until(&mut natives, || !registry.is_tracked(tid));
        registry.stop();
        assert!(!registry.tracks_natives());
        drop(end_own);
    }
}
