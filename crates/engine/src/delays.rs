//! What delayed a thread: ready for a processor, it had none.
//!
//! The kernel counts a delay when it ends. A thread that is visited in the middle of one seems to
//! wait, so two sums correct each other here: what was charged as a delay before the kernel counted
//! it is not charged again, and what was charged as a wait is handed back.
//!
//! Some delays come after a wait: the thread was late to come out of it, and stood at its stack.
//! The others come in the middle of work. The kernel adds them all up, but it counts a thread's
//! turns on a processor, and how often it gave one up by itself; a turn that no wait came before
//! is one after a delay at work. Each turn is given the same share.

use sys::proc::SchedStat;

/// A delay that is shorter than this is not looked into, in nanoseconds: the count of waits costs
/// more than all else of a visit.
const LOOKED_INTO_NS_MIN: u64 = 1_000_000;
/// A thread that ran for less than its delay divided by this did not compute, if nothing more is
/// known: it was late to come out of a wait.
const LATE_DIVISOR: u64 = 16;
/// A thread that runs for less than this in a turn, in nanoseconds, never waits, and hardly runs,
/// spins for the end of a wait, and yields: others take a slice each time, and the kernel counts no
/// wait. One that computes keeps a processor for its slice, which is some milliseconds; where
/// others wake all the time its turns are as short, but they are a fair part of the time.
const SPIN_TURN_NS: u64 = 500_000;

/// How often a thread waited, up to some moment.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// How often it had given up its processor by itself.
    switches: u64,
    /// How often it had been given one.
    turns: u64,
    /// How long it had run, in nanoseconds.
    run_ns: u64,
    /// Whether it was blocked.
    blocked: bool,
}

/// What a thread did since the last visit.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Nanoseconds on a processor.
    pub run_ns: u64,
    /// Nanoseconds without one, other than those in which the runtime held it up.
    pub off_cpu_ns: u64,
    /// Nanoseconds in which the runtime held it up.
    pub held_up_ns: u64,
    /// Whether it was blocked then.
    pub was_blocked: bool,
    /// Whether it is blocked now.
    pub is_blocked: bool,
}

/// How the time without a processor was spent, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// It waited.
    pub wait_ns: u64,
    /// It was late to come out of a wait.
    pub late_ns: u64,
    /// It was kept from its work.
    pub delay_ns: u64,
    /// What had been taken for a wait at earlier visits, and is in one of the other two now.
    pub mistaken_ns: u64,
}

/// What is known of a thread's delays.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    counted_ns: u64,
    /// Charged as delays, and not yet counted by the kernel.
    ahead_ns: u64,
    asked: Option<Asked>,
    /// How often the thread had been given a processor at the last visit, and at the one before.
    turns: [u64; 2],
}

impl Delays {
    /// Of a thread that runs, with its counts.
    #[must_use]
    pub fn new(stat: SchedStat, switches: Option<u64>) -> Self {
        let ask =
            |switches| Asked { switches, turns: stat.turns, run_ns: stat.run_ns, blocked: false };
        Self {
            counted_ns: stat.delay_ns,
            ahead_ns: 0,
            asked: switches.map(ask),
            turns: [stat.turns; 2],
        }
    }

    /// How often the thread was given a processor between the last two visits; 0 if that is not
    /// counted.
    #[must_use]
    pub fn turns_passed(&self) -> u64 {
        let [last, before] = self.turns;
        last.saturating_sub(before)
    }

    /// Splits the time without a processor. `owed_ns` is what was taken for a wait before and can
    /// be handed back; `switches` asks how often the thread has given up its processor by itself.
    pub fn split(
        &mut self,
        passed: Passed,
        stat: Option<SchedStat>,
        owed_ns: u64,
        switches: impl FnOnce() -> Option<u64>,
    ) -> Split {
        let [last, _] = self.turns;
        self.turns = [stat.map_or(last, |stat| stat.turns), last];
        let Some(stat) = stat else { return uncounted(passed) };
        let new_ns = self.not_charged(stat.delay_ns, passed.run_ns);
        let inside_ns = new_ns.min(passed.off_cpu_ns);
        // What doesn't fit in may have been while the runtime held it up, and did not let it wait:
        // so it is with the thread that collects.
        let outside_ns = new_ns.saturating_sub(inside_ns).saturating_sub(passed.held_up_ns);
        let mistaken_ns = outside_ns.min(owed_ns);
        let wait_ns = passed.off_cpu_ns.saturating_sub(inside_ns);
        let delay_ns = inside_ns.saturating_add(mistaken_ns);
        let unexplained = !passed.is_blocked && !passed.was_blocked;
        let asks = delay_ns >= LOOKED_INTO_NS_MIN || unexplained && wait_ns >= LOOKED_INTO_NS_MIN;
        let turns = asks.then(|| self.turns(stat, passed.is_blocked, switches())).flatten();
        let late_ns = late(delay_ns, passed.run_ns, turns);
        let mut split =
            Split { wait_ns, late_ns, delay_ns: delay_ns.saturating_sub(late_ns), mistaken_ns };
        // It has not waited: the processor was taken away, and not given back until now; or by
        // what the kernel's run queue does not know of, the hypervisor or interrupts.
        if unexplained
            && wait_ns >= LOOKED_INTO_NS_MIN
            && matches!(turns, Some(Turns { after_waits: 0, .. }))
        {
            self.ahead_ns = self.ahead_ns.saturating_add(wait_ns);
            split.delay_ns = split.delay_ns.saturating_add(wait_ns);
            split.wait_ns = 0;
        }
        split
    }

