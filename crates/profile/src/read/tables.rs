//! What a file's samples refer to: its strings, mappings, functions, locations and header.
//!
//! Two passes over the bytes, since a file may have its samples before its tables. Messages are
//! read where they lie, so a small file can't become a large tree of them.

use std::borrow::Cow;
use std::collections::HashMap;

use super::error::DecodeError;
use crate::pprof::field;
use crate::wire::{Fields, Value, packed};

/// Strings at most; each takes two bytes of a file at least.
const STRINGS: usize = 8 << 20;
/// Mappings, functions, locations, or lines of all locations at most.
const ENTRIES: usize = 4 << 20;

/// A function as in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FunctionEntry {
    pub(super) name: u64,
    pub(super) system_name: u64,
    pub(super) file: u64,
}

/// A mapping as in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MappingEntry {
    pub(super) start: u64,
    pub(super) limit: u64,
    pub(super) file: u64,
    pub(super) build_id: u64,
}

/// A location as in the file; its lines are a range of `Tables::lines`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LocationEntry {
    pub(super) mapping: u64,
    pub(super) address: u64,
    lines: (usize, usize),
}

/// A line of a location.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineEntry {
    pub(super) function: u64,
    pub(super) line: u64,
}

/// Everything but the samples.
#[derive(Debug, Default)]
pub(super) struct Tables<'a> {
    strings: Vec<Cow<'a, str>>,
    /// Type and unit of each value of a sample.
    pub(super) sample_types: Vec<(u64, u64)>,
    mappings: HashMap<u64, MappingEntry>,
    functions: HashMap<u64, FunctionEntry>,
    pub(super) locations: HashMap<u64, LocationEntry>,
    lines: Vec<LineEntry>,
    pub(super) comments: Vec<u64>,
    /// When samples came about, as in the file.
    pub(super) moments: Vec<&'a [u8]>,
    pub(super) time_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) period: u64,
}

impl<'a> Tables<'a> {
    /// Reads the tables of a whole profile.
    pub(super) fn read(profile: &'a [u8]) -> Result<Self, DecodeError> {
        let mut tables = Self::default();
        for field in fields("profile", profile) {
            match field? {
                (field::PROFILE_SAMPLE_TYPE, Value::Bytes(bytes)) => {
                    tables.sample_types.push(value_type(bytes)?);
                }
                (field::PROFILE_MAPPING, Value::Bytes(bytes)) => tables.mapping(bytes)?,
                (field::PROFILE_LOCATION, Value::Bytes(bytes)) => tables.location(bytes)?,
                (field::PROFILE_FUNCTION, Value::Bytes(bytes)) => tables.function(bytes)?,
                (field::PROFILE_STRING, Value::Bytes(bytes)) => {
                    tables.strings.push(String::from_utf8_lossy(bytes));
                }
                (field::PROFILE_TIME, Value::Number(number)) => tables.time_ns = number,
                (field::PROFILE_DURATION, Value::Number(number)) => tables.duration_ns = number,
                (field::PROFILE_PERIOD, Value::Number(number)) => tables.period = number,
                (field::PROFILE_COMMENT, value) => {
                    numbers("comments", value, |number| tables.comments.push(number))?;
                }
                (field::PROFILE_MOMENTS, Value::Bytes(bytes)) => tables.moments.push(bytes),
                _ => {}
            }
            tables.check_sizes()?;
        }
        match tables.strings.first() {
            None => Err(DecodeError::NotAProfile("it has no strings")),
            Some(first) if !first.is_empty() => {
                Err(DecodeError::NotAProfile("its first string is not the empty one"))
            }
            Some(_) if tables.sample_types.is_empty() => {
                Err(DecodeError::NotAProfile("it has no sample types"))
            }
            Some(_) => Ok(tables),
        }
    }

    fn check_sizes(&self) -> Result<(), DecodeError> {
        for (what, len, len_max) in [
            ("strings", self.strings.len(), STRINGS),
            ("sample types", self.sample_types.len(), 64),
            ("mappings", self.mappings.len(), ENTRIES),
            ("functions", self.functions.len(), ENTRIES),
            ("locations", self.locations.len(), ENTRIES),
            ("lines", self.lines.len(), ENTRIES),
            ("comments", self.comments.len(), ENTRIES),
            ("moments", self.moments.len(), ENTRIES),
        ] {
            if len > len_max {
                return Err(DecodeError::TooMany { what });
            }
        }
        Ok(())
    }

    fn mapping(&mut self, message: &[u8]) -> Result<(), DecodeError> {
        let (mut id, mut entry) = (0, MappingEntry::default());
        for field in fields("mapping", message) {
            match field? {
                (field::MAPPING_ID, Value::Number(number)) => id = number,
                (field::MAPPING_START, Value::Number(number)) => entry.start = number,
                (field::MAPPING_LIMIT, Value::Number(number)) => entry.limit = number,
                (field::MAPPING_FILE, Value::Number(number)) => entry.file = number,
                (field::MAPPING_BUILD_ID, Value::Number(number)) => entry.build_id = number,
                _ => {}
            }
        }
        unique("mapping", id, self.mappings.insert(id, entry))
    }

