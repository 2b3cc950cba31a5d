//! Which periods of programs arrived where they were sent, and which still wait.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use profile::{Profile, read};

use crate::built::built;
use crate::intake::{Intake, Received};
use crate::run::Run;
use crate::wire::pushed;

/// Periods: a process, and the number of a period in it.
pub type Periods = BTreeSet<(u64, u64)>;

/// The profile that Pyroscope got.
///
/// # Errors
/// If it is none.
pub fn decoded(received: &Received) -> Result<Profile> {
    Ok(read::decode(&pushed(received)?.pprof)?.profile)
}

fn period(profile: &Profile) -> Result<(u64, u64)> {
    let report = profile.report.as_ref().context("no report")?;
    Ok((report.pid, report.seq))
}

/// Those that Pyroscope took, each once however often it came.
///
/// # Errors
/// If something that it took is no profile.
pub fn arrived(intake: &Intake) -> Result<Periods> {
    periods(&intake.taken())
}

/// Those of some requests.
///
/// # Errors
/// If one of them has no profile.
pub fn periods(received: &[Received]) -> Result<Periods> {
    received.iter().map(|received| period(&decoded(received)?)).collect()
}

/// Those that a run has files of.
#[must_use]
pub fn made(run: &Run) -> Periods {
    run.profiles.iter().filter_map(|(_, profile)| period(profile).ok()).collect()
}

/// How many profiles wait in a spool's folder.
#[must_use]
pub fn waiting(spool: &Path) -> usize {
    let entries = fs::read_dir(spool).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "parcel")).count()
}

/// Sends what waits, by `corprof flush`.
///
/// # Errors
/// If that fails.
pub fn flush(spool: &Path, intake: &Intake) -> Result<()> {
    if waiting(spool) == 0 {
        return Ok(());
    }
    let output = Command::new(&built()?.corprof)
        .arg("flush")
        .arg(spool)
        .env("CORPROF_PYROSCOPE_URL", intake.url())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "corprof flush: {said}");
    Ok(())
}
