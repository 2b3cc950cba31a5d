//! CPU time goes to the methods that used it: known splits, whatever the interval; a loop without a
//! place where the runtime could stop it; work that repeats at the sampling interval.

use std::process::Command;

use anyhow::Result;
use e2e::{Row, Run, Session, View, on_both, on_one};
use model::Loss;
use profile::Values;
use rig::{Net8, Net9, RuntimeVersion};

/// How far the sum of a thread's CPU time may be off its own measurement.
const FRACTION: f64 = 0.02;

/// A run of `split`.
#[derive(Clone, Copy)]
struct Split {
    share: &'static str,
    seconds: &'static str,
    sampler: &'static str,
    interval: &'static str,
    pattern: &'static [&'static str],
}

/// The run that others differ from.
const HALVES: Split =
    Split { share: "50", seconds: "4", sampler: "timer", interval: "10ms", pattern: &[] };

#[test]
fn half_and_half_at_any_interval() -> Result<()> {
    on_one(Net8, |version| {
        ["2ms", "10ms", "50ms"]
            .into_iter()
            .try_for_each(|interval| check(version, Split { interval, ..HALVES }))
    })
}

/// The methods take turns in step with the thread's CPU clock, nine milliseconds and one: a timer
/// that expired every ten milliseconds exactly would always find the same one.
#[test]
fn work_in_step_with_the_sampler() -> Result<()> {
    const IN_STEP: Split = Split { share: "90", seconds: "9", pattern: &["--in-step"], ..HALVES };
    on_one(Net9, |version| check(version, IN_STEP))
}

#[test]
fn one_in_ten() -> Result<()> {
    on_both(|version| check(version, Split { share: "90", interval: "5ms", ..HALVES }))
}

#[test]
fn one_in_a_hundred() -> Result<()> {
    on_one(Net8, |version| check(version, Split { share: "99", interval: "5ms", ..HALVES }))
}

#[test]
fn one_in_ten_by_scanning() -> Result<()> {
    const SCANNED: Split = Split { share: "90", sampler: "scan", interval: "5ms", ..HALVES };
    on_both(|version| check(version, SCANNED))
}

fn check(version: RuntimeVersion, split: Split) -> Result<()> {
    let Split { share, seconds, sampler, interval, pattern } = split;
    let test = format!("split-{share}-{sampler}-{interval}{}", pattern.concat());
    let Some(session) = Session::new(&test, "split", version)? else { return Ok(()) };
    let run = session
        .args(["--share", share, "--seconds", seconds])
        .args(pattern)
        .set("CORPROF_SAMPLER", sampler)
        .set("CORPROF_CPU_INTERVAL", interval)
        .run()?;
    let parts = [
        ("Corprof.TestApps.Split.MethodA(", run.number("cpu_a_ns")?),
        ("Corprof.TestApps.Split.MethodB(", run.number("cpu_b_ns")?),
    ];
    check_parts(&run, parts)
}

/// Held to a budget that it exceeds, the profiler takes fewer samples, and each stands for more: no
/// share and no total changes.
#[test]
fn one_in_ten_within_a_budget() -> Result<()> {
    /// CPU time from one sample to the next, in nanoseconds, if the budget allowed it.
    const ASKED_NS: u64 = 4_000_000;
    on_one(Net9, |version| {
        let Some(session) = Session::new("split-budget", "split", version)? else { return Ok(()) };
        let run = session
            .args(["--share", "90", "--seconds", "12"])
            .set("CORPROF_CPU_INTERVAL", format!("{ASKED_NS}ns"))
            .set("CORPROF_UPLOAD_PERIOD", "3s")
            .set("CORPROF_CPU_BUDGET", "0.01%")
            .run()?;
        let parts = [
            ("Corprof.TestApps.Split.MethodA(", run.number("cpu_a_ns")?),
            ("Corprof.TestApps.Split.MethodB(", run.number("cpu_b_ns")?),
        ];
        let rates = run.profiles.iter().filter_map(|(_, profile)| {
            let report = profile.report.as_ref()?;
            Some((report.slowdown, report.cpu_samples as f64 / report.process_cpu_ns as f64))
        });
        let rates: Vec<(u64, f64)> = rates.collect();
        let last = rates[rates.len() - 2];
        anyhow::ensure!(last.0 >= 4, "not slowed down: {rates:?}");
        // Less than half of what was asked for, which is no more than the kernel's tick allows.
        anyhow::ensure!(last.1 * 2.0 < 1.0 / ASKED_NS as f64, "as many samples: {rates:?}");
        check_parts(&run, parts)
    })
}

