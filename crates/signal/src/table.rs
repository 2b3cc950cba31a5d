//! The flat, sorted unwind table that a handler searches, and nothing else.
//!
//! ```text
//! regions  sorted, not overlapping: [start, end) → a slice of rows   (a module, or one method)
//! rows     sorted inside a region: offset from the region's start → index of a rule; a row holds
//!          until the next row's offset, or the region's end
//! rules    each distinct rule once
//! ```
//!
//! Tables are built off the handler, published by a pointer swap and never changed afterwards.

use crate::rule::Rule;

/// A run of addresses with rows of its own: a native module's code, or one managed method's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address, in this process.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Index of the region's first row.
    pub rows_start: u32,
    /// Number of rows; a region with none has no rule anywhere.
    pub rows_len: u32,
}

/// From `offset` on, `rule` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Bytes from the region's start.
    pub offset: u32,
    /// Index in the table's rules; `Row::NO_RULE` marks a gap.
    pub rule: u32,
}

impl Row {
    /// The rule index of addresses that have no unwind data.
    pub const NO_RULE: u32 = u32::MAX;
}

/// What a search found: a rule, or its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<R> {
    /// The address lies in no region.
    Outside,
    /// The address lies in a region, at a place without unwind data.
    NoRule,
    /// The rule that holds there.
    Rule(R),
}

/// A borrowed view of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Table<'a> {
    /// Sorted by `start`, not overlapping.
    pub regions: &'a [Region],
    /// Grouped by region, sorted by `offset` in each.
    pub rows: &'a [Row],
    /// Each distinct rule.
    pub rules: &'a [Rule],
}

impl Table<'_> {
    /// The rule for an address. Two binary searches, no panic path.
    ///
    /// # Signal safety
    /// Reads only the table.
    #[must_use]
    pub fn find(&self, address: u64) -> Found<Rule> {
        match self.find_index(address) {
            Found::Rule(index) => self.rule(index).map_or(Found::NoRule, Found::Rule),
            Found::NoRule => Found::NoRule,
            Found::Outside => Found::Outside,
        }
    }

    /// The same, as the index of the rule in the table.
    ///
    /// # Signal safety
    /// Reads only the table.
    #[must_use]
    pub fn find_index(&self, address: u64) -> Found<u32> {
        let Some(region) = self.region(address) else { return Found::Outside };
        let row = self.rows_up_to(region, address).and_then(<[Row]>::last);
        match row.filter(|row| row.rule != Row::NO_RULE) {
            Some(row) => Found::Rule(row.rule),
            None => Found::NoRule,
        }
    }

    /// Where the function at an address has set its frame pointer: at its first row of
    /// [`Rule::FRAME`]. `None` if there is none near.
    ///
    /// # Signal safety
    /// Reads only the table.
    #[must_use]
    pub fn frame_set_at(&self, address: u64) -> Option<u64> {
        /// Returns in the middle of a function have two rows each.
        const ROWS_MAX: usize = 256;
        let region = self.region(address)?;
        let rows = self.rows_up_to(region, address)?;
        let sets = |row: &&Row| self.rule(row.rule) == Some(Rule::FRAME);
        let row = rows.iter().rev().take(ROWS_MAX).find(sets)?;
        Some(region.start.wrapping_add(row.offset.into()))
    }

    /// A region's rows up to the one that holds at an address.
    fn rows_up_to(&self, region: Region, address: u64) -> Option<&[Row]> {
        let offset = u32::try_from(address.wrapping_sub(region.start)).ok()?;
        let first = region.rows_start as usize;
        let rows = self.rows.get(first..first.saturating_add(region.rows_len as usize))?;
        rows.get(..rows.partition_point(|row| row.offset <= offset))
    }

    /// A rule by its index; `None` if there is none.
    ///
    /// # Signal safety
    /// Reads only the table.
    #[must_use]
    pub fn rule(&self, index: u32) -> Option<Rule> {
        self.rules.get(index as usize).copied()
    }

    /// The region that holds an address.
    ///
    /// # Signal safety
    /// Reads only the table.
    #[must_use]
    pub fn region(&self, address: u64) -> Option<Region> {
        let after = self.regions.partition_point(|region| region.start <= address);
        let region = self.regions.get(after.checked_sub(1)?)?;
        (address < region.end).then_some(*region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_pointer_is_set_at_the_first_such_row() {
        let rules = [Rule::ENTRY, Rule::FRAME, Rule::FRAME_AGAIN];
        let row = |offset, rule| Row { offset, rule };
        // Two functions; the first returns in its middle.
        let rows = [row(0, 0), row(4, 1), row(20, 0), row(21, 2), row(40, 0), row(44, 1)];
        let region = Region { start: 0x1000, end: 0x1040, rows_start: 0, rows_len: 6 };
        let table = Table { regions: &[region], rows: &rows, rules: &rules };
        for (offset, set_at) in [
            (0, None),
            (3, None),
            (4, Some(4)),
            (19, Some(4)),
            (25, Some(4)),
            (44, Some(44)),
            (63, Some(44)),
            (64, None),
        ] {
            let expected = set_at.map(|offset| 0x1000 + offset);
            assert_eq!(table.frame_set_at(0x1000 + offset), expected, "{offset}");
        }
    }
}
