//! Each thread's elapsed time: charged to the method that waited or computed, in the right state,
//! and in sum the thread's lifetime.

use anyhow::Result;
use e2e::{Checks, Competitors, Run, Session, on_both};
use model::ThreadState;
use model::ThreadState::{Io, Lock, Runnable, Running, Sleeping};

/// How far a time may be off what the thread measured.
const FRACTION: f64 = 0.02;
/// How much of the time for which others kept a thread from its work may be charged to a wait, or
/// the reverse.
const FRACTION_OF_DELAYS: f64 = 0.05;
const COMPUTING: &[ThreadState] = &[Running, Runnable];

#[test]
fn waits_are_charged_to_where_they_were() -> Result<()> {
    waits("wall", 0)
}

/// Threads that wait for a processor neither compute nor wait for anything else.
#[test]
fn so_they_are_where_processors_are_contended() -> Result<()> {
    let processors = std::thread::available_parallelism()?.get();
    waits("wall-contended", 2 * processors)
}

fn waits(test: &str, competitors: usize) -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new(test, "wall", version)? else { return Ok(()) };
        let competitors = Competitors::start(competitors)?;
        let run = session.args(["--seconds", "4", "--compute-seconds", "1.5"]).run()?;
        drop(competitors);
        let mut checks = run.checks();
        for (thread, method, states) in [
            ("sleeper", "SleepHere", &[Sleeping][..]),
            ("holder", "HoldHere", &[Sleeping]),
            ("locker", "LockHere", &[Lock]),
            ("reader", "ReadHere", &[Io]),
            ("cpu", "ComputeHere", COMPUTING),
            ("read-then-compute", "ReadHere", &[Io]),
            ("read-then-compute", "ComputeHere", COMPUTING),
            ("sender", "SendLater", &[Sleeping]),
        ] {
            charged(&run, &mut checks, (thread, method, states))?;
        }
        lifetimes(&run, &mut checks)?;
        checks.done()
    })
}

/// A thread's time in a method: as much as it measured, in that state, and the CPU time with it.
fn charged(
    run: &Run,
    checks: &mut Checks<'_>,
    (thread, method, states): (&str, &str, &[ThreadState]),
) -> Result<()> {
    let truth = run.thread(thread)?;
    let tid = truth.tid()?;
    let frame = format!("Corprof.TestApps.Wall.{method}(");
    let expected = truth.number(&format!("{method}_wall_ns"))?;
    let found = run.view.of(|row| row.tid == tid && row.has(&frame) && row.is_in(states)).wall_ns;
    let slack = (expected as f64 * FRACTION) as u64;
    // What comes after a wait and what interrupts work is told apart by counts, and not exactly.
    let kept_ns = expected.saturating_sub(truth.number(&format!("{method}_cpu_ns"))?);
    let slack = if states == COMPUTING {
        slack + (kept_ns as f64 * FRACTION_OF_DELAYS) as u64
    } else {
        slack
    };
    // A thread whose wait is over may be left without a processor for long on a busy machine. That
    // is part of what it measured, and no wait: the profile tells it apart.
    let ready = if states == COMPUTING {
        0
    } else {
        let all = run.view.of(|row| row.tid == tid && row.is_in(&[Runnable])).wall_ns;
        let of_compute = |what: &str| truth.number(&format!("ComputeHere_{what}_ns")).unwrap_or(0);
        all.saturating_sub(of_compute("wall").saturating_sub(of_compute("cpu")))
    };
    let low = expected.saturating_sub(slack).saturating_sub(ready);
    checks.between(format!("{thread} in {method}"), found, low, expected + slack);
    Ok(())
}

/// All states of a thread together are its lifetime, and its CPU time is in it.
fn lifetimes(run: &Run, checks: &mut Checks<'_>) -> Result<()> {
    /// A thread's own measurement begins after its start and ends before its end.
    const START_NS: u64 = 5_000_000;
    for truth in run.threads()? {
        let (tid, name) = (truth.tid()?, truth.name());
        let all = run.view.thread(tid);
        checks.within(format!("life of {name}"), all.wall_ns, truth.number("wall_ns")?, FRACTION);
        let cpu = truth.number("cpu_ns")?;
        let slack = (cpu as f64 * FRACTION) as u64;
        checks.between(
            format!("CPU of {name}"),
            all.cpu_ns,
            cpu.saturating_sub(slack),
            cpu + slack + START_NS,
        );
        let running = run.view.of(|row| row.tid == tid && row.is_in(&[Running])).wall_ns;
        checks.that(
            running == all.cpu_ns,
            format!("{name}: {running} ns running, but {} ns of CPU", all.cpu_ns),
        );
        checks.that(
            run.view.rows.iter().all(|row| row.tid != tid || row.thread == name),
            format!("{name} has other names, too"),
        );
    }
    Ok(())
}

#[test]
fn a_single_worker_has_its_times() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("single", "single", version)? else { return Ok(()) };
        let run = session.args(["--seconds", "6"]).run()?;
        let mut checks = run.checks();
        let truth = run.thread("worker")?;
        let tid = truth.tid()?;
        let turn = |part: &str, states: &[ThreadState]| {
            let frame = format!("Corprof.TestApps.Single.{part}(");
            run.view.of(|row| row.tid == tid && row.has(&frame) && row.is_in(states)).wall_ns
        };
        let [compute, sleep] =
            [turn("ComputeHere", COMPUTING), turn("SleepHere", &[Sleeping, Runnable])];
        let measured = |part: &str| truth.number(&format!("{part}_wall_ns"));
        let (computed, slept) = (measured("ComputeHere")?, measured("SleepHere")?);
        let share = |one: u64, other: u64| one as f64 / (one + other).max(1) as f64;
        let n = run.report.wall_samples;
        let (found, expected) = (share(compute, sleep), share(computed, slept));
        checks.share("time at work", found, expected, n);
        checks.that(n > 100, format!("only {n} wall samples in six seconds"));
        lifetimes(&run, &mut checks)?;
        checks.done()
    })
}
