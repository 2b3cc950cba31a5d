//! The whole profiler without a runtime, in a process of its own: it starts, samples and stops.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{Config, LogLevel};
use engine::{Code, Log, ManagedId, MethodName, Profiler, Runtime, StartError};
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

fn start(folder: PathBuf) -> Result<Profiler, StartError> {
    let mut config = Config::defaults("service");
    config.cpu_interval = Duration::from_millis(1);
    Profiler::start(config, Arc::new(Nothing), folder, Log::new(LogLevel::Off, None))
}

fn compute(cpu_ns: u64) {
    let until_ns = clock::own_cpu_ns() + cpu_ns;
    while clock::own_cpu_ns() < until_ns {}
}

/// The CPU time and the samples of the last profile in a folder.
fn profile(folder: &PathBuf) -> (u64, u64) {
    let files: Vec<_> = std::fs::read_dir(folder).expect("folder").flatten().collect();
    assert_eq!(files.len(), 1, "one profile");
    let bytes = std::fs::read(files[0].path()).expect("read");
    let total = profile::read::decode(&bytes).expect("a profile").profile.total();
    (total.cpu_ns, total.count)
}

#[test]
fn a_second_profiler_leaves_the_first_at_work() {
    const WORK_NS: u64 = 300_000_000;
    let base = std::env::temp_dir().join(format!("corprof-profiler-{}", std::process::id()));
    let first = start(base.join("first")).expect("started");
    let second = start(base.join("second"));
    assert!(matches!(second.err(), Some(StartError::SignalTaken)));
    let before_ns = clock::own_cpu_ns();
    first.registry().assigned(ManagedId(1), thread::own_id());
    compute(WORK_NS);
    first.registry().destroyed(ManagedId(1));
    let after_ns = clock::own_cpu_ns();
    first.stop();
    first.stop();
    // Signals that are still on their way, and threads that still come, are no trouble.
    sys::disposition::send(thread::own_id(), sys::disposition::PROFILING_SIGNAL, 1).expect("sent");
    first.registry().assigned(ManagedId(1), thread::own_id());
    let (cpu_ns, samples) = profile(&base.join("first"));
    assert!((WORK_NS..=after_ns).contains(&cpu_ns), "{cpu_ns} of {}", after_ns - before_ns);
    assert!(samples > 0, "samples carried it, not the rest alone");
    std::fs::remove_dir_all(&base).expect("cleaned up");
}
