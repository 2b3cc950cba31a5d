//! Endpoints: how many requests of each ended in a period, and how long they took.

use crate::index::StringIndex;
use crate::interned::Interned;

/// The endpoints of a period. The first is the one that stands for those over the bound.
#[derive(Debug)]
pub(crate) struct Endpoints {
    names: Interned<StringIndex>,
    /// Requests and their nanoseconds, in the order of `names`.
    requests: Vec<(u64, u64)>,
    other: StringIndex,
}

impl Endpoints {
    /// An empty table for `endpoints_max` names and the one of all others.
    pub(crate) fn new(endpoints_max: usize, other: StringIndex) -> Self {
        let mut names = Interned::new(endpoints_max.saturating_add(1));
        let _ = names.intern(other);
        Self { names, requests: Vec::new(), other }
    }

    /// The name itself, or that of all others if it has no place.
    pub(crate) fn name(&mut self, name: StringIndex) -> StringIndex {
        if self.names.intern(name).is_some() { name } else { self.other }
    }

    /// Adds ended requests.
    pub(crate) fn add(&mut self, name: StringIndex, requests: u64, duration_ns: u64) {
        let position = self.names.intern(name).unwrap_or_default() as usize;
        if self.requests.len() <= position {
            self.requests.resize(position.saturating_add(1), (0, 0));
        }
        if let Some((count, sum)) = self.requests.get_mut(position) {
            *count = count.saturating_add(requests);
            *sum = sum.saturating_add(duration_ns);
        }
    }

    /// Those of which requests have ended: name, requests, nanoseconds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StringIndex, u64, u64)> + '_ {
        let all = self.names.items().iter().zip(&self.requests);
        all.map(|(name, (requests, ns))| (*name, *requests, *ns)).filter(|(_, n, _)| *n > 0)
    }

    /// Forgets all; the name of others is the same or, after a reset, a new one.
    pub(crate) fn clear(&mut self, other: StringIndex) {
        self.names.clear();
        self.requests.clear();
        self.other = other;
        let _ = self.names.intern(other);
    }

    /// Bytes in use, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.names.bytes().saturating_add(self.requests.len().saturating_mul(16))
    }
}
