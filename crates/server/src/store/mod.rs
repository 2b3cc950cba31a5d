//! Profiles on disk: segments that are only appended to, and deleted whole when they are old.
//!
//! A profile is in the store once [`Store::put`] has returned: its record is written and synced.
//! What a crash left half written at the end of the last segment is cut off by the next start; what
//! is damaged elsewhere is passed over and counted. `docs/design/0011` says why so.

mod file_at;
mod known;
mod record;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use known::Index;
pub use record::Meta;
use segment::Segment;
pub use segment::{Appending, Written};

/// A segment takes no more records once it has that many bytes, or is that old: the smaller, the
/// finer is what is deleted at once.
const SEGMENT_BYTES: u64 = 32 << 20;
const SEGMENT_SECONDS: u64 = 3_600;

/// Bytes of memory of what is known of profiles: a million and more of them. What is being written
/// is never deleted, and is a small part of it: a segment and one push.
const KNOWN_BYTES_MAX: u64 = 512 << 20;

/// What is kept.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Seconds after a profile was received.
    pub seconds: u64,
    /// Bytes of all segments.
    pub bytes: u64,
}

/// Where a profile is; what came later is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    segment: u64,
    offset: u64,
    length: u32,
}

/// A profile that is in the store.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What is known of it.
    pub meta: Meta,
    /// Where it is.
    pub place: Place,
}

/// Numbers of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Profiles that are there.
    pub profiles: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Records that a start found damaged and passed over.
    pub damaged: u64,
    /// Bytes that a start cut off: a record that was being written when the process was killed.
    pub cut: u64,
    /// Profiles that were deleted since they were old or there was too much.
    pub deleted: u64,
}

/// A store, which one process has at a time.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    retention: Retention,
    segments: Vec<Segment>,
    entries: Vec<Entry>,
    index: Index,
    /// Bytes of memory of what is known of the profiles, and how many there may be.
    known: u64,
    known_max: u64,
    numbers: Numbers,
    /// Locked as long as the store is there.
    _lock: File,
}

