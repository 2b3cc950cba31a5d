//! What is read of other threads at every beat allocates nothing.

use sys::proc::{Blocked, Stat};
use sys::thread_files::ThreadFiles;
use sys::{clock, thread};
use testing::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Beyond the largest thread id that the kernel gives.
const NOBODY: u32 = 5_000_000;

/// A read, of whatever type; whether there was anything to read.
type Read = fn(u32) -> bool;

#[test]
fn no_read_allocates() {
    let reads: [(&str, Read); 3] = [
        ("stat", |tid| Stat::read(tid).is_some()),
        ("syscall", |tid| Blocked::read(tid).is_some()),
        ("clock", |tid| clock::thread_cpu_ns(tid).is_some()),
    ];
    for (name, read) in reads {
        // The first as well as the hundredth; of a thread that is, and of one that is not.
        for (tid, exists) in [(thread::own_id(), true), (NOBODY, false)] {
            let before = Counting::calls();
            let found = (0..100).all(|_| read(tid) == exists);
            let calls = Counting::calls() - before;
            assert!(found, "{name} of {tid}");
            assert_eq!(calls, 0, "{name} of {tid}");
        }
    }
    let mut files = ThreadFiles::default();
    files.keep();
    let before = Counting::calls();
    for round in 0..200 {
        let exists = round % 2 == 0;
        let tid = if exists { thread::own_id() } else { NOBODY };
        assert_eq!(
            (files.sched_stat(tid).is_some(), files.blocked(tid).is_some()),
            (exists, exists)
        );
    }
    assert_eq!(Counting::calls() - before, 0, "files that are kept");
    let before = Counting::calls();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(Counting::calls() - before, 2, "the count counts");
}
