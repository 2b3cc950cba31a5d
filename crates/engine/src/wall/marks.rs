//! What a thread's CPU clock says since the last visit, where it is not told to the nanosecond.

use super::WallThread;

impl WallThread {
    /// How long it was on no processor since the last visit. A clock of ticks says late that the
    /// thread has run: more than there was time for is taken off what comes next.
    pub(super) fn off_cpu_ns(&mut self, now_ns: u64, run_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.time_ns);
        let late_ns = self.told_late_ns.saturating_add(run_ns);
        self.told_late_ns = late_ns.saturating_sub(elapsed_ns);
        elapsed_ns.saturating_sub(late_ns)
    }

    /// Whether a thread whose clock says that has not run since its last visit. What the look at it
    /// cost itself is no sign that it has, once.
    pub(super) fn stands(&mut self, cpu_ns: Option<u64>) -> bool {
        let Some(run_ns) = cpu_ns.and_then(|cpu_ns| cpu_ns.checked_sub(self.cpu_ns)) else {
            return false;
        };
        if run_ns > self.look_ns {
            return false;
        }
        if run_ns > 0 {
            self.cpu_ns = self.cpu_ns.saturating_add(run_ns);
            self.look_ns = 0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use sys::proc::SchedStat;

    use super::*;
    use crate::delays::Delays;
    use crate::event::Within;
    use crate::wall::HeldUp;
    use crate::watched::Watched;

    const MS: u64 = 1_000_000;

    fn waiting() -> WallThread {
        WallThread {
            tid: 7,
            time_ns: 0,
            cpu_ns: 100,
            delays: Delays::new(SchedStat::default(), None),
            held_up: HeldUp::default(),
            blocked_since_ns: Some(0),
            found_in_pause: false,
            has_stack: true,
            owed_ns: 0,
            owed_within: Within::default(),
            within: Within::default(),
            moves: 0,
            delayed_ns: 0,
            look_ns: 50,
            told_late_ns: 0,
            watched: Watched::default(),
            turned_ns: 0,
            place: None,
            place_context: signal::context::SpanContext::default(),
        }
    }

    #[test]
    fn what_is_told_late_is_taken_off_what_comes_next() {
        let mut thread = waiting();
        // Busy all the time, by a clock of ticks of 10 ms, looked at each 6 ms.
        let told = [0, 10, 0, 10, 10, 0, 10, 10, 0, 0];
        let (mut off_ns, mut now_ns) = (0, 0);
        for run_ms in told {
            now_ns += 6 * MS;
            off_ns += thread.off_cpu_ns(now_ns, run_ms * MS);
            thread.time_ns = now_ns;
        }
        let run_ns: u64 = told.iter().sum::<u64>() * MS;
        assert_eq!(off_ns + run_ns, now_ns + thread.told_late_ns);
        assert!(thread.told_late_ns <= 10 * MS);
    }

    #[test]
    fn what_a_look_costs_the_thread_is_forgiven_once() {
        let mut thread = waiting();
        assert!(thread.stands(Some(100)), "nothing was used yet");
        assert!(thread.stands(Some(130)), "by the look");
        assert!(thread.stands(Some(130)));
        assert!(!thread.stands(Some(131)), "by itself");
        let mut thread = waiting();
        assert!(!thread.stands(Some(151)), "more than a look costs");
        assert!(!thread.stands(Some(99)) && !thread.stands(None), "another thread's, or none");
    }
}
