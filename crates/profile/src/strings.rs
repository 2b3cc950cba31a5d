//! Interned strings in one buffer: no allocation a string, and copying the table is copying bytes.

use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::index::StringIndex;

/// A table of distinct strings; the first is always empty.
#[derive(Clone, Debug)]
pub struct Strings {
    bytes: String,
    /// Where each string ends in `bytes`; it begins where the one before ends.
    ends: Vec<u32>,
    positions: HashTable<u32>,
    bytes_max: usize,
}

impl Strings {
    /// An empty table that holds at most `bytes_max` bytes (and never more than 4 GiB).
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let mut table = Self {
            bytes: String::new(),
            ends: vec![0],
            positions: HashTable::new(),
            bytes_max: bytes_max.min(u32::MAX as usize),
        };
        let empty = hash("");
        table.positions.insert_unique(empty, 0, |_| empty);
        table
    }

    /// The string's position; `None` if it is new and there is no room.
    pub fn intern(&mut self, text: &str) -> Option<StringIndex> {
        let hash_of_text = hash(text);
        let (bytes, ends) = (&self.bytes, &self.ends);
        let same = |position: &u32| slice(bytes, ends, *position) == Some(text);
        if let Some(position) = self.positions.find(hash_of_text, same) {
            return Some(StringIndex::new(*position));
        }
        let end = self.bytes.len().checked_add(text.len()).filter(|end| *end <= self.bytes_max)?;
        let end = u32::try_from(end).ok()?;
        let position = u32::try_from(self.ends.len()).ok()?;
        self.bytes.push_str(text);
        self.ends.push(end);
        let (bytes, ends) = (&self.bytes, &self.ends);
        self.positions.insert_unique(hash_of_text, position, |position| {
            hash(slice(bytes, ends, *position).unwrap_or_default())
        });
        Some(StringIndex::new(position))
    }

    /// The string at a position; empty for a position of another table that is out of range.
    #[must_use]
    pub fn get(&self, position: StringIndex) -> &str {
        slice(&self.bytes, &self.ends, position.raw()).unwrap_or_default()
    }

    /// Strings in the table, the empty one included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether nothing but the empty string is in the table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.len() <= 1
    }

    /// All strings in their order, the empty one first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..u32::try_from(self.ends.len()).unwrap_or(u32::MAX))
            .map(|position| self.get(StringIndex::new(position)))
    }

    /// Bytes of all strings together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl PartialEq for Strings {
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends && self.bytes == other.bytes
    }
}

impl Eq for Strings {}

fn slice<'a>(bytes: &'a str, ends: &[u32], position: u32) -> Option<&'a str> {
    let position = position as usize;
    let start = match position.checked_sub(1) {
        Some(before) => *ends.get(before)? as usize,
        None => 0,
    };
    bytes.get(start..*ends.get(position)? as usize)
}

fn hash(text: &str) -> u64 {
    FxBuildHasher.hash_one(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_has_one_position() {
        let mut table = Strings::new(1 << 20);
        assert_eq!(table.intern(""), Some(StringIndex::EMPTY));
        let ids: Vec<_> = (0..5000).map(|n| table.intern(&format!("name {n}"))).collect();
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(table.intern(&format!("name {n}")), *id);
            assert_eq!(table.get(id.unwrap()), format!("name {n}"));
        }
        assert_eq!(table.len(), 5001);
        assert_eq!(table.iter().nth(1), Some("name 0"));
    }

    #[test]
    fn a_full_table_takes_no_more_and_still_finds() {
        let mut table = Strings::new(8);
        let four = table.intern("four").unwrap();
        assert!(table.intern("fives").is_none());
        assert_eq!(table.intern("four"), Some(four));
        assert!(table.intern("last").is_some());
        assert!(table.intern("x").is_none());
        assert_eq!(table.get(StringIndex::new(77)), "");
    }
}
