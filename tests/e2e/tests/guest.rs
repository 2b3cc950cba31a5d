//! The agent is a guest: no system call of the program ends early because of it, short lives are
//! accounted for, and a program that does everything at once lives on.

use std::collections::BTreeSet;
use std::thread;

use anyhow::{Result, anyhow};
use e2e::{Run, Session, on_both};
use model::Loss;
use rig::{Net8, Net9};

/// What the system calls of a run of `eintr` came to.
struct Calls {
    calls: u64,
    interrupted: u64,
    early: u64,
}

/// Programs that wait in poll, nanosleep, usleep and recv, looked at every millisecond, all at the
/// same time: what is asserted does not depend on how busy the machine is.
#[test]
fn no_system_call_ends_early() -> Result<()> {
    let mut sessions: Vec<Session> = Vec::new();
    for version in [Net8, Net9] {
        for kind in ["long", "tight", "scan"] {
            let test = format!("eintr-{kind}");
            let session = match sessions.first() {
                Some(first) => first.beside(&test, "eintr", version)?,
                None => Session::new(&test, "eintr", version)?,
            };
            let Some(session) = session else { continue };
            let session = session.args(["--seconds", "20"]).set("CORPROF_WALL_INTERVAL", "1ms");
            sessions.push(match kind {
                "long" => session,
                "tight" => session.args(["--tight"]),
                _ => session.args(["--tight"]).set("CORPROF_SAMPLER", "scan"),
            });
        }
    }
    let running: Vec<_> =
        sessions.into_iter().map(|session| thread::spawn(move || session.run())).collect();
    let mut errors = Vec::new();
    for run in running {
        let run = run.join().map_err(|_| anyhow!("a run panicked"))??;
        errors.extend(check_calls(&run).err().map(|error| format!("{error:#}")));
    }
    anyhow::ensure!(errors.is_empty(), "{}", errors.join("\n\n"));
    Ok(())
}

fn check_calls(run: &Run) -> Result<()> {
    let mut checks = run.checks();
    let told = run.report.losses.get(Loss::InterruptedCall);
    let mut sum = Calls { calls: 0, interrupted: 0, early: 0 };
    for thread in run.threads()? {
        sum.calls += thread.number("calls")?;
        sum.interrupted += thread.number("interrupted")?;
        sum.early += thread.number("early")?;
    }
    let Calls { calls, interrupted, early } = sum;
    let said = format!(
        "of {calls} calls {interrupted} were interrupted and {early} ended early; {told} were told"
    );
    checks.that(calls > 0 && run.report.wall_samples > 1_000, &said);
    if run.report.sampler == "scan" {
        // The scan signals threads that it has found running; one may have begun to wait since.
        // That cannot be helped, but it must not be kept quiet.
        checks.that(told >= interrupted, &said);
    } else {
        checks.that(interrupted == 0 && early == 0 && told == 0, &said);
    }
    println!("{}: {said}", run.name);
    checks.done()
}

/// Two thousand threads of one to twenty milliseconds, many shorter than the sampling interval.
#[test]
fn short_threads_are_accounted_for() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("short", "short", version)? else { return Ok(()) };
        let run = session.args(["--threads", "2000"]).run()?;
        let mut checks = run.checks();
        checks.that(run.number("threads")? == 2_000, "some threads did not run");
        let cpu_ns = run.view.of(|row| row.thread == "short").cpu_ns;
        checks.within("CPU of short threads", cpu_ns, run.number("cpu_ns")?, 0.1);
        checks.that(run.report.losses.get(Loss::TooManyThreads) == 0, "too many threads");
        checks.done()
    })
}

/// All threads of the process are in the profile, or were seen from outside: the garbage
/// collector's and our own. Their CPU time is the process's.
#[test]
fn everything_at_once() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("stress", "stress", version)? else { return Ok(()) };
        let run = session
            .args(["--threads", "100", "--seconds", "30"])
            .set("CORPROF_CPU_INTERVAL", "1ms")
            .set("CORPROF_WALL_INTERVAL", "1ms")
            .set("CORPROF_UPLOAD_PERIOD", "10s")
            .run()?;
        let mut checks = run.checks();
        checks.that(run.number("hung")? == 0, "threads hang");
        let sampled: BTreeSet<u32> = run.view.rows.iter().map(|row| row.tid).collect();
        let others = run.tasks.cpu_ns.iter().filter(|(tid, _)| !sampled.contains(tid));
        let others_ns: u64 = others.map(|(_, cpu_ns)| cpu_ns).sum();
        let all_ns = run.view.total().cpu_ns + others_ns;
        checks.within("CPU of all threads", all_ns, run.report.process_cpu_ns, 0.05);
        checks.roots(0.99);
        checks.done()
    })
}

/// The processor raises a null reference, the runtime handles that on a stack of 16 KiB, and ours
/// comes in between: without more room the kernel would kill the process.
#[test]
fn signals_within_the_runtimes_own() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("faults", "faults", version)? else { return Ok(()) };
        let run = session
            .args(["--threads", "4", "--seconds", "10"])
            .set("CORPROF_CPU_INTERVAL", "1ms")
            .set("CORPROF_WALL_INTERVAL", "1ms")
            .run()?;
        let mut checks = run.checks();
        let caught = run.number("caught")?;
        checks.that(caught > 1_000, format!("{caught} faults"));
        let samples = run.view.of(|row| row.thread == "faults").count;
        checks.that(samples > 1_000, format!("{samples} samples"));
        checks.that(run.report.losses.get(Loss::NoTimer) == 0, "threads without a timer");
        checks.done()
    })
}
