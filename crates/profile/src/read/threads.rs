//! Threads of files, which know only number and name: each pair is one thread.

use std::collections::HashMap;

use crate::aggregate::{Aggregate, ThreadKey};

/// The key of each (number, name) seen.
#[derive(Debug, Default)]
pub(super) struct Threads {
    keys: HashMap<u32, Vec<(Box<str>, ThreadKey)>>,
}

impl Threads {
    /// The key of a thread, whose name the aggregate then knows.
    pub(super) fn key(&mut self, tid: u32, name: &str, aggregate: &mut Aggregate) -> ThreadKey {
        if tid == 0 && name.is_empty() {
            return ThreadKey::NONE;
        }
        let names = self.keys.entry(tid).or_default();
        if let Some((_, key)) = names.iter().find(|(other, _)| **other == *name) {
            return *key;
        }
        let generation = u32::try_from(names.len()).unwrap_or(u32::MAX).saturating_add(1);
        let key = ThreadKey { tid, generation };
        aggregate.thread_name(key, name);
        names.push((name.into(), key));
        key
    }
}
