//! Chance: how likely a difference is by it alone, and how far a number may be off.

/// Continued fractions have converged long before.
const ROUNDS_MAX: usize = 300;
const PRECISION: f64 = 1e-13;
/// From so many degrees of freedom on, Student's distribution is taken for the normal one.
const FREEDOM_MAX: f64 = 1e6;

/// How likely a value of Student's distribution is at least that far from 0, on either side.
/// With infinite `freedom` it is the normal distribution.
pub fn both_tails(value: f64, freedom: f64) -> f64 {
    let freedom = freedom.min(FREEDOM_MAX);
    let x = freedom / (freedom + value * value);
    incomplete_beta(freedom / 2.0, 0.5, x)
}

/// How sure one wants to be, between 0 and 1.
#[derive(Clone, Copy, Debug)]
pub struct Confidence {
    /// The part of cases in which an interval holds what is true.
    pub part: f64,
    /// How many standard deviations that takes where there are no others than of samples.
    normal: f64,
}

impl Confidence {
    /// To be right in that part of cases.
    pub fn new(part: f64) -> Self {
        Self { part, normal: quantile(part, f64::INFINITY) }
    }

    /// How many standard deviations that takes.
    pub fn deviations(&self, freedom: f64) -> f64 {
        if freedom.is_infinite() { self.normal } else { quantile(self.part, freedom) }
    }
}

/// The value that lies so far from 0 that only `1 - part` is outside, on both sides together.
fn quantile(part: f64, freedom: f64) -> f64 {
    let outside = 1.0 - part;
    let (mut low, mut high) = (0.0, 1.0);
    while both_tails(high, freedom) > outside && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..48 {
        let middle = (low + high) / 2.0;
        if both_tails(middle, freedom) > outside {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The probabilities after Benjamini and Hochberg: whoever takes all differences below a limit for
/// real is wrong in no larger part of them than that, on average.
pub fn adjusted(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*b].total_cmp(&probabilities[*a]));
    let mut result = vec![1.0; probabilities.len()];
    let all = probabilities.len() as f64;
    let mut least = 1.0_f64;
    for (rank, position) in (1..=order.len()).rev().zip(order) {
        least = least.min(probabilities[position] * all / rank as f64);
        result[position] = least;
    }
    result
}

/// The regularised incomplete beta function, by its continued fraction (Lentz's method).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    // On the other side of the mean the fraction converges faster.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let not_zero = |value: f64| if value.abs() < f64::MIN_POSITIVE { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for round in 1..=ROUNDS_MAX {
        let m = round as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / not_zero(1.0 + term * d);
            c = not_zero(1.0 + term / c);
            step = c * d;
            result *= step;
        }
        if (step - 1.0).abs() < PRECISION {
            break;
        }
    }
    result
}

/// The logarithm of the gamma function of a positive number: Stirling's series, from where it is
/// exact.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the tables of textbooks.
    #[test]
    fn quantiles_are_those_of_tables() {
        for (confidence, freedom, value) in [
            (0.95, f64::INFINITY, 1.959_964),
            (0.99, f64::INFINITY, 2.575_829),
            (0.95, 1.0, 12.706_205),
            (0.95, 5.0, 2.570_582),
            (0.90, 30.0, 1.697_261),
            (0.99, 2.0, 9.924_843),
        ] {
            let found = quantile(confidence, freedom);
            assert!((found - value).abs() < 2e-5, "{confidence} {freedom}: {found}");
            assert!((both_tails(value, freedom) - (1.0 - confidence)).abs() < 1e-6);
        }
        assert!((both_tails(0.0, 7.0) - 1.0).abs() < 1e-9);
        assert!(both_tails(40.0, f64::INFINITY) < 1e-100);
    }

    #[test]
    fn probabilities_are_adjusted_as_benjamini_and_hochberg_do() {
        let adjusted = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.02, 0.04, 0.04, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(super::adjusted(&[]).is_empty());
        assert_eq!(super::adjusted(&[0.7]), [0.7]);
    }
}
