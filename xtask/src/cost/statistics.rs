//! Medians, and how sure they are.

/// How often a bootstrap draws anew.
const DRAWS: usize = 2_000;

/// A median with an interval that holds it in 95 of 100 cases, and how many numbers it is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The interval's ends.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// How many numbers there were.
    pub count: usize,
}

impl Estimate {
    /// Of numbers that were measured one after the other; `None` if there are none. The interval is
    /// that of medians of numbers drawn from these again and again; the draws are the same each
    /// time.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let median = median(numbers)?;
        let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
        let mut medians: Vec<f64> = (0..DRAWS)
            .filter_map(|_| {
                let again: Vec<f64> =
                    numbers.iter().map(|_| numbers[draw.below(numbers.len())]).collect();
                self::median(&again)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let at = |share: f64| medians[((DRAWS - 1) as f64 * share) as usize];
        Some(Self { median, low: at(0.025), high: at(0.975), count: numbers.len() })
    }

    /// With each of its numbers changed alike.
    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { median: change(self.median), low: change(self.low), high: change(self.high), ..self }
    }
}

/// The middle one, or the mean of the two; `None` of nothing.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// xorshift64*: the same numbers each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn the_interval_is_around_the_median_and_narrower_with_more_numbers() {
        let spread = |count: u32| -> Vec<f64> {
            (0..count).map(|n| 1.0 + f64::from(n * 37 % 101) / 100.0).collect()
        };
        let (few, many) = (Estimate::of(&spread(15)).unwrap(), Estimate::of(&spread(900)).unwrap());
        for estimate in [few, many] {
            assert!(estimate.low <= estimate.median && estimate.median <= estimate.high);
        }
        assert!(many.high - many.low < (few.high - few.low) / 2.0, "{few:?} {many:?}");
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(few.map(|x| x - 1.0).median, few.median - 1.0);
    }
}