    /// What the kernel has counted since, less what was charged before it did.
    fn not_charged(&mut self, counted_ns: u64, run_ns: u64) -> u64 {
        let grown_ns = counted_ns.saturating_sub(self.counted_ns);
        self.counted_ns = counted_ns;
        let new_ns = grown_ns.saturating_sub(self.ahead_ns);
        if grown_ns > 0 || run_ns > 0 {
            // What was charged ahead is counted by now, or never will be.
            self.ahead_ns = 0;
        }
        new_ns
    }

    /// The turns since this was last asked.
    fn turns(&mut self, stat: SchedStat, blocked: bool, switches: Option<u64>) -> Option<Turns> {
        let SchedStat { turns, run_ns, .. } = stat;
        let now = Asked { switches: switches?, turns, run_ns, blocked };
        let before = self.asked.replace(now)?;
        let waits = now.switches.saturating_sub(before.switches);
        // The wait that was under way then has ended, the one that is under way now has not.
        let after_waits =
            waits.saturating_add(before.blocked.into()).saturating_sub(now.blocked.into());
        Some(Turns {
            all: turns.saturating_sub(before.turns),
            after_waits,
            run_ns: run_ns.saturating_sub(before.run_ns),
        })
    }
}

/// Where the kernel does not count delays: a thread that was at work both times, and is not seen to
/// wait, most likely wanted a processor all the time. All else is wait.
fn uncounted(passed: Passed) -> Split {
    let Passed { off_cpu_ns, was_blocked, is_blocked, .. } = passed;
    if was_blocked || is_blocked {
        Split { wait_ns: off_cpu_ns, ..Split::default() }
    } else {
        Split { delay_ns: off_cpu_ns, ..Split::default() }
    }
}

/// How often a thread was given a processor.
#[derive(Clone, Copy, Debug)]
struct Turns {
    all: u64,
    /// After a wait.
    after_waits: u64,
    /// How long it ran in all of them, in nanoseconds.
    run_ns: u64,
}

impl Turns {
    /// Whether they were too short for work.
    fn spins(self) -> bool {
        self.run_ns.checked_div(self.all).is_some_and(|run_ns| run_ns < SPIN_TURN_NS)
    }
}