#[test]
fn one_in_ten_with_no_room_for_signals() -> Result<()> {
    // The user's queue of pending signals is full: no timer can be had, and the signals of the scan
    // come without their value.
    on_one(Net8, |version| {
        let name = "split-no-signals";
        let Some(mut session) = Session::new(name, "split", version)? else { return Ok(()) };
        session.command = limited(&session.command);
        let run = session
            .args(["--share", "90", "--seconds", "5"])
            .set("CORPROF_CPU_INTERVAL", "5ms")
            .run()?;
        let mut checks = run.checks();
        let warnings = run.outcome.stderr.matches("no CPU timer").count();
        checks.that(warnings == 1, format!("{warnings} warnings"));
        let without = run.report.losses.get(Loss::NoTimer);
        checks.that(without > 0, "every thread got its timer");
        checks.done()?;
        let cpu = |method: &str| run.view.of(|row| row.has(method));
        let (one, other) = (cpu("Split.MethodA("), cpu("Split.MethodB("));
        let mut checks = run.checks();
        let share = |one: u64, other: u64| one as f64 / (one + other).max(1) as f64;
        let truth = share(run.number("cpu_a_ns")?, run.number("cpu_b_ns")?);
        let found = share(one.cpu_ns, other.cpu_ns);
        checks.share_of_uneven("the first method", found, truth, one.count + other.count);
        checks.done()
    })
}

/// The command with a limit of no pending signals, by the tool of util-linux.
fn limited(command: &Command) -> Command {
    let mut limited = Command::new("prlimit");
    limited.args(["--sigpending=0"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

#[test]
fn a_loop_without_a_safepoint() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("leaf", "leaf", version)? else { return Ok(()) };
        let run = session
            .args(["--share", "70", "--seconds", "5"])
            .set("CORPROF_CPU_INTERVAL", "5ms")
            .run()?;
        let parts = [
            ("Corprof.TestApps.Leaf.HotLeaf(", run.number("cpu_leaf_ns")?),
            ("Corprof.TestApps.Leaf.WithCalls(", run.number("cpu_calls_ns")?),
        ];
        check_parts(&run, parts)
    })
}

/// Two methods, with the CPU time that the program measured in each.
/// As how many samples of equal weight those that are wanted say as much: where the budget slows
/// sampling down from one period to the next, a few samples have most of the time.
fn equal_samples(run: &Run, wanted: impl Fn(&Row) -> bool) -> u64 {
    let (mut ns, mut squares) = (0.0, 0.0);
    for (_, profile) in &run.profiles {
        let sum = View::of_profile(profile).of(&wanted);
        ns += sum.cpu_ns as f64;
        squares += (sum.cpu_ns as f64).powi(2) / sum.count.max(1) as f64;
    }
    if squares > 0.0 { (ns * ns / squares) as u64 } else { 0 }
}

fn check_parts(run: &Run, [first, second]: [(&str, u64); 2]) -> Result<()> {
    let mut checks = run.checks();
    let [one, other]: [Values; 2] =
        [first.0, second.0].map(|method| run.view.of(|row| row.has(method)));
    let share = |one: u64, other: u64| one as f64 / (one + other).max(1) as f64;
    let found = share(one.cpu_ns, other.cpu_ns);
    let truth = share(first.1, second.1);
    let n = equal_samples(run, |row| row.has(first.0) || row.has(second.0));
    if run.report.sampler == "scan" || run.report.slowdown > 1 {
        checks.share_of_uneven("the first method", found, truth, n);
    } else {
        checks.share("the first method", found, truth, n);
    }
    let tid = u32::try_from(run.number("tid")?)?;
    let thread = run.view.thread(tid).cpu_ns;
    checks.within("CPU of the thread", thread, run.number("thread_cpu_ns")?, FRACTION);
    checks.roots(0.99);
    checks.done()
}
