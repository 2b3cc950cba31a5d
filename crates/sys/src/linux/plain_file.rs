//! Regular files in folders that others may write to.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a file that is a regular one: through no link, and without waiting for whoever reads or
/// writes a pipe.
///
/// # Errors
/// Why it can't be opened; [`io::ErrorKind::InvalidInput`] if it is something else.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::from(io::ErrorKind::InvalidInput))
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
        assert!(open(&file, &mut read).is_ok());
        for path in [&link, &pipe, &folder] {
            assert!(open(path, &mut read).is_err(), "{path:?}");
        }
        assert!(open(&pipe, OpenOptions::new().write(true)).is_err());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
