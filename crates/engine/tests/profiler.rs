//! The whole profiler without a runtime, in a process of its own: it starts, samples and stops.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{Config, LogLevel};
use engine::{After, Code, Log, ManagedId, MethodName, Next, Profiler, Runtime, StartError};
use sys::disposition::{self, Disposition, PROFILING_SIGNAL};
use sys::{clock, thread};

/// A runtime without methods.
struct Nothing;

impl Runtime for Nothing {
    fn look_up(&self, _address: u64) -> Option<(Code, Option<MethodName>)> {
        None
    }

    #[cfg(feature = "oracle")]
    fn reported(&self, _address: u64) -> Option<usize> {
        None
    }

    fn version(&self) -> String {
        "None 1.0".to_owned()
    }
}

fn start(profiler: &Profiler, folder: PathBuf) -> Result<(), StartError> {
    let mut config = Config::defaults("service");
    config.cpu_interval = Duration::from_millis(1);
    profiler.start(config, Arc::new(Nothing), folder, Log::new(LogLevel::Off, None))
}

fn compute(cpu_ns: u64) {
    let until_ns = clock::own_cpu_ns() + cpu_ns;
    while clock::own_cpu_ns() < until_ns {}
}

/// The CPU time and the samples of the profiles in a folder, and how many there are.
fn profiles(folder: &PathBuf) -> (u64, u64, usize) {
    let files: Vec<_> = std::fs::read_dir(folder).expect("folder").flatten().collect();
    let totals = files.iter().map(|file| {
        let bytes = std::fs::read(file.path()).expect("read");
        profile::read::decode(&bytes).expect("a profile").profile.total()
    });
    let (cpu_ns, samples) =
        totals.fold((0, 0), |(ns, n), total| (ns + total.cpu_ns, n + total.count));
    (cpu_ns, samples, files.len())
}

/// What the only profile in a folder says comes after it, and where that is.
fn said_of_next(folder: &PathBuf) -> (Option<After>, PathBuf) {
    let file = std::fs::read_dir(folder).expect("folder").flatten().next().expect("a file");
    let bytes = std::fs::read(file.path()).expect("read");
    let report = profile::read::decode(&bytes).expect("a profile").profile.report;
    let report = report.expect("the profiler's numbers");
    (report.after(), PathBuf::from(report.after_folder))
}

fn signal() -> Disposition {
    disposition::current(PROFILING_SIGNAL).expect("a signal")
}

/// The signal is the process's, hence one test for all.
#[test]
fn one_profiler_at_a_time_and_again_and_again() {
    const WORK_NS: u64 = 300_000_000;
    let base = std::env::temp_dir().join(format!("corprof-profiler-{}", std::process::id()));
    let first = Profiler::new().expect("memory");
    start(&first, base.join("first")).expect("started");
    let second = Profiler::new().expect("memory");
    let refused = start(&second, base.join("second"));
    assert!(matches!(refused.err(), Some(StartError::SignalTaken)));
    let before_ns = clock::own_cpu_ns();
    first.registry().assigned(ManagedId(1), thread::own_id());
    compute(WORK_NS);
    first.registry().destroyed(ManagedId(1));
    let after_ns = clock::own_cpu_ns();
    let elsewhere = Next { after: After::Set, folder: Some(base.join("again")) };
    first.stop_for(elsewhere);
    first.stop_for(Next::nothing(After::End));
    // Signals that are still on their way, and threads that still come, are no trouble.
    disposition::send(thread::own_id(), PROFILING_SIGNAL, 1).expect("sent");
    first.registry().assigned(ManagedId(1), thread::own_id());
    let (cpu_ns, samples, count) = profiles(&base.join("first"));
    assert_eq!(count, 1);
    assert_eq!(said_of_next(&base.join("first")), (Some(After::Set), base.join("again")));
    assert!((WORK_NS..=after_ns).contains(&cpu_ns), "{cpu_ns} of {}", after_ns - before_ns);
    assert!(samples > 0, "samples carried it, not the rest alone");
    starts_again(&first, base.join("again"));
    std::fs::remove_dir_all(&base).expect("cleaned up");
}

/// Waits until the profiler's own threads have gone; a thread says that its work is done before it
/// leaves the list, so one that is delayed may stand there a little longer.
fn none_is_left() {
    while thread::spawned_ids().is_none_or(|ids| !ids.is_empty()) {
        std::thread::yield_now();
    }
}

/// Each time it takes what was there, leaves nothing of itself, and gives a thread the context that
/// its tracer knows.
fn starts_again(profiler: &Profiler, folder: PathBuf) {
    const TIMES: usize = 10;
    const WORK_NS: u64 = 20_000_000;
    /// Longer than the profiler looks whether the thread has room for signals.
    const LAST_WORK_NS: u64 = 500_000_000;
    let mut context = None;
    let start_ns = clock::own_cpu_ns();
    for n in 0..TIMES {
        // Another thread takes the record that was given back last.
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            tell.send(thread::own_id()).expect("somebody listens");
            let _closed = ended.recv();
        });
        let others_id = told.recv().expect("an id");
        start(profiler, folder.clone()).expect("started");
        start(profiler, folder.clone()).expect("it runs already");
        assert!(profiler.is_running());
        let managed = [(ManagedId(2), others_id), (ManagedId(1), thread::own_id())];
        profiler.registry().present(&managed);
        let place = std::ptr::from_ref(profiler.spans().own_context().expect("a context"));
        assert_eq!(*context.get_or_insert(place), place, "{n}");
        compute(if n + 1 < TIMES { WORK_NS } else { LAST_WORK_NS });
        profiler.withdraw().expect("its threads end");
        assert!(!profiler.is_running());
        assert_eq!(signal(), Disposition::Default);
        none_is_left();
        drop(end);
        other.join().expect("no panic");
    }
    let (cpu_ns, samples, count) = profiles(&folder);
    assert_eq!(count, TIMES, "a file each");
    let used_ns = clock::own_cpu_ns() - start_ns;
    let all_ns = WORK_NS * (TIMES as u64 - 1) + LAST_WORK_NS;
    assert!((all_ns..=used_ns * 2).contains(&cpu_ns), "{cpu_ns} of {used_ns}");
    assert!(samples > TIMES as u64 / 2, "{samples}");
}
