//! A clock that goes along with another one, now and then.

use std::sync::atomic::{AtomicU64, Ordering};

/// Adds up how far another clock goes while this one is on. It is one word, so nobody ever sees
/// half of a change: the lowest bit says whether it is on; the others are the sum, or, while it is
/// on, the sum less where the other clock stood at the start.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    const MASK: u64 = u64::MAX >> 1;
    /// No sum gets there: it is one that went below zero, since the other clock was read before
    /// this one was switched on.
    const NEGATIVE: u64 = 1 << 62;

    /// At 0, and off.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Sets it to 0, and off.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The sum, given where the other clock stands.
    pub fn at(&self, other: u64) -> u64 {
        let word = self.0.load(Ordering::Acquire);
        let sum =
            if word & 1 == 1 { (word >> 1).wrapping_add(other) & Self::MASK } else { word >> 1 };
        if sum >= Self::NEGATIVE { 0 } else { sum }
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Acquire) & 1 == 1
    }

    /// Switches it on; if it is on it stays so.
    pub fn start(&self, other: u64) {
        let base = self.at(other).wrapping_sub(other);
        self.0.store((base << 1) | 1, Ordering::Release);
    }

    /// Switches it off; `less` is taken off the sum.
    pub fn stop(&self, other: u64, less: u64) {
        self.0.store(self.at(other).saturating_sub(less) << 1, Ordering::Release);
    }
}
