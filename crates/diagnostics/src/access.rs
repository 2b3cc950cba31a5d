//! Whether a user can read a file, by the bits of it and of the folders above.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The right to read a file.
const READ: u32 = 4;
/// The right to go through a folder.
const PASS: u32 = 1;

/// What keeps a user with these groups from reading a file: its path or that of a folder above.
/// Access control lists are not looked at. `None` if nothing does.
///
/// # Errors
/// If the file is not there or can't be looked at by us either.
pub fn unreadable_part(path: &Path, user: u32, groups: &[u32]) -> io::Result<Option<PathBuf>> {
    let has = |path: &Path, right: u32| -> io::Result<bool> {
        let about = fs::metadata(path)?;
        let shift = if about.uid() == user {
            6
        } else if groups.contains(&about.gid()) {
            3
        } else {
            0
        };
        Ok(user == 0 || (about.mode() >> shift) & right != 0)
    };
    let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
    folders.reverse();
    for folder in folders.into_iter().filter(|folder| !folder.as_os_str().is_empty()) {
        if !has(folder, PASS)? {
            return Ok(Some(folder.to_owned()));
        }
    }
    Ok(if has(path, READ)? { None } else { Some(path.to_owned()) })
}
