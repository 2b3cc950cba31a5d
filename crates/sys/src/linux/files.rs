//! Files, as the host's user alone may have them.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::user;

/// What the user alone may read and write.
const OWN: u32 = 0o600;

/// How many descriptors this process may be allowed: .NET raises its limit to that as it starts.
pub fn descriptors_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit` to a place that has room for it.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if result == 0 { limit.rlim_max } else { u64::MAX }
}

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

/// Opens a file of this user's to write to it, and makes it if it is not there; only a regular one,
/// and through no link: others may write to the folder.
///
/// # Errors
/// Why it can't; [`io::ErrorKind::InvalidInput`] if it is something else.
pub fn open_own(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(OWN);
    open_plain(path, &mut options)
}

/// Opens a file to read it: a regular one, and through no link, since others may write to the
/// folder.
///
/// # Errors
/// Why it can't; [`io::ErrorKind::InvalidInput`] if it is something else.
pub fn read_plain(path: &Path) -> io::Result<File> {
    open_plain(path, OpenOptions::new().read(true))
}

/// Opens a file that somebody has named, to read it: a regular one, or a link to one. A pipe, or a
/// device that never comes to an end, is not waited for.
///
/// # Errors
/// Why it can't; [`io::ErrorKind::InvalidInput`] if it is something else.
pub fn read_named(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true), 0)
}

fn open_plain(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open_regular(path, options, libc::O_NOFOLLOW)
}

/// Opens a file that is a regular one, without waiting for whoever reads or writes a pipe.
///
/// # Errors
/// Why it can't be opened; [`io::ErrorKind::InvalidInput`] if it is something else.
fn open_regular(path: &Path, options: &mut OpenOptions, flags: libc::c_int) -> io::Result<File> {
    let file = options.custom_flags(flags | libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::from(io::ErrorKind::InvalidInput))
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

/// Which file or folder it is: its device and number.
pub type Identity = (u64, u64);

/// Which file or folder lies there.
///
/// # Errors
/// If it can't be asked about.
pub fn identity(path: &Path) -> io::Result<Identity> {
    std::fs::metadata(path).map(|data| identity_of(&data))
}

fn identity_of(data: &Metadata) -> Identity {
    (data.dev(), data.ino())
}

/// Whether an open file is the one that lies there.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), identity(path)) else { return false };
    identity_of(&open) == there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_opened() {
        let folder = std::env::temp_dir().join(format!("corprof-plain-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (file, link) = (folder.join("file"), folder.join("link"));
        std::fs::write(&file, "x").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|status| status.success()));
        let mut read = OpenOptions::new();
        read.read(true);
        assert!(open_plain(&file, &mut read).is_ok());
        for path in [&link, &pipe, &folder] {
            assert!(open_plain(path, &mut read).is_err(), "{path:?}");
        }
        assert!(open_plain(&pipe, OpenOptions::new().write(true)).is_err());
        assert!(read_named(&file).is_ok() && read_named(&link).is_ok());
        for path in [pipe.as_path(), &folder, Path::new("/dev/zero")] {
            assert!(read_named(path).is_err(), "{path:?}");
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
