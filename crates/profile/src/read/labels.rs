//! Labels of files, which know only names and values: each set of them has a number.

use std::collections::HashMap;

use super::error::DecodeError;
use crate::aggregate::Aggregate;
use crate::labels::UsedSet;
use crate::profile::Label;

/// The number of each set seen.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// By their positions in the aggregate's strings.
    numbers: HashMap<Box<[Label]>, u64>,
    /// The set at hand; kept for its memory.
    set: Vec<Label>,
}

impl Labels {
    /// A sample's set, which the aggregate then knows; `pairs` are left sorted. `None` for no
    /// labels.
    pub(super) fn key(
        &mut self,
        pairs: &mut Vec<(&str, &str)>,
        aggregate: &mut Aggregate,
    ) -> Result<Option<UsedSet>, DecodeError> {
        const FULL: DecodeError = DecodeError::TooMany { what: "labels" };
        if pairs.is_empty() {
            return Ok(None);
        }
        pairs.sort_unstable();
        pairs.dedup();
        self.set.clear();
        for (name, value) in pairs.iter() {
            let name = aggregate.strings.intern(name).ok_or(FULL)?;
            let value = aggregate.strings.intern(value).ok_or(FULL)?;
            self.set.push(Label { name, value });
        }
        let number = match self.numbers.get(self.set.as_slice()) {
            Some(number) => *number,
            None => {
                let number = self.numbers.len() as u64;
                if !aggregate.label_sets.learn(number, pairs) {
                    return Err(FULL);
                }
                self.numbers.insert(self.set.as_slice().into(), number);
                number
            }
        };
        aggregate.label_sets.intern(number).map(Some).ok_or(FULL)
    }
}
