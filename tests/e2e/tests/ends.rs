//! However a program ends, it ends as it would without the agent; and the profile is written where
//! the runtime says that it ends.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Run, Session, on_both};
use rig::{Rig, RuntimeVersion};

const LIMIT: Duration = Duration::from_secs(60);
const SECONDS: &str = "0.5";
const CPU_NS: u64 = 500_000_000;

/// Whether the runtime tells the profiler that it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Yes,
    No,
}

#[test]
fn by_return_and_exit() -> Result<()> {
    on_both(|version| {
        check(version, "return", Told::Yes)?;
        check(version, "exit", Told::Yes)
    })
}

/// The runtime aborts the process without a word to the profiler: the last period may be lost.
#[test]
fn by_a_crash() -> Result<()> {
    on_both(|version| {
        check(version, "exception", Told::No)?;
        check(version, "fail-fast", Told::No)
    })
}

#[test]
fn by_a_signal() -> Result<()> {
    on_both(|version| check(version, "wait", Told::Yes))
}

/// Runs `ends` with and without the agent.
fn check(version: RuntimeVersion, how: &str, told: Told) -> Result<()> {
    let test = format!("ends-by-{how}");
    let Some(session) = Session::new(&test, "ends", version)? else { return Ok(()) };
    let arguments = ["--seconds", SECONDS, "--how", how, "--ready"];
    let Some(mut bare) = Rig::ensure()?.command_or_skip(&test, "ends", version)? else {
        return Ok(());
    };
    let ready = session.folder.with_extension("ready-bare");
    bare.args(arguments).arg(&ready);
    let without = rig::run_watched(bare, LIMIT, end_when_ready(&ready))?;

    let ready = session.folder.with_extension("ready");
    let run = session.args(arguments).args([&ready]).run_watched(end_when_ready(&ready))?;
    same_end(&run, without.status)?;
    if told == Told::No {
        // Lost, but not written by half.
        let files = std::fs::read_dir(&run.folder)?.count();
        ensure!(files == run.profiles.len(), "{files} files in {:?}", run.folder);
        return Ok(());
    }
    let mut checks = run.checks_of_code(without.status.code().unwrap_or(-1));
    let spun = run.view.of(|row| row.thread == "worker" && row.has("Work.Spin("));
    // The first sample in the work carries the thread's start as well: the compilation of its code.
    // What came after the last one, up to an interval and a half and a tick of the kernel, is
    // carried by the first sample after the work.
    checks.between("CPU of the work", spun.cpu_ns, CPU_NS / 100 * 95, CPU_NS / 100 * 110);
    checks.done()
}

fn same_end(run: &Run, without: ExitStatus) -> Result<()> {
    let with = run.outcome.status;
    ensure!(with == without, "{}: {with} with the agent, {without} without", run.name);
    Ok(())
}

/// Sends SIGTERM when the program has made its file.
fn end_when_ready(ready: &Path) -> impl FnMut(u32) + use<> {
    let ready = ready.to_owned();
    // A failure to remove is one to find, too: then it has not been there.
    let _ = std::fs::remove_file(&ready);
    let mut sent = false;
    move |pid| {
        if !sent && ready.exists() {
            let _ = std::fs::remove_file(&ready);
            sent = Command::new("kill").arg(pid.to_string()).status().is_ok();
        }
    }
}

#[test]
fn the_exit_code_is_the_programs() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("code", "plain", version)? else { return Ok(()) };
        let run = session.args(["--seconds", "0.2", "--exit-code", "7"]).run()?;
        run.checks_of_code(7).done()
    })
}

/// A file each second, numbered without a gap, and together the whole.
#[test]
fn periods() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("periods", "split", version)? else { return Ok(()) };
        let run = session.args(["--seconds", "5"]).set("CORPROF_UPLOAD_PERIOD", "1s").run()?;
        let mut checks = run.checks();
        let files = run.profiles.len();
        checks.that(files >= 3, format!("{files} files in five seconds"));
        let tid = u32::try_from(run.number("tid")?)?;
        let cpu_ns = run.view.thread(tid).cpu_ns;
        checks.within("CPU of the thread", cpu_ns, run.number("thread_cpu_ns")?, 0.02);
        for (seq, profile) in &run.profiles {
            let (total, period) = (profile.total(), profile.period);
            let report = profile.report.clone().unwrap_or_default();
            checks.that(
                total.cpu_ns == report.sampled_cpu_ns,
                format!(
                    "profile {seq} has {} ns and tells {}",
                    total.cpu_ns, report.sampled_cpu_ns
                ),
            );
            // What a thread used before the period's end may be told by a sample after it.
            let most = report.process_cpu_ns + 50_000_000;
            checks.that(
                total.cpu_ns <= most,
                format!("profile {seq}: {} ns of CPU, {most} at most", total.cpu_ns),
            );
            let least_ns = if *seq + 1 == files as u64 { 1 } else { 1_000_000_000 };
            let long = period.duration_ns >= least_ns;
            checks.that(long, format!("profile {seq} is of {} ns", period.duration_ns));
        }
        let starts: Vec<_> = run.profiles.iter().map(|(_, p)| p.period.start_unix_ns).collect();
        checks.that(starts.is_sorted(), "the periods are not in the order of their numbers");
        checks.done()
    })
}
