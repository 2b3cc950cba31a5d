//! Real walks of this process's own stacks by the table, against framehop's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/walk.rs"]
mod walk;

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use signal::table::Region;
use unwind::modules::Module;
use unwind::native::{Refresh, TableBuilder};
use unwind::symbols::Symbols;
use walk::{End, Framehop, Registers, by_runtime, by_table};

/// Signal dispositions and loaded libraries belong to the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn builder() -> TableBuilder {
    let mut builder = TableBuilder::new(sys::memory::copy_own);
    assert!(matches!(builder.refresh(), Refresh::Changed { removed: 0, .. }));
    builder
}

/// Walks both ways and gives the names of the functions, leaf first.
#[inline(never)]
fn check(registers: Registers, through_signal: bool) -> Vec<String> {
    let builder = builder();
    let (ours, end) = by_table(builder.table().view(), registers);
    let (theirs, complete) = Framehop::new().walk(registers);
    assert_eq!(end, End::Root, "{ours:x?}");
    if through_signal {
        // framehop does not go through signal frames: what follows the second one is a guess.
        assert_eq!(ours[..2], theirs[..2]);
    } else {
        assert!(complete, "{theirs:x?}");
        assert_eq!(ours, theirs);
    }
    // The leaf was read elsewhere in its function; this function lies below it.
    let mut runtime = by_runtime();
    runtime.retain(|ip| *ip != 0);
    assert!(runtime.ends_with(&ours[1..]), "{ours:x?}\n{runtime:x?}");
    ours.iter()
        .map(|ip| {
            let module = builder.module(ip - 1).expect("a module");
            let symbols = Symbols::open(module, sys::memory::copy_own);
            let symbol = symbols.as_ref().ok().and_then(|symbols| symbols.find(ip - 1));
            format!("{} {}", module.name(), symbol.map_or("", |symbol| symbol.name))
        })
        .collect()
}

#[track_caller]
fn assert_order(names: &[String], expected: &[&str]) {
    let mut rest = names.iter();
    for name in expected {
        assert!(rest.any(|n| n.contains(name)), "{name} of {expected:?} in {names:#?}");
    }
}

#[inline(never)]
fn nested_leaf() -> Vec<String> {
    check(Registers::here(), false)
}

#[inline(never)]
fn nested_middle(depth: u32) -> Vec<String> {
    let names = if depth == 0 { nested_leaf() } else { nested_middle(depth - 1) };
    std::hint::black_box(names)
}

#[test]
fn nested_calls() {
    let names = nested_middle(5);
    assert_order(&names, &["nested_leaf", "nested_middle", "nested_middle", "run_test"]);
    let middles = names.iter().filter(|name| name.contains("nested_middle")).count();
    assert_eq!(middles, 6, "{names:#?}");
    // The test's thread begins in libc.
    assert_order(&names, &["thread_start", "libc.so"]);
}

thread_local! {
    static WALKED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn compare(a: *const c_void, b: *const c_void) -> c_int {
    WALKED.with_borrow_mut(|walked| {
        if walked.is_empty() {
            *walked = check(Registers::here(), false);
        }
    });
    // SAFETY: qsort passes pointers into the array of ints.
    let (a, b) = unsafe { (*a.cast::<i32>(), *b.cast::<i32>()) };
    a - b
}

#[inline(never)]
fn sorts() {
    let mut numbers = [3, 1, 2, 9, 4];
    // SAFETY: the array has five elements of four bytes, and `compare` compares ints.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 5, 4, Some(compare)) };
    assert_eq!(numbers, [1, 2, 3, 4, 9]);
}

#[test]
fn from_a_callback_of_libc() {
    sorts();
    let names = WALKED.take();
    assert_order(&names, &["compare", "qsort", "sorts", "run_test"]);
}

unsafe extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    // Not signal-safe, but the signal is raised at a known place.
    let names = check(Registers::here(), true);
    WALKED.set(names);
}

#[inline(never)]
fn raise_here(signal: c_int) {
    // SAFETY: the test has installed a handler for it.
    unsafe { libc::raise(signal) };
    std::hint::black_box(());
}

#[test]
fn through_a_signal_frame() {
    let _alone = ALONE.lock().unwrap();
    // SAFETY: all zeros is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: `handler` has the type that SA_SIGINFO asks for.
    assert_eq!(unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) }, 0);
    raise_here(libc::SIGUSR1);
    let names = WALKED.take();
    assert_order(&names, &["handler", "libc", "raise_here", "run_test"]);
}

/// Libraries that tests don't link; one of them is on any machine.
const LIBRARIES: [&std::ffi::CStr; 5] =
    [c"libz.so.1", c"libtinfo.so.6", c"libcrypt.so.1", c"liblzma.so.5", c"libzstd.so.1"];

#[test]
fn modules_come_and_go() {
    let _alone = ALONE.lock().unwrap();
    let mut builder = builder();
    assert_eq!(builder.refresh(), Refresh::Unchanged);
    let before = builder.table();
    let mut tried = 0;
    for library in LIBRARIES {
        // SAFETY: loading these runs no constructor of note.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            continue;
        }
        tried += 1;
        assert_eq!(builder.refresh(), Refresh::Changed { added: 1, removed: 0 });
        let during = builder.table();
        let entry = builder.entries().last().unwrap();
        let code = entry.module.code[0].clone();
        assert!(entry.missing.is_none(), "{entry:?}");
        let region = during.view().region(code.start).unwrap();
        assert!(region.rows_len > 10, "{region:?}");
        assert!(before.view().region(code.start).is_none());

        // SAFETY: nothing of the library is in use.
        assert_eq!(unsafe { libc::dlclose(handle) }, 0);
        assert_eq!(builder.refresh(), Refresh::Changed { added: 0, removed: 1 });
        assert!(builder.table().view().region(code.start).is_none());
        assert_eq!(builder.table().view().rows, before.view().rows);
        assert_eq!(builder.table().view().regions, before.view().regions);
    }
    assert!(tried > 0, "none of {LIBRARIES:?} could be loaded");
}

#[test]
fn a_module_that_waits_has_its_rows_once_it_is_met() {
    let _alone = ALONE.lock().unwrap();
    let whole = builder().table();
    let waits = |module: &Module| module.name().starts_with("libc.so");
    let mut builder = TableBuilder::waiting(sys::memory::copy_own, waits);
    assert!(matches!(builder.refresh(), Refresh::Changed { removed: 0, .. }));
    let code = (libc::getpid as unsafe extern "C" fn() -> libc::pid_t) as usize as u64;
    assert!(builder.module(code).is_some_and(|module| waits(module)), "it is known, and waits");
    assert!(whole.view().region(code).is_some());
    assert!(builder.table().view().region(code).is_none(), "its code is known to no walk");
    assert!(builder.waiting_bytes() > 0);

    let own = (builder_of_nothing as fn() -> TableBuilder) as usize as u64;
    assert!(!builder.meet(own), "this program does not wait");
    assert!(builder.meet(code));
    assert!(!builder.meet(code), "once");
    assert_eq!(builder.waiting_bytes(), 0);
    assert_eq!(builder.refresh(), Refresh::Unchanged);
    let (met, whole) = (builder.table(), whole.view());
    let met = met.view();
    let ends = |region: &Region| (region.start, region.end, region.rows_len);
    assert!(met.regions.iter().map(ends).eq(whole.regions.iter().map(ends)));
    for row in 0..0x1000 {
        assert_eq!(met.find(code + row), whole.find(code + row));
    }
}

fn builder_of_nothing() -> TableBuilder {
    TableBuilder::new(|_, _| 0)
}
