//! What the kernel counts for the process, held against what was counted thread by thread: the
//! difference is the time of threads that nobody saw, since they were over too soon.

/// The balance, in nanoseconds of CPU time since it was begun.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balance {
    /// The process's clock at the beginning, less the profiler's own threads'.
    start_ns: u64,
    /// What threads have used that are no longer tracked.
    ended_ns: u64,
    /// What has been charged to nobody so far.
    unseen_ns: u64,
}

impl Balance {
    /// A balance that begins now.
    #[must_use]
    pub fn begin(process_ns: u64, own_ns: u64) -> Self {
        Self { start_ns: process_ns.saturating_sub(own_ns), ..Self::default() }
    }

    /// A thread is no longer tracked; it used so much while it was, and before that.
    pub fn ended(&mut self, used_ns: u64) {
        self.ended_ns = self.ended_ns.saturating_add(used_ns);
    }

    /// What is to be charged to nobody, besides what was before. `living_ns` is what the threads
    /// that are there have used, tracked or not. The process's clock has to be read first: then an
    /// error of the readings is a time that comes a little later, and none that is charged twice.
    pub fn owed_ns(&mut self, process_ns: u64, own_ns: u64, living_ns: u64) -> u64 {
        let counted_ns = self.ended_ns.saturating_add(living_ns);
        let all_ns = process_ns.saturating_sub(own_ns).saturating_sub(self.start_ns);
        let owed_ns = all_ns.saturating_sub(counted_ns).saturating_sub(self.unseen_ns);
        self.unseen_ns = self.unseen_ns.saturating_add(owed_ns);
        owed_ns
    }
}

#[cfg(test)]
mod tests {
    use super::Balance;

    #[test]
    fn what_nobody_counted_is_charged_once() {
        let mut balance = Balance::begin(1_000, 100);
        // 500 since, of which 30 were the profiler's and 400 a thread's that lives.
        assert_eq!(balance.owed_ns(1_500, 130, 400), 70);
        assert_eq!(balance.owed_ns(1_500, 130, 400), 0);
        // Its end changes nothing.
        balance.ended(400);
        assert_eq!(balance.owed_ns(1_500, 130, 0), 0);
        // Clocks that are read later than the process's: nothing is owed, nothing charged twice.
        assert_eq!(balance.owed_ns(1_600, 130, 105), 0);
        assert_eq!(balance.owed_ns(1_610, 130, 105), 5);
    }
}
