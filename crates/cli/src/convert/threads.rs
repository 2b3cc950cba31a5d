//! The samples of a value, thread by thread.

use std::collections::BTreeMap;

use profile::{Profile, Sample};

use crate::value::Value;

/// The samples of each thread that have the value, the thread with the most of it first.
pub fn of(profile: &Profile, value: Value) -> Vec<Vec<&Sample>> {
    let mut threads: BTreeMap<Option<(u32, &str)>, Vec<&Sample>> = BTreeMap::new();
    for sample in profile.samples.iter().filter(|sample| value.of(&sample.values) > 0) {
        let key = sample.thread.map(|thread| (thread.tid, profile.text(thread.name)));
        threads.entry(key).or_default().push(sample);
    }
    let mut threads: Vec<Vec<&Sample>> = threads.into_values().collect();
    threads.sort_by_key(|samples| std::cmp::Reverse(sum(samples, value)));
    threads
}

/// What the samples add up to, in nanoseconds.
pub fn sum(samples: &[&Sample], value: Value) -> u64 {
    samples.iter().map(|sample| value.of(&sample.values)).fold(0, u64::saturating_add)
}
