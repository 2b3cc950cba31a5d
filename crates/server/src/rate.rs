//! How often each sender may push: so many at once, and one more a second.

use std::collections::HashMap;

/// Pushes that a sender may make at once: what has waited while the server was away.
const BURST: f64 = 120.0;
/// Pushes a second, in the long run.
const PER_SECOND: f64 = 1.0;
/// Senders that are remembered. Who is forgotten may push all the same: the bound is of memory.
const SENDERS_MAX: usize = 10_000;

/// How much each sender may still push.
#[derive(Debug, Default)]
pub struct Rate {
    senders: HashMap<String, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    /// In seconds since 1970.
    at: u64,
}

impl Rate {
    /// Whether a sender may push now, in seconds since 1970; else after how many seconds.
    ///
    /// # Errors
    /// The seconds.
    pub fn take(&mut self, sender: &str, now: u64) -> Result<(), u64> {
        if self.senders.len() >= SENDERS_MAX && !self.senders.contains_key(sender) {
            // Whoever has not pushed for so long has all of it again.
            self.senders.retain(|_, bucket| now.saturating_sub(bucket.at) < BURST as u64);
            if self.senders.len() >= SENDERS_MAX {
                self.senders.clear();
            }
        }
        let new = Bucket { left: BURST, at: now };
        let bucket = self.senders.entry(sender.to_owned()).or_insert(new);
        let passed = now.saturating_sub(bucket.at) as f64;
        bucket.left = (bucket.left + passed * PER_SECOND).min(BURST);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err((1.0 / PER_SECOND).ceil() as u64);
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_pushes_too_often_has_to_wait_and_others_have_not() {
        let mut rate = Rate::default();
        for _ in 0..BURST as usize {
            assert_eq!(rate.take("a", 1_000), Ok(()));
        }
        assert_eq!(rate.take("a", 1_000), Err(1));
        assert_eq!(rate.take("b", 1_000), Ok(()));
        assert_eq!(rate.take("a", 1_001), Ok(()));
        assert_eq!(rate.take("a", 1_001), Err(1));
        for sender in 0..2 * SENDERS_MAX {
            assert_eq!(rate.take(&format!("sender {sender}"), 1_002), Ok(()));
        }
        assert!(rate.senders.len() <= SENDERS_MAX);
    }
}
