//! A process that may have hardly any descriptors: what is kept open gives way.

#![cfg(target_os = "linux")]

use std::sync::{Barrier, mpsc};

use sys::thread::own_id;
use sys::thread_files::ThreadFiles;

const THREADS: usize = 40;
const DESCRIPTORS: u64 = 12;

/// A program of its own, since the limit is the process's.
#[test]
fn all_threads_are_read_with_few_descriptors() {
    let limit = libc::rlimit { rlim_cur: DESCRIPTORS, rlim_max: DESCRIPTORS };
    // SAFETY: reads a valid place.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let over = Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for _ in 0..THREADS {
            let (tell, over) = (tell.clone(), &over);
            scope.spawn(move || {
                tell.send(own_id()).expect("somebody listens");
                over.wait();
            });
        }
        let all: Vec<u32> = told.iter().take(THREADS).collect();
        let read = scope.spawn(move || {
            let mut files = ThreadFiles::default();
            files.keep();
            let mut has_all = |tid: &u32| {
                files.sched_stat(*tid).is_some()
                    && files.blocked(*tid).is_some()
                    && files.voluntary_switches(*tid).is_some()
            };
            all.iter().chain(&all).filter(|tid| has_all(tid)).count()
        });
        let read = read.join().expect("no panic");
        over.wait();
        assert_eq!(read, 2 * THREADS);
    });
}
