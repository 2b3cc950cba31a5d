//! Profiles that wait on disk: a folder of files that several processes may share.
//!
//! A file is `<owner>_<lane>_<time>_<number>.parcel`, made under another name and renamed, so it is
//! whole or not there. The owner is a process, by a random number; it holds a lock on
//! `<owner>.lock` for as long as it lives, however it ends. Only the owner sends and removes its
//! files. Who gets the lock of an owner that has died becomes the owner of what it left, by
//! renaming it. The lane says for which target and which address, so that nobody's profiles are
//! sent where he didn't ask for; what no process has a lane for waits for `corprof flush`.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use model::limits::EXPORT_QUEUE_BYTES_MAX;
use sys::files;

use crate::parcel::Parcel;

const PARCEL: &str = ".parcel";
const LOCK: &str = ".lock";
const TEMPORARY: &str = ".tmp";
/// Bytes of a file that is read into the host's memory: more than may wait there.
const FILE_BYTES_MAX: u64 = EXPORT_QUEUE_BYTES_MAX + (1 << 20);
/// Files of a folder that others may have put there are looked at up to this: they, too, cost
/// memory and time, and a small file needs more of a disk than it is long.
const FILES_MAX: usize = 20_000;

/// Whose folder it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Anybody's: the user has named it.
    Named,
    /// This user's only: it lies where all may write.
    OwnOnly,
}

/// What a file is there after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// The end of the process, however it comes about.
    Process,
    /// That of the machine, too: it is waited for until all is on the disk.
    Machine,
}

/// A file that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    name: String,
    /// For whom.
    pub lane: String,
    /// By what they are sorted: when the profile began.
    pub time_ns: u64,
    /// How large it is.
    pub bytes: u64,
}

/// The folder, with a lock on what is ours.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    /// Which folder that was.
    is: files::Identity,
    owner: String,
    limit_bytes: u64,
    /// Held, never read.
    _lock: File,
    number: u64,
    /// Our files, the oldest first.
    waiting: VecDeque<Waiting>,
}

/// A file's name, taken apart.
struct Name<'a> {
    owner: &'a str,
    lane: &'a str,
    time_ns: u64,
}

impl<'a> Name<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let mut parts = name.strip_suffix(PARCEL)?.split('_');
        let (owner, lane) = (parts.next()?, parts.next()?);
        let time_ns = parts.next()?.parse().ok()?;
        let _number: u64 = parts.next()?.parse().ok()?;
        (parts.next().is_none() && !owner.is_empty()).then_some(Self { owner, lane, time_ns })
    }
}

/// How many profiles wait in a folder for each target, by the targets' names; whoever owns them.
///
/// # Errors
/// Why the folder can't be read.
pub fn waiting_in(folder: &Path) -> io::Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for entry in fs::read_dir(folder)?.take(FILES_MAX) {
        let name = entry?.file_name();
        let Some(name) = name.to_str().and_then(Name::parse) else { continue };
        let target = name.lane.split('-').next().unwrap_or_default();
        let count: &mut usize = counts.entry(target.to_owned()).or_default();
        *count = count.saturating_add(1);
    }
    Ok(counts)
}

/// Profiles that wait in a folder and belong to a process that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The name of the target that they are for.
    pub target: String,
    /// How many.
    pub count: usize,
    /// The file on which the process has a lock.
    pub lock: PathBuf,
}

/// What waits in a folder and is left to processes that are alive.
///
/// # Errors
/// Why the folder can't be read.
pub fn held_in(folder: &Path) -> io::Result<Vec<Held>> {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for entry in fs::read_dir(folder)?.take(FILES_MAX) {
        let name = entry?.file_name();
        let Some(name) = name.to_str().and_then(Name::parse) else { continue };
        let target = name.lane.split('-').next().unwrap_or_default();
        let count = counts.entry((name.owner.to_owned(), target.to_owned())).or_default();
        *count = count.saturating_add(1);
    }
    let held = counts.into_iter().filter_map(|((owner, target), count)| {
        let lock = folder.join(format!("{owner}{LOCK}"));
        // Opened to read, so that none is made where there is none.
        let is_held = files::read_plain(&lock)
            .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        is_held.then_some(Held { target, count, lock })
    });
    Ok(held.collect())
}

