//! A file that is being written, under another name until it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file; it is gone with this value unless it was finished.
///
/// Others may write to the folder, and lay a link where a file of ours will be, to have us write
/// over another one. So the file is made anew, through no link, and a link that lies at its place
/// in the end is replaced itself and not what it leads to.
#[derive(Debug)]
pub struct Unfinished {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Unfinished {
    /// Begins a file that will be there.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn create(target: &Path) -> io::Result<Self> {
        Self::with(target, OpenOptions::new())
    }

    /// Begins one that this user alone may read.
    ///
    /// # Errors
    /// If it can't be made.
    #[cfg(unix)]
    pub fn create_own(target: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = OpenOptions::new();
        options.mode(0o600);
        Self::with(target, options)
    }

    fn with(target: &Path, mut options: OpenOptions) -> io::Result<Self> {
        // With a leading dot, which no reader of folders takes for a result.
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let path = target.with_file_name(format!(".{name}.{}", std::process::id()));
        options.write(true).create_new(true);
        let file = match options.open(&path) {
            // A process of this number has left it, or somebody has laid it there; a second time
            // nobody has left it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                fs::remove_file(&path)?;
                options.open(&path)?
            }
            made => made?,
        };
        Ok(Self { file, path, target: target.to_owned() })
    }

    /// Gives it its name, in place of what has it.
    ///
    /// # Errors
    /// If that can't be; then the file is gone.
    pub fn finish(self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // There is none any more if it was finished.
        let _gone = fs::remove_file(&self.path);
    }
}

/// Writes a whole file.
///
/// # Errors
/// If it can't be written; then what is there is as it was.
pub fn write(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = Unfinished::create(target)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Writes a whole file in the place of one that is there, which others may read as before.
///
/// # Errors
/// As [`write`].
pub fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = Unfinished::create(target)?;
    if let Ok(before) = fs::metadata(target) {
        file.file.set_permissions(before.permissions())?;
    }
    file.write_all(bytes)?;
    file.finish()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_in_the_way_are_not_followed() {
        let top = std::env::temp_dir().join(format!("corprof-unfinished-{}", std::process::id()));
        fs::create_dir_all(&top).unwrap();
        let [victim, target] = ["victim", "file"].map(|name| top.join(name));
        fs::write(&victim, "secret").unwrap();
        symlink(&victim, &target).unwrap();
        symlink(&victim, top.join(format!(".file.{}", std::process::id()))).unwrap();
        write(&target, b"text").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"text");
        assert!(fs::symlink_metadata(&target).unwrap().is_file());
        assert_eq!(fs::read(&victim).unwrap(), b"secret");
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let top = std::env::temp_dir().join(format!("corprof-half-{}", std::process::id()));
        fs::create_dir_all(top.join("folder/inside")).unwrap();
        let mut file = Unfinished::create_own(&top.join("file")).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        // What can't be replaced stays, and is an error.
        assert!(write(&top.join("folder"), b"text").is_err());
        let names: Vec<_> =
            fs::read_dir(&top).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["folder"]);
        fs::remove_dir_all(&top).unwrap();
    }
}