    fn function(&mut self, message: &[u8]) -> Result<(), DecodeError> {
        let (mut id, mut entry) = (0, FunctionEntry::default());
        for field in fields("function", message) {
            match field? {
                (field::FUNCTION_ID, Value::Number(number)) => id = number,
                (field::FUNCTION_NAME, Value::Number(number)) => entry.name = number,
                (field::FUNCTION_SYSTEM_NAME, Value::Number(number)) => entry.system_name = number,
                (field::FUNCTION_FILE, Value::Number(number)) => entry.file = number,
                _ => {}
            }
        }
        unique("function", id, self.functions.insert(id, entry))
    }

    fn location(&mut self, message: &[u8]) -> Result<(), DecodeError> {
        let (mut id, mut entry) = (0, LocationEntry::default());
        entry.lines.0 = self.lines.len();
        for field in fields("location", message) {
            match field? {
                (field::LOCATION_ID, Value::Number(number)) => id = number,
                (field::LOCATION_MAPPING, Value::Number(number)) => entry.mapping = number,
                (field::LOCATION_ADDRESS, Value::Number(number)) => entry.address = number,
                (field::LOCATION_LINE, Value::Bytes(bytes)) => self.lines.push(line(bytes)?),
                _ => {}
            }
        }
        entry.lines.1 = self.lines.len();
        unique("location", id, self.locations.insert(id, entry))
    }

    /// The text at a position of the string table.
    pub(super) fn text(&self, position: u64) -> Result<&str, DecodeError> {
        let text = usize::try_from(position).ok().and_then(|at| self.strings.get(at));
        text.map(AsRef::as_ref).ok_or(DecodeError::NoSuchEntry { table: "string", id: position })
    }

    /// The mapping with an id; 0 is none.
    pub(super) fn mapping_of(&self, id: u64) -> Result<Option<MappingEntry>, DecodeError> {
        if id == 0 {
            return Ok(None);
        }
        let entry = self.mappings.get(&id).copied();
        entry.map(Some).ok_or(DecodeError::NoSuchEntry { table: "mapping", id })
    }

    /// The function with an id.
    pub(super) fn function_of(&self, id: u64) -> Result<FunctionEntry, DecodeError> {
        let entry = self.functions.get(&id).copied();
        entry.ok_or(DecodeError::NoSuchEntry { table: "function", id })
    }

    /// A location's lines, the innermost function first.
    pub(super) fn lines_of(&self, location: &LocationEntry) -> &[LineEntry] {
        self.lines.get(location.lines.0..location.lines.1).unwrap_or_default()
    }
}

/// A message's fields, with errors that say which message it is.
pub(super) fn fields<'a>(
    message: &'static str,
    bytes: &'a [u8],
) -> impl Iterator<Item = Result<(u64, Value<'a>), DecodeError>> {
    Fields::new(bytes).map(move |field| field.map_err(|what| DecodeError::Wire { message, what }))
}

/// The numbers of a list, packed or one at a time.
pub(super) fn numbers(
    message: &'static str,
    value: Value<'_>,
    mut each: impl FnMut(u64),
) -> Result<(), DecodeError> {
    match value {
        Value::Number(number) => each(number),
        Value::Bytes(bytes) => {
            for number in packed(bytes) {
                each(number.map_err(|what| DecodeError::Wire { message, what })?);
            }
        }
        Value::Fixed(_) => {}
    }
    Ok(())
}

fn value_type(message: &[u8]) -> Result<(u64, u64), DecodeError> {
    let (mut kind, mut unit) = (0, 0);
    for field in fields("sample type", message) {
        match field? {
            (field::TYPE_TYPE, Value::Number(number)) => kind = number,
            (field::TYPE_UNIT, Value::Number(number)) => unit = number,
            _ => {}
        }
    }
    Ok((kind, unit))
}

fn line(message: &[u8]) -> Result<LineEntry, DecodeError> {
    let mut entry = LineEntry::default();
    for field in fields("line", message) {
        match field? {
            (field::LINE_FUNCTION, Value::Number(number)) => entry.function = number,
            (field::LINE_LINE, Value::Number(number)) => entry.line = number,
            _ => {}
        }
    }
    Ok(entry)
}

fn unique<T>(table: &'static str, id: u64, before: Option<T>) -> Result<(), DecodeError> {
    match (id, before) {
        (0, _) => Err(DecodeError::NoSuchEntry { table, id }),
        (_, Some(_)) => Err(DecodeError::Twice { table, id }),
        (_, None) => Ok(()),
    }
}
