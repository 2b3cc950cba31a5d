//! The stack that a thread's signal handlers run on if they ask for one of their own.
//!
//! CoreCLR gives each thread 16 KiB, for faults such as a null reference, and its handler uses most
//! of it. A second signal that comes just then finds too little room: the kernel can't place its
//! frame, which has 3 KiB and more with the registers of AVX-512, and kills the process. So whoever
//! sends signals to such a thread has to see that there is room first.

use std::ptr::null_mut;

use crate::memory::copy_own;

/// What is enough: the runtime's handler, two frames of 12 KiB at the most, and our own handler.
const ENOUGH_BYTES: usize = 64 * 1024;
/// A page; the lowest one is made inaccessible, as the runtime does with its own.
const PAGE_BYTES: usize = 4096;

/// Sees that the calling thread's alternate stack has room for a signal within a signal: a small
/// one is replaced by a larger one. Returns whether there is room, or no such stack.
///
/// The runtime unmaps whatever alternate stack a thread has when it ends, hence ours; and its own,
/// which it would have unmapped, is unmapped here. A stack of anybody else is its owner's to free.
#[must_use]
pub fn make_room() -> bool {
    let Some(old) = current() else { return false };
    if old.ss_flags & libc::SS_DISABLE != 0 || old.ss_size >= ENOUGH_BYTES {
        return true;
    }
    if old.ss_flags & libc::SS_ONSTACK != 0 {
        return false;
    }
    let Some(new) = map() else { return false };
    // SAFETY: the mapping is fresh, has the size that is said, and lives until the thread ends.
    let set = unsafe { libc::sigaltstack(&raw const new, null_mut()) } == 0;
    let unused = if set { old } else { new };
    if !set || is_the_runtimes(&old) {
        // SAFETY: a mapping of its own (the runtime's, as was checked, or ours), which is not, or
        // no longer, the thread's alternate stack and not in use.
        unsafe { libc::munmap(unused.ss_sp, unused.ss_size) };
    }
    set
}

/// Whether a signal within the runtime's own finds room on the stack that it gives its threads: it
/// depends on how many registers the processor has to save.
#[must_use]
pub fn runtimes_is_enough() -> bool {
    /// Without the registers of AVX-512 a frame has about 1 KiB.
    const SMALL_FRAME_BYTES: u64 = 2048;
    /// `AT_MINSIGSTKSZ`: what the kernel needs to place a signal's frame; since Linux 5.14.
    const SMALLEST_STACK: libc::c_ulong = 51;
    // SAFETY: reads what the kernel told the process at its start.
    let bytes = unsafe { libc::getauxval(SMALLEST_STACK) };
    bytes > 0 && bytes <= SMALL_FRAME_BYTES
}

/// The size of a stack that has room, in bytes.
pub const SPARE_BYTES: u64 = (ENOUGH_BYTES + PAGE_BYTES) as u64;

/// Mappings of the process that such a stack takes: its first page is one of its own.
pub const SPARE_MAPPINGS: usize = 2;

/// The address of such a stack, for a thread to take; its first page can't be touched. Whoever
/// takes it unmaps it, as the runtime does when the thread ends.
#[must_use]
pub fn spare() -> Option<u64> {
    map().map(|stack| stack.ss_sp as u64)
}

/// The calling thread's alternate stack.
fn current() -> Option<libc::stack_t> {
    let mut stack = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: a null new stack only asks; the answer is written to a valid place.
    let asked = unsafe { libc::sigaltstack(std::ptr::null(), &raw mut stack) };
    (asked == 0).then_some(stack)
}

/// Whether a stack is a mapping of its own with a guard at its low end: so are the runtime's, and
/// hardly one that somebody allocated.
fn is_the_runtimes(stack: &libc::stack_t) -> bool {
    let start = stack.ss_sp as usize;
    let whole = start.is_multiple_of(PAGE_BYTES) && stack.ss_size.is_multiple_of(PAGE_BYTES);
    let readable = |address: usize| copy_own(address as u64, &mut [0]) == 1;
    whole
        && stack.ss_size > PAGE_BYTES
        && !readable(start)
        && readable(start.wrapping_add(PAGE_BYTES))
}

/// A new stack with a guard.
fn map() -> Option<libc::stack_t> {
    let size = ENOUGH_BYTES.checked_add(PAGE_BYTES)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a fresh private mapping touches nothing that exists.
    let place = unsafe { libc::mmap(null_mut(), size, protection, flags, -1, 0) };
    if place == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the first page of the mapping that was just made.
    unsafe { libc::mprotect(place, PAGE_BYTES, libc::PROT_NONE) };
    Some(libc::stack_t { ss_sp: place, ss_flags: 0, ss_size: size })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack as the runtime makes it.
    fn small() -> libc::stack_t {
        let mut stack = map().expect("mapped");
        // SAFETY: gives back what lies behind the first four pages of a mapping made just now.
        unsafe {
            libc::munmap(stack.ss_sp.byte_add(4 * PAGE_BYTES), stack.ss_size - 4 * PAGE_BYTES)
        };
        stack.ss_size = 4 * PAGE_BYTES;
        stack
    }

    #[test]
    fn a_small_one_is_replaced_and_only_the_runtimes_is_unmapped() {
        std::thread::spawn(|| {
            let own = small();
            // SAFETY: the stack lives as long as this thread.
            assert_eq!(unsafe { libc::sigaltstack(&raw const own, null_mut()) }, 0);
            assert!(make_room());
            assert_eq!(copy_own(own.ss_sp as u64 + 8192, &mut [0]), 0, "unmapped");
            let larger = current().expect("asked");
            assert!(larger.ss_size >= ENOUGH_BYTES && larger.ss_sp != own.ss_sp);
            assert!(make_room());
            assert_eq!(current().expect("asked").ss_sp, larger.ss_sp, "large enough already");
            // Somebody's allocation.
            let bytes = Box::leak(Box::new([0_u8; 16 * 1024]));
            let other = libc::stack_t {
                ss_sp: bytes.as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: bytes.len(),
            };
            // SAFETY: the stack is leaked.
            assert_eq!(unsafe { libc::sigaltstack(&raw const other, null_mut()) }, 0);
            assert!(make_room());
            assert_ne!(current().expect("asked").ss_sp, other.ss_sp);
            assert_eq!(bytes[8192], 0, "its owner's, hence still there");
            let none = libc::stack_t { ss_flags: libc::SS_DISABLE, ..other };
            // SAFETY: takes the stack away.
            assert_eq!(unsafe { libc::sigaltstack(&raw const none, null_mut()) }, 0);
            assert!(make_room());
        })
        .join()
        .expect("no panic");
    }
}
