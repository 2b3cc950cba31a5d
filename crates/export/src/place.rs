//! Where the spool is, and whether it can be used. It is made when something has to wait.

use std::io;
use std::path::{Path, PathBuf};

use config::ExportConfig;

use crate::spool::{Spool, Trust};

/// Which folder the spool is in.
#[derive(Clone, Debug)]
pub struct Whereabouts {
    /// The folder that was asked for; `None` for the user's own in the temporary folder.
    named: Option<PathBuf>,
    temporary: PathBuf,
}

impl Whereabouts {
    /// The folder: another one if the process has become another user's.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        match &self.named {
            Some(folder) => folder.clone(),
            None => self.temporary.join(format!("corprof-spool-{}", sys::user::effective_id())),
        }
    }
}

/// The spool, or how to get it.
#[derive(Debug)]
pub struct Place {
    whereabouts: Whereabouts,
    owner: String,
    limit_bytes: u64,
    spool: Option<Spool>,
}

impl Place {
    /// From the settings. The path is made absolute now: the program may change its folder.
    #[must_use]
    pub fn new(config: &ExportConfig, temporary: PathBuf, id: [u8; 16]) -> Self {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let whereabouts = Whereabouts {
            named: config.spool_dir.as_ref().map(absolute),
            temporary: absolute(&temporary),
        };
        Self {
            whereabouts,
            owner: owner(id),
            limit_bytes: u64::from(config.spool_mib) << 20,
            spool: None,
        }
    }

    /// Which folder it is in.
    #[must_use]
    pub const fn whereabouts(&self) -> &Whereabouts {
        &self.whereabouts
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.whereabouts.folder()
    }

    /// The spool, made if need be.
    ///
    /// # Errors
    /// Why it can't be had.
    pub fn make(&mut self) -> io::Result<&mut Spool> {
        if self.limit_bytes == 0 {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let folder = self.folder();
        let trust = if self.whereabouts.named.is_some() { Trust::Named } else { Trust::OwnOnly };
        let is_there = |spool: &Spool| spool.folder() == folder && spool.is_there(trust);
        if !self.spool.as_ref().is_some_and(is_there) {
            // Another owner each time: a lock of before may still be there.
            let mut opened = Spool::open(&folder, trust, &self.owner, self.limit_bytes)?;
            self.owner = next_owner(&self.owner);
            if let Some(before) = self.spool.take().filter(|spool| spool.folder() == folder) {
                opened.inherit(before);
            }
            self.spool = Some(opened);
        }
        self.spool.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// The spool, if it has been made, or if its folder is there from before.
    pub fn find(&mut self) -> Option<&mut Spool> {
        let folder = self.folder();
        // What another user's process, which this one was, left there is for who can read it.
        self.spool.take_if(|spool| spool.folder() != folder);
        if self.spool.is_none() && has_files(&folder) {
            let _not_usable = self.make();
        }
        self.spool.as_mut()
    }

    /// Lets go of a spool in which nothing of ours waits, with its lock.
    pub fn close(&mut self) {
        if self.spool.as_ref().is_some_and(Spool::is_empty) {
            self.spool = None;
        }
    }

    /// The spool, if it has been made.
    #[must_use]
    pub const fn made(&self) -> Option<&Spool> {
        self.spool.as_ref()
    }
}

fn has_files(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

fn owner(id: [u8; 16]) -> String {
    format!("{:016x}", u128::from_be_bytes(id) >> 64)
}

fn next_owner(owner: &str) -> String {
    let number = u64::from_str_radix(owner, 16).unwrap_or(0);
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1))
}
