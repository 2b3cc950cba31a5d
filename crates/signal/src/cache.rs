//! What was found of addresses before: most stacks of a program are of the same few thousand return
//! addresses, and a frame that is known here costs half (docs/performance.md).
//!
//! A cache belongs to one pair of tables and is thrown away with them, so that it never is out of
//! date. Handlers on all threads read and write it at a time: an entry is one atomic number, which
//! holds the whole address beside what was found, so that none can be torn or taken for another's.

use core::sync::atomic::{AtomicU64, Ordering};

/// Entries of a cache: 32 KiB, which is made anew with each pair of tables.
pub const ENTRIES: usize = 4096;
/// Bits of an entry that say what was found; the others are the address.
const FOUND_BITS: u32 = 16;
/// Addresses from here on have no room in an entry: a program has such only if it asks for them
/// (five-level page tables).
const ADDRESS_END: u64 = 1 << (u64::BITS - FOUND_BITS);
/// The golden ratio's fraction: spreads neighbours (Knuth, The Art of Computer Programming, 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A rule that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Whether it was found in the table of managed code.
    pub managed: bool,
    /// The index of the rule in that table.
    pub rule: u32,
}

impl Known {
    /// As the low bits of an entry; `None` if they have no room for it. Never 0, which is an empty
    /// entry.
    fn to_bits(self) -> Option<u64> {
        let bits = u64::from(self.rule).wrapping_shl(2) | u64::from(self.managed).wrapping_shl(1);
        (bits < 1 << FOUND_BITS).then_some(bits | 1)
    }

    fn of_bits(bits: u64) -> Self {
        let rule = (bits & ((1 << FOUND_BITS) - 1)).wrapping_shr(2);
        Self { managed: bits & 2 != 0, rule: u32::try_from(rule).unwrap_or(u32::MAX) }
    }
}

/// A view of a cache's entries; with none, nothing is ever known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cache<'a> {
    /// All zero at first.
    pub entries: &'a [AtomicU64],
}

impl Cache<'_> {
    /// What is known of an address.
    ///
    /// # Signal safety
    /// One atomic load.
    #[must_use]
    pub fn get(&self, address: u64) -> Option<Known> {
        let entry = self.entry(address)?.load(Ordering::Relaxed);
        let known = entry.wrapping_shr(FOUND_BITS) == address && entry != 0;
        known.then(|| Known::of_bits(entry))
    }

    /// Notes what was found, instead of what had its place before.
    ///
    /// # Signal safety
    /// One atomic store.
    pub fn note(&self, address: u64, known: Known) {
        if let (Some(entry), Some(bits)) = (self.entry(address), known.to_bits())
            && address < ADDRESS_END
        {
            entry.store(address.wrapping_shl(FOUND_BITS) | bits, Ordering::Relaxed);
        }
    }

    fn entry(&self, address: u64) -> Option<&AtomicU64> {
        // The product's high half, scaled to the length: its highest bits depend on all of the
        // address.
        let high = usize::try_from(address.wrapping_mul(SPREAD).wrapping_shr(u32::BITS)).ok()?;
        self.entries.get(high.wrapping_mul(self.entries.len()).wrapping_shr(u32::BITS))
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::arithmetic_side_effects, reason = "not in a handler")]
mod tests {
    use testing::Random;

    use super::*;

    #[test]
    fn what_was_noted_is_known_until_its_place_is_taken_and_nothing_else_ever_is() {
        let entries = [const { AtomicU64::new(0) }; 64];
        let cache = Cache { entries: &entries };
        let of = |address: u64| Known {
            managed: address & 1 == 1,
            rule: u32::try_from(address % 9_000).expect("small"),
        };
        let mut random = Random(1);
        let mut hits = 0;
        for _ in 0..10_000 {
            let address = random.below(100) + 0x7f12_3456_7000;
            match cache.get(address) {
                Some(known) => {
                    assert_eq!(known, of(address));
                    hits += 1;
                }
                None => cache.note(address, of(address)),
            }
        }
        assert!(hits > 1_000, "{hits}");
    }

    #[test]
    fn what_has_no_room_is_not_noted() {
        let entries = [const { AtomicU64::new(0) }; 64];
        let cache = Cache { entries: &entries };
        let small = Known { managed: false, rule: 0 };
        for (address, known, has_room) in [
            (0x7fff_ffff_fff0, small, true),
            (0, small, true),
            (1 << 48, small, false),
            ((1 << 48) + 0x1000, small, false),
            (0x1000, Known { managed: true, rule: (1 << 14) - 1 }, true),
            (0x2000, Known { managed: true, rule: 1 << 14 }, false),
            (0x3000, Known { managed: true, rule: u32::MAX }, false),
        ] {
            cache.note(address, known);
            assert_eq!(cache.get(address), has_room.then_some(known), "{address:x} {known:?}");
        }
        // An empty place is not the address 0's.
        assert_eq!(Cache { entries: &[const { AtomicU64::new(0) }; 1] }.get(0), None);
        assert_eq!(Cache::default().get(0x1000), None);
    }
}
