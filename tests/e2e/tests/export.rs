//! Profiles of a running program on their way: each period arrives, whatever the other side does
//! meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::wire::{form, pushed};
use e2e::{Intake, Manners, Received, Run, Session};
use profile::{Profile, read};
use rig::Net9;

const SECONDS: &str = "6";
const PERIOD: &str = "1s";

fn session(test: &str, intake: &Intake) -> Result<Option<Session>> {
    session_of(test, intake, SECONDS)
}

fn session_of(test: &str, intake: &Intake, seconds: &str) -> Result<Option<Session>> {
    let Some(session) = Session::new(test, "split", Net9)? else { return Ok(None) };
    let spool = session.folder.with_extension("spool");
    if spool.exists() {
        fs::remove_dir_all(&spool)?;
    }
    let session = session
        .args(["--share", "90", "--seconds", seconds])
        .set("CORPROF_UPLOAD_PERIOD", PERIOD)
        .set("CORPROF_SERVICE", "shop")
        .set("CORPROF_SPOOL_DIR", spool)
        .set("CORPROF_EXPORT", "file,pyroscope")
        .set("CORPROF_PYROSCOPE_URL", intake.url());
    Ok(Some(session))
}

fn decoded(received: &Received) -> Result<Profile> {
    Ok(read::decode(&pushed(received)?.pprof)?.profile)
}

/// The process and the number of a period.
fn key(profile: &Profile) -> Result<(u64, u64)> {
    let report = profile.report.as_ref().context("no report")?;
    Ok((report.pid, report.seq))
}

/// The periods that arrived, each once.
fn arrived(intake: &Intake) -> Result<BTreeSet<(u64, u64)>> {
    intake.taken().iter().map(|received| key(&decoded(received)?)).collect()
}

fn all(run: &Run) -> BTreeSet<(u64, u64)> {
    run.profiles.iter().filter_map(|(_, profile)| key(profile).ok()).collect()
}

#[test]
fn every_period_arrives() -> Result<()> {
    let intake = Intake::start()?;
    let Some(session) = session("export-good", &intake)? else { return Ok(()) };
    let run = session.set("CORPROF_TAGS", "region:eu").run()?;
    intake.check()?;
    let mut checks = run.checks();
    checks.that(run.profiles.len() >= 5, format!("{} periods", run.profiles.len()));
    checks.that(arrived(&intake)? == all(&run), "not all periods arrived");
    checks.that(intake.taken().len() == run.profiles.len(), "some arrived twice");
    for received in intake.taken() {
        let labels = pushed(&received)?.labels;
        for (name, value) in [("service_name", "shop"), ("region", "eu")] {
            let there = labels.iter().any(|(n, v)| n == name && v == value);
            checks.that(there, format!("no {name}={value} in {labels:?}"));
        }
        let profile = decoded(&received)?;
        let seq = profile.report.as_ref().context("no report")?.seq;
        let file = run.profiles.iter().find(|(number, _)| *number == seq);
        let total = file.map(|(_, profile)| profile.total());
        checks.that(total == Some(profile.total()), format!("the sums of period {seq}"));
    }
    checks.done()
}

#[test]
fn an_outage_in_the_middle_loses_no_period() -> Result<()> {
    for (name, manners) in [
        ("status", Manners::Status(503, "")),
        ("busy", Manners::Status(429, "Retry-After: 2\r\n")),
        ("closes", Manners::Closes),
        ("resets", Manners::Resets),
        ("garbage", Manners::Garbage),
        ("huge", Manners::Huge),
    ] {
        let intake = Intake::start()?;
        let test = format!("export-{name}");
        let Some(session) = session(&test, &intake)? else { return Ok(()) };
        intake.be(manners);
        let spool = session.folder.with_extension("spool");
        // The first period fails; once something has to wait, they come to their senses.
        let run = session.run_watched(|_| {
            if waiting(&spool) > 0 {
                intake.be(Manners::Good);
            }
        })?;
        flush(&spool, &intake)?;
        ensure!(arrived(&intake)? == all(&run), "{name}: not all periods arrived");
        ensure!(waiting(&spool) == 0, "{name}: something still waits");
        run.checks().done()?;
    }
    Ok(())
}

