//! A table of distinct small values, each at one position for good, with a bound.

use std::hash::{BuildHasher as _, Hash};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// Distinct values in the order of their first use.
#[derive(Clone, Debug)]
pub(crate) struct Interned<T> {
    items: Vec<T>,
    positions: HashTable<u32>,
    items_max: usize,
}

impl<T: Copy + Eq + Hash> Interned<T> {
    /// An empty table for at most `items_max` values (and never more than 2³² − 1).
    pub(crate) fn new(items_max: usize) -> Self {
        let items_max = items_max.min(u32::MAX as usize);
        Self { items: Vec::new(), positions: HashTable::new(), items_max }
    }

    /// The value's position; `None` if it is new and the table is full.
    pub(crate) fn intern(&mut self, item: T) -> Option<u32> {
        let hash = FxBuildHasher.hash_one(item);
        let items = &self.items;
        let same = |position: &u32| items.get(*position as usize) == Some(&item);
        if let Some(position) = self.positions.find(hash, same) {
            return Some(*position);
        }
        if self.items.len() >= self.items_max {
            return None;
        }
        let position = u32::try_from(self.items.len()).ok()?;
        self.items.push(item);
        let items = &self.items;
        self.positions.insert_unique(hash, position, |position| {
            items.get(*position as usize).map_or(0, |item| FxBuildHasher.hash_one(*item))
        });
        Some(position)
    }

    /// The value at a position.
    pub(crate) fn get(&self, position: usize) -> Option<T> {
        self.items.get(position).copied()
    }

    /// All values in their order.
    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }

    /// Values in the table.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Bytes in use, roughly: a position in the hash table is four bytes, one of control, and a
    /// third is spare.
    pub(crate) fn bytes(&self) -> usize {
        self.len().saturating_mul(size_of::<T>().saturating_add(7))
    }

    /// Whether more than half of the bound is used.
    pub(crate) fn is_half_full(&self) -> bool {
        self.items.len() > self.items_max / 2
    }

    /// Forgets the values, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.positions.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_one_position_and_the_bound_holds() {
        let mut table = Interned::new(3);
        assert_eq!(table.intern(7_u64), Some(0));
        assert_eq!(table.intern(8), Some(1));
        assert!(table.is_half_full());
        assert_eq!(table.intern(7), Some(0));
        assert_eq!(table.intern(9), Some(2));
        assert_eq!(table.intern(10), None);
        assert_eq!(table.intern(9), Some(2));
        assert_eq!((table.get(1), table.get(3)), (Some(8), None));
        table.clear();
        assert_eq!(table.intern(10), Some(0));
    }
}
