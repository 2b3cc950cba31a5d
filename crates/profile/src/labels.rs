//! Sets of labels, which the program gives its requests: by number, each learned once.

use std::num::NonZeroU32;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::bounds::Limits;
use crate::interned::Interned;
use crate::profile::Label;
use crate::strings::Strings;

/// A set's place among those that samples of a period have: its position and one.
pub(crate) type UsedSet = NonZeroU32;

/// What sets of labels hold. It outlives periods and resets: a set is told of only once.
#[derive(Debug)]
pub(crate) struct LabelSets {
    strings: Strings,
    /// The labels of all sets, one set after the other; their positions are those of `strings`.
    labels: Vec<Label>,
    /// Where in `labels` a set begins and ends, by its number.
    sets: HashMap<u64, (u32, u32), FxBuildHasher>,
    /// The numbers that samples of this period have. A sample may come before its set is learned.
    used: Interned<u64>,
    sets_max: usize,
    labels_max: usize,
}

impl LabelSets {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            strings: Strings::new(limits.label_bytes),
            labels: Vec::new(),
            sets: HashMap::with_hasher(FxBuildHasher),
            used: Interned::new(limits.label_sets),
            sets_max: limits.label_sets,
            labels_max: limits.labels.min(u32::MAX as usize),
        }
    }

    /// Learns a set, and tells whether it is known; what is known already stays. One that has no
    /// room is left out as a whole.
    pub(crate) fn learn(&mut self, number: u64, pairs: &[(&str, &str)]) -> bool {
        if self.sets.contains_key(&number) {
            return true;
        }
        let has_room = self.sets.len() < self.sets_max
            && self.labels.len().saturating_add(pairs.len()) <= self.labels_max;
        if !has_room {
            return false;
        }
        let mut pairs: Vec<_> = pairs.iter().filter(|(name, _)| !name.is_empty()).collect();
        // Sets that differ in the order only are equal, in files too.
        pairs.sort_unstable();
        pairs.dedup();
        let start = self.labels.len();
        for (name, value) in pairs {
            let label = self.strings.intern(name).zip(self.strings.intern(value));
            let Some((name, value)) = label else {
                self.labels.truncate(start);
                return false;
            };
            self.labels.push(Label { name, value });
        }
        let position = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let range = (position(start), position(self.labels.len()));
        self.sets.insert(number, range);
        true
    }

    /// A sample's set; `None` if it is new in the period and there is no room.
    pub(crate) fn intern(&mut self, number: u64) -> Option<UsedSet> {
        NonZeroU32::new(self.used.intern(number)?.saturating_add(1))
    }

    /// Sets that samples of the period have.
    pub(crate) fn used(&self) -> usize {
        self.used.len()
    }

    /// Begins a new period; what sets hold stays.
    pub(crate) fn clear(&mut self) {
        self.used.clear();
    }

    /// The labels of a sample's set, sorted by name; none if it was never learned.
    pub(crate) fn get(&self, used: UsedSet) -> impl Iterator<Item = (&str, &str)> {
        let number = self.used.get(used.get().saturating_sub(1) as usize);
        let range = number.and_then(|number| self.sets.get(&number).copied());
        let (start, end) = range.unwrap_or_default();
        let labels = self.labels.get(start as usize..end as usize).unwrap_or_default();
        labels.iter().map(|label| (self.strings.get(label.name), self.strings.get(label.value)))
    }

    /// Bytes in use, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let set = size_of::<(u64, (u32, u32))>().saturating_add(1);
        let sets = self.sets.capacity().saturating_mul(set);
        let labels = self.labels.capacity().saturating_mul(size_of::<Label>());
        let strings = self.strings.bytes().saturating_add(self.strings.len().saturating_mul(11));
        [strings, labels, sets, self.used.bytes()]
            .iter()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}