#[test]
fn what_is_down_at_the_end_is_sent_by_the_next_start() -> Result<()> {
    let intake = Intake::start()?;
    let Some(first) = session("export-down", &intake)? else { return Ok(()) };
    intake.be(Manners::Status(500, ""));
    let spool = first.folder.with_extension("spool");
    let first = first.run()?;
    ensure!(arrived(&intake)?.is_empty(), "something was taken");
    ensure!(waiting(&spool) == first.profiles.len(), "{} wait", waiting(&spool));
    intake.be(Manners::Good);
    let Some(second) = session("export-down-next", &intake)? else { return Ok(()) };
    let second = second.set("CORPROF_SPOOL_DIR", &spool).run()?;
    let both: BTreeSet<_> = all(&first).union(&all(&second)).copied().collect();
    ensure!(arrived(&intake)? == both, "not all periods arrived");
    ensure!(waiting(&spool) == 0, "something still waits");
    first.checks().done()?;
    second.checks().done()
}

/// SIGKILL leaves no time for anything: what was finished by then is sent by the next start.
#[test]
fn killed_in_an_outage_it_loses_no_finished_period() -> Result<()> {
    let intake = Intake::start()?;
    let Some(first) = session("export-killed", &intake)? else { return Ok(()) };
    intake.be(Manners::Resets);
    let spool = first.folder.with_extension("spool");
    let mut is_killed = false;
    let first = first.run_watched(|pid| {
        if !is_killed && waiting(&spool) >= 3 {
            is_killed = kill(pid);
        }
    })?;
    ensure!(is_killed && first.outcome.status.code().is_none(), "it ended by itself");
    ensure!(first.profiles.len() >= 3, "{} periods", first.profiles.len());
    intake.be(Manners::Good);
    let Some(second) = session_of("export-killed-next", &intake, "2")? else { return Ok(()) };
    let second = second.set("CORPROF_SPOOL_DIR", &spool).run()?;
    intake.check()?;
    let both: BTreeSet<_> = all(&first).union(&all(&second)).copied().collect();
    ensure!(arrived(&intake)? == both, "{:?} and not {both:?}", arrived(&intake)?);
    ensure!(intake.taken().len() == both.len(), "some arrived twice");
    ensure!(waiting(&spool) == 0, "something still waits");
    second.checks().done()
}

fn kill(pid: u32) -> bool {
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
    killed.is_ok_and(|status| status.success())
}

/// Each time the profiler comes and goes, and with it its exporter.
#[test]
fn attached_and_left_again_and_again_each_profile_arrives_once() -> Result<()> {
    const TIMES: usize = 4;
    let intake = Intake::start()?;
    let Some(session) = session("export-attached", &intake)? else { return Ok(()) };
    let folder = session.folder.to_string_lossy().into_owned();
    let spool = session.folder.with_extension("spool");
    let mut result = None;
    let run = session.without_agent().run_watched(|pid| {
        if result.is_none() && is_ready(pid) {
            result = Some((0..TIMES).try_for_each(|_| attach_and_leave(pid, &folder)));
        }
    })?;
    result.context("the program ended at once")??;
    intake.check()?;
    ensure!(run.profiles.len() >= TIMES, "{} periods", run.profiles.len());
    ensure!(arrived(&intake)? == all(&run), "not all periods arrived");
    ensure!(intake.taken().len() == run.profiles.len(), "some arrived twice");
    ensure!(waiting(&spool) == 0, "something waits");
    run.checks_of_attached().done()
}

/// Whether a process's runtime listens to diagnostic tools.
fn is_ready(pid: u32) -> bool {
    let own = format!("dotnet-diagnostic-{pid}-");
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(&own))
}

