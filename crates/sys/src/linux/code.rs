//! Unwind data of code that is in no file: the system keeps none on Linux.

/// A function's unwind data, as the system has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// First address of the function.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// What other addresses in its data are counted from.
    pub base: u64,
    /// Where its unwind data is.
    pub unwind: u64,
}

/// The function that holds an address: never one that the system knows.
#[must_use]
pub fn describe(_address: u64) -> Option<Described> {
    None
}
