//! Folders that have to be written to.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use diagnostics::{unwritable_part, user_name};
use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, SYSFS_MAGIC, statfs};
use nix::sys::statvfs::{FsFlags, statvfs};

use super::check::{Check, Level, Topic};
use crate::units::memory;

/// With less room than this profiles are lost soon: one is some hundred KiB.
const ROOM_BYTES: u64 = 16 << 20;

/// File systems that show what the kernel knows, and hold no files of anybody.
const KERNELS: [FsType; 2] = [PROC_SUPER_MAGIC, SYSFS_MAGIC];

/// A folder, and who wants to write to it.
#[derive(Clone, Copy, Debug)]
pub struct Folder<'a> {
    /// What it is for.
    pub topic: Topic,
    /// Where it is for the program.
    pub shown: &'a Path,
    /// Where it is for us.
    pub place: &'a Path,
    /// The program's user and groups; `None` if it is not known.
    pub user: Option<(u32, &'a [u32])>,
    /// How bad it is if it can't be written to.
    pub level: Level,
}

impl Folder<'_> {
    /// Checks the folder, or the nearest one above that is there.
    pub fn check(&self) -> Check {
        let shown = self.shown.display();
        let bad = |found: String, remedy: &str| Check::bad(self.topic, self.level, found, remedy);
        let other = match self.topic {
            Topic::OutputFolder => "name another one: --out, or CORPROF_OUTPUT_DIR",
            _ => "set TMPDIR to another one where the program is started",
        };
        let there = self.place.ancestors().find(|folder| fs::symlink_metadata(folder).is_ok());
        let Some(there) = there.filter(|there| !there.as_os_str().is_empty()) else {
            return bad(format!("{shown} can't be looked at"), other);
        };
        if !there.is_dir() {
            return bad(format!("{shown}: {} is not a folder", there.display()), other);
        }
        let user = self.user.map(|(user, groups)| unwritable_part(there, user, groups));
        if let Some(Ok(Some(part))) = user {
            let why = self.why_not(&part);
            return bad(format!("{shown} can't be written to by the program's user{why}"), other);
        }
        let Ok(about) = statvfs(there) else {
            return Check::fine(self.topic, format!("{shown} can be written to"));
        };
        if about.flags().contains(FsFlags::ST_RDONLY) {
            return bad(format!("{shown} is on a file system that can only be read"), other);
        }
        // Room for root alone is none for others.
        let free = about.blocks_available().saturating_mul(about.fragment_size());
        if statfs(there).is_ok_and(|about| KERNELS.contains(&about.filesystem_type())) {
            let what = if there == self.place { "be written to" } else { "be made" };
            let found = format!("{shown} can't {what}: {} is the kernel's own", there.display());
            return bad(found, other);
        }
        // Of one with no size, as a tmpfs without a limit, nothing is known.
        if about.blocks() > 0 && free < ROOM_BYTES {
            return bad(format!("{shown} has only {} of room left", memory(free)), other);
        }
        let room = match about.blocks() {
            0 => String::new(),
            _ => format!("; {} are free", memory(free)),
        };
        Check::fine(self.topic, format!("{shown} can be written to{room}"))
    }

    /// How the sentence about a folder that the user can't write to goes on: which part of the path
    /// refuses it, and whose that is.
    fn why_not(&self, part: &Path) -> String {
        let user = |number| match user_name(number) {
            Some(name) => format!("{name} (number {number})"),
            None => format!("number {number}"),
        };
        let whose = fs::metadata(part).map_or_else(
            |error| format!("can't be looked at: {error}"),
            |about| {
                let mode = about.permissions().mode() & 0o7777;
                format!("belongs to user {}, and its mode is {mode:o}", user(about.uid()))
            },
        );
        let which = if part == self.place { "it".to_owned() } else { part.display().to_string() };
        let of = self.user.map_or(String::new(), |(number, _)| format!(", {}", user(number)));
        format!("{of}: {which} {whose}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(place: &Path, user: Option<(u32, &[u32])>) -> Check {
        let topic = Topic::OutputFolder;
        Folder { topic, shown: place, place, user, level: Level::Prevents }.check()
    }

    #[test]
    fn a_folder_that_is_to_be_made_counts_as_the_one_above() {
        let own = std::env::temp_dir().join(format!("doctor-{}", std::process::id()));
        fs::create_dir_all(&own).unwrap();
        let root: &[u32] = &[0];
        assert_eq!(check(&own.join("a/b"), Some((0, root))).level, Level::Fine);
        fs::write(own.join("file"), "").unwrap();
        let found = check(&own.join("file"), None);
        assert!(found.found.contains("is not a folder"), "{found:?}");
        let found = check(&own.join("file/below"), None);
        assert_eq!(found.level, Level::Prevents, "{found:?}");
        // Nobody but its owner may write to it.
        let found = check(&own, Some((4_000_000, &[])));
        let text = "by the program's user, number 4000000: it belongs to user ";
        assert!(found.found.contains(text), "{found:?}");
        assert_eq!(found.found.matches("doctor-").count(), 1, "{found:?}");
        fs::remove_dir_all(own).unwrap();
    }

    #[test]
    fn a_file_system_without_room_or_to_be_read_only_is_found() {
        // The kernel's own: always there, never with room, and never writable.
        assert_eq!(check(Path::new("/proc/sys"), None).level, Level::Prevents);
        let root: &[u32] = &[0];
        let found = check(Path::new("/proc/x"), Some((0, root)));
        assert_eq!(found.found, "/proc/x can't be made: /proc is the kernel's own");
    }
}
