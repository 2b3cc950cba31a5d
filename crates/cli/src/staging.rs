//! A folder in another process's temporary folder, for what that process writes for us.
//!
//! The process's user may rearrange its temporary folder at any moment: rename ours, lay a link in
//! its place, mount another over it, or have a link on the way there. So nothing is done by path
//! after the folder was opened, no other file system is entered, and all is done as that user:
//! root would otherwise make, read, give away or delete files of somebody else's choice.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use config::control::LENT_FOLDER;
use diagnostics::Process;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};
use profile::FileName;

use crate::file_user::{FileUser, act_as};
use crate::leftover::Of;

/// Names in a folder that are looked at: its user may make as many as he likes.
const NAMES_MAX: usize = 100_000;
/// Folders of earlier attaches that are looked at, at a time.
const LEFTOVERS_MAX: usize = 64;

/// The folder, for as long as it is needed.
#[derive(Debug)]
pub struct Staging {
    user: Option<FileUser>,
    parent: OwnedFd,
    name: String,
    /// Locked, which ends with us: so it can be seen that nobody needs it any more.
    folder: File,
}

impl Staging {
    /// The name of the folder for a process: the numbers of who attaches, and of the process.
    pub fn name_for(process: &Process) -> String {
        format!("{LENT_FOLDER}{}-{}", std::process::id(), process.pid())
    }

    /// Makes it, the user's alone.
    ///
    /// # Errors
    /// If it can't be made, or if another one is in its place by the time it is opened.
    pub fn make(process: &Process, temporary: &Path, name: String) -> io::Result<Self> {
        Self::make_as(FileUser::of(process), process, temporary, name)
    }

    fn make_as(
        user: Option<FileUser>,
        process: &Process,
        temporary: &Path,
        name: String,
    ) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = open(&process.outside(Path::new("/")), flags, Mode::empty())?;
        let (parent, folder) = act_as(user.as_ref(), || {
            let parent = open_parent(&root, temporary)?;
            mkdirat(&parent, name.as_str(), Mode::S_IRWXU)?;
            let folder = open_within(&parent, &name, OFlag::O_DIRECTORY)?;
            Ok((parent, File::from(folder)))
        })?;
        let staging = Self { user, parent, name, folder };
        let is_empty = staging.names()?.is_empty();
        if !staging.is_the_users()? || !is_empty {
            return Err(io::Error::other("somebody has put another folder in its place"));
        }
        // Its user could have locked it by now; then it stays if we are killed.
        let _locked = staging.folder.try_lock();
        Ok(staging)
    }

    /// Whether the folder is of the user as whom we act, and so nothing in it is anybody else's.
    fn is_the_users(&self) -> io::Result<bool> {
        let own = || Uid::effective().as_raw();
        let user = self.user.as_ref().map_or_else(own, FileUser::number);
        Ok(self.folder.metadata()?.uid() == user)
    }

    /// The folder by its descriptor, wherever it is by now.
    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.folder.as_raw_fd()).into()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many profiles are in it.
    pub fn profiles(&self) -> usize {
        let names = self.names().unwrap_or_default();
        names.iter().filter(|name| FileName::parse(name).is_some()).count()
    }

    /// Takes a file away, if it is there.
    pub fn remove(&self, name: &str) {
        let flag = UnlinkatFlags::NoRemoveDir;
        let _gone = act_as(self.user.as_ref(), || Ok(unlinkat(&self.folder, name, flag)?));
    }

    /// What is in it, by name.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.path())?.take(NAMES_MAX);
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        let mut names: Vec<String> =
            names.filter_map(io::Result::transpose).collect::<Result<_, _>>()?;
        names.sort_unstable();
        Ok(names)
    }

    /// Opens a regular file in it to read it: through no link or mount, and without waiting for
    /// whoever writes to a pipe.
    ///
    /// # Errors
    /// If it can't be opened; [`ErrorKind::InvalidInput`] if it is something else.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
        let opened = act_as(self.user.as_ref(), || open_within(&self.folder, name, flags));
        let file = match opened {
            Err(error) if is_no_file(&error) => Err(no_file()),
            opened => opened.map(File::from),
        }?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
    }

    /// Copies a file into it that all may read.
    ///
    /// # Errors
    /// If it can't be copied, or if there is something of that name.
    pub fn put(&self, from: &Path, name: &str) -> io::Result<()> {
        let mut from = File::open(from)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let mode = Mode::from_bits_truncate(0o644);
        act_as(self.user.as_ref(), || {
            let made = openat(&self.folder, name, flags | OFlag::O_CLOEXEC, mode)?;
            // Whatever our mask of modes is.
            nix::sys::stat::fchmod(&made, mode)?;
            io::copy(&mut from, &mut File::from(made)).map(drop)
        })
    }

    /// Takes it away with the files that are in it; says whether it is gone. Nothing that we put
    /// there is in a folder inside: what such a one has may be from somewhere else, and it stays.
    pub fn clear(&self) -> bool {
        let removed = act_as(self.user.as_ref(), || {
            for entry in fs::read_dir(self.path())?.take(NAMES_MAX).flatten() {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let flag =
                    if is_folder { UnlinkatFlags::RemoveDir } else { UnlinkatFlags::NoRemoveDir };
                let _left = unlinkat(&self.folder, entry.file_name().as_os_str(), flag);
            }
            match unlinkat(&self.parent, self.name.as_str(), UnlinkatFlags::RemoveDir) {
                Err(Errno::ENOENT) => Ok(()),
                removed => Ok(removed?),
            }
        });
        removed.is_ok()
    }

    /// What attaches left there that are over, for processes that are gone or for this one.
    pub fn leftovers(&self, process: &Process, of: Of) -> Vec<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let listed = act_as(self.user.as_ref(), || {
            let listed = File::from(openat(&self.parent, ".", flags, Mode::empty())?);
            fs::read_dir(format!("/proc/self/fd/{}", listed.as_raw_fd()))
        });
        let names = listed.into_iter().flatten().take(NAMES_MAX).flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let is_left = |name: &String| is_left(name, process.pid(), of, lives);
        // A descriptor each, of which there are not many.
        names.filter(is_left).filter_map(|name| self.leftover(name)).take(LEFTOVERS_MAX).collect()
    }

    fn leftover(&self, name: String) -> Option<Self> {
        let open = || open_within(&self.parent, &name, OFlag::O_DIRECTORY);
        let folder = File::from(act_as(self.user.as_ref(), open).ok()?);
        let parent = self.parent.try_clone().ok()?;
        let left = Self { user: self.user.clone(), parent, name, folder };
        // Who attaches from a container has another number than we see.
        (left.is_the_users().ok()? && left.folder.try_lock().is_ok()).then_some(left)
    }
}

