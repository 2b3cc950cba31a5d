//! Processes that compete for the processors while a program is measured.

use std::process::{Child, Command};

use anyhow::{Context, Result};

/// Computes until its parent is gone, however that ended.
const COMPUTE: &str =
    "while kill -0 $PPID; do i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; done";

/// They run until this is dropped.
#[derive(Debug)]
pub struct Competitors(Vec<Child>);

impl Competitors {
    /// Starts so many, each of which computes all the time.
    ///
    /// # Errors
    /// If there is no shell.
    pub fn start(count: usize) -> Result<Self> {
        let mut competitors = Self(Vec::new());
        for _ in 0..count {
            let child = Command::new("sh").args(["-c", COMPUTE]).spawn();
            competitors.0.push(child.context("cannot start a competitor")?);
        }
        Ok(competitors)
    }
}

impl Drop for Competitors {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended by itself competes no more, either.
            let _ended = child.kill().and_then(|()| child.wait());
        }
    }
}
