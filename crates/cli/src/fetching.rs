//! Brings what an agent wrote from its process's temporary folder to the output folder.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use profile::{FileName, file_name};

use crate::staging::Staging;
use crate::unfinished::Unfinished;
use crate::units::count;
use crate::warn;

/// Bytes of a file at most, and of all: the process's user may write there what he likes, also
/// without an end.
const LIMITS: Limits = Limits { file: 256 << 20, all: 1 << 30 };
/// Files of which it is said why they are not taken.
const TOLD_MAX: usize = 10;
/// How a profile's file name ends.
const SUFFIX: &str = ".pb.gz";

/// How much is taken, in bytes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    file: u64,
    all: u64,
}

/// How much may yet be taken of several folders, in bytes.
#[derive(Debug)]
pub struct Room(u64);

impl Default for Room {
    fn default() -> Self {
        Self(LIMITS.all)
    }
}

/// Why a file was not taken.
enum NotTaken {
    /// It is nothing that the agent writes.
    NoProfile(String),
    /// It is a profile, or may be one, and can't be copied.
    Failed(io::Error),
}

/// What is not taken, as it is told.
#[derive(Debug, Default)]
struct Left {
    reasons: Vec<String>,
    /// Whether a profile is among it, which somebody may want to have.
    has_profiles: bool,
    /// How many bytes were taken.
    taken: u64,
}

/// Copies the profiles, and says which it doesn't take, and why; `shown` is the folder they are in.
/// Gives whether a profile is still to be had there.
///
/// # Errors
/// If the folder can't be read.
pub fn fetch(staging: &Staging, shown: &Path, folder: &Path) -> io::Result<bool> {
    let left = take_all(staging, folder, LIMITS)?;
    Ok(tell(&left, shown))
}

/// The same of one of several folders: what is too large for all of them is still to be had, too.
///
/// # Errors
/// If the folder can't be read.
pub fn fetch_within(
    staging: &Staging,
    shown: &Path,
    folder: &Path,
    room: &mut Room,
) -> io::Result<bool> {
    let left = take_all(staging, folder, Limits { all: room.0, ..LIMITS })?;
    room.0 = room.0.saturating_sub(left.taken);
    tell(&left, shown);
    Ok(!left.reasons.is_empty())
}

/// Says what is not taken; gives whether a profile is still to be had.
fn tell(left: &Left, shown: &Path) -> bool {
    for reason in left.reasons.iter().take(TOLD_MAX) {
        warn(format!("passed over in {}: {reason}", shown.display()));
    }
    let untold = left.reasons.len().saturating_sub(TOLD_MAX);
    if untold > 0 {
        warn(format!("and {} more", count(untold, "file")));
    }
    left.has_profiles
}

fn take_all(staging: &Staging, folder: &Path, limits: Limits) -> io::Result<Left> {
    let mut left = Left::default();
    let mut room = limits.all;
    // A leading dot is a file that is being written.
    let is_wanted = |name: &String| name.ends_with(SUFFIX) && !name.starts_with('.');
    for name in staging.names()?.into_iter().filter(is_wanted) {
        let why = match take(staging, &name, folder, Limits { all: room, ..limits }) {
            Ok(bytes) => {
                room = room.saturating_sub(bytes);
                left.taken = left.taken.saturating_add(bytes);
                continue;
            }
            Err(NotTaken::NoProfile(why)) => why,
            Err(NotTaken::Failed(error)) => {
                left.has_profiles = true;
                format!("it can't be copied to {}: {error}", folder.display())
            }
        };
        // As it may have anything in it that a terminal understands.
        left.reasons.push(format!("{name:?}: {why}"));
    }
    Ok(left)
}

/// Copies a file; gives its bytes.
fn take(staging: &Staging, name: &str, folder: &Path, limits: Limits) -> Result<u64, NotTaken> {
    let no_profile = |why: &str| Err(NotTaken::NoProfile(why.to_owned()));
    let Some(parsed) = FileName::parse(name).filter(|parsed| written(parsed) == name) else {
        return no_profile("no name that the agent gives");
    };
    let from = match staging.open(name) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return no_profile("no regular file");
        }
        opened => opened.map_err(NotTaken::Failed)?,
    };
    let limit = limits.file.min(limits.all);
    let too_large = if limits.all < limits.file {
        "all of them together are larger than a process's profiles are"
    } else {
        "larger than any profile"
    };
    if from.metadata().map_err(NotTaken::Failed)?.len() > limit {
        return no_profile(too_large);
    }
    let target = free_name(folder, parsed);
    let mut to = Unfinished::create_own(&target).map_err(NotTaken::Failed)?;
    // It may grow meanwhile.
    let mut bounded = from.take(limit.saturating_add(1));
    let bytes = io::copy(&mut bounded, &mut to).map_err(NotTaken::Failed)?;
    if bytes > limit {
        return no_profile(too_large);
    }
    to.finish().map_err(NotTaken::Failed)?;
    Ok(bytes)
}

