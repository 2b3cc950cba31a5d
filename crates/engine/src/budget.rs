//! What the profiler may cost: above it, samples are taken less often. Values are what the kernel
//! counted between two samples, so totals don't depend on it.

use model::limits::{BUDGET_BURST_NS, HANDLER_NS, SLOWDOWN_MAX};

/// Between two decisions, in nanoseconds: what an earlier one does must be seen first.
const STEP_NS: u64 = 2_000_000_000;
/// What is no limit, in millionths.
const NO_LIMIT_PPM: u32 = 1_000_000;

/// An account of CPU time: time passing fills it, the profiler's work empties it.
#[derive(Clone, Debug)]
pub struct Budget {
    /// CPU nanoseconds a nanosecond; `None` without a limit.
    rate: Option<f64>,
    /// What may be spent, or owed, at once, in CPU nanoseconds.
    burst_ns: f64,
    /// What may be spent, in CPU nanoseconds; negative if too much was. No more than the burst, on
    /// either side.
    credit_ns: f64,
    last: Option<Spent>,
    /// By how much sampling is slowed down: a power of two.
    slowdown: u32,
}

/// What has been spent up to a time, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Spent {
    time_ns: u64,
    cost_ns: u64,
}

impl Budget {
    /// A share of so many processors, in millionths.
    #[must_use]
    pub fn new(share_ppm: u32, processors: f64) -> Self {
        let rate = f64::from(share_ppm) / 1e6 * processors;
        let burst_ns = rate * BUDGET_BURST_NS as f64;
        Self {
            rate: (share_ppm < NO_LIMIT_PPM).then_some(rate),
            burst_ns,
            credit_ns: burst_ns,
            last: None,
            slowdown: 1,
        }
    }

    /// By how much sampling is to be slowed down from now on: 1 for not at all. Told what the
    /// profiler's threads have used so far and how many samples handlers have taken.
    pub fn slowdown(&mut self, time_ns: u64, threads_cpu_ns: u64, samples: u64) -> u32 {
        let Some(rate) = self.rate else { return 1 };
        let cost_ns = threads_cpu_ns.saturating_add(samples.saturating_mul(HANDLER_NS));
        let now = Spent { time_ns, cost_ns };
        let last = *self.last.get_or_insert(now);
        let elapsed_ns = time_ns.saturating_sub(last.time_ns);
        if elapsed_ns < STEP_NS {
            return self.slowdown;
        }
        self.last = Some(now);
        let earned_ns = elapsed_ns as f64 * rate;
        let spent_ns = cost_ns.saturating_sub(last.cost_ns) as f64;
        let most_ns = self.burst_ns;
        // What sampling less often could not prevent is not to be made up for in hours.
        self.credit_ns = (self.credit_ns + earned_ns - spent_ns).clamp(-most_ns, most_ns);
        if self.credit_ns < 0.0 && spent_ns > earned_ns {
            self.slowdown = self.slowdown.saturating_mul(2).min(SLOWDOWN_MAX);
        } else if self.credit_ns > most_ns / 2.0 && spent_ns * 2.0 < earned_ns {
            self.slowdown = (self.slowdown / 2).max(1);
        }
        self.slowdown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// The mean cost, as a share of a processor, of a profiler that costs `share` when it is not
    /// slowed down, plus `fixed`, over that time; and the last slowdown.
    fn simulate(budget: &mut Budget, seconds: u64, share: f64, fixed: f64) -> (f64, u32) {
        let (mut cost_ns, mut slowdown) = (0.0, 1);
        for second in 0..seconds {
            slowdown = budget.slowdown(second * SECOND_NS, cost_ns as u64, 0);
            cost_ns += (share / f64::from(slowdown) + fixed) * SECOND_NS as f64;
        }
        (cost_ns / (seconds * SECOND_NS) as f64, slowdown)
    }

    #[test]
    fn the_mean_cost_comes_down_to_the_budget() {
        for share in [0.02, 0.1, 0.5] {
            let mut budget = Budget::new(5_000, 2.0);
            let (mean, _) = simulate(&mut budget, 3600, share, 0.0);
            assert!(mean <= 0.0105, "{share}: {mean}");
            assert!(mean >= 0.004, "{share}: {mean}, which is less than could be");
        }
    }

    #[test]
    fn what_costs_little_is_not_slowed_down() {
        let mut budget = Budget::new(5_000, 2.0);
        assert_eq!(simulate(&mut budget, 3600, 0.009, 0.0).1, 1);
        // A start that costs half a second, and then little.
        let mut budget = Budget::new(5_000, 2.0);
        assert_eq!(budget.slowdown(0, 0, 0), 1);
        assert_eq!(budget.slowdown(3 * SECOND_NS, SECOND_NS / 2, 0), 1);
    }

    #[test]
    fn what_sampling_does_not_cost_slows_it_down_to_the_bound_and_no_further() {
        let mut budget = Budget::new(5_000, 0.1);
        assert_eq!(simulate(&mut budget, 3600, 0.001, 0.01).1, SLOWDOWN_MAX);
        // When that is over, it recovers.
        let later_ns = 10_000 * SECOND_NS;
        let at = |n: u64| later_ns + n * 1000 * SECOND_NS;
        let slowdowns: Vec<u32> =
            (0..12).map(|n| budget.slowdown(at(n), 40 * SECOND_NS, 0)).collect();
        assert_eq!(slowdowns.last(), Some(&1), "{slowdowns:?}");
    }

    #[test]
    fn handlers_count_and_no_limit_is_none() {
        let mut budget = Budget::new(5_000, 1.0);
        assert_eq!(budget.slowdown(0, 0, 0), 1);
        assert_eq!(budget.slowdown(10 * SECOND_NS, 0, 2 * SECOND_NS / HANDLER_NS), 2);
        let mut unlimited = Budget::new(NO_LIMIT_PPM, 1.0);
        assert_eq!(unlimited.slowdown(0, 0, 0), 1);
        assert_eq!(unlimited.slowdown(10 * SECOND_NS, 100 * SECOND_NS, 0), 1);
    }
}
