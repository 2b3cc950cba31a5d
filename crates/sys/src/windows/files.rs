//! Files, as the host's user alone may have them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;

use super::api::{self, FileInformation};

/// How many handles this process may be allowed: Windows has no limit that a program meets.
pub fn descriptors_max() -> u64 {
    u64::MAX
}

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

/// Opens a file that somebody has named, to read it: a regular one, or a link to one.
///
/// # Errors
/// As [`read_plain`].
pub fn read_named(path: &Path) -> io::Result<File> {
    read_plain(path)
}

/// Opens a file of this user's to write to it, and makes it if it is not there.
///
/// # Errors
/// Why it can't.
pub fn open_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

/// Which file or folder it is: its volume and number. When it was made would not do: Windows gives
/// a file that takes another's name soon after it that one's time.
pub type Identity = (u32, u64);

/// Which file or folder lies there.
///
/// # Errors
/// If it can't be asked about.
pub fn identity(path: &Path) -> io::Result<Identity> {
    /// Folders may be opened, too.
    const FOLDERS_TOO: u32 = 0x0200_0000;
    identity_of(&OpenOptions::new().access_mode(0).custom_flags(FOLDERS_TOO).open(path)?)
}

fn identity_of(file: &File) -> io::Result<Identity> {
    let mut about = FileInformation::default();
    // SAFETY: an open file, and a valid place.
    if unsafe { api::GetFileInformationByHandle(file.as_raw_handle().addr(), &raw mut about) } == 0
    {
        return Err(io::Error::last_os_error());
    }
    Ok((about.volume, u64::from(about.index_high) << 32 | u64::from(about.index_low)))
}

/// Whether an open file is the one that lies there.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (identity_of(file), identity(path)) else { return false };
    open == there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_numbers() {
        let folder = std::env::temp_dir().join(format!("corprof-files-{}", std::process::id()));
        create_own_folder(&folder).expect("a folder");
        let (path, other) = (folder.join("a"), folder.join("b"));
        let (file, second) =
            (create_own(&path).expect("a file"), create_own(&other).expect("a second one"));
        assert!(is_at(&file, &path) && is_at(&second, &other));
        assert!(!is_at(&file, &other) && !is_at(&second, &path));
        assert!(!is_at(&file, &folder.join("c")), "there is none");
        assert_eq!(identity(&folder).expect("known"), identity(&folder).expect("known"));
        assert_ne!(identity(&folder).expect("known"), identity(&path).expect("known"));
        drop((file, second));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn folders_are_no_files() {
        assert!(read_plain(&std::env::temp_dir()).is_err());
    }
}