/// As the agent writes it.
fn written(name: &FileName) -> String {
    file_name(name.service, name.pid, name.seq)
}

/// Where the file goes: its name, or the next number if an earlier profile has that.
fn free_name(folder: &Path, name: FileName) -> PathBuf {
    let numbers = name.seq..=u64::MAX;
    let mut paths = numbers.map(|seq| folder.join(written(&FileName { seq, ..name })));
    let is_free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
    paths.find(is_free).unwrap_or_else(|| folder.join(written(&name)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use diagnostics::Process;

    use super::*;

    /// A folder of a test's own, with one for the process in it, and one for what is taken.
    fn place(name: &str) -> (PathBuf, Staging) {
        let top = std::env::temp_dir().join(format!("corprof-{name}-{}", std::process::id()));
        fs::create_dir_all(top.join("out")).unwrap();
        let process = Process::new(std::process::id());
        let staging = Staging::make(&process, &top, "staging".to_owned()).unwrap();
        (top, staging)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn only_profiles_are_taken_and_over_nothing_that_is_there() {
        let (top, staging) = place("taken");
        let (from, out) = (top.join("staging"), top.join("out"));
        fs::write(top.join("victim"), "secret").unwrap();
        // The place of the first profile has a link in it; the next number is free.
        symlink(top.join("victim"), out.join("App_7_0000.pb.gz")).unwrap();
        for name in ["App_7_0000.pb.gz", "App_7_0001.pb.gz", "x.pb.gz", "App_7_1.pb.gz", "log"] {
            fs::write(from.join(name), name).unwrap();
        }
        fs::write(from.join("a\x1b[2J_7_0000.pb.gz"), "text").unwrap();
        symlink(top.join("victim"), from.join("link_7_0000.pb.gz")).unwrap();
        fs::create_dir(from.join("dir_7_0000.pb.gz")).unwrap();
        fs::create_dir(from.join("dir.pb.gz")).unwrap();
        let left = take_all(&staging, &out, LIMITS).unwrap();
        let taken = ["App_7_0000.pb.gz", "App_7_0001.pb.gz", "App_7_0002.pb.gz"];
        assert_eq!(names(&out), taken);
        assert_eq!(fs::read_to_string(out.join(taken[1])).unwrap(), taken[0]);
        assert_eq!(fs::read_to_string(out.join(taken[2])).unwrap(), taken[1]);
        assert_eq!(fs::read_to_string(top.join("victim")).unwrap(), "secret");
        assert!(!left.has_profiles);
        assert_eq!(left.reasons.len(), 6, "{left:?}");
        assert!(left.reasons.iter().all(|reason| !reason.contains('\x1b')), "{left:?}");
        assert!(staging.clear());
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn what_is_too_large_is_passed_over_and_the_others_are_taken() {
        let (top, staging) = place("large");
        let (from, out) = (top.join("staging"), top.join("out"));
        for (name, bytes) in [("a", 60), ("b", 101), ("c", 100), ("d", 60), ("e", 20)] {
            let file = fs::File::create(from.join(format!("{name}_7_0000.pb.gz"))).unwrap();
            file.set_len(bytes).unwrap();
        }
        let huge = fs::File::create(from.join("huge_7_0000.pb.gz")).unwrap();
        huge.set_len(300 << 30).unwrap();
        let left = take_all(&staging, &out, Limits { file: 100, all: 200 }).unwrap();
        let taken = ["a", "c", "e"].map(|name| format!("{name}_7_0000.pb.gz"));
        assert_eq!(names(&out), taken);
        assert_eq!(left.reasons.len(), 3, "{left:?}");
        assert!(!left.has_profiles);
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_profile_that_can_not_be_written_is_still_to_be_had() {
        let (top, staging) = place("kept");
        fs::write(top.join("staging/App_7_0000.pb.gz"), "text").unwrap();
        let left = take_all(&staging, &top.join("nowhere"), LIMITS).unwrap();
        assert!(left.has_profiles && left.reasons.len() == 1, "{left:?}");
        fs::remove_dir_all(&top).unwrap();
    }
}
