//! Profile files: which there are, and what is in them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
#[cfg(unix)]
use std::fs::File;
use std::io;
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail};
#[cfg(unix)]
use nix::fcntl::OFlag;
use profile::read::{Decoded, RequestNames, decode};

/// How a profile's file name ends.
const SUFFIX: &str = ".pb.gz";
/// Bytes of a file at most; nothing that is a profile comes near.
pub const FILE_BYTES: u64 = 1 << 30;

/// A clock that goes wrong by so much was set; one that is only kept exact is changed by less.
const SET: Duration = Duration::from_secs(1);

/// The profiles in a folder, by name.
pub fn profiles_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy());
        // A leading dot is a file that is being written, or was when its writer was killed.
        if name.is_some_and(|name| name.ends_with(SUFFIX) && !name.starts_with('.')) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The profiles that a path stands for: itself, or those in a folder.
pub fn expand(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let shown = path.display();
    let files = profiles_in(path).with_context(|| format!("{shown}: can't list the folder"))?;
    if files.is_empty() {
        match folder_with_profiles(path) {
            Some(inner) => bail!(
                "{shown}: no profiles (*{SUFFIX}) here, but in folders inside; name one, \
                 such as {}, or all of them: {shown}/*",
                inner.display()
            ),
            None => bail!("{shown}: no profiles (*{SUFFIX}) in this folder"),
        }
    }
    Ok(files)
}

/// The files of one side of a comparison: of one or many runs.
#[derive(Debug)]
pub struct Side {
    /// All of them.
    pub files: Vec<PathBuf>,
    /// Whether each folder is a run.
    pub has_folders: bool,
}

/// As [`expand`]; a folder of folders with profiles stands for all of these.
pub fn side(path: &Path) -> anyhow::Result<Side> {
    let has_own = profiles_in(path).is_ok_and(|files| !files.is_empty());
    let folders = if has_own { Vec::new() } else { folders_with_profiles(path) };
    if folders.is_empty() {
        return Ok(Side { files: expand(path)?, has_folders: false });
    }
    let mut known = Named::default();
    let mut files = Vec::new();
    for folder in folders.iter().filter(|folder| known.is_new(folder)) {
        files.extend(expand(folder)?);
    }
    Ok(Side { files, has_folders: true })
}

/// The latest folder inside that has profiles.
fn folder_with_profiles(folder: &Path) -> Option<PathBuf> {
    folders_with_profiles(folder).pop()
}

/// The folders inside that have profiles, by name.
fn folders_with_profiles(folder: &Path) -> Vec<PathBuf> {
    let Ok(inner) = fs::read_dir(folder) else { return Vec::new() };
    let inner = inner.filter_map(|entry| Some(entry.ok()?.path()));
    let with_profiles = |path: &PathBuf| profiles_in(path).is_ok_and(|files| !files.is_empty());
    let mut folders: Vec<PathBuf> = inner.filter(with_profiles).collect();
    folders.sort();
    folders
}

/// Reads a profile; the error begins with the file's name.
pub fn read(path: &Path) -> anyhow::Result<Decoded> {
    let shown = path.display();
    let about = fs::metadata(path).with_context(|| format!("{shown}: can't read the file"))?;
    if !about.is_file() {
        bail!("{shown}: not a regular file");
    }
    if about.len() > FILE_BYTES {
        bail!("{shown}: {} MiB are too many for a profile", about.len() >> 20);
    }
    let bytes = fs::read(path).with_context(|| format!("{shown}: can't read the file"))?;
    decode(&bytes).with_context(|| shown.to_string())
}

/// The endpoints that the files tell of their requests. What can't be read tells none; whoever
/// reads the files for what is in them says so.
pub fn request_names<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> RequestNames {
    let mut names = RequestNames::default();
    for decoded in paths.into_iter().filter_map(|path| read(path).ok()) {
        names.learn(&decoded.profile);
    }
    names
}

/// Opens a regular file in a folder that another user may write to: no link to a file that only we
/// may read, and no pipe that would be waited at.
#[cfg(unix)]
pub fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits()).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

/// Whether both are the same file, through links of either kind.
pub fn is_same(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    if let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other)) {
        return (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Files that were named, so that none is counted twice.
#[derive(Debug, Default)]
pub struct Named {
    /// Where each really is, and whether it was named again.
    files: HashMap<PathBuf, bool>,
}

impl Named {
    /// Whether the file is named for the first time, by whatever path.
    pub fn is_new(&mut self, path: &Path) -> bool {
        // What can't be found is no file, and its own error says so.
        let Ok(real) = fs::canonicalize(path) else { return true };
        match self.files.entry(real) {
            Entry::Occupied(mut entry) => {
                entry.insert(true);
                false
            }
            Entry::Vacant(entry) => {
                entry.insert(false);
                true
            }
        }
    }

    /// How many were named more than once.
    pub fn again(&self) -> usize {
        self.files.values().filter(|again| **again).count()
    }
}

/// The profiles that were in a folder at one time, to tell new ones; and what time that was.
#[derive(Debug)]
pub struct Before {
    files: HashMap<PathBuf, Option<SystemTime>>,
    clocks: Clocks,
}

impl Before {
    /// What is there now; nothing if the folder can't be read.
    pub fn of(folder: &Path) -> Self {
        let files = profiles_in(folder).unwrap_or_default();
        let files = files.into_iter().map(|file| (file.clone(), modified(&file))).collect();
        Self { files, clocks: Clocks::now() }
    }

    /// Profiles that have been added or written again since.
    pub fn new_files(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files = profiles_in(folder)?;
        files.retain(|file| self.files.get(file).is_none_or(|before| *before != modified(file)));
        Ok(files)
    }

    /// How long a program ran since, if the clock was set meanwhile: it then tells no lengths.
    pub fn ran(&self, elapsed: Duration) -> Option<Duration> {
        Clocks::now().are_apart_since(&self.clocks).then_some(elapsed)
    }
}

/// A moment by the clock that tells the time, and by one that nobody sets.
#[derive(Debug)]
struct Clocks {
    time: SystemTime,
    instant: Instant,
}

impl Clocks {
    fn now() -> Self {
        Self { time: SystemTime::now(), instant: Instant::now() }
    }

    /// Whether they don't agree on how long it is since.
    fn are_apart_since(&self, before: &Self) -> bool {
        let ran = self.instant.duration_since(before.instant);
        let Ok(by_time) = self.time.duration_since(before.time) else { return true };
        by_time.abs_diff(ran) > SET
    }
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|about| about.modified()).ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;

    #[test]
    fn a_clock_that_is_set_is_seen() {
        let start = Clocks::now();
        for (s, time_s, is_set) in [(10_u64, 10_i64, false), (10, -50, true), (10, 70, true)] {
            let by = Duration::from_secs(time_s.unsigned_abs());
            let time = if time_s < 0 { start.time - by } else { start.time + by };
            let later = Clocks { time, instant: start.instant + Duration::from_secs(s) };
            assert_eq!(later.are_apart_since(&start), is_set, "{time_s}");
        }
    }

    #[test]
    fn links_and_pipes_are_no_files_of_a_stranger() {
        let folder = std::env::temp_dir().join(format!("corprof-plain-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.join(name));
        fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        assert_eq!(io::read_to_string(open_plain(&file).unwrap()).unwrap(), "text");
        assert!(open_plain(&link).is_err());
        let error = open_plain(&pipe).unwrap_err();
        assert!(error.to_string().contains("regular"), "{error}");
        assert!(open_plain(&folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
