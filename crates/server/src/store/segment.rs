//! A segment: a file of records.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::file_at::FileExt as _;
use super::record::{self, HEAD, Meta};
use super::{Entry, Place};

const SUFFIX: &str = ".seg";

/// A segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// When its first record came, in seconds since 1970.
    pub(super) begun: u64,
    /// When its last one came.
    pub(super) ended: u64,
    file: File,
    /// Bytes of whole records; what lies behind is nothing.
    length: u64,
}

/// What was found in a segment.
pub(super) struct Found {
    pub(super) segment: Segment,
    pub(super) entries: Vec<Entry>,
    pub(super) damaged: u64,
    pub(super) cut: u64,
}

/// The numbers of a folder's segments, in order.
pub(super) fn numbers_in(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        numbers.extend(stem.and_then(|stem| stem.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}{SUFFIX}"))
}

/// Has the disk know which files there are.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// NTFS keeps a journal of that, and a folder can't be opened as a file.
#[cfg(windows)]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

impl Segment {
    /// A new one, which is in its folder when this returns. If it fails, none is there.
    pub(super) fn create(folder: &Path, number: u64, begun: u64) -> io::Result<Self> {
        let path = path(folder, number);
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        if let Err(error) = sync_folder(folder) {
            // Else the next one of that number can't be made.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(Self { number, begun, ended: begun, file, length: 0 })
    }

    /// Reads one. The last one may end in a record that was being written, which is cut off.
    pub(super) fn open(folder: &Path, number: u64, is_last: bool) -> io::Result<Found> {
        let file = File::options().read(true).write(true).open(path(folder, number))?;
        let length = file.metadata()?.len();
        let segment = Self { number, begun: 0, ended: 0, file, length: 0 };
        let mut found = Found { segment, entries: Vec::new(), damaged: 0, cut: 0 };
        let mut offset = 0;
        while offset < length {
            let file = &found.segment.file;
            let rest = record::length_at(file, offset)?;
            let rest = rest.filter(|rest| offset + HEAD + u64::from(*rest) <= length);
            let Some(rest) = rest else {
                // Its head is damaged, or it was being written: then no other is behind it.
                let Some(next) = record::next_after(file, offset, length)? else { break };
                found.damaged += 1;
                offset = next;
                continue;
            };
            let end = offset + HEAD + u64::from(rest);
            match record::read_at(&found.segment.file, offset, rest) {
                Ok((meta, _)) => {
                    let place = Place { segment: number, offset, length: rest };
                    found.entries.push(Entry { meta, place });
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => found.damaged += 1,
                Err(error) => return Err(error),
            }
            offset = end;
        }
        let received = || found.entries.iter().map(|entry| entry.meta.received);
        found.segment.begun = received().next().unwrap_or_default();
        found.segment.ended = received().max().unwrap_or_default();
        found.segment.length = offset;
        if offset < length && is_last {
            found.segment.file.set_len(offset)?;
            found.segment.file.sync_all()?;
            found.cut = length - offset;
        } else if offset < length {
            // Nothing is deleted of what is no end.
            found.damaged += 1;
            found.segment.length = length;
        }
        Ok(found)
    }

    /// What adds records at its end; one at a time.
    pub(super) fn appending(&self) -> io::Result<Appending> {
        Ok(Appending { file: self.reader()?, segment: self.number, begin: self.length })
    }

    /// Takes up what was added.
    pub(super) fn grow(&mut self, written: &Written) {
        self.length = written.end;
        let last = written.entries.iter().map(|entry| entry.meta.received).max();
        self.ended = self.ended.max(last.unwrap_or_default());
    }

    /// Whether its file still lies in the folder: what is added to one that was removed is lost.
    pub(super) fn is_there(&self, folder: &Path) -> bool {
        path(folder, self.number).exists()
    }

    /// Its file, for somebody who only reads.
    pub(super) fn reader(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.length
    }

    /// Deletes it.
    pub(super) fn delete(&self, folder: &Path) -> io::Result<()> {
        match fs::remove_file(path(folder, self.number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Adds records to a segment, without the store, which others may ask meanwhile.
#[derive(Debug)]
pub struct Appending {
    file: File,
    segment: u64,
    begin: u64,
}

/// Records that are on disk, and not in the store yet.
#[derive(Debug)]
pub struct Written {
    pub(super) entries: Vec<Entry>,
    /// Where the segment ends with them.
    end: u64,
}

impl Appending {
    /// Writes profiles, which are on disk when this returns. If it fails, none of them is there.
    ///
    /// # Errors
    /// That of the system.
    pub fn write(self, profiles: &[(&Meta, &[u8])]) -> io::Result<Written> {
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "the profile is too large");
        let mut bytes = Vec::new();
        let mut entries = Vec::with_capacity(profiles.len());
        for (meta, profile) in profiles {
            let before = bytes.len();
            record::put(&mut bytes, meta, profile).ok_or_else(too_long)?;
            let offset = self.begin + before as u64;
            let length = u32::try_from((bytes.len() - before) as u64 - HEAD).unwrap_or(u32::MAX);
            let place = Place { segment: self.segment, offset, length };
            entries.push(Entry { meta: (*meta).clone(), place });
        }
        let file = &self.file;
        let written = file.write_all_at(&bytes, self.begin).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // Else a later record would follow what is half there.
            let _ = file.set_len(self.begin);
            return Err(error);
        }
        Ok(Written { entries, end: self.begin + bytes.len() as u64 })
    }
}
