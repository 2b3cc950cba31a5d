//! Threads: the profiler's own, and the calling thread's stack.

use std::io;

use super::api;
use crate::spawned;

pub use crate::spawned::{StackRange, spawned_cpu_ns, spawned_ids};

/// The calling thread's id.
#[must_use]
pub fn own_id() -> u32 {
    // SAFETY: no argument, can't fail.
    unsafe { api::GetCurrentThreadId() }
}

/// The calling thread's stack.
#[must_use]
pub fn own_stack() -> Option<StackRange> {
    let (mut low, mut high) = (0_usize, 0_usize);
    // SAFETY: writes to two valid places.
    unsafe { api::GetCurrentThreadStackLimits(&raw mut low, &raw mut high) };
    (high > low).then_some(StackRange { start: low as u64, end: high as u64 })
}

/// Starts a thread of the profiler: named, with a small stack.
///
/// # Errors
/// Whatever the system says, such as that there is no memory for it.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    spawned::spawn(name, body)
}