impl Spool {
    /// Opens the folder, and makes it if it is not there. `owner` is 16 random hex digits.
    ///
    /// # Errors
    /// Why it can't be used.
    pub fn open(folder: &Path, trust: Trust, owner: &str, limit_bytes: u64) -> io::Result<Self> {
        files::create_own_folder(folder)?;
        if trust == Trust::OwnOnly && !files::is_own_folder(folder)? {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        let is = files::identity(folder)?;
        let path = folder.join(format!("{owner}{LOCK}"));
        let lock = files::create_own(&path)?;
        lock.try_lock()?;
        Ok(Self {
            folder: folder.to_owned(),
            is,
            owner: owner.to_owned(),
            limit_bytes,
            _lock: lock,
            number: 0,
            waiting: VecDeque::new(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the folder is still there, and no other one or a link in its place.
    #[must_use]
    pub fn is_there(&self, trust: Trust) -> bool {
        let is_the_same = files::identity(&self.folder).is_ok_and(|is| is == self.is);
        let is_trusted =
            trust == Trust::Named || files::is_own_folder(&self.folder).is_ok_and(|is_own| is_own);
        is_the_same && is_trusted
    }

    /// Keeps a parcel; returns what had to go for it, which is lost.
    ///
    /// # Errors
    /// Why it can't be kept.
    pub fn put(
        &mut self,
        lane: &str,
        parcel: &Parcel,
        survives: Survives,
    ) -> io::Result<Vec<Waiting>> {
        let bytes = parcel.to_bytes();
        let size = bytes.len() as u64;
        if size > self.limit_bytes {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        let lost = self.make_room(size)?;
        self.number = self.number.saturating_add(1);
        let name = self.name(lane, parcel.start_unix_ns);
        let hidden = self.folder.join(format!(".{name}{TEMPORARY}"));
        let write = |mut file: File| {
            file.write_all(&bytes)?;
            if survives == Survives::Machine { file.sync_data() } else { Ok(()) }
        };
        let written = files::create_own(&hidden)
            .and_then(write)
            .and_then(|()| fs::rename(&hidden, self.folder.join(&name)));
        if let Err(error) = written {
            let _gone = fs::remove_file(&hidden);
            return Err(error);
        }
        self.insert(Waiting {
            name,
            lane: lane.to_owned(),
            time_ns: parcel.start_unix_ns,
            bytes: size,
        });
        Ok(lost)
    }

    fn name(&self, lane: &str, time_ns: u64) -> String {
        format!("{}_{lane}_{time_ns:020}_{}{PARCEL}", self.owner, self.number)
    }

    fn insert(&mut self, waiting: Waiting) {
        let at = self.waiting.partition_point(|other| other.time_ns <= waiting.time_ns);
        self.waiting.insert(at, waiting);
    }

    /// Removes the oldest files, of ours and of the dead, until there is room for so many bytes.
    /// Those of the living are not touched.
    fn make_room(&mut self, bytes: u64) -> io::Result<Vec<Waiting>> {
        let (mut files, total) = self.used()?;
        let mut total = total.saturating_add(bytes);
        let limit_bytes = self.limit_bytes;
        let is_over = |files, total| files >= FILES_MAX || total > limit_bytes;
        if is_over(files, total) {
            // What the dead left for nobody here makes room, too, if it is the oldest.
            self.adopt(|lane| Some(lane.to_owned()))?;
        }
        let mut lost = Vec::new();
        while is_over(files, total) {
            let Some(oldest) = self.waiting.front().cloned() else {
                return Err(io::Error::from(io::ErrorKind::QuotaExceeded));
            };
            files = files.saturating_sub(1);
            total = total.saturating_sub(oldest.bytes);
            self.remove(&oldest);
            lost.push(oldest);
        }
        Ok(lost)
    }

    /// The folder's files, and their bytes.
    fn used(&self) -> io::Result<(usize, u64)> {
        let names = self.names()?;
        let sizes = names.iter().filter_map(|name| {
            fs::symlink_metadata(self.folder.join(name)).ok().map(|data| data.len())
        });
        Ok((names.len(), sizes.fold(0, u64::saturating_add)))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        // Some more than there may be: locks, and what is over since others have written, too.
        let entries = fs::read_dir(&self.folder)?.take(2 * FILES_MAX).flatten();
        Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// The oldest file of a lane of those that may be sent, by when they began.
    #[must_use]
    pub fn oldest(&self, lane: &str, may_be: impl Fn(u64) -> bool) -> Option<&Waiting> {
        let mut of_lane = self.waiting.iter().filter(|waiting| waiting.lane == lane);
        of_lane.find(|waiting| may_be(waiting.time_ns))
    }

    /// Takes over the list of the same folder as it was before: what of it is not there any more is
    /// found out when it is to be sent, and counted.
    pub fn inherit(&mut self, mut before: Self) {
        self.waiting = std::mem::take(&mut before.waiting);
    }

    /// Files of a lane, and their bytes.
    #[must_use]
    pub fn size(&self, lane: &str) -> (u64, u64) {
        let of_lane = self.waiting.iter().filter(|waiting| waiting.lane == lane);
        of_lane.fold((0, 0), |(n, bytes), waiting| (n + 1, waiting.bytes.saturating_add(bytes)))
    }

    /// Whether none of our files waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Reads a file; `None` if it is damaged, not there any more, or none that is a spool's.
    ///
    /// # Errors
    /// Why it can't be read now, as without a free descriptor: it may be whole all the same.
    pub fn read(&self, waiting: &Waiting) -> io::Result<Option<Parcel>> {
        let path = self.folder.join(&waiting.name);
        match fs::symlink_metadata(&path) {
            Ok(data) if data.is_file() && data.len() <= FILE_BYTES_MAX => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        // Should it be another one by now, it is not opened.
        let file = files::read_plain(&path)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Parcel::from_bytes(&bytes))
    }

    /// Removes a file.
    pub fn remove(&mut self, waiting: &Waiting) {
        // Should it stay, it is sent once more: better than not at all.
        let _gone = fs::remove_file(self.folder.join(&waiting.name));
        // It is the first, or one of the first.
        if let Some(at) = self.waiting.iter().position(|other| other.name == waiting.name) {
            self.waiting.remove(at);
        }
    }

    /// Takes over what owners left that have died: files of lanes that `wanted` gives a lane of
    /// ours for. Returns how many.
    ///
    /// # Errors
    /// That the folder can't be read.
    pub fn adopt(&mut self, wanted: impl Fn(&str) -> Option<String>) -> io::Result<usize> {
        let mut owners: Vec<String> =
            self.names()?.iter().filter_map(|name| owner_of(name)).collect();
        owners.sort();
        owners.dedup();
        let mut adopted = 0;
        owners.retain(|owner| *owner != self.owner);
        for owner in &owners {
            let Some(lock) = self.lock_of_dead(owner) else { continue };
            // Again: it may have written more before it died.
            let names = self.names()?;
            let mut is_all = true;
            for name in &names {
                let Some(parsed) = Name::parse(name).filter(|name| name.owner == *owner) else {
                    // Half a file that it was writing when it died.
                    if name.starts_with(&format!(".{owner}_")) && name.ends_with(TEMPORARY) {
                        let _gone = fs::remove_file(self.folder.join(name));
                    }
                    continue;
                };
                let taken = wanted(parsed.lane)
                    .is_some_and(|lane| self.take_over(name, &lane, parsed.time_ns));
                is_all &= taken;
                adopted += usize::from(taken);
            }
            if is_all {
                let _gone = fs::remove_file(self.folder.join(format!("{owner}{LOCK}")));
            }
            drop(lock);
        }
        Ok(adopted)
    }

    fn take_over(&mut self, name: &str, lane: &str, time_ns: u64) -> bool {
        let path = self.folder.join(name);
        let Ok(data) = fs::symlink_metadata(&path) else { return true };
        self.number = self.number.saturating_add(1);
        let new = self.name(lane, time_ns);
        if fs::rename(&path, self.folder.join(&new)).is_err() {
            return false;
        }
        self.insert(Waiting { name: new, lane: lane.to_owned(), time_ns, bytes: data.len() });
        true
    }

    /// The lock of an owner, if it has died.
    fn lock_of_dead(&self, owner: &str) -> Option<File> {
        let path = self.folder.join(format!("{owner}{LOCK}"));
        // Where there is none, somebody has removed it: then nobody holds it either.
        let lock = files::open_own(&path).ok()?;
        lock.try_lock().ok()?;
        // Another may have taken over and removed it in between: then this lock is of nothing.
        files::is_at(&lock, &path).then_some(lock)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // With files left it says whose they are.
        if self.waiting.is_empty() {
            let _gone = fs::remove_file(self.folder.join(format!("{}{LOCK}", self.owner)));
        }
    }
}

/// Whose a file is; `None` for one that is no spool's.
fn owner_of(name: &str) -> Option<String> {
    let owner = match name.strip_suffix(LOCK) {
        Some(owner) => owner,
        None => Name::parse(name)?.owner,
    };
    Some(owner.to_owned())
}

// Of links and rights, as Linux has them.
#[cfg(test)]
#[cfg(unix)]
mod tests;
