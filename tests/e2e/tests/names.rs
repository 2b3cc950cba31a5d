//! What a method is called in a profile: each construct of the `names` program by the name that the
//! golden file has for it, on the frame that calls `Burn`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use e2e::{Run, Session, on_both};
use rig::RuntimeVersion;

const GOLDEN: &str = include_str!("../../golden/names.txt");
/// The frame whose caller has the name in question.
const BURN: &str = "Corprof.TestApps.Names.Work.Burn(";
/// CPU time of each construct.
const MILLIS: u64 = 24;
/// Runs whose samples are taken together. Where the kernel's ticks are rare, as on a machine
/// whose processors others share, a construct may have none in a run; a name that is wrong has
/// none in any.
const RUNS_MAX: usize = 10;

#[test]
fn every_construct_has_its_name() -> Result<()> {
    on_both(|version| {
        let wanted = wanted()?;
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for _ in 0..RUNS_MAX {
            let Some(run) = run(version)? else { return Ok(()) };
            let mut checks = run.checks();
            let callers = callers(&run);
            let unexpected = unexpected(&callers, &wanted);
            checks.that(unexpected.is_empty(), unexpected);
            checks.roots(0.99);
            checks.done()?;
            found.extend(callers);
            if wanted.keys().all(|name| found.contains_key(*name)) {
                return Ok(());
            }
        }
        let missing = wanted.iter().filter(|(name, _)| !found.contains_key(**name));
        let missing: Vec<String> =
            missing.map(|(name, of)| format!("{name}  ({})", of.join("; "))).collect();
        anyhow::bail!("never seen in {RUNS_MAX} runs:\n    {}", missing.join("\n    "))
    })
}

fn run(version: RuntimeVersion) -> Result<Option<Run>> {
    let Some(session) = Session::new("names", "names", version)? else { return Ok(None) };
    let session = session
        .args([MILLIS.to_string()])
        .set("CORPROF_CPU_INTERVAL", "1ms")
        .set("CORPROF_WALL_ENABLED", "false");
    session.run().map(Some)
}

/// The names of the golden file, with the constructs that have them.
fn wanted() -> Result<BTreeMap<&'static str, Vec<&'static str>>> {
    let mut wanted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in GOLDEN.lines().filter(|row| !row.starts_with('#') && !row.is_empty()) {
        let (construct, name) = row.split_once(" | ").with_context(|| row.to_owned())?;
        wanted.entry(name).or_default().push(construct);
    }
    Ok(wanted)
}

/// The frames that call `Burn`, with their CPU nanoseconds.
fn callers(run: &Run) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for row in &run.view.rows {
        let burn = row.frames.iter().position(|frame| frame.starts_with(BURN));
        let caller = burn.map(|burn| row.frames.get(burn + 1).map_or("[none]", String::as_str));
        if let Some(caller) = caller.filter(|_| row.values.cpu_ns > 0) {
            *found.entry(caller.to_owned()).or_default() += row.values.cpu_ns;
        }
    }
    found
}

/// Names that have as much as half a construct's CPU time and are no construct's.
fn unexpected(callers: &BTreeMap<String, u64>, wanted: &BTreeMap<&str, Vec<&str>>) -> String {
    let half_ns = MILLIS * 1_000_000 / 2;
    let others = callers
        .iter()
        .filter(|(name, cpu_ns)| **cpu_ns >= half_ns && !wanted.contains_key(name.as_str()));
    others.fold(String::new(), |mut text, (name, cpu_ns)| {
        // Writing to a string can't fail.
        let _written = write!(text, "\n    {} ms, not expected: {name}", cpu_ns / 1_000_000);
        text
    })
}
