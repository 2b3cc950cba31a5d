//! Which profiles are there, so that what is sent again counts once.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use super::Meta;

/// A profile's service and origin, as a number: of 128 bits, so that no two are ever the same.
pub(super) type Known = u128;

/// The profiles that are there, by service and origin. It grows with what is known of profiles, and
/// is bounded with it: `Meta::size` counts it.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Two of them, with keys by chance: a sender can't make two texts that have one number.
    hashers: [RandomState; 2],
    known: HashSet<Known>,
}

impl Index {
    /// Adds one.
    pub(super) fn add(&mut self, meta: &Meta) {
        if let Some(number) = self.number(meta) {
            self.known.insert(number);
        }
    }

    /// Which of these are new: not there, and none that stands before them.
    pub(super) fn new_of<'a>(&self, metas: impl Iterator<Item = &'a Meta>) -> Vec<bool> {
        let mut before = HashSet::new();
        let mut is_new = |number| !self.known.contains(&number) && before.insert(number);
        metas.map(|meta| self.number(meta).is_none_or(&mut is_new)).collect()
    }

    /// Forgets all but these.
    pub(super) fn set<'a>(&mut self, metas: impl Iterator<Item = &'a Meta>) {
        self.known.clear();
        metas.for_each(|meta| self.add(meta));
        self.known.shrink_to_fit();
    }

    /// `None` if it does not say what it is of.
    fn number(&self, meta: &Meta) -> Option<Known> {
        let [high, low] = &self.hashers;
        let key = (&meta.service, &meta.origin);
        let number = || u128::from(high.hash_one(key)) << 64 | u128::from(low.hash_one(key));
        (!meta.origin.is_empty()).then(number)
    }
}
