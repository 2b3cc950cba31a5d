//! Disks of a test's own: small ones, and such that hang.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

/// A small disk; unmounted at the end.
#[derive(Debug)]
pub struct Disk(PathBuf);

impl Disk {
    /// `None`, and said, if this user may not mount one.
    ///
    /// # Errors
    /// If there is no folder for it.
    pub fn mount(folder: &Path, bytes: u64) -> Result<Option<Self>> {
        fs::create_dir_all(folder)?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=0700"), "tmpfs"])
            .arg(folder)
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Ok(Some(Self(folder.to_owned())));
        }
        println!("SKIPPED: needs root, to mount a disk that is small");
        Ok(None)
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        let _gone = fs::remove_dir(&self.0);
    }
}

/// Fills a disk to its last page; returns what holds the room, so that it can be given back.
///
/// # Errors
/// If nothing can be made there.
pub fn fill(disk: &Path) -> Result<PathBuf> {
    let path = disk.join("full");
    let mut file = fs::File::create(&path)?;
    while file.write_all(&[0; 4096]).is_ok() {}
    Ok(path)
}

/// A disk with a file system that can be frozen: whoever writes to it then waits, and can't be
/// killed.
#[derive(Debug)]
pub struct Freezer {
    disk: Disk,
    is_frozen: bool,
}

impl Freezer {
    /// `None`, and said, if there can be none here.
    ///
    /// # Errors
    /// If there is no folder for it.
    pub fn mount(folder: &Path) -> Result<Option<Self>> {
        fs::create_dir_all(folder)?;
        let image = folder.with_extension("img");
        fs::File::create(&image)?.set_len(32 << 20)?;
        let does = |command: &mut Command| {
            let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            done.is_ok_and(|status| status.success())
        };
        let is_there = does(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))
            && does(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(folder));
        // It lives on for as long as it is mounted.
        fs::remove_file(&image)?;
        if !is_there {
            println!("SKIPPED: needs root, to mount a file system that freezes");
            return Ok(None);
        }
        Ok(Some(Self { disk: Disk(folder.to_owned()), is_frozen: false }))
    }

    /// Has it answer nobody any more.
    ///
    /// # Errors
    /// If it does all the same.
    pub fn freeze(&mut self) -> Result<()> {
        let status = Command::new("fsfreeze").arg("-f").arg(&self.disk.0).status()?;
        ensure!(status.success(), "it does not freeze");
        self.is_frozen = true;
        Ok(())
    }

    /// Has it answer again.
    pub fn thaw(&mut self) {
        if std::mem::take(&mut self.is_frozen) {
            let _thawed = Command::new("fsfreeze").arg("-u").arg(&self.disk.0).status();
        }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw();
    }
}
