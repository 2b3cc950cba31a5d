//! A library that is truncated while it is mapped: whoever touches its pages dies of it. In a
//! process of its own, since it can't be unloaded any more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/library.rs"]
mod library;

use std::fs::{File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use unwind::native::TableBuilder;
use unwind::symbols::Symbols;

const CHILD: &str = "UNWIND_TEST_TRUNCATES";
const SOURCE: &str = "int work(int n) { return n + 1; }";

#[test]
fn is_no_danger() {
    let Ok(mode) = std::env::var(CHILD) else { return as_parent() };
    let folder = library::Folder::new("truncated");
    let path = folder.path("libtruncated.so");
    if library::compile("cc", SOURCE, &path).is_none() {
        return;
    }
    let address = library::load(&path, "work");
    let module = library::module_at(address);
    assert!(Symbols::open(&module, sys::memory::copy_own).is_ok());
    let mut builder = TableBuilder::new(sys::memory::copy_own);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    // Nothing is left, or the headers.
    let left = if mode == "all" { 0 } else { 4096 };
    file.set_len(left).unwrap();
    if mode == "touched" {
        // SAFETY: none; this is what must not be done, to show that it matters.
        let byte = unsafe { std::ptr::read_volatile(address as *const u8) };
        unreachable!("the page is still there: {byte}");
    }
    builder.refresh();
    assert!(!builder.entries().is_empty());
    assert!(builder.table().view().regions.len() > 1);
    assert!(Symbols::open(&module, sys::memory::copy_own).is_err());
    println!("{} skipped", builder.skipped());
    // No ends of libraries are run: theirs is gone.
    File::create(folder.path("survived")).unwrap();
    std::fs::rename(folder.path("survived"), std::env::temp_dir().join(marker(&mode))).unwrap();
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

fn marker(mode: &str) -> String {
    // SAFETY: getppid has no argument and can't fail.
    let parent = unsafe { libc::getppid() };
    format!("unwind-survived-{mode}-{parent}")
}

fn as_parent() {
    if library::tool("cc", &[&"--version"]).is_none() {
        return;
    }
    for mode in ["all", "most", "touched"] {
        let marker =
            std::env::temp_dir().join(format!("unwind-survived-{mode}-{}", std::process::id()));
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["is_no_danger", "--nocapture"])
            .env(CHILD, mode)
            .output()
            .unwrap();
        let text = format!("{output:?}");
        let survived = std::fs::remove_file(&marker).is_ok();
        if mode == "touched" {
            assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{text}");
        } else {
            assert!(output.status.success() && survived, "{mode}: {text}");
        }
    }
}
