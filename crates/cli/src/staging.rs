//! A folder in another process's temporary folder, for what that process writes for us.
//!
//! The process's user may rearrange its temporary folder at any moment: rename ours, lay a link in
//! its place, or have a link on the way there. So nothing is done by path after the folder was
//! opened: root would otherwise give away a folder of somebody else's choice.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use diagnostics::Process;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{Uid, UnlinkatFlags, fchown, unlinkat};

/// The folder, for as long as it is needed.
#[derive(Debug)]
pub struct Staging {
    parent: OwnedFd,
    name: String,
    folder: OwnedFd,
}

impl Staging {
    /// Makes it, ours alone.
    ///
    /// # Errors
    /// If it can't be made, or if another one is in its place by the time it is opened.
    pub fn make(process: &Process, temporary: &Path, name: String) -> io::Result<Self> {
        let parent = open_parent(process, temporary)?;
        mkdirat(&parent, name.as_str(), Mode::S_IRWXU)?;
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = openat(&parent, name.as_str(), flags, Mode::empty())?;
        let staging = Self { parent, name, folder };
        let is_ours = fs::metadata(staging.path())?.uid() == Uid::effective().as_raw();
        let is_empty = fs::read_dir(staging.path())?.next().is_none();
        if is_ours && is_empty {
            return Ok(staging);
        }
        Err(io::Error::other("somebody has put another folder in its place"))
    }

    /// The folder by its descriptor, wherever it is by now.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.folder.as_raw_fd()).into()
    }

    /// Gives it to a user; from then on anything may be in it.
    ///
    /// # Errors
    /// If that is not allowed.
    pub fn give(&self, user: Option<u32>) -> io::Result<()> {
        Ok(fchown(&self.folder, user.map(Uid::from_raw), None)?)
    }

    /// Takes it away with all that is in it. What can't be taken away stays: the container may be
    /// gone.
    pub fn clear(&self) {
        for entry in fs::read_dir(self.path()).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = entry.path();
            let _left = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        let _left = unlinkat(&self.parent, self.name.as_str(), UnlinkatFlags::RemoveDir);
    }
}

/// The temporary folder as the process sees it: a link in it leads to where it leads there, and not
/// out of its root.
fn open_parent(process: &Process, temporary: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = open(&process.outside(Path::new("/")), flags, Mode::empty())?;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_IN_ROOT);
    match openat2(&root, temporary, how) {
        // Before Linux 5.6 links are followed as they are seen from here.
        Err(Errno::ENOSYS) => Ok(open(&process.outside(temporary), flags, Mode::empty())?),
        opened => Ok(opened?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn own() -> Process {
        Process::new(std::process::id())
    }

    #[test]
    fn it_stays_the_same_folder_whatever_is_done_to_its_name() {
        let top = std::env::temp_dir().join(format!("corprof-staging-{}", std::process::id()));
        fs::create_dir_all(top.join("victim")).unwrap();
        let staging = Staging::make(&own(), &top, "ours".to_owned()).unwrap();
        fs::rename(top.join("ours"), top.join("moved")).unwrap();
        symlink(top.join("victim"), top.join("ours")).unwrap();
        fs::write(staging.path().join("file"), "text").unwrap();
        fs::create_dir(staging.path().join("folder")).unwrap();
        staging.give(Some(Uid::effective().as_raw())).unwrap();
        assert_eq!(fs::read_to_string(top.join("moved/file")).unwrap(), "text");
        assert!(fs::read_dir(top.join("victim")).unwrap().next().is_none());
        staging.clear();
        assert!(fs::read_dir(top.join("moved")).unwrap().next().is_none(), "all of it is gone");
        assert!(top.join("victim").is_dir());
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn what_is_there_already_is_not_taken() {
        let top = std::env::temp_dir().join(format!("corprof-staged-{}", std::process::id()));
        fs::create_dir_all(top.join("ours")).unwrap();
        assert!(Staging::make(&own(), &top, "ours".to_owned()).is_err());
        fs::remove_dir(top.join("ours")).unwrap();
        let staging = Staging::make(&own(), &top, "ours".to_owned()).unwrap();
        staging.clear();
        assert!(!top.join("ours").exists());
        fs::remove_dir_all(&top).unwrap();
    }
}