/// How much of a delay came after waits.
fn late(delay_ns: u64, run_ns: u64, turns: Option<Turns>) -> u64 {
    let hardly_ran = run_ns < delay_ns / LATE_DIVISOR;
    match turns {
        Some(turns) if hardly_ran && turns.spins() => delay_ns,
        Some(Turns { after_waits: 0, .. }) => 0,
        _ if hardly_ran => delay_ns,
        Some(Turns { all, after_waits, .. }) => {
            let share = u128::from(delay_ns) * u128::from(after_waits.min(all));
            share.checked_div(all.into()).and_then(|ns| ns.try_into().ok()).unwrap_or(0)
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stat(delay_ms: u64, turns: u64) -> Option<SchedStat> {
        Some(SchedStat { run_ns: turns * 4 * MS, delay_ns: delay_ms * MS, turns })
    }

    fn passed(run_ms: u64, off_cpu_ms: u64, was_blocked: bool, is_blocked: bool) -> Passed {
        let (run_ns, off_cpu_ns) = (run_ms * MS, off_cpu_ms * MS);
        Passed { run_ns, off_cpu_ns, held_up_ns: 0, was_blocked, is_blocked }
    }

    /// Milliseconds of wait, lateness, delay and mistake.
    fn split([wait_ms, late_ms, delay_ms, mistaken_ms]: [u64; 4]) -> Split {
        Split {
            wait_ns: wait_ms * MS,
            late_ns: late_ms * MS,
            delay_ns: delay_ms * MS,
            mistaken_ns: mistaken_ms * MS,
        }
    }

    fn fresh() -> Delays {
        Delays::new(stat(100, 10).expect("counted"), Some(5))
    }

    #[test]
    fn a_delay_is_work_delayed_unless_waits_came_before_it() {
        for (passed, turns, switches, expected) in [
            // It never waited.
            (passed(4, 9, false, false), 12, 5, [3, 0, 6, 0]),
            // One turn, after the one wait.
            (passed(4, 30, true, false), 11, 6, [24, 6, 0, 0]),
            // Three turns, of which one after the wait.
            (passed(4, 30, false, false), 13, 6, [24, 2, 4, 0]),
            // It waits now, and ran before: the wait that goes on has delayed nothing.
            (passed(4, 30, false, true), 12, 6, [24, 0, 6, 0]),
            // It hardly ran.
            (passed(0, 30, true, false), 13, 6, [24, 6, 0, 0]),
            // More waits than turns, if one reading is later than the other.
            (passed(4, 30, false, false), 11, 9, [24, 6, 0, 0]),
            (passed(4, 30, false, false), 10, 9, [24, 0, 6, 0]),
        ] {
            let mut expected = split(expected);
            if switches == 5 {
                // No wait at all: what the run queue has not counted is a delay, too.
                expected.delay_ns += std::mem::take(&mut expected.wait_ns);
            }
            let found = fresh().split(passed, stat(106, turns), 0, || Some(switches));
            assert_eq!(found, expected, "{passed:?} {turns} {switches}");
        }
    }

    #[test]
    fn a_thread_that_spins_and_yields_was_late() {
        // 50 turns of 20 us each, and it has not waited.
        let stat = SchedStat { run_ns: 41 * MS, delay_ns: 130 * MS, turns: 60 };
        let found = fresh().split(passed(1, 32, false, false), Some(stat), 0, || Some(5));
        assert_eq!((found.late_ns, found.wait_ns), (30 * MS, 0));
        // As many turns that others' wakes cut short, of a thread that has its part of the time.
        let stat = SchedStat { run_ns: 50 * MS, delay_ns: 130 * MS, turns: 60 };
        let found = fresh().split(passed(10, 32, false, false), Some(stat), 0, || Some(5));
        assert_eq!((found.late_ns, found.delay_ns), (0, 32 * MS));
        // So many turns of a slice each are work.
        let stat = SchedStat { run_ns: 240 * MS, delay_ns: 130 * MS, turns: 60 };
        let found = fresh().split(passed(200, 32, false, false), Some(stat), 0, || Some(5));
        assert_eq!((found.late_ns, found.delay_ns), (0, 32 * MS));
    }

    #[test]
    fn a_delay_under_way_is_charged_once() {
        let mut delays = fresh();
        let unswitched = || Some(5);
        // Not counted yet, but it has not waited.
        let found = delays.split(passed(1, 7, false, false), stat(100, 10), 0, unswitched);
        assert_eq!(found, split([0, 0, 7, 0]));
        // It goes on, and ends: 12 ms are counted, and 7 of them are charged.
        let found = delays.split(passed(0, 3, false, false), stat(100, 10), 0, unswitched);
        assert_eq!(found, split([0, 0, 3, 0]));
        let found = delays.split(passed(2, 2, false, false), stat(112, 11), 0, unswitched);
        assert_eq!(found, split([0, 0, 2, 0]));
        // What the hypervisor took is never counted, and hides no later delay for long.
        let found = delays.split(passed(1, 7, false, false), stat(112, 11), 0, unswitched);
        assert_eq!(found, split([0, 0, 7, 0]));
        let found = delays.split(passed(3, 0, false, false), stat(112, 11), 0, unswitched);
        assert_eq!(found, split([0, 0, 0, 0]));
        let found = delays.split(passed(3, 4, false, true), stat(116, 12), 0, unswitched);
        assert_eq!(found, split([0, 0, 4, 0]));
    }

    #[test]
    fn what_was_taken_for_a_wait_is_handed_back_as_far_as_it_is_owed() {
        for (owed_ms, mistaken_ms) in [(0, 0), (3, 3), (50, 5)] {
            let found =
                fresh().split(passed(4, 9, true, false), stat(114, 11), owed_ms * MS, || Some(6));
            assert_eq!(found, split([0, 9 + mistaken_ms, 0, mistaken_ms]), "{owed_ms} ms owed");
        }
    }

    #[test]
    fn short_delays_ask_for_no_switches_and_unknown_ones_are_work() {
        let never = || -> Option<u64> { panic!("asked") };
        let short = SchedStat { run_ns: 48 * MS, delay_ns: 100 * MS + MS - 1, turns: 12 };
        let found = fresh().split(passed(4, 20, true, false), Some(short), 0, never);
        assert_eq!((found.late_ns, found.delay_ns), (0, MS - 1));
        let found = fresh().split(passed(4, 20, true, true), stat(100, 12), 0, never);
        assert_eq!(found, split([20, 0, 0, 0]));
        // Where the kernel counts nothing, a thread that is at work both times wanted a processor.
        let found = fresh().split(passed(4, 20, false, false), None, 0, never);
        assert_eq!(found, split([0, 0, 20, 0]));
        for (was_blocked, is_blocked) in [(true, false), (false, true), (true, true)] {
            let found = fresh().split(passed(4, 20, was_blocked, is_blocked), None, 0, never);
            assert_eq!(found, split([20, 0, 0, 0]));
        }
        let mut unasked = Delays::new(stat(100, 10).expect("counted"), None);
        let found = unasked.split(passed(4, 20, false, false), stat(106, 12), 0, || None);
        assert_eq!(found, split([14, 0, 6, 0]));
    }
}
