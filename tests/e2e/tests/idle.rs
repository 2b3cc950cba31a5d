//! Thousands of threads that only wait: each has its whole time in the profile, and the profiler
//! does next to nothing. What is held against bounds is how often it looks, which no other load on
//! the machine can make more of. `cargo xtask bench threads` measures what that costs.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::{Checks, Form, Run, Session, built};
use model::limits::{RESTING_A_ROUND_MAX, RESTING_ROUND_NS};
use profile::SelfReport;
use rig::{Net8, Net9, RuntimeVersion};

/// Threads of the program; the long form, by `E2E_SECONDS`, has more and takes longer.
const THREADS: u64 = 500;
const THREADS_LONG: u64 = 2_000;
/// How far a thread's wall time may be off.
const FRACTION: f64 = 0.02;
/// CPU time of the profiler in an idle period, of a processor. It is a tenth of that where nothing
/// else runs; this is to be seen with anything else running.
const OWN_SHARE_MAX: f64 = 0.01;

#[test]
fn threads_that_wait_are_hardly_looked_at() -> Result<()> {
    let form = Form::asked()?;
    let (threads, seconds) = if form.is_long() { (THREADS_LONG, 55) } else { (THREADS, 25) };
    // Five periods.
    let period_ns = if form.is_long() { 10_000_000_000 } else { 5_000_000_000 };
    let Some(session) = Session::new("idle", "idle", Net8)? else { return Ok(()) };
    let run = session
        .args(["--threads", &threads.to_string(), "--seconds", &seconds.to_string()])
        .set("CORPROF_UPLOAD_PERIOD", format!("{period_ns}ns"))
        .run()?;
    let mut checks = run.checks();
    every_thread_has_its_time(&run, threads, &mut checks)?;
    // The quieter one of the last two whole periods: on a busy machine it takes a while until each
    // thread has been seen to rest.
    let whole: Vec<&SelfReport> =
        run.profiles.iter().filter_map(|(_, profile)| profile.report.as_ref()).collect();
    ensure!(whole.len() >= 5, "{} periods only", whole.len());
    let last = &whole[whole.len() - 3..whole.len() - 1];
    let looks = last.iter().map(|report| report.wall_samples).min().unwrap_or(0);
    // A few at each round. For the profile each thread's clock is read, which is no look; a thread
    // of the runtime that works now and then is visited more often.
    let rounds = period_ns / RESTING_ROUND_NS * RESTING_A_ROUND_MAX as u64;
    checks.between("looks in an idle period", looks, rounds / 2, threads + 2 * rounds);
    let own_ns = last.iter().map(|report| report.own_cpu_ns).min().unwrap_or(0);
    let most_ns = (period_ns as f64 * OWN_SHARE_MAX) as u64;
    checks.that(own_ns <= most_ns, format!("{own_ns} ns CPU time in an idle period"));
    checks.done()
}

/// A thread waits from its first to its last instruction, in its method. All of its time is there.
/// With thousands that start at once it takes seconds until each has been looked at twice: of one
/// that was seen at its start, half of the time until then is charged to that.
fn every_thread_has_its_time(run: &Run, count: u64, checks: &mut Checks<'_>) -> Result<()> {
    const PLACE_MIN: f64 = 0.75;
    let mut by_tid: HashMap<u32, (u64, u64)> = HashMap::new();
    for row in &run.view.rows {
        let (all_ns, there_ns) = by_tid.entry(row.tid).or_default();
        *all_ns += row.values.wall_ns;
        if METHODS.iter().any(|method| row.has(method)) {
            *there_ns += row.values.wall_ns;
        }
    }
    let threads = run.threads()?;
    checks.that(threads.len() as u64 == count, format!("{} threads", threads.len()));
    let (mut wrong, mut lived_ns, mut waited_ns) = (Vec::new(), 0, 0);
    for thread in &threads {
        let wall_ns = thread.number("wall_ns")?;
        let (all_ns, there_ns) = by_tid.get(&thread.tid()?).copied().unwrap_or_default();
        let slack_ns = (wall_ns as f64 * FRACTION) as u64;
        let is_there = there_ns as f64 >= wall_ns as f64 * PLACE_MIN;
        if all_ns.abs_diff(wall_ns) > slack_ns || !is_there {
            let name = thread.name();
            wrong.push(format!("{name} waited {wall_ns} ns, {all_ns} and {there_ns} are there"));
        }
        lived_ns += wall_ns;
        waited_ns += there_ns;
    }
    let some = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
    checks.that(wrong.is_empty(), format!("{} of {} threads: {some}", wrong.len(), threads.len()));
    checks.within("time in the methods that wait", waited_ns, lived_ns, FRACTION);
    Ok(())
}

