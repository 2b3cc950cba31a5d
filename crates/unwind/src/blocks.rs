//! What a module's unwind data gave: rows, by range of its code.

use std::ops::Range;

use signal::table::Row;

/// What could not be turned into rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Entries that do not parse.
    pub bad_entries: u32,
    /// Entries whose program fails; the addresses after the failure have no rule.
    pub bad_programs: u32,
    /// Entries for addresses outside the module's code.
    pub outside: u32,
    /// Rows whose rule the walker does not speak.
    pub unsupported: u32,
    /// Entries left out because a limit was reached.
    pub over_limit: u32,
}

impl Losses {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.bad_entries = self.bad_entries.saturating_add(other.bad_entries);
        self.bad_programs = self.bad_programs.saturating_add(other.bad_programs);
        self.outside = self.outside.saturating_add(other.outside);
        self.unsupported = self.unsupported.saturating_add(other.unsupported);
        self.over_limit = self.over_limit.saturating_add(other.over_limit);
    }
}

/// The rows of one executable range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The range, as addresses in this process.
    pub range: Range<u64>,
    /// Sorted by offset from the range's start; no two neighbours have the same rule.
    pub rows: Vec<Row>,
}

/// What a module's entries gave.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Rows, by executable range.
    pub blocks: Vec<Block>,
    /// What could not be used.
    pub losses: Losses,
    /// Where the runtime's return hijacker begins, if the module has it; see `crate::hijack`.
    pub hijack: Option<u64>,
}

/// Sorts rows and merges equal neighbours. Where an entry's end meets another's start, the start
/// wins; where two rows with rules stand at one offset, the later one in the section does.
pub(crate) fn tidy(rows: &mut Vec<Row>) {
    rows.sort_by_key(|row| (row.offset, row.rule != Row::NO_RULE));
    // In place: the first `kept` rows are done.
    let mut kept = 0_usize;
    for next in 0..rows.len() {
        let Some(row) = rows.get(next).copied() else { break };
        let last = |kept: usize| kept.checked_sub(1).and_then(|last| rows.get(last));
        if last(kept).is_some_and(|last| last.offset == row.offset) {
            kept = kept.saturating_sub(1);
        }
        if last(kept).is_none_or(|last| last.rule != row.rule)
            && let Some(place) = rows.get_mut(kept)
        {
            *place = row;
            kept = kept.saturating_add(1);
        }
    }
    rows.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_merged() {
        let row = |offset, rule| Row { offset, rule };
        const END: u32 = Row::NO_RULE;
        // Functions from 8 to 20, from 0 to 8, and from 30 to 40.
        let mut rows = vec![row(8, 1), row(9, 2), row(20, END), row(0, 1), row(4, 2), row(8, END)];
        rows.extend([row(30, 3), row(30, 4), row(34, 4), row(40, END)]);
        tidy(&mut rows);
        let expected = [row(0, 1), row(4, 2), row(8, 1), row(9, 2), row(20, END), row(30, 4)];
        assert_eq!(rows[..6], expected);
        assert_eq!(rows[6..], [row(40, END)]);
    }
}
