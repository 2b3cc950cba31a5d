//! When samples came about: a side table of the profile, for whom wants to see an order.
//!
//! A sample is a sum. A moment is a stretch of time that went into it: most are the wait of a
//! thread at one place, or the CPU time of one sample of a handler. Stretches of the same sample
//! that follow each other are one.

/// How far apart two stretches may be and still be one, in microseconds.
const GAP_US: u32 = 2_000;

/// A stretch of a sample's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Where it began, in microseconds since the period did.
    pub begin_us: u32,
    /// How much of the sample's wall time it is (of its CPU time, if wall time was not measured),
    /// in microseconds.
    pub duration_us: u32,
    /// The sample's position in the profile.
    pub sample: u32,
}

impl Moment {
    /// Where it ended, in microseconds since the period began.
    #[must_use]
    pub fn end_us(&self) -> u32 {
        self.begin_us.saturating_add(self.duration_us)
    }
}

/// The moments of a period, with a bound; of positions in an aggregate.
#[derive(Debug)]
pub(crate) struct Moments {
    list: Vec<Moment>,
    /// One more than the position in `list` of each sample's last moment; 0 if it has none.
    last: Vec<u32>,
    len_max: usize,
}

impl Moments {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { list: Vec::new(), last: Vec::new(), len_max: len_max.min((u32::MAX >> 1) as usize) }
    }

    /// Notes a moment; whether there was room.
    pub(crate) fn note(&mut self, new: Moment) -> bool {
        let sample = new.sample as usize;
        if self.last.len() <= sample {
            self.last.resize(sample.saturating_add(1), 0);
        }
        let Some(last) = self.last.get_mut(sample) else { return false };
        let before = last.checked_sub(1).and_then(|at| self.list.get_mut(at as usize));
        if let Some(before) = before
            && before.end_us().abs_diff(new.begin_us) <= GAP_US
        {
            before.duration_us = before.duration_us.saturating_add(new.duration_us);
            return true;
        }
        if self.list.len() >= self.len_max {
            return false;
        }
        self.list.push(new);
        *last = u32::try_from(self.list.len()).unwrap_or_default();
        true
    }

    /// All of them, of samples at new positions by old ones, in the order of their beginnings.
    pub(crate) fn sorted(&self, positions: &[u32]) -> Vec<Moment> {
        let moved = |moment: &Moment| {
            let sample = *positions.get(moment.sample as usize)?;
            Some(Moment { sample, ..*moment })
        };
        let mut list: Vec<_> = self.list.iter().filter_map(moved).collect();
        list.sort_unstable();
        list
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.last.clear();
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        let list = self.list.len().saturating_mul(size_of::<Moment>());
        list.saturating_add(self.last.len().saturating_mul(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_one_moment_and_the_bound_holds() {
        let mut moments = Moments::new(3);
        let at = |begin_us, duration_us, sample| Moment { begin_us, duration_us, sample };
        assert!(moments.note(at(5_000, 1_000, 1)));
        assert!(moments.note(at(7_000, 500, 1)));
        assert!(moments.note(at(6_000, 500, 0)));
        assert!(moments.note(at(50_000, 500, 1)));
        assert!(!moments.note(at(90_000, 500, 1)));
        assert!(moments.note(at(50_400, 100, 1)));
        // Positions swapped, as by a profile that has them in another order.
        let sorted = moments.sorted(&[1, 0]);
        assert_eq!(sorted, [at(5_000, 1_500, 0), at(6_000, 500, 1), at(50_000, 600, 0)]);
        moments.clear();
        assert!(moments.sorted(&[1, 0]).is_empty());
    }
}
