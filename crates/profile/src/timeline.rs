//! When samples came about: a side table of the profile, for whom wants to see an order.
//!
//! A sample is a sum. A moment is a stretch of time that went into it: most are the wait of a
//! thread at one place, or the CPU time of one sample of a handler. Stretches of the same sample
//! that follow each other are one.
//!
//! When a stretch was is mostly known only by two times between which it lies: `layout` says where
//! it is put.

use crate::aggregate::ThreadKey;

use self::layout::lay_out;

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

/// A stretch of a sample's time, and between which times it lies; in microseconds since the period
/// began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    since_us: u32,
    until_us: u32,
    length_us: u32,
    /// The sample's position.
    sample: u32,
}

impl Told {
    /// Of that length, between two times; before the second if the first leaves no room for it.
    pub(crate) fn new((since_us, until_us): (u32, u32), length_us: u32, sample: u32) -> Self {
        let since_us = since_us.min(until_us.saturating_sub(length_us));
        Self { since_us, until_us, length_us, sample }
    }

    /// Where it begins if it is as late as it may be.
    fn begin_us(&self) -> u32 {
        self.until_us.saturating_sub(self.length_us)
    }
}

/// The moments of a period, with a bound; of positions in an aggregate.
#[derive(Debug)]
pub(crate) struct Moments {
    list: Vec<Told>,
    /// One more than the position in `list` of each sample's last moment; 0 if it has none.
    last: Vec<u32>,
    len_max: usize,
    /// Whether it is to be found out where they lie.
    is_told: bool,
}

impl Moments {
    pub(crate) fn new(len_max: usize) -> Self {
        let len_max = len_max.min((u32::MAX >> 1) as usize);
        Self { list: Vec::new(), last: Vec::new(), len_max, is_told: false }
    }

    /// Notes a moment that lies where it says; whether there was room.
    pub(crate) fn note(&mut self, new: Moment) -> bool {
        let within = (new.begin_us, new.end_us());
        self.keep(Told::new(within, new.duration_us, new.sample))
    }

    /// Notes a stretch of time that is to be given its place among its thread's others; whether
    /// there was room.
    pub(crate) fn tell(&mut self, new: Told) -> bool {
        self.is_told = true;
        self.keep(new)
    }

    fn keep(&mut self, new: Told) -> bool {
        // Where all have their places, another's may lie in a gap.
        let gap_us = if self.is_told { GAP_US } else { 0 };
        let sample = new.sample as usize;
        if self.last.len() <= sample {
            self.last.resize(sample.saturating_add(1), 0);
        }
        let Some(last) = self.last.get_mut(sample) else { return false };
        let before = last.checked_sub(1).and_then(|at| self.list.get_mut(at as usize));
        if let Some(before) = before
            && before.until_us.abs_diff(new.begin_us()) <= gap_us
        {
            let length_us = before.length_us.saturating_add(new.length_us);
            let until_us = before.until_us.max(new.until_us);
            let within = (before.since_us.min(new.since_us), until_us);
            *before = Told::new(within, length_us, before.sample);
            return true;
        }
        if self.list.len() >= self.len_max {
            return false;
        }
        self.list.push(new);
        *last = u32::try_from(self.list.len()).unwrap_or_default();
        true
    }

    /// All of them, of samples at new positions by old ones, in the order of their beginnings;
    /// `thread` says whose a sample at an old position is.
    pub(crate) fn sorted(
        &self,
        positions: &[u32],
        thread: impl Fn(u32) -> ThreadKey,
    ) -> Vec<Moment> {
        let mut list = if self.is_told { self.laid_out(thread) } else { self.as_noted() };
        list.retain_mut(|moment| {
            let position = positions.get(moment.sample as usize);
            moment.sample = position.copied().unwrap_or_default();
            position.is_some()
        });
        list.sort_unstable();
        list
    }

    /// Each from where it began.
    fn as_noted(&self) -> Vec<Moment> {
        let moment = |told: &Told| Moment {
            begin_us: told.since_us,
            duration_us: told.length_us,
            sample: told.sample,
        };
        self.list.iter().map(moment).collect()
    }

    fn laid_out(&self, thread: impl Fn(u32) -> ThreadKey) -> Vec<Moment> {
        let mut list = self.list.clone();
        list.sort_unstable_by_key(|told| thread(told.sample));
        let mut moments = Vec::with_capacity(list.len());
        for told in list.chunk_by_mut(|a, b| thread(a.sample) == thread(b.sample)) {
            match told.first().map(|told| thread(told.sample)) {
                // Whose time it is nobody knows: it may be of several threads.
                Some(ThreadKey::NONE) | None => moments.extend(told.iter().map(|told| Moment {
                    begin_us: told.begin_us(),
                    duration_us: told.length_us,
                    sample: told.sample,
                })),
                Some(_) => lay_out(told, &mut moments),
            }
        }
        moments
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.last.clear();
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        let list = self.list.len().saturating_mul(size_of::<Told>());
        list.saturating_add(self.last.len().saturating_mul(4))
    }
}

mod layout;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_one_moment_and_the_bound_holds() {
        let mut moments = Moments::new(3);
        let at = |begin_us, duration_us, sample| Moment { begin_us, duration_us, sample };
        let told = |begin, length, sample| Told::new((begin, begin + length), length, sample);
        assert!(moments.tell(told(5_000, 1_000, 1)));
        assert!(moments.tell(told(7_000, 500, 1)));
        assert!(moments.tell(told(6_000, 500, 0)));
        assert!(moments.tell(told(50_000, 500, 1)));
        assert!(!moments.tell(told(90_000, 500, 1)));
        assert!(moments.tell(told(50_400, 100, 1)));
        // Positions swapped, as by a profile that has them in another order.
        let sorted = moments.sorted(&[1, 0], |_| ThreadKey::NONE);
        assert_eq!(sorted, [at(6_000, 500, 1), at(6_000, 1_500, 0), at(49_900, 600, 0)]);
        // With a thread's own, no two overlap; a file that is read has them as they were.
        let thread = ThreadKey { tid: 7, generation: 0 };
        let sorted = moments.sorted(&[1, 0], |_| thread);
        let mut read = Moments::new(9);
        assert!(sorted.iter().all(|moment| read.note(*moment)));
        assert_eq!(read.sorted(&[0, 1], |_| thread), sorted);
        assert!(sorted.windows(2).all(|pair| pair[0].end_us() <= pair[1].begin_us), "{sorted:?}");
        moments.clear();
        assert!(moments.sorted(&[1, 0], |_| ThreadKey::NONE).is_empty());
    }
}