fn attach_and_leave(pid: u32, folder: &str) -> Result<()> {
    let pid_text = pid.to_string();
    let output = Command::new(&e2e::built()?.corprof)
        .args(["attach", &pid_text, "--for", "500ms", "--out", folder, "--json=-"])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "corprof attach: {said}");
    ensure!(!said.contains("error"), "corprof attach: {said}");
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        ensure!(!name.starts_with("corprof"), "left behind: {name}");
    }
    Ok(())
}

/// Paths mean what they meant at the start, also once the program's folder is another, and gone.
#[test]
fn a_folder_that_is_gone_changes_nothing() -> Result<()> {
    let intake = Intake::start()?;
    let Some(mut session) = session("export-lost", &intake)? else { return Ok(()) };
    intake.be(Manners::Status(503, ""));
    let spool = session.folder.with_extension("spool");
    let lost = session.folder.with_extension("lost");
    let parent = session.folder.parent().context("no parent")?.to_owned();
    session.command.current_dir(&parent);
    let relative = |path: &Path| path.strip_prefix(&parent).map(Path::to_owned);
    let (out, relative_spool) = (relative(&session.folder)?, relative(&spool)?);
    let session = session
        .set("CORPROF_OUTPUT_DIR", out)
        .set("CORPROF_SPOOL_DIR", relative_spool)
        .args(["--lost", &lost.to_string_lossy()]);
    let mut is_lost = false;
    let run = session.run_watched(|pid| {
        let now = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        is_lost |= now.to_string_lossy().ends_with("(deleted)");
        if is_lost && waiting(&spool) > 1 {
            intake.be(Manners::Good);
        }
    })?;
    ensure!(is_lost, "its folder is still there");
    flush(&spool, &intake)?;
    ensure!(arrived(&intake)? == all(&run), "not all periods arrived");
    ensure!(waiting(&spool) == 0, "something still waits");
    run.checks().done()
}

/// Profiles that wait in a folder.
fn waiting(spool: &Path) -> usize {
    let entries = fs::read_dir(spool).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "parcel")).count()
}

/// Sends what waits.
fn flush(spool: &Path, intake: &Intake) -> Result<()> {
    if waiting(spool) == 0 {
        return Ok(());
    }
    let output = Command::new(&e2e::built()?.corprof)
        .arg("flush")
        .arg(spool)
        .env("CORPROF_PYROSCOPE_URL", intake.url())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "corprof flush: {said}");
    Ok(())
}

/// What Datadog's agent gets is a form of two parts.
#[test]
fn datadog_gets_its_form_over_a_socket() -> Result<()> {
    let path = std::env::temp_dir().join(format!("corprof-dd-{}.sock", std::process::id()));
    let _left = fs::remove_file(&path);
    let intake = Intake::start_at(&path)?;
    let Some(session) = session("export-datadog", &intake)? else { return Ok(()) };
    let run = session
        .set("CORPROF_EXPORT", "file,datadog")
        .set("DD_TRACE_AGENT_URL", format!("unix://{}", path.display()))
        .set("DD_ENV", "test")
        .run()?;
    let _gone = fs::remove_file(&path);
    intake.check()?;
    let mut checks = run.checks();
    checks.that(intake.taken().len() == run.profiles.len(), "not all periods arrived");
    for received in intake.taken() {
        checks.that(received.path == "/profiling/v1/input", received.path.clone());
        let parts = form(received.header("content-type"), &received.body)?;
        let names: Vec<_> = parts.iter().map(|p| (p.name.as_str(), p.file.as_str())).collect();
        let expected = [("event", "event.json"), ("profile.pprof", "profile.pprof")];
        checks.that(names == expected, format!("{names:?}"));
        let event: serde_json::Value = serde_json::from_slice(&parts[0].bytes)?;
        let tags = event["tags_profiler"].as_str().context("tags")?;
        for tag in ["service:shop", "env:test", "language:dotnet", "runtime-id:", "profile_seq:"] {
            checks.that(tags.split(',').any(|t| t.starts_with(tag)), format!("{tag} in {tags}"));
        }
        read::decode(&parts[1].bytes)?;
    }
    checks.done()
}
