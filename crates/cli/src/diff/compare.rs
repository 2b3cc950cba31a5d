//! What differs between two sets of profiles, and what of it may be chance.
//!
//! A function's time is a sum of samples. Where each is drawn independently, the sum of `n` samples
//! of weights `w` has the variance `Σw²`. Of a row of a file are known the sum of the weights and
//! their number, so `Σw²` is taken for `(Σw)²/n`: what is short of that, by the jitter of the
//! sampling interval, is added as a factor.
//!
//! Samples of a program are not quite independent, and runs differ by more than samples do. So
//! where both sides have several runs, each run is an observation of its own, and the variance is
//! the larger one of that between runs and that of the samples. Files of one process are one run:
//! what its periods differ by, as a start and what comes after it, is no chance.

use super::statistics::{Confidence, both_tails};

/// Intervals are drawn evenly from half to one and a half: their squares have a twelfth more.
const JITTER: f64 = 1.0 + 1.0 / 12.0;
/// Samples that both sides have together, below which a function says nothing.
const SAMPLES_MIN: f64 = 10.0;

/// What samples add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Nanoseconds.
    pub ns: f64,
    /// The squares of the samples' nanoseconds.
    pub squares: f64,
    /// Observations: samples, and what was charged without one; infinite where time was measured.
    pub count: f64,
}

impl Sum {
    /// Adds so many samples that have so much time together.
    pub fn add(&mut self, ns: u64, count: u64) {
        // What was charged without a sample of its own, as of a thread that was over before one, is
        // one observation.
        let count = count.max(1) as f64;
        let ns = ns as f64;
        self.ns += ns;
        self.squares += ns * ns / count * JITTER;
        self.count += count;
    }

    /// Adds another's samples to these.
    pub fn merge(&mut self, other: &Self) {
        self.ns += other.ns;
        self.squares += other.squares;
        self.count += other.count;
    }

    /// Adds time that was measured and not sampled: all that can differ lies between files, and
    /// there is no number of samples that would be too small.
    pub fn add_measured(&mut self, ns: u64) {
        if ns > 0 {
            self.ns += ns as f64;
            self.count = f64::INFINITY;
        }
    }
}

/// One run: a file, or all files of one process.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Time by function, in one order for all files.
    pub functions: Vec<Sum>,
    /// All time.
    pub all: Sum,
    /// Samples, as `corprof top` counts them; 0 where time was measured.
    pub samples: u64,
    /// Requests that ended.
    pub requests: f64,
}

impl Part {
    /// Adds what belongs to the same run.
    pub fn merge(&mut self, other: &Self) {
        let longest = self.functions.len().max(other.functions.len());
        self.functions.resize(longest, Sum::default());
        self.functions.iter_mut().zip(&other.functions).for_each(|(sum, more)| sum.merge(more));
        self.all.merge(&other.all);
        self.samples += other.samples;
        self.requests += other.requests;
    }
}

/// What a function's time is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// All time: a share, between 0 and 1.
    Share,
    /// The number of runs: nanoseconds of one. How long a run was asked to work is known to nobody,
    /// so only what runs of a side differ by tells what is chance.
    PerRun,
    /// The number of requests: nanoseconds of one.
    PerRequest,
}

/// A function in both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// As measured in the base.
    pub base: f64,
    /// As measured in the new one.
    pub new: f64,
    /// Half the width of the difference's confidence interval; of a run's time without repetitions
    /// it is not known, and no number.
    pub half_width: f64,
    /// How likely at least such a difference is by chance; `None` if there are too few samples to
    /// say.
    pub probability: Option<f64>,
}

impl Change {
    /// The difference.
    pub fn difference(&self) -> f64 {
        self.new - self.base
    }
}

/// One side: all its files.
struct Side<'a> {
    parts: &'a [Part],
    all: Sum,
    requests: f64,
}

/// A measured value with what chance does to it.
#[derive(Clone, Copy)]
struct Estimate {
    value: f64,
    variance: f64,
    /// Of what the value is a ratio of: nanoseconds, or requests.
    divisor: f64,
}

/// How a function has changed; of `None` all functions together, which have no share.
pub fn change(
    base: &[Part],
    new: &[Part],
    function: Option<usize>,
    measure: Measure,
    confidence: &Confidence,
) -> Change {
    let sides = [Side::of(base), Side::of(new)];
    let [old, young] = [&sides[0], &sides[1]].map(|side| side.estimate(function, measure));
    let sums = [&sides[0], &sides[1]].map(|side| side.sum(function));
    let difference = young.value - old.value;
    let between = between_files(&sides, function, measure);
    let sampled = old.variance + young.variance;
    let (variance, freedom) = match between {
        Some((variance, freedom)) if variance > sampled => (variance, freedom),
        _ => (sampled, f64::INFINITY),
    };
    let is_known = measure != Measure::PerRun || sides.iter().all(|side| side.parts.len() > 1);
    let width = confidence.deviations(freedom) * variance.sqrt();
    let half_width = if is_known { width } else { f64::NAN };
    let is_enough = is_known && sums[0].count + sums[1].count >= SAMPLES_MIN;
    let probability = is_enough.then(|| {
        // That there is no difference is tested with the variance that it has if there is none.
        let under_none = without_difference(&sides, &sums, &[old, young], measure);
        let (variance, freedom) = match between {
            Some((variance, freedom)) if variance > under_none => (variance, freedom),
            _ => (under_none, f64::INFINITY),
        };
        if variance > 0.0 { both_tails(difference / variance.sqrt(), freedom) } else { 1.0 }
    });
    Change { base: old.value, new: young.value, half_width, probability }
}

