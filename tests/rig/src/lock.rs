//! The lock that keeps two processes from installing or compiling the same thing at once.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

use crate::progress;

/// Held until dropped; the kernel releases it if the process is killed.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, and says so if another process makes us wait.
    pub fn take(path: &Path, purpose: &str) -> Result<Self> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot create {dir:?}"))?;
        }
        let file =
            File::create(path).with_context(|| format!("cannot create the lock {path:?}"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress::line(&format!("waiting for another process that {purpose}"));
                file.lock().with_context(|| format!("cannot lock {path:?}"))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {path:?}"));
            }
        }
        Ok(Self { _file: file })
    }
}
