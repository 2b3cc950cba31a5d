//! The sum of a profile's CPU time is what the kernel counted, for each thread and for all,
//! whatever the sampler and the interval.

use anyhow::Result;
use e2e::{Run, Session, on_both, on_one};
use rig::{Net9, RuntimeVersion};

const INTERVALS: [&str; 3] = ["5ms", "10ms", "50ms"];
/// How far a sum may be off. A thread measures itself from its first to its last managed
/// instruction; the profile rightly has its start and end, too, which is a millisecond or less.
const FRACTION: f64 = 0.02;
/// A thread's CPU time below which its start would be a good part of that fraction.
const THREAD_NS_MIN: u64 = 1_000_000_000;
/// How far the sum of all threads may be off from what the kernel counted for the process.
const PROCESS: f64 = 0.01;

#[test]
fn timer_sums_are_the_kernels() -> Result<()> {
    on_both(|version| INTERVALS.iter().try_for_each(|interval| check(version, "timer", interval)))
}

#[test]
fn scan_sums_are_the_kernels() -> Result<()> {
    on_one(Net9, |version| {
        INTERVALS.iter().try_for_each(|interval| check(version, "scan", interval))
    })
}

fn check(version: RuntimeVersion, sampler: &str, interval: &str) -> Result<()> {
    let test = format!("busy-{sampler}-{interval}");
    let Some(session) = Session::new(&test, "busy", version)? else { return Ok(()) };
    let run = session
        .args(["--threads", "4", "--seconds", "4"])
        .set("CORPROF_SAMPLER", sampler)
        .set("CORPROF_CPU_INTERVAL", interval)
        .run()?;
    let mut checks = run.checks();
    checks.that(run.report.sampler == sampler, format!("the sampler was {}", run.report.sampler));
    let (mut found, mut truth) = (0, 0);
    for thread in run.threads()? {
        let (cpu_ns, expected) = (run.view.thread(thread.tid()?).cpu_ns, thread.number("cpu_ns")?);
        if expected >= THREAD_NS_MIN {
            checks.within(format!("CPU of {}", thread.name()), cpu_ns, expected, FRACTION);
        }
        found += cpu_ns;
        truth += expected;
    }
    checks.within("CPU of all threads", found, truth, FRACTION);
    let whole = run.report.process_cpu_ns;
    let others = whole.saturating_sub(run.report.own_cpu_ns);
    checks.within("CPU of the process", run.view.total().cpu_ns, others, PROCESS);
    checks.between("CPU of the process, reported", whole, truth, process_ns(&run)?);
    checks.roots(0.99);
    checks.done()
}

/// The process's CPU time as its program last saw it, and a good deal for its end.
fn process_ns(run: &Run) -> Result<u64> {
    const END_NS: u64 = 500_000_000;
    Ok(run.number("process_cpu_end_ns")? + END_NS)
}