impl<'a> Side<'a> {
    fn of(parts: &'a [Part]) -> Self {
        let mut all = Sum::default();
        parts.iter().for_each(|part| all.merge(&part.all));
        Self { parts, all, requests: parts.iter().map(|part| part.requests).sum() }
    }

    fn sum(&self, function: Option<usize>) -> Sum {
        let mut sum = Sum::default();
        self.parts.iter().for_each(|part| sum.merge(&part_sum(part, function)));
        sum
    }

    fn divisor(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Share => self.all.ns,
            Measure::PerRun => self.parts.len() as f64,
            Measure::PerRequest => self.requests,
        }
    }

    fn estimate(&self, function: Option<usize>, measure: Measure) -> Estimate {
        let (sum, divisor) = (self.sum(function), self.divisor(measure));
        if divisor <= 0.0 {
            return Estimate { value: 0.0, variance: 0.0, divisor };
        }
        let value = sum.ns / divisor;
        // A function that was not seen may have been there: one sample more is what one can't see.
        let typical = if self.all.ns > 0.0 { self.all.squares / self.all.ns } else { 0.0 };
        let own = sum.squares + typical * typical;
        let variance = match measure {
            Measure::PerRun | Measure::PerRequest => own,
            Measure::Share => {
                let others = (self.all.squares - sum.squares).max(0.0);
                (1.0 - value).powi(2) * own + value.powi(2) * others
            }
        };
        Estimate { value, variance: variance / divisor.powi(2), divisor }
    }
}

fn part_sum(part: &Part, function: Option<usize>) -> Sum {
    match function {
        Some(function) => part.functions.get(function).copied().unwrap_or_default(),
        None => part.all,
    }
}

/// The variance of the difference if both sides had the same value, as the samples have it.
fn without_difference(
    sides: &[Side<'_>; 2],
    sums: &[Sum; 2],
    estimates: &[Estimate; 2],
    measure: Measure,
) -> f64 {
    let ns = sums[0].ns + sums[1].ns;
    let divisors = estimates[0].divisor + estimates[1].divisor;
    if ns <= 0.0 || divisors <= 0.0 || estimates.iter().any(|estimate| estimate.divisor <= 0.0) {
        return 0.0;
    }
    let value = ns / divisors;
    // Mean weights, as samples meet them: of the function, or of all where it has none.
    let weight = (sums[0].squares + sums[1].squares) / ns;
    let of = |side: usize| {
        let divisor = estimates[side].divisor;
        let own = value * divisor * weight;
        match measure {
            Measure::PerRun | Measure::PerRequest => own / divisor.powi(2),
            Measure::Share => {
                let all = sides[side].all;
                let others = (1.0 - value).max(0.0) * all.squares;
                ((1.0 - value).powi(2) * own + value.powi(2) * others) / divisor.powi(2)
            }
        }
    };
    of(0) + of(1)
}

/// The variance of the difference as the files have it, and its degrees of freedom; `None` if one
/// side has a single file.
fn between_files(
    sides: &[Side<'_>; 2],
    function: Option<usize>,
    measure: Measure,
) -> Option<(f64, f64)> {
    let [base, new] = [&sides[0], &sides[1]].map(|side| side.between_files(function, measure));
    let ((a, of_a), (b, of_b)) = (base?, new?);
    let variance = a + b;
    // Welch and Satterthwaite.
    let freedom = variance * variance / (a * a / of_a + b * b / of_b);
    (variance > 0.0).then_some((variance, freedom))
}

impl Side<'_> {
    /// The variance of a ratio of sums over files, and its degrees of freedom.
    fn between_files(&self, function: Option<usize>, measure: Measure) -> Option<(f64, f64)> {
        let divisor_of = |part: &Part| match measure {
            Measure::Share => part.all.ns,
            Measure::PerRun => 1.0,
            Measure::PerRequest => part.requests,
        };
        let parts = self.parts.iter().filter(|part| divisor_of(part) > 0.0);
        let (count, divisor) = (parts.clone().count() as f64, self.divisor(measure));
        if count < 2.0 {
            return None;
        }
        let value = self.sum(function).ns / divisor;
        let rest = |part: &Part| part_sum(part, function).ns - value * divisor_of(part);
        let squares: f64 = parts.map(|part| rest(part).powi(2)).sum();
        Some((count / (count - 1.0) * squares / divisor.powi(2), count - 1.0))
    }
}
