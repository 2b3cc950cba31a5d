//! Files, as the host's user alone may have them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::MetadataExt;
use std::path::Path;

/// Opens a file to add to it, and makes it if it is not there.
///
/// # Errors
/// Why it can't.
pub fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Makes a file that was not there. Who may read it is inherited from its folder.
///
/// # Errors
/// Why it can't; that there is one already.
pub fn create_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// Makes a folder, and those around it. Who may see it is inherited.
///
/// # Errors
/// Why it can't.
pub fn create_own_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Whether a folder is this user's alone to write to. Temporary folders are, on Windows; a link in
/// the place of one isn't taken.
///
/// # Errors
/// If it can't be asked about.
pub fn is_own_folder(path: &Path) -> io::Result<bool> {
    Ok(std::fs::symlink_metadata(path)?.is_dir())
}

/// Opens a file of this user's to write to it, and makes it if it is not there.
///
/// # Errors
/// Why it can't.
pub fn open_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

/// Whether an open file is the one that lies there, by when they were made: to 100 ns.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    open.creation_time() == there.creation_time()
}
