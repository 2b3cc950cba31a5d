//! CPU timers: Windows has none.

use std::io;
use std::time::Duration;

/// A timer that can't be had.
#[derive(Debug)]
pub enum CpuTimer {}

/// Whether there are such timers at all.
pub const ARE_THERE: bool = false;

impl CpuTimer {
    /// Makes none.
    ///
    /// # Errors
    /// Always.
    pub fn start(_tid: u32, _signal: i32, _value: u64, _interval: Duration) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The kernel's number for it.
    #[must_use]
    pub fn id(&self) -> i32 {
        match *self {}
    }

    /// Lets it expire soon.
    ///
    /// # Errors
    /// None: there is none.
    pub fn expire_soon(&self, _interval: Duration) -> io::Result<()> {
        match *self {}
    }
}
