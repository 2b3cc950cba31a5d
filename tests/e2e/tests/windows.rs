//! The agent and the command line for Windows, in Wine: the same truths as on Linux, as far as Wine
//! can show them. Its thread times have steps of 10 ms, and it does not tell threads' states.
//!
//! Made by `cargo xtask windows`; skipped, and said so, by everybody else.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use e2e::{Checks, Form, Row, Run, Session, measured};
use model::ThreadState;
use model::ThreadState::{Io, Lock, Runnable, Running, Sleeping, Waiting};
use rig::{Net8, Net10, RuntimeVersion};

/// A step of Wine's thread times, in nanoseconds.
const STEP_NS: u64 = 10_000_000;
/// Of a thread's time: how much may be off where only steps are known.
const FRACTION: f64 = 0.02;
/// Clients of the web service, whose requests compute for longer than such a step.
const WEB_LOAD: [&str; 6] = ["--load", "8", "--clients", "4", "--cpu", "20000"];
/// Walks that must reach their thread's first frame.
const ROOTS: f64 = 0.99;

/// Runs a test program on these versions, and makes its checks.
fn on(
    versions: &[RuntimeVersion],
    (test, app): (&str, &str),
    words: &[&str],
    check: impl for<'a> Fn(&'a Run) -> Result<Checks<'a>>,
) -> Result<()> {
    Form::asked()?.on(versions, |version| {
        let run = || {
            let Some(session) = Session::on_windows(test, app, version)? else { return Ok(None) };
            session.args(words).run().map(Some)
        };
        measured(run, &check)
    })
}

/// The same by `corprof.exe run`.
fn by_run(
    version: RuntimeVersion,
    (test, app): (&str, &str),
    options: &[&str],
    words: &[&str],
    check: impl for<'a> Fn(&'a Run) -> Result<Checks<'a>>,
) -> Result<()> {
    let run = || {
        let session = Session::by_windows_run(test, app, version, options)?;
        let Some(session) = session else { return Ok(None) };
        session.args(words).run().map(Some)
    };
    measured(run, check)
}

#[test]
fn cpu_time_goes_to_the_methods_that_used_it() -> Result<()> {
    let words = ["--share", "80", "--seconds", "8", "--cpu-seconds", "4"];
    on(&[Net8, Net10], ("split", "split"), &words, split)
}

#[test]
fn the_command_line_runs_programs_and_shows_their_profile() -> Result<()> {
    let words = ["--share", "80", "--seconds", "4", "--cpu-seconds", "2"];
    by_run(Net8, ("run", "split"), &["--spans", "false"], &words, |run| {
        let mut checks = split(run)?;
        let (out, errors) = (&run.outcome.stdout, &run.outcome.stderr);
        let shown = out.contains("MethodA") || errors.contains("MethodA");
        checks.that(shown, format!("no table: {out} {errors}"));
        Ok(checks)
    })
}

fn split(run: &Run) -> Result<Checks<'_>> {
    let mut checks = of_windows(run);
    let part = |name: &str| run.view.of(|row| row.has(&format!("Split.{name}(")));
    let (a, b) = (part("MethodA"), part("MethodB"));
    let (true_a, true_b) = (run.number("cpu_a_ns")?, run.number("cpu_b_ns")?);
    let found = a.cpu_ns as f64 / (a.cpu_ns + b.cpu_ns).max(1) as f64;
    let truth = true_a as f64 / (true_a + true_b).max(1) as f64;
    checks.share_of_uneven("MethodA", found, truth, a.count + b.count);
    let tid = u32::try_from(run.number("tid")?)?;
    let expected = run.number("thread_cpu_ns")?;
    let slack = (expected as f64 * FRACTION) as u64 + 2 * STEP_NS;
    let all = run.view.thread(tid).cpu_ns;
    checks.between("CPU time of the thread", all, expected.saturating_sub(slack), expected + slack);
    checks.roots(ROOTS);
    Ok(checks)
}

#[test]
fn waits_are_charged_to_where_they_were() -> Result<()> {
    const ANY_WAIT: &[ThreadState] = &[Sleeping, Lock, Io, Waiting];
    const COMPUTING: &[ThreadState] = &[Running, Runnable];
    let words = ["--seconds", "5", "--compute-seconds", "2"];
    on(&[Net8, Net10], ("wall", "wall"), &words, |run| {
        let mut checks = of_windows(run);
        for (thread, method, states) in [
            ("sleeper", "SleepHere", &[Sleeping][..]),
            ("holder", "HoldHere", &[Sleeping]),
            ("locker", "LockHere", &[Lock]),
            ("reader", "ReadHere", ANY_WAIT),
            ("read-then-compute", "ReadHere", ANY_WAIT),
            ("sender", "SendLater", &[Sleeping]),
            ("cpu", "ComputeHere", COMPUTING),
        ] {
            let truth = run.thread(thread)?;
            let tid = truth.tid()?;
            let frame = format!("Corprof.TestApps.Wall.{method}(");
            let expected = truth.number(&format!("{method}_wall_ns"))?;
            // Where there is no processor for half a second, the next sample carries all of that;
            // how many may have no stack is checked below.
            let is_lost = |row: &Row| states == COMPUTING && row.has("[no unwind rule]");
            let own = |row: &&Row| row.tid == tid && (row.has(&frame) || is_lost(row));
            let found = run.view.of(|row| own(&row) && row.is_in(states)).wall_ns;
            let slack = (expected as f64 * 0.05) as u64 + 2 * STEP_NS;
            checks.between(
                format!("{thread} in {method}"),
                found,
                expected.saturating_sub(slack),
                expected + slack,
            );
        }
        for truth in run.threads()? {
            let all = run.view.thread(truth.tid()?).wall_ns;
            checks.within(format!("life of {}", truth.name()), all, truth.number("wall_ns")?, 0.03);
        }
        checks.roots(ROOTS);
        Ok(checks)
    })
}

