//! Profiles of a running program on their way: each period arrives, whatever the other side does
//! meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::wire::{form, pushed};
use e2e::{Intake, Manners, Received, Run, Session};
use profile::{Profile, read};
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
    let output = std::process::Command::new(&e2e::built()?.corprof)
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
