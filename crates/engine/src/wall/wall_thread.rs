//! A thread as the wall sampler sees it.

use super::*;

/// A thread as the wall sampler sees it.
pub(super) struct WallThread {
    pub(super) tid: u32,
    /// Up to when its time is accounted for.
    pub(super) time_ns: u64,
    /// Its CPU clock then.
    pub(super) cpu_ns: u64,
    pub(super) delays: Delays,
    /// How the runtime had held it up then.
    pub(super) held_up: HeldUp,
    /// When it was found blocked where it is now, and since when it has been nowhere else; `None`
    /// if it ran at the last visit.
    pub(super) blocked_since_ns: Option<u64>,
    /// Whether that was in a pause, and nobody has said that it waits for something else.
    pub(super) found_in_pause: bool,
    /// Whether the collector knows a stack that it was blocked at.
    pub(super) has_stack: bool,
    /// Wait that belongs to that stack (or to the next, if there is none yet) and is not yet
    /// posted.
    pub(super) owed_ns: u64,
    /// When that was.
    pub(super) owed_within: Within,
    /// From the visit before the last one, or what else came before, to the last.
    pub(super) within: Within,
    pub(super) moves: u32,
    /// Delays that wait for a sample to be charged to.
    pub(super) delayed_ns: u64,
    /// Processor time that the last look may have cost the thread, in nanoseconds.
    pub(super) look_ns: u64,
    /// CPU time that was told later than it was used, in nanoseconds, and is still to be taken off
    /// time without a processor.
    pub(super) told_late_ns: u64,
    /// Which request it works for.
    pub(super) watched: Watched,
    /// When another request than before was last found at a visit.
    pub(super) turned_ns: u64,
    /// Where it was last blocked ([`BlockedStack::place`]).
    pub(super) place: Option<u64>,
    /// Which it worked for where it was last blocked.
    pub(super) place_context: SpanContext,
}

impl WallThread {
    /// Accounts for the time of a thread that has not moved since it was found blocked; returns
    /// whether it is one.
    pub(super) fn glance<K: Kernel>(
        &mut self,
        thread: ThreadRef,
        shared: &Shared,
        kernel: &mut K,
        inbox: &Inbox,
    ) -> bool {
        if self.blocked_since_ns.is_none() {
            return false;
        }
        // The time first: a clock that has not moved by then had not at that time.
        let now_ns = kernel.now_ns();
        let Some(cpu_ns) = kernel.cpu_ns(self.tid) else { return false };
        self.stays(thread, (now_ns, cpu_ns), shared, kernel, inbox)
    }

    /// The same, given a time and the thread's CPU clock of then or later.
    pub(super) fn stays<K: Kernel>(
        &mut self,
        thread: ThreadRef,
        (now_ns, cpu_ns): (u64, u64),
        shared: &Shared,
        kernel: &mut K,
        inbox: &Inbox,
    ) -> bool {
        let Some(since_ns) = self.blocked_since_ns.filter(|_| clock::is_exact()) else {
            return false;
        };
        if !self.stands(Some(cpu_ns)) {
            return false;
        }
        self.shares(thread, shared, now_ns);
        self.within = Within { since_ns: self.time_ns, until_ns: now_ns };
        self.owe(now_ns.saturating_sub(self.time_ns));
        self.time_ns = now_ns;
        if self.found_in_pause
            && now_ns.saturating_sub(since_ns) > OUTLASTED_NS
            && !kernel.held_up(thread, now_ns, self.cpu_ns).all.now
        {
            self.found_in_pause = false;
            inbox.post(Event::Outlasted { thread });
        }
        true
    }

    /// For how long a thread that ran at its last visit has been on no processor since; `None` for
    /// others, and where a clock of ticks can't say.
    pub(super) fn unseen_ns(&self, now_ns: u64, cpu_ns: u64) -> Option<u64> {
        let runs = self.blocked_since_ns.is_none() && clock::is_exact();
        let run_ns = cpu_ns.saturating_sub(self.cpu_ns);
        runs.then(|| now_ns.saturating_sub(self.time_ns).saturating_sub(run_ns))
    }

    /// Whether a thread that is blocked here was nowhere else since it was last found blocked: it
    /// has been given a processor once, so it waited twice, at the same place
    /// ([`BlockedStack::place`]).
    pub(super) fn only_woke(&self, place: Option<u64>, stack: &BlockedStack) -> bool {
        self.delays.turns_passed() == 1
            && place.is_some()
            && self.place == place
            && self.place_context == stack.context
            // What it waits for in a pause is another thing.
            && !self.found_in_pause
            && !stack.in_pause.now
    }

    /// When to visit a thread again that has just been found where it was.
    pub(super) fn next_visit_ns(&self, tick_ns: u64) -> u64 {
        let stood_ns = self.blocked_since_ns.map_or(0, |since| self.time_ns.saturating_sub(since));
        let distance_ns = stood_ns / WALL_BACKOFF_DIVISOR;
        self.time_ns.saturating_add(distance_ns.clamp(tick_ns, WALL_DISTANCE_NS_MAX.max(tick_ns)))
    }

    /// Whom the time since the last visit belongs to.
    pub(super) fn shares(&mut self, thread: ThreadRef, shared: &Shared, now_ns: u64) -> Shares {
        let record = shared.records.get(thread.index as usize);
        let shares = record.map_or_else(Shares::default, |record| {
            self.watched.visit(record.context(), self.time_ns, now_ns)
        });
        if shares.changed {
            self.turned_ns = now_ns;
        }
        shares
    }

    /// Notes a wait that lies within the time since the last visit.
    pub(super) fn owe(&mut self, wait_ns: u64) {
        if wait_ns == 0 {
            return;
        }
        let is_first = self.owed_ns == 0;
        self.owed_within = if is_first { self.within } else { self.owed_within.and(self.within) };
        self.owed_ns = self.owed_ns.saturating_add(wait_ns);
    }

    /// Hands the owed wait to the collector.
    pub(super) fn post_owed(&mut self, inbox: &Inbox, thread: ThreadRef) {
        let wall_ns = std::mem::take(&mut self.owed_ns);
        if wall_ns > 0 {
            inbox.post_within(Event::Waited { thread, wall_ns }, self.owed_within);
        }
    }
}
