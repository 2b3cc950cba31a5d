//! Threads: the profiler's own, and the calling thread's stack.

use std::io;

use crate::spawned;

pub use crate::spawned::{StackRange, spawned_cpu_ns, spawned_ids};

/// The calling thread's id, as the kernel counts.
#[must_use]
pub fn own_id() -> u32 {
    // SAFETY: no argument, can't fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// The calling thread's stack. Allocates (glibc does, for the main thread).
#[must_use]
pub fn own_stack() -> Option<StackRange> {
    // SAFETY: the attribute object is plain memory that glibc fills in below.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: no argument, can't fail.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: a live thread (the calling one) and a valid place for its attributes.
    if unsafe { libc::pthread_getattr_np(own, &raw mut attributes) } != 0 {
        return None;
    }
    let mut start = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: the attributes were filled in above, both places are valid.
    let got = unsafe {
        libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut size)
    };
    // SAFETY: initialised above, destroyed once.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    let start = start as u64;
    (got == 0).then(|| StackRange { start, end: start.saturating_add(size as u64) })
}

/// Starts a thread of the profiler: named, with a small stack, and with every signal blocked, so
/// that a signal meant for the host never lands on it.
///
/// # Errors
/// Whatever `pthread_create` says, such as a limit on threads.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let restore = block_all_signals();
    let made = spawned::spawn(name, body);
    set_mask(&restore);
    made
}

/// Blocks all signals on the calling thread; returns the mask of before. A new thread inherits it.
fn block_all_signals() -> libc::sigset_t {
    // SAFETY: a signal set is plain bits.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a signal set is plain bits.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes one valid set.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: reads one valid set and writes another.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    before
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: reads one valid set; a null old mask is allowed.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::from_ref(mask), std::ptr::null_mut())
    };
}
