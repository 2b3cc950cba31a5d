//! What others read in files, for one thread that reads it again and again: here it is no file.

use super::proc::{self, SchedStat};

/// What is read of threads.
#[derive(Default)]
pub struct ThreadFiles;

impl ThreadFiles {
    /// Nothing to be kept.
    pub fn keep(&mut self) {}

    /// Not told.
    pub fn sched_stat(&mut self, tid: u32) -> Option<SchedStat> {
        SchedStat::read(tid)
    }

    /// Not told.
    pub fn voluntary_switches(&mut self, tid: u32) -> Option<u64> {
        proc::voluntary_switches(tid)
    }
}
