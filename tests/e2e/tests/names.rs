//! What a method is called in a profile: each construct of the `names` program by the name that the
//! golden file has for it, on the frame that calls `Burn`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use e2e::{Run, Session, on_both};

const GOLDEN: &str = include_str!("../../golden/names.txt");
/// The frame whose caller has the name in question.
const BURN: &str = "Corprof.TestApps.Names.Work.Burn(";
/// CPU time of each construct.
const MILLIS: u64 = 24;

#[test]
fn every_construct_has_its_name() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("names", "names", version)? else { return Ok(()) };
        let run = session
            .args([MILLIS.to_string()])
            .set("CORPROF_CPU_INTERVAL", "1ms")
            .set("CORPROF_WALL_ENABLED", "false")
            .run()?;
        let mut checks = run.checks();
        let wrong = wrong_names(&run)?;
        checks.that(wrong.is_empty(), wrong);
        checks.roots(0.99);
        checks.done()
    })
}

/// The names that have less CPU time than half of what their constructs burnt, and the names that
/// have as much and should not be there.
fn wrong_names(run: &Run) -> Result<String> {
    let half_ns = MILLIS * 1_000_000 / 2;
    let mut wanted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in GOLDEN.lines().filter(|row| !row.starts_with('#') && !row.is_empty()) {
        let (construct, name) = row.split_once(" | ").with_context(|| row.to_owned())?;
        wanted.entry(name).or_default().push(construct);
    }
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &run.view.rows {
        let Some(burn) = row.frames.iter().position(|frame| frame.starts_with(BURN)) else {
            continue;
        };
        let caller = row.frames.get(burn + 1).map_or("[none]", String::as_str);
        *found.entry(caller).or_default() += row.values.cpu_ns;
    }
    let mut wrong = String::new();
    for (name, constructs) in &wanted {
        let found_ns = found.get(name).copied().unwrap_or_default();
        if found_ns < constructs.len() as u64 * half_ns {
            let millis = found_ns / 1_000_000;
            writeln!(wrong, "\n    {millis} ms: {name}  ({})", constructs.join("; "))?;
        }
    }
    for (name, cpu_ns) in found {
        if cpu_ns >= half_ns && !wanted.contains_key(name) {
            writeln!(wrong, "\n    {} ms, not expected: {name}", cpu_ns / 1_000_000)?;
        }
    }
    Ok(wrong)
}
