//! An allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator; counts each thread's calls, those of its signal handlers too. To be made
/// a test's `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

impl Counting {
    /// The calling thread's calls so far.
    #[must_use]
    pub fn calls() -> u64 {
        CALLS.get()
    }
}

// SAFETY: all is left to the system's allocator; the count is a plain number of the thread's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: passed on from the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: passed on from the caller.
        unsafe { System.dealloc(place, layout) }
    }
}
