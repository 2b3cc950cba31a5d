//! Why a file is not a profile that we can read.

use std::fmt;

/// Why bytes can't be read as a profile. The text fits after `<file name>: `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// There are no bytes.
    Empty,
    /// Gzip's header is there, but the data is cut short or damaged.
    Gzip(String),
    /// Inflated, it is larger than any profile should be.
    TooLarge {
        /// The bound in bytes.
        bytes_max: usize,
    },
    /// The bytes are not protobuf.
    Wire {
        /// The message that was read.
        message: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// Protobuf perhaps, but no profile.
    NotAProfile(&'static str),
    /// Something refers to an entry that isn't there.
    NoSuchEntry {
        /// The table: `string`, `function`, …
        table: &'static str,
        /// The position or id.
        id: u64,
    },
    /// Two entries have the same id.
    Twice {
        /// The table.
        table: &'static str,
        /// The id.
        id: u64,
    },
    /// A sample has more or fewer values than there are sample types.
    ValueCount {
        /// Which sample, from 0.
        sample: usize,
        /// Its values.
        found: usize,
        /// Sample types.
        expected: usize,
    },
    /// A value is negative, as in the difference of two profiles.
    Negative {
        /// Which sample, from 0.
        sample: usize,
    },
    /// No sample type is CPU or wall time.
    NoTimes {
        /// The sample types, with commas.
        types: String,
    },
    /// More entries than any profile should have.
    TooMany {
        /// Entries of what.
        what: &'static str,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the file is empty"),
            Self::Gzip(what) => write!(f, "the gzip data is cut short or damaged ({what})"),
            Self::TooLarge { bytes_max } => {
                write!(f, "inflated it is larger than {} MiB", bytes_max >> 20)
            }
            Self::Wire { message, what } => {
                write!(f, "not a pprof profile, or a damaged one: {what}, in the {message}")
            }
            Self::NotAProfile(why) => write!(f, "not a pprof profile: {why}"),
            Self::NoSuchEntry { table, id } => {
                write!(f, "a damaged pprof profile: {table} {id} is used and isn't there")
            }
            Self::Twice { table, id } => {
                write!(f, "a damaged pprof profile: {table} {id} is there twice")
            }
            Self::ValueCount { sample, found, expected } => write!(
                f,
                "a damaged pprof profile: sample {sample} has {found} values instead of {expected}"
            ),
            Self::Negative { sample } => {
                write!(f, "sample {sample} has a negative value: this is a difference of profiles")
            }
            Self::NoTimes { types } => {
                write!(f, "it has neither CPU nor wall time, but {types}")
            }
            Self::TooMany { what } => write!(f, "it has more {what} than any profile should"),
        }
    }
}

impl std::error::Error for DecodeError {}
