//! What is read of other threads at every beat allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use sys::proc::{Blocked, SchedStat, Stat, voluntary_switches};
use sys::{clock, thread};

/// Counts each thread's calls.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
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

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Beyond the largest thread id that the kernel gives.
const NOBODY: u32 = 5_000_000;

/// A read, of whatever type; whether there was anything to read.
type Read = fn(u32) -> bool;

#[test]
fn no_read_allocates() {
    let reads: [(&str, Read); 5] = [
        ("stat", |tid| Stat::read(tid).is_some()),
        ("syscall", |tid| Blocked::read(tid).is_some()),
        ("schedstat", |tid| SchedStat::read(tid).is_some()),
        ("status", |tid| voluntary_switches(tid).is_some()),
        ("clock", |tid| clock::thread_cpu_ns(tid).is_some()),
    ];
    for (name, read) in reads {
        // The first as well as the hundredth; of a thread that is, and of one that is not.
        for (tid, exists) in [(thread::own_id(), true), (NOBODY, false)] {
            let before = CALLS.get();
            let found = (0..100).all(|_| read(tid) == exists);
            let calls = CALLS.get() - before;
            assert!(found, "{name} of {tid}");
            assert_eq!(calls, 0, "{name} of {tid}");
        }
    }
    let before = CALLS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(CALLS.get() - before, 2, "the count counts");
}
