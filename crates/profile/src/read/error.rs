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

impl DecodeError {
    /// What is wrong with the bytes, whatever they were to be: for formats that are not pprof.
    #[must_use]
    pub fn damage(&self) -> String {
        match self {
            Self::Empty => "there are no bytes".to_owned(),
            Self::Gzip(what) => format!("the gzip data is cut short or damaged ({what})"),
            Self::TooLarge { bytes_max } => {
                format!("inflated it is larger than {} MiB", bytes_max >> 20)
            }
            Self::Wire { message, what } => format!("{what}, in the {message}"),
            Self::NotAProfile(why) => (*why).to_owned(),
            Self::NoSuchEntry { table, id } => format!("{table} {id} is used and isn't there"),
            Self::Twice { table, id } => format!("{table} {id} is there twice"),
            Self::ValueCount { sample, found, expected } => {
                format!("sample {sample} has {found} values instead of {expected}")
            }
            Self::Negative { sample } => {
                format!("sample {sample} has a negative value: this is a difference of profiles")
            }
            Self::NoTimes { types } => {
                format!("it has neither CPU nor wall time, but {types}")
            }
            Self::TooMany { what } => format!("it has more {what} than any profile should"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => return f.write_str("the file is empty"),
            Self::Wire { .. } => f.write_str("not a pprof profile, or a damaged one: ")?,
            Self::NotAProfile(_) => f.write_str("not a pprof profile: ")?,
            Self::NoSuchEntry { .. } | Self::Twice { .. } | Self::ValueCount { .. } => {
                f.write_str("a damaged pprof profile: ")?;
            }
            _ => {}
        }
        f.write_str(&self.damage())
    }
}

impl std::error::Error for DecodeError {}