impl Store {
    /// Opens a store, made if it is not there, and reads what it holds.
    ///
    /// # Errors
    /// If the folder can't be read or written, or another process has it
    /// ([`io::ErrorKind::WouldBlock`]).
    pub fn open(folder: &Path, retention: Retention) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        // What a link there leads to is not emptied.
        let mut options = File::options();
        let lock = options.write(true).create(true).truncate(false).open(folder.join("lock"))?;
        lock.try_lock().map_err(|_| {
            io::Error::new(io::ErrorKind::WouldBlock, "another corprof serve has the folder")
        })?;
        let mut store = Self {
            folder: folder.to_owned(),
            retention,
            segments: Vec::new(),
            entries: Vec::new(),
            index: Index::default(),
            known: 0,
            known_max: KNOWN_BYTES_MAX,
            numbers: Numbers::default(),
            _lock: lock,
        };
        let numbers = segment::numbers_in(folder)?;
        let last = numbers.last().copied();
        for number in numbers {
            let found = Segment::open(folder, number, Some(number) == last)?;
            store.numbers.damaged += found.damaged;
            store.numbers.cut += found.cut;
            store.entries.extend(found.entries);
            store.segments.push(found.segment);
        }
        store.index.set(store.entries.iter().map(|entry| &entry.meta));
        store.known = store.entries.iter().map(|entry| entry.meta.size()).sum();
        Ok(store)
    }

    /// Puts profiles in; all of them are on disk when this returns, or none is there. (Who is
    /// killed meanwhile may find some: their sender was not told, and sends them again. They are
    /// there by then: see [`Store::new_of`].)
    ///
    /// # Errors
    /// That of the system. The store is as before.
    pub fn put(&mut self, profiles: &[(&Meta, &[u8])], now: u64) -> io::Result<()> {
        self.make_room(profiles.iter().map(|(meta, _)| *meta), now)?;
        let written = self.begin(now)?.write(profiles)?;
        self.commit(written);
        Ok(())
    }

    /// Before [`Store::begin`]: deletes the oldest where there would be too much in memory with
    /// what is known of these; says how many profiles that were.
    ///
    /// # Errors
    /// That of the system; what could be deleted is.
    pub fn make_room<'a>(
        &mut self,
        metas: impl IntoIterator<Item = &'a Meta>,
        now: u64,
    ) -> io::Result<u64> {
        let more: u64 = metas.into_iter().map(Meta::size).sum();
        if self.known.saturating_add(more) <= self.known_max {
            return Ok(0);
        }
        let gone = self.too_much(now, self.known_max.saturating_sub(more));
        self.delete(&gone)
    }

    /// The first of the three steps of [`Store::put`], for who does not want to hold the store
    /// while the disk writes: the others are [`Appending::write`] and [`Store::commit`]. Who has
    /// begun ends it before anybody begins again.
    ///
    /// # Errors
    /// That of the system, also if somebody has removed the folder.
    pub fn begin(&mut self, now: u64) -> io::Result<Appending> {
        let is_full = |segment: &Segment| {
            segment.bytes() >= SEGMENT_BYTES || now.saturating_sub(segment.begun) > SEGMENT_SECONDS
        };
        let last = self.segments.last().filter(|last| !is_full(last));
        if let Some(segment) = last {
            if segment.is_there(&self.folder) {
                return segment.appending();
            }
            let why = format!("the folder {} was removed", self.folder.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        let next = self.segments.last().map_or(1, |segment| segment.number + 1);
        let segment = Segment::create(&self.folder, next, now)?;
        let appending = segment.appending();
        self.segments.push(segment);
        appending
    }

    /// Takes up what was written.
    pub fn commit(&mut self, written: Written) {
        // It is the last: nobody has begun another one.
        if let Some(segment) = self.segments.last_mut() {
            segment.grow(&written);
        }
        for entry in &written.entries {
            self.index.add(&entry.meta);
            self.known += entry.meta.size();
        }
        self.entries.extend(written.entries);
    }

    /// Which of these are new, in their order: no profile of the same service and origin is there
    /// or stands before them.
    #[must_use]
    pub fn new_of<'a>(&self, metas: impl IntoIterator<Item = &'a Meta>) -> Vec<bool> {
        self.index.new_of(metas.into_iter())
    }

    /// All profiles, in the order in which they came.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The bytes of a profile.
    ///
    /// # Errors
    /// If they can't be read, or are not what was written ([`io::ErrorKind::InvalidData`]).
    pub fn read(&self, place: Place) -> io::Result<Vec<u8>> {
        self.reader(place)?.read()
    }

    /// What reads a profile without the store, which may change meanwhile.
    ///
    /// # Errors
    /// If it is not there any more.
    pub fn reader(&self, place: Place) -> io::Result<Reader> {
        let segment = self.segments.iter().find(|segment| segment.number == place.segment);
        let gone = || io::Error::new(io::ErrorKind::NotFound, "the profile was deleted");
        Ok(Reader { file: segment.ok_or_else(gone)?.reader()?, place })
    }

    /// Deletes what is older than is kept, and the oldest while there is too much; says how many
    /// profiles that were.
    ///
    /// # Errors
    /// That of the system; what could be deleted is.
    pub fn expire(&mut self, now: u64) -> io::Result<u64> {
        let gone = self.too_much(now, self.known_max);
        self.delete(&gone)
    }

    /// Deletes the segments of these numbers.
    fn delete(&mut self, gone: &[u64]) -> io::Result<u64> {
        let mut result = Ok(());
        self.segments.retain(|segment| {
            if !gone.contains(&segment.number) {
                return true;
            }
            let deleted = segment.delete(&self.folder);
            let is_gone = deleted.is_ok();
            result = std::mem::replace(&mut result, Ok(())).and(deleted);
            !is_gone
        });
        let there: Vec<u64> = self.segments.iter().map(|segment| segment.number).collect();
        let before = self.entries.len();
        self.entries.retain(|entry| there.contains(&entry.place.segment));
        let deleted = (before - self.entries.len()) as u64;
        if deleted > 0 {
            self.index.set(self.entries.iter().map(|entry| &entry.meta));
            self.known = self.entries.iter().map(|entry| entry.meta.size()).sum();
        }
        self.numbers.deleted += deleted;
        result.map(|()| deleted)
    }

    /// The numbers of the segments that are old, or too much on disk or in memory.
    fn too_much(&self, now: u64, known_max: u64) -> Vec<u64> {
        let mut known_of: HashMap<u64, u64> = HashMap::new();
        for entry in &self.entries {
            *known_of.entry(entry.place.segment).or_default() += entry.meta.size();
        }
        let mut known = self.known;
        let mut bytes: u64 = self.segments.iter().map(Segment::bytes).sum();
        let mut gone = Vec::new();
        // The last one is being written.
        let sealed = self.segments.len().saturating_sub(1);
        for segment in self.segments.iter().take(sealed) {
            let is_old = now.saturating_sub(segment.ended) > self.retention.seconds;
            if is_old || bytes > self.retention.bytes || known > known_max {
                bytes -= segment.bytes();
                known -= known_of.get(&segment.number).copied().unwrap_or_default();
                gone.push(segment.number);
            }
        }
        gone
    }

    /// Its numbers.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        Numbers {
            profiles: self.entries.len() as u64,
            bytes: self.segments.iter().map(Segment::bytes).sum(),
            ..self.numbers
        }
    }
}

/// Reads one profile.
#[derive(Debug)]
pub struct Reader {
    file: File,
    place: Place,
}

impl Reader {
    /// The bytes of the profile.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn read(&self) -> io::Result<Vec<u8>> {
        record::read_at(&self.file, self.place.offset, self.place.length)
            .map(|(_, profile)| profile)
    }
}