/// Whether a folder of that name is needed by nobody: who made it is gone, and so is the process
/// that wrote to it, or it is the one that is asked about.
fn is_left(name: &str, now: u32, of: Of, lives: impl Fn(u32) -> bool) -> bool {
    let numbers = name.strip_prefix(LENT_FOLDER).and_then(|numbers| numbers.split_once('-'));
    let Some((attacher, process)) = numbers else { return false };
    let (Ok(attacher), Ok(process)) = (attacher.parse(), process.parse()) else { return false };
    let is_asked_for = match of {
        Of::TheGone => !lives(process),
        Of::TheProcess => process == now,
    };
    is_asked_for && !lives(attacher)
}

fn lives(pid: u32) -> bool {
    Process::new(pid).started().is_ok()
}

fn no_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "not a regular file")
}

/// Whether a file was not opened since it is a link, a mount or a socket.
fn is_no_file(error: &io::Error) -> bool {
    let error = error.raw_os_error().map(Errno::from_raw);
    matches!(error, Some(Errno::ELOOP | Errno::EXDEV | Errno::ENXIO))
}

/// The temporary folder as the process sees it: a link in it leads to where it leads there, and not
/// out of its root. `TMPDIR` may well be a link; where it leads, its user makes the folder himself.
fn open_parent(root: &OwnedFd, temporary: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_IN_ROOT);
    match openat2(root, temporary, how) {
        // Before Linux 5.6, and where a container's filter doesn't know the call, links are
        // followed as they are seen from here.
        Err(Errno::ENOSYS | Errno::EPERM) => {
            let inside = temporary.strip_prefix("/").unwrap_or(temporary);
            Ok(openat(root, inside, flags, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

/// Opens what is in a folder, and not what a link or a mount there leads to.
fn open_within(folder: impl AsFd, name: &str, flags: OFlag) -> io::Result<OwnedFd> {
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_XDEV
        | ResolveFlag::RESOLVE_NO_SYMLINKS;
    match openat2(&folder, name, OpenHow::new().flags(flags).resolve(resolve)) {
        Err(Errno::ENOSYS | Errno::EPERM) => open_on_one_mount(folder, name, flags),
        opened => Ok(opened?),
    }
}

/// The same where the kernel can't see to it.
fn open_on_one_mount(folder: impl AsFd, name: &str, flags: OFlag) -> io::Result<OwnedFd> {
    let opened = openat(&folder, name, flags, Mode::empty())?;
    let (there, here) = (mount(&opened)?, mount(&folder)?);
    if there.is_some() && there == here { Ok(opened) } else { Err(Errno::EXDEV.into()) }
}

/// The number of the mount that a descriptor is on.
fn mount(descriptor: impl AsFd) -> io::Result<Option<u64>> {
    let number = descriptor.as_fd().as_raw_fd();
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    Ok(line.and_then(|line| line.trim().parse().ok()))
}

#[cfg(test)]
mod tests;