/// Where the program's threads wait.
const METHODS: [&str; 4] =
    ["Idle.WaitInRoom(", "Idle.SleepHere(", "Idle.ReadHere(", "Idle.WaitForPermit("];

#[test]
fn attached_each_of_them_is_there_from_the_beginning() -> Result<()> {
    on_attached(Net9)
}

fn on_attached(version: RuntimeVersion) -> Result<()> {
    let Some(session) = Session::new("idle-attach", "idle", version)? else { return Ok(()) };
    let folder = session.folder.to_string_lossy().into_owned();
    let (threads, seconds) =
        if Form::asked()?.is_long() { (THREADS_LONG, 40) } else { (THREADS, 25) };
    let session =
        session.args(["--threads", &threads.to_string(), "--seconds", &seconds.to_string()]);
    let mut attached = None;
    let mut mappings = None;
    let run = session.without_agent().run_watched(|pid| {
        // All of them are there, and those of the runtime.
        if attached.is_none() && count(pid, "task").is_ok_and(|count| count >= threads) {
            let before = lines(pid, "maps");
            attached = Some(attach(pid, &folder));
            mappings = Some((before, lines(pid, "maps")));
        }
    })?;
    attached.context("its threads never came")??;
    let mut checks = run.checks_of_attached();
    let mut by_tid: HashMap<u32, u64> = HashMap::new();
    run.view.rows.iter().for_each(|row| {
        *by_tid.entry(row.tid).or_default() += row.values.wall_ns;
    });
    // Each was there before, and is after: its time is the profile's.
    let periods = run.profiles.iter().map(|(_, profile)| profile.period.duration_ns);
    let duration_ns: u64 = periods.sum();
    // The agent takes them in one after the other, which takes as long as the machine is busy.
    const LATE: f64 = 0.15;
    let least_ns = (duration_ns as f64 * (1.0 - LATE)) as u64;
    let short: Vec<u64> = run
        .threads()?
        .iter()
        .filter_map(|thread| Some(by_tid.get(&thread.tid().ok()?).copied().unwrap_or(0)))
        .filter(|wall_ns| !(least_ns..=duration_ns + duration_ns / 50).contains(wall_ns))
        .collect();
    checks.that(short.is_empty(), format!("of {duration_ns} ns, {} have {short:?}", short.len()));
    let (before, after) = mappings.context("not attached")?;
    let (before, after) = (before?, after?);
    let most = before + 2 * threads + 500;
    checks.that(after <= most, format!("{before} mappings before, {after} after"));
    checks.done()
}

fn attach(pid: u32, folder: &str) -> Result<()> {
    let pid = pid.to_string();
    let words = ["attach", &pid, "--for", "8s", "--upload-period", "60s", "--out", folder];
    let output = Command::new(&built()?.corprof).args(words).arg("--json=-").output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{errors}");
    Ok(())
}

fn count(pid: u32, folder: &str) -> Result<u64> {
    Ok(fs::read_dir(format!("/proc/{pid}/{folder}"))?.count() as u64)
}

fn lines(pid: u32, file: &str) -> Result<u64> {
    Ok(fs::read_to_string(format!("/proc/{pid}/{file}"))?.lines().count() as u64)
}
