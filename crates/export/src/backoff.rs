//! When to try again: later each time, and not when everybody else does.

use std::time::Duration;

/// The first wait, at most.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
const LAST: Duration = Duration::from_secs(300);

/// Failures in a row, and what they mean for the next attempt. Times are of the monotonic clock.
#[derive(Debug)]
pub struct Backoff {
    failures: u32,
    until_ns: u64,
    random: u64,
}

impl Backoff {
    /// No failure yet; `seed` is any number, another one in each process.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { failures: 0, until_ns: 0, random: seed | 1 }
    }

    /// An attempt has failed at that time; they may have said how long to wait.
    pub fn failed(&mut self, now_ns: u64, after: Option<Duration>) {
        let doubled = FIRST.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        let most_ns = nanos(doubled.min(LAST));
        // Half of it for certain, the other half by chance: all that failed together come apart.
        let wait_ns = most_ns / 2 + self.draw() % (most_ns / 2).max(1);
        let wait_ns = wait_ns.max(after.map_or(0, nanos));
        self.failures = self.failures.saturating_add(1);
        self.until_ns = now_ns.saturating_add(wait_ns);
    }

    /// An attempt has succeeded.
    pub const fn succeeded(&mut self) {
        self.failures = 0;
        self.until_ns = 0;
    }

    /// When the next attempt may be made; any time if that has passed.
    #[must_use]
    pub const fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Failures in a row.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn waits_grow_to_a_bound_and_differ() {
        let mut waits = Vec::new();
        for seed in 1..200 {
            let mut backoff = Backoff::new(seed * 7919);
            for n in 0..70_u32 {
                backoff.failed(0, None);
                let most = (SECOND << n.min(20)).min(300 * SECOND);
                assert!((most / 2..=most).contains(&backoff.until_ns()), "{n}");
            }
            waits.push(backoff.until_ns());
            backoff.succeeded();
            assert_eq!((backoff.failures(), backoff.until_ns()), (0, 0));
        }
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 150, "not all at once");
    }

    #[test]
    fn who_says_when_is_heeded() {
        let mut backoff = Backoff::new(1);
        backoff.failed(5, Some(Duration::from_secs(60)));
        assert_eq!(backoff.until_ns(), 60 * SECOND + 5);
        backoff.failed(u64::MAX, Some(Duration::MAX));
        assert_eq!(backoff.until_ns(), u64::MAX);
    }
}