#[test]
fn a_web_service_under_load() -> Result<()> {
    on(&[Net10], ("web", "web"), &WEB_LOAD, |run| {
        let mut checks = of_windows(run);
        let compute = run.view.of(|row| row.has("Corprof.TestApps.Web.Compute("));
        let all = run.view.total().cpu_ns;
        checks.between("CPU time in Web.Compute", compute.cpu_ns, all / 4, all);
        let errors = run.number("load_errors")?;
        checks.at_least("answers", run.number("load_answers")?, errors + 1);
        of_process(run, &mut checks)?;
        checks.roots(ROOTS);
        Ok(checks)
    })
}

#[test]
fn samples_know_their_requests() -> Result<()> {
    const ENDPOINT: &str = "GET /cpu/{thousands:int}";
    by_run(Net10, ("spans", "web"), &[], &WEB_LOAD, |run| {
        let mut checks = of_windows(run);
        let is_work = |row: &Row| row.has("Corprof.TestApps.Web.Compute(");
        let all = run.view.of(is_work).cpu_ns;
        let known = run.view.of(|row| {
            let has_ids = row.span.is_some_and(|ids| ids.local_root_span_id != 0);
            is_work(row) && row.endpoint == ENDPOINT && has_ids
        });
        checks.between("CPU time of known requests", known.cpu_ns, all / 20 * 19, all);
        checks.at_least("CPU time in Web.Compute", all, 1);
        let endpoints = run.profiles.iter().flat_map(|(_, profile)| &profile.endpoints);
        let told: u64 = endpoints.map(|endpoint| endpoint.requests).sum();
        let expected = run.number("requests")?;
        checks.between("requests", told, expected, expected);
        checks.roots(ROOTS);
        Ok(checks)
    })
}

/// Ten minutes in the long form.
#[test]
fn exceptions_and_collections_do_no_harm() -> Result<()> {
    let form = Form::asked()?;
    let seconds = form.seconds(10);
    let limit = Duration::from_secs(seconds * 2 + 120);
    let seconds = seconds.to_string();
    let words = ["--exceptions-and-gc", "--threads", "4", "--seconds", &seconds];
    form.on(&[Net8, Net10], |version| {
        let run = || {
            let session = Session::on_windows("harm", "whole", version)?;
            let Some(session) = session else { return Ok(None) };
            session.args(words).limit(limit).run().map(Some)
        };
        measured(run, harmless)
    })
}

fn harmless(run: &Run) -> Result<Checks<'_>> {
    let mut checks = of_windows(run);
    for method in ["Throwing.Descend(", "Garbage.Allocate("] {
        let found = run.view.of(|row| row.has(method));
        checks.at_least(format!("CPU time in {method}"), found.cpu_ns, 1);
    }
    // Of each thread's time in the kernel and outside of it Wine leaves out what is less than a
    // step; in the process's it is all there.
    let all = run.view.total().cpu_ns;
    let unsampled = run.view.of(|row| row.has("[unsampled]")).cpu_ns;
    let threads: BTreeSet<u32> = run.view.rows.iter().map(|row| row.tid).collect();
    let steps = 2 * STEP_NS * threads.len() as u64;
    checks.between("CPU time without samples", unsampled, 0, all / 10 + steps);
    let begin = run.number("process_cpu_begin_ns")?;
    let expected = run.number("process_cpu_end_ns")?.saturating_sub(begin);
    let slack = (expected as f64 * 0.05) as u64 + 10 * STEP_NS;
    let found = run.view.total().cpu_ns + run.report.own_cpu_ns;
    let high = expected + begin + slack;
    checks.between("CPU time of all", found, expected.saturating_sub(slack), high);
    checks.roots(0.98);
    Ok(checks)
}

/// What all threads used is what the process used.
fn of_process(run: &Run, checks: &mut Checks<'_>) -> Result<()> {
    let expected = run.number("process_cpu_ns")?;
    let found = run.view.total().cpu_ns + run.report.own_cpu_ns;
    let slack = (expected as f64 * 0.05) as u64 + 10 * STEP_NS;
    checks.between("CPU time of all", found, expected.saturating_sub(slack), expected + slack);
    Ok(())
}

fn of_windows(run: &Run) -> Checks<'_> {
    // Wine's threads are other ones for Linux: nobody sees the agent's from outside.
    run.checks_of_attached()
}
