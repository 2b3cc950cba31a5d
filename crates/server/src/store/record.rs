//! A record of a segment: what is known of a profile, and the profile.
//!
//! ```text
//! "CPR1"  length of the rest (4 bytes)  CRC-32 of the rest (4 bytes)
//! length of what is known (4 bytes)  what is known  the profile
//! ```
//!
//! Numbers have the lowest byte first. What is known is a list of texts, each with its length
//! before it, and numbers as texts: names first, so that more can be added.

use std::fs::File;
use std::io::{self, Read};

use super::file_at::FileExt as _;
use super::known::Known;

const MAGIC: [u8; 4] = *b"CPR1";
/// Bytes before the rest.
pub(super) const HEAD: u64 = 12;
/// A longer record is none of ours.
pub(super) const LENGTH_MAX: u32 = 256 << 20;

/// Bytes that a label's two texts have besides their letters.
const LABEL: usize = 2 * size_of::<String>();
/// Bytes by which it is known that it is there: a place of a set that is half full.
const KNOWN: usize = 2 * size_of::<Known>();

/// What is known of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The program's service.
    pub service: String,
    /// Its version; empty if unknown.
    pub version: String,
    /// Which of its processes; empty if unknown.
    pub instance: String,
    /// Further labels, by name.
    pub labels: Vec<(String, String)>,
    /// When the profile begins, in microseconds since 1970.
    pub begin_us: u64,
    /// How long it is.
    pub duration_us: u64,
    /// When it came, in seconds since 1970.
    pub received: u64,
    /// What it is of, in the words of who took it: what a sender sends again has the same. Empty
    /// in records of before there was one.
    pub origin: String,
}

impl Meta {
    /// When the profile ends, in microseconds since 1970.
    #[must_use]
    pub fn end_us(&self) -> u64 {
        self.begin_us.saturating_add(self.duration_us)
    }

    /// Bytes of memory, nearly.
    pub(super) fn size(&self) -> u64 {
        let labels = self.labels.iter().map(|(name, value)| LABEL + name.len() + value.len());
        let texts = [&self.service, &self.version, &self.instance, &self.origin];
        let texts = texts.into_iter().map(String::len);
        (size_of::<Self>() + KNOWN + texts.chain(labels).sum::<usize>()) as u64
    }

    fn to_bytes(&self) -> Vec<u8> {
        let numbers = [self.begin_us, self.duration_us, self.received].map(|n| n.to_string());
        let own = ["begin_us", "duration_us", "received"].into_iter().zip(&numbers);
        let texts = [
            ("service", &self.service),
            ("version", &self.version),
            ("instance", &self.instance),
            ("origin", &self.origin),
        ];
        let mut bytes = Vec::new();
        let mut put = |text: &str| {
            bytes.extend_from_slice(&length(text.len()).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        };
        for (name, text) in texts.into_iter().chain(own) {
            put(name);
            put(text);
        }
        for (name, value) in &self.labels {
            put(&format!("label.{name}"));
            put(value);
        }
        bytes
    }

    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut meta = Self::default();
        while !bytes.is_empty() {
            let (name, value) = (text(&mut bytes)?, text(&mut bytes)?);
            match name.as_str() {
                "service" => meta.service = value,
                "version" => meta.version = value,
                "instance" => meta.instance = value,
                "begin_us" => meta.begin_us = value.parse().ok()?,
                "duration_us" => meta.duration_us = value.parse().ok()?,
                "received" => meta.received = value.parse().ok()?,
                "origin" => meta.origin = value,
                _ => {
                    let label = name.strip_prefix("label.")?.to_owned();
                    meta.labels.push((label, value));
                }
            }
        }
        Some(meta)
    }
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let text = rest.get(..length)?;
    *bytes = rest.get(length..)?;
    String::from_utf8(text.to_vec()).ok()
}

fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Adds the bytes of a record; `None` if it is too long.
pub(super) fn put(bytes: &mut Vec<u8>, meta: &Meta, profile: &[u8]) -> Option<()> {
    let known = meta.to_bytes();
    let rest = known.len().checked_add(profile.len())?.checked_add(4)?;
    let rest_length = u32::try_from(rest).ok().filter(|length| *length <= LENGTH_MAX)?;
    let known_length = length(known.len()).to_le_bytes();
    let rest = [known_length.as_slice(), &known, profile];
    let mut sum = crc32fast::Hasher::new();
    rest.iter().for_each(|part| sum.update(part));
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&rest_length.to_le_bytes());
    bytes.extend_from_slice(&sum.finalize().to_le_bytes());
    rest.iter().for_each(|part| bytes.extend_from_slice(part));
    Some(())
}

/// The length of the rest of the record that begins there; `None` if none does.
pub(super) fn length_at(file: &File, offset: u64) -> io::Result<Option<u32>> {
    let mut head = [0; HEAD as usize];
    match file.read_exact_at(&mut head, offset) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    Ok((head[..4] == MAGIC && (4..=LENGTH_MAX).contains(&length)).then_some(length))
}

/// Where the next whole record begins, after what is none.
pub(super) fn next_after(file: &File, offset: u64, end: u64) -> io::Result<Option<u64>> {
    let mut bytes = Vec::new();
    let from = offset + 1;
    Section { file, offset: from }.take(end.saturating_sub(from)).read_to_end(&mut bytes)?;
    for (at, window) in (from..).zip(bytes.windows(MAGIC.len())) {
        if window != MAGIC {
            continue;
        }
        let length = length_at(file, at)?.filter(|length| at + HEAD + u64::from(*length) <= end);
        if length.is_some_and(|length| read_at(file, at, length).is_ok()) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Reads a record and checks it.
///
/// # Errors
/// If it is not what was written.
pub(super) fn read_at(file: &File, offset: u64, length: u32) -> io::Result<(Meta, Vec<u8>)> {
    let mut head = [0; HEAD as usize];
    file.read_exact_at(&mut head, offset)?;
    let mut rest = Vec::new();
    // Not more is taken from the allocator than is there.
    Section { file, offset: offset + HEAD }.take(length.into()).read_to_end(&mut rest)?;
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the profile is damaged on disk");
    let sum = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    if rest.len() != length as usize || crc32fast::hash(&rest) != sum {
        return Err(damaged());
    }
    let (known, after) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let known = u32::from_le_bytes(*known) as usize;
    let meta = after.get(..known).and_then(Meta::from_bytes).ok_or_else(damaged)?;
    Ok((meta, after.get(known..).unwrap_or_default().to_vec()))
}

/// A file from some place on.
struct Section<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(to, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
