//! Profiles of a running program on their way: each period arrives, whatever the other side does
//! meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::arrivals::{arrived, decoded, flush, made, waiting};
use e2e::wire::{form, pushed};
use e2e::{Intake, Manners, Session};
use profile::read;
use rig::Net9;

const SECONDS: &str = "6";
const PERIOD: &str = "1s";

fn session(test: &str, intake: &Intake) -> Result<Option<Session>> {
    let Some(session) = Session::new(test, "split", Net9)? else { return Ok(None) };
    let spool = session.folder.with_extension("spool");
    if spool.exists() {
        fs::remove_dir_all(&spool)?;
    }
    let session = session
        .args(["--share", "90", "--seconds", SECONDS])
        .set("CORPROF_UPLOAD_PERIOD", PERIOD)
        .set("CORPROF_SERVICE", "shop")
        .set("CORPROF_SPOOL_DIR", spool)
        .set("CORPROF_EXPORT", "file,pyroscope")
        .set("CORPROF_PYROSCOPE_URL", intake.url());
    Ok(Some(session))
}

#[test]
fn every_period_arrives() -> Result<()> {
    let intake = Intake::start()?;
    let Some(session) = session("export-good", &intake)? else { return Ok(()) };
    let run = session.set("CORPROF_TAGS", "region:eu").run()?;
    intake.check()?;
    let mut checks = run.checks();
    checks.that(run.profiles.len() >= 5, format!("{} periods", run.profiles.len()));
    checks.that(arrived(&intake)? == made(&run), "not all periods arrived");
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
    let both: BTreeSet<_> = made(&first).union(&made(&second)).copied().collect();
    ensure!(arrived(&intake)? == both, "not all periods arrived");
    ensure!(waiting(&spool) == 0, "something still waits");
    first.checks().done()?;
    second.checks().done()
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
    ensure!(arrived(&intake)? == made(&run), "not all periods arrived");
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
    ensure!(arrived(&intake)? == made(&run), "not all periods arrived");
    ensure!(waiting(&spool) == 0, "something still waits");
    run.checks().done()
}

/// A process that gives its rights up in an outage: what waits from before is in a folder that it
/// can't read any more, and what comes then in one of its new user's.
#[test]
fn another_user_from_then_on_loses_nothing() -> Result<()> {
    const USER: u32 = 65_534;
    let intake = Intake::start()?;
    let Some(mut session) = session("export-become", &intake)? else { return Ok(()) };
    if fs::metadata("/proc/self")?.uid() != 0 {
        println!("SKIPPED export-become: needs root, to become another user");
        return Ok(());
    }
    intake.be(Manners::Status(503, ""));
    let temporary = session.folder.with_extension("tmp");
    fs::create_dir_all(&temporary)?;
    for folder in [&session.folder, &temporary] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o1777))?;
    }
    session.command.env_remove("CORPROF_SPOOL_DIR");
    let session =
        session.args(["--become", &USER.to_string()]).set("TMPDIR", temporary.as_os_str());
    let of_user = |user: u32| temporary.join(format!("corprof-spool-{user}"));
    let run = session.run_watched(|_| {
        if waiting(&of_user(USER)) > 0 {
            intake.be(Manners::Good);
        }
    })?;
    ensure!(run.number("became")? == 0, "it is still root's");
    let left = waiting(&of_user(0));
    ensure!(left > 0, "nothing waited before");
    for (folder, user) in [(of_user(0), 0), (of_user(USER), USER)] {
        let about = fs::metadata(folder)?;
        ensure!((about.uid(), about.mode() & 0o777) == (user, 0o700), "{about:?}");
    }
    flush(&of_user(0), &intake)?;
    // On a busy machine the program may end before it has tried again.
    if waiting(&of_user(USER)) > 0 {
        flush(&of_user(USER), &intake)?;
    }
    intake.check()?;
    ensure!(arrived(&intake)? == made(&run), "not all periods arrived");
    fs::remove_dir_all(&temporary)?;
    run.checks().done()
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
