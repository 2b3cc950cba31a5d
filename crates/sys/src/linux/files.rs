//! Files, as the host's user alone may have them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::user;

/// What the user alone may read and write.
const OWN: u32 = 0o600;

/// Opens a file to add to it, and makes it if it is not there. A pipe without a reader is not
/// waited for.
///
/// # Errors
/// Why it can't.
pub fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Makes a file that was not there, for this user alone.
///
/// # Errors
/// Why it can't; that there is one already.
pub fn create_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(OWN).open(path)
}

/// Opens a file of this user's to write to it, and makes it if it is not there.
///
/// # Errors
/// Why it can't.
pub fn open_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(OWN).open(path)
}

/// Makes a folder for this user alone, and those around it.
///
/// # Errors
/// Why it can't.
pub fn create_own_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether it is a folder that this user alone may write to, and no link to one.
///
/// # Errors
/// If it can't be asked about.
pub fn is_own_folder(path: &Path) -> io::Result<bool> {
    const OTHERS_WRITE: u32 = 0o022;
    let data = std::fs::symlink_metadata(path)?;
    let is_ours = data.uid() == user::effective_id() && data.mode() & OTHERS_WRITE == 0;
    Ok(data.is_dir() && is_ours)
}

/// Whether an open file is the one that lies there.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    open.ino() == there.ino() && open.dev() == there.dev()
}
