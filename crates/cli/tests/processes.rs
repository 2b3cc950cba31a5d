//! Commands that are given the number of a process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![cfg(target_os = "linux")]
mod support;

use std::fs;

use support::Dir;

#[test]
fn a_threads_number_is_no_processs() {
    let dir = Dir::new();
    let pid = std::process::id();
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
        ended.recv().ok();
    });
    let tid = told.recv().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let words = format!("error: {tid} is a thread of process {pid}; name the process: {pid}");
    for arguments in [&["attach", &tid][..], &["doctor", &tid], &["ctl", &tid, "status"]] {
        dir.run(arguments).check(1, &[&words]);
    }
    drop(end);
    thread.join().unwrap();
}
