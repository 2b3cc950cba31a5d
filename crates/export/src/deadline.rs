//! Until when something may take; whoever ends the process can bring the end forward.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest wait at one go: an end that was brought forward is seen after that.
const SLICE: Duration = Duration::from_millis(100);

/// By when everything has to be over, on the monotonic clock; none at first.
#[derive(Clone, Debug)]
pub struct Cut(Arc<AtomicU64>);

impl Default for Cut {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Cut {
    /// Brings the end forward to so long from now.
    pub fn after(&self, limit: Duration) {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(sys::clock::monotonic_ns().saturating_add(limit_ns), Ordering::Release);
    }

    /// What is left; `None` if there is no end.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        match self.0.load(Ordering::Acquire) {
            u64::MAX => None,
            at_ns => Some(Duration::from_nanos(at_ns.saturating_sub(sys::clock::monotonic_ns()))),
        }
    }
}

/// Until when one request may take.
#[derive(Clone, Debug)]
pub struct Deadline {
    at: Instant,
    cut: Cut,
}

impl Deadline {
    /// So long from now, or until the cut if that is earlier.
    #[must_use]
    pub fn after(limit: Duration, cut: &Cut) -> Self {
        Self { at: Instant::now() + limit, cut: cut.clone() }
    }

    /// What is left; `None` if nothing is.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let left = self.at.saturating_duration_since(Instant::now());
        let left = self.cut.left().map_or(left, |cut| left.min(cut));
        (!left.is_zero()).then_some(left)
    }

    /// How long to wait before looking again; `None` if time is over.
    #[must_use]
    pub fn slice(&self) -> Option<Duration> {
        self.left().map(|left| left.min(SLICE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_can_be_brought_forward() {
        let cut = Cut::default();
        let deadline = Deadline::after(Duration::from_secs(100), &cut);
        assert!(deadline.left().is_some_and(|left| left > Duration::from_secs(90)));
        assert_eq!(deadline.slice(), Some(SLICE));
        cut.after(Duration::from_secs(10));
        assert!(deadline.left().is_some_and(|left| left <= Duration::from_secs(10)));
        cut.after(Duration::ZERO);
        assert_eq!(deadline.left(), None);
        assert_eq!(Deadline::after(Duration::ZERO, &Cut::default()).slice(), None);
    }
}
