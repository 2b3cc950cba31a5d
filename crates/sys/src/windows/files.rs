//! Files, as the host's user alone may have them.

use std::fs::{File, Metadata, OpenOptions};
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

/// Opens a file to read it: a regular one.
///
/// # Errors
/// Why it can't; [`io::ErrorKind::InvalidInput`] if it is something else.
pub fn read_plain(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::from(io::ErrorKind::InvalidInput))
}

/// Opens a file of this user's to write to it, and makes it if it is not there.
///
/// # Errors
/// Why it can't.
pub fn open_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

/// Which file or folder it is: when it was made, to 100 ns.
pub type Identity = u64;

/// Which file or folder that is.
#[must_use]
pub fn identity(data: &Metadata) -> Identity {
    data.creation_time()
}

/// Whether an open file is the one that lies there.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    identity(&open) == identity(&there)
}
