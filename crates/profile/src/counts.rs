//! Counters by reason: one number for each reason of `model`.

use model::{EndReason, Loss};

macro_rules! counts {
    ($(#[$doc:meta])* $name:ident, $reason:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name([u64; <$reason>::ALL.len()]);

        impl $name {
            /// Adds `n` to a reason's number.
            pub fn add(&mut self, reason: $reason, n: u64) {
                if let Some(count) = self.0.get_mut(reason as usize) {
                    *count = count.saturating_add(n);
                }
            }

            /// A reason's number.
            #[must_use]
            pub fn get(&self, reason: $reason) -> u64 {
                self.0.get(reason as usize).copied().unwrap_or_default()
            }

            /// The reasons that happened, in the order of their numbers.
            pub fn iter(&self) -> impl Iterator<Item = ($reason, u64)> + '_ {
                <$reason>::ALL.into_iter().map(|r| (r, self.get(r))).filter(|(_, n)| *n > 0)
            }

            /// All reasons together.
            #[must_use]
            pub fn total(&self) -> u64 {
                self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
            }

            /// Adds another's numbers to these.
            pub fn merge(&mut self, other: &Self) {
                for (reason, n) in other.iter() {
                    self.add(reason, n);
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self([0; <$reason>::ALL.len()])
            }
        }
    };
}

counts!(
    /// Samples that were lost, or not kept whole, by reason.
    LossCounts,
    Loss
);
counts!(
    /// Walks by why they ended.
    EndCounts,
    EndReason
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_number() {
        let mut counts = LossCounts::default();
        for (n, loss) in Loss::ALL.into_iter().enumerate() {
            counts.add(loss, n as u64);
        }
        let mut twice = counts;
        twice.merge(&counts);
        for (n, loss) in Loss::ALL.into_iter().enumerate() {
            assert_eq!(twice.get(loss), 2 * n as u64);
        }
        assert_eq!(counts.iter().count(), Loss::ALL.len() - 1);
        let all = Loss::ALL.len() as u64;
        assert_eq!(counts.total(), all * (all - 1) / 2);
    }
}
