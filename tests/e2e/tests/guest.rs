//! The agent is a guest: no system call of the program ends early because of it, short lives are
//! accounted for, and a program that does everything at once lives on.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use e2e::{Checks, Form, Run, Session, on_one};
use model::Loss;
use rig::{Net8, Net9, Net10, RuntimeVersion};

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
            let session = session.args(["--seconds", "10"]).set("CORPROF_WALL_INTERVAL", "1ms");
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
    on_one(Net8, |version| {
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

/// 100 threads of all kinds, and a library that takes the profiler's signal, blocks it, forks and
/// is mapped anew all the time. `cargo xtask chaos` does it for longer.
#[test]
fn everything_at_once() -> Result<()> {
    let library = e2e::library("chaos")?;
    let form = Form::asked()?;
    // A minute of it for each version is for the long form.
    let versions: &[RuntimeVersion] = if form.is_long() { &[Net8, Net9, Net10] } else { &[Net9] };
    form.on(versions, |version| {
        let Some(session) = Session::new("stress", "stress", version)? else { return Ok(()) };
        let seconds = form.seconds(60);
        let mut sizes = Sizes::default();
        let run = session
            .args(["--threads", "100", "--seconds", &seconds.to_string(), "--library"])
            .args([&library])
            .set("CORPROF_CPU_INTERVAL", "1ms")
            .set("CORPROF_WALL_INTERVAL", "1ms")
            .set("CORPROF_UPLOAD_PERIOD", "10s")
            .limit(Duration::from_secs(seconds + 240))
            .run_watched(|pid| sizes.look(pid))?;
        let mut checks = run.checks();
        checks.that(run.number("hung")? == 0, "threads hang");
        let held = run.number("held_contexts")?;
        checks.that(held == 0, format!("{held} contexts that were unloaded are still there"));
        for activity in ["stolen_signals", "blocked_signals", "forks", "collectible_loads"] {
            let times = run.number(activity)?;
            checks.that(times > 0, format!("{activity}: {times}"));
        }
        let expected = run.report.process_cpu_ns.saturating_sub(run.report.own_cpu_ns);
        checks.within("CPU of the process", run.view.total().cpu_ns, expected, 0.01);
        checks.roots(0.99);
        // The thieves took the signal, which is told, once in words, and gave it back: there are
        // samples to the end.
        let taken = run.report.losses.get(Loss::SignalTaken);
        checks.that(taken > 0, "nobody saw that the signal was taken");
        let said = run.outcome.stderr.matches("has taken SIGPROF").count();
        checks.that(said == 1, format!("it was said {said} times that the signal was taken"));
        let last = run.profiles.iter().rev().find_map(|(_, profile)| profile.report.as_ref());
        let samples = last.map_or(0, |report| report.cpu_samples);
        checks.that(samples > 0, "no samples in the last profile");
        let own: Vec<u64> = run
            .profiles
            .iter()
            .filter_map(|(_, profile)| Some(profile.report.as_ref()?.own_memory_bytes))
            .collect();
        flat("the agent's memory", &own, OWN_GROWTH, &mut checks);
        flat("the process's memory", &sizes.resident, PROCESS_GROWTH, &mut checks);
        checks.done()
    })
}

/// How much the agent's memory may grow from the middle third of a run to its last, in bytes.
const OWN_GROWTH: u64 = 1 << 20;
/// The same of the whole process, which collects garbage when it sees fit: without a profiler, too,
/// it grew by 50 MB in ten minutes on a machine that left it little time.
const PROCESS_GROWTH: u64 = 128 << 20;

/// How much memory a process has, as it runs.
#[derive(Default)]
struct Sizes {
    /// Bytes, each second.
    resident: Vec<u64>,
    next: Option<Instant>,
}

impl Sizes {
    fn look(&mut self, pid: u32) {
        const PAGE_BYTES: u64 = 4096;
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = Some(now + Duration::from_secs(1));
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        self.resident.extend(pages.map(|pages| pages * PAGE_BYTES));
    }
}

/// The last third of the sizes is not above the middle third, but for so much: medians of both,
/// since single ones are what a collection has just left or has not collected yet.
fn flat(what: &str, sizes: &[u64], growth: u64, checks: &mut Checks<'_>) {
    let third = sizes.len() / 3;
    checks.that(third >= 2, format!("{what}: only {} sizes", sizes.len()));
    let median = |part: &[u64]| {
        let mut sorted = part.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    };
    let part = |n: usize| median(sizes.get(n * third..(n + 1) * third).unwrap_or_default());
    let (middle, last) = (part(1), part(2));
    checks.between(what, last, 1, middle + growth);
}

/// The processor raises a null reference, the runtime handles that on a stack of 16 KiB, and ours
/// comes in between: without more room the kernel would kill the process.
#[test]
fn signals_within_the_runtimes_own() -> Result<()> {
    on_one(Net8, |version| {
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
        // From the runtime's handler, on whichever stack, to the code that faulted. On .NET 8 one
        // in two hundred ends above the method that faulted, and more on a busy machine.
        checks.roots(0.99);
        checks.done()
    })
}
