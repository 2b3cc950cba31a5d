//! One measurement at a time: tests run as threads of one process, and perhaps several processes.

use std::fs::{self, File};

use anyhow::{Context, Result};

use crate::built::target;

/// Held while something is measured; the kernel releases it if the process is killed.
#[derive(Debug)]
pub struct Alone {
    _file: File,
}

impl Alone {
    /// Waits until nobody else measures. A lock of a file that is opened anew excludes threads of
    /// this process as well as other processes.
    ///
    /// # Errors
    /// If the lock's file cannot be had.
    pub fn take() -> Result<Self> {
        let folder = target().join("e2e");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder:?}"))?;
        let path = folder.join(".alone.lock");
        let file = File::create(&path).with_context(|| format!("cannot create {path:?}"))?;
        file.lock().with_context(|| format!("cannot lock {path:?}"))?;
        Ok(Self { _file: file })
    }
}
