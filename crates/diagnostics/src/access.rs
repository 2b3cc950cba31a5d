//! What a user may do with files, by the bits of them and of the folders above. Access control
//! lists are not looked at.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The right to read a file.
const READ: u32 = 4;
/// The right to make files in a folder, and to go through it.
const WRITE: u32 = 2 | PASS;
/// The right to go through a folder.
const PASS: u32 = 1;

/// What keeps a user with these groups from reading a file: its path or that of a folder above.
/// `None` if nothing does.
///
/// # Errors
/// If the file is not there or can't be looked at by us either.
pub fn unreadable_part(path: &Path, user: u32, groups: &[u32]) -> io::Result<Option<PathBuf>> {
    refused_part(path, READ, user, groups)
}

/// What keeps a user with these groups from making files in a folder: its path or that of one
/// above. `None` if nothing does.
///
/// # Errors
/// If the folder is not there or can't be looked at by us either.
pub fn unwritable_part(path: &Path, user: u32, groups: &[u32]) -> io::Result<Option<PathBuf>> {
    refused_part(path, WRITE, user, groups)
}

fn refused_part(path: &Path, right: u32, user: u32, groups: &[u32]) -> io::Result<Option<PathBuf>> {
    let has = |path: &Path, right: u32| -> io::Result<bool> {
        let about = fs::metadata(path)?;
        let shift = if about.uid() == user {
            6
        } else if groups.contains(&about.gid()) {
            3
        } else {
            0
        };
        // Root passes them all.
        Ok(user == 0 || (about.mode() >> shift) & right == right)
    };
    let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
    folders.reverse();
    for folder in folders.into_iter().filter(|folder| !folder.as_os_str().is_empty()) {
        if !has(folder, PASS)? {
            return Ok(Some(folder.to_owned()));
        }
    }
    Ok(if has(path, right)? { None } else { Some(path.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn each_bit_and_each_folder_counts() {
        let top = std::env::temp_dir().join(format!("access-{}", std::process::id()));
        let folder = top.join("folder");
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file");
        fs::write(&file, "").unwrap();
        let about = fs::metadata(&file).unwrap();
        let (owner, group) = (about.uid(), about.gid());
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let stranger = 4_000_000;
        set(&top, 0o755);
        set(&folder, 0o755);
        set(&file, 0o640);
        let reads = |user, groups: &[u32]| unreadable_part(&file, user, groups).unwrap();
        assert_eq!(reads(owner, &[]), None);
        assert_eq!(reads(stranger, &[group]), None);
        assert_eq!(reads(stranger, &[]), Some(file.clone()));
        set(&file, 0o644);
        assert_eq!(reads(stranger, &[]), None);
        set(&folder, 0o744);
        assert_eq!(reads(stranger, &[]), Some(folder.clone()));
        assert_eq!(reads(0, &[]), None);
        set(&folder, 0o757);
        assert_eq!(unwritable_part(&folder, stranger, &[]).unwrap(), None);
        set(&folder, 0o756);
        assert_eq!(unwritable_part(&folder, stranger, &[]).unwrap(), Some(folder.clone()));
        set(&folder, 0o755);
        fs::remove_dir_all(top).unwrap();
        assert!(unreadable_part(&file, stranger, &[]).is_err());
    }
}
