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
        let Ok(offset) = u32::try_from(address.wrapping_sub(region.start)) else {
            return Found::NoRule;
        };
        let first = region.rows_start as usize;
        let Some(rows) = self.rows.get(first..first.saturating_add(region.rows_len as usize))
        else {
            return Found::NoRule;
        };
        let after = rows.partition_point(|row| row.offset <= offset);
        let row = after.checked_sub(1).and_then(|index| rows.get(index));
        match row.filter(|row| row.rule != Row::NO_RULE) {
            Some(row) => Found::Rule(row.rule),
            None => Found::NoRule,
        }
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
