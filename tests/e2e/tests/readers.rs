//! Others read the files as we do: `go tool pprof`, and our own command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::{Checks, Run, Session, built};
use profile::Values;
use rig::Net9;
use serde_json::Value;

/// How far two sums may differ: pprof prints no more digits.
const FRACTION: f64 = 0.001;

#[test]
fn go_reads_the_same() -> Result<()> {
    let Some(go) = go() else {
        println!("SKIPPED readers: no Go on this machine, so `go tool pprof` was not asked");
        return Ok(());
    };
    let Some(session) = Session::new("go", "calls", Net9)? else { return Ok(()) };
    let run = session.args(["--seconds", "3"]).set("CORPROF_CPU_INTERVAL", "2ms").run()?;
    let mut checks = run.checks();
    for (index, value) in [("cpu", 0), ("wall", 1), ("cpu-samples", 2)] {
        let unit = if index == "cpu-samples" { "count" } else { "ns" };
        let output = Command::new(&go)
            .args(["tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0"])
            .args([format!("-sample_index={index}"), format!("-unit={unit}")])
            .args(files(&run)?)
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{errors}");
        let theirs = flat(&String::from_utf8_lossy(&output.stdout))?;
        let mut ours: BTreeMap<String, u64> = BTreeMap::new();
        for row in &run.view.rows {
            let values = row.values;
            let value = [values.cpu_ns, values.wall_ns, values.count][value];
            let leaf = row.frames.first().cloned().unwrap_or_default();
            *ours.entry(leaf).or_default() += value;
        }
        ours.retain(|_, value| *value > 0);
        checks.that(ours.len() > 20, format!("only {} functions", ours.len()));
        for (name, value) in &ours {
            let their = theirs.get(name).copied().unwrap_or_default();
            let off = their.abs_diff(*value) as f64 / *value as f64;
            checks.that(off <= FRACTION, format!("{index} of {name}: {their} and not {value}"));
        }
        let sum = |map: &BTreeMap<String, u64>| map.values().sum::<u64>();
        checks.within(format!("{index} of all"), sum(&theirs), sum(&ours), FRACTION);
    }
    checks.done()
}

fn go() -> Option<PathBuf> {
    let candidates = [PathBuf::from("go"), PathBuf::from("/usr/local/go/bin/go")];
    let works = |go: &PathBuf| Command::new(go).args(["tool", "pprof", "-h"]).output().is_ok();
    candidates.into_iter().find(works)
}

fn files(run: &Run) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(&run.folder)?;
    let paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    ensure!(!paths.is_empty(), "no files");
    Ok(paths)
}

/// The flat values of a table of pprof's, by function.
fn flat(table: &str) -> Result<BTreeMap<String, u64>> {
    let mut flat: BTreeMap<String, u64> = BTreeMap::new();
    let rows = table.lines().skip_while(|line| !line.trim_start().starts_with("flat ")).skip(1);
    for row in rows {
        let first = row.split_whitespace().next().with_context(|| row.to_owned())?;
        let digits = first.trim_end_matches("ns");
        let value: f64 = digits.parse().with_context(|| row.to_owned())?;
        let name = columns(row, 5).with_context(|| row.to_owned())?;
        *flat.entry(name.to_owned()).or_default() += value as u64;
    }
    Ok(flat)
}

/// What follows the first so many columns.
fn columns(row: &str, skipped: usize) -> Option<&str> {
    (0..skipped).try_fold(row.trim_start(), |rest, _| {
        rest.split_once(char::is_whitespace).map(|(_, rest)| rest.trim_start())
    })
}

/// `corprof run` on a real program: its code and output, and a report that says what the files say.
#[test]
fn the_command_line_says_what_the_files_say() -> Result<()> {
    let Some(session) = Session::new("run", "plain", Net9)? else { return Ok(()) };
    let run = session
        .args(["--seconds", "1", "--exit-code", "7"])
        .behind(&built()?.corprof, ["run", "--json", "--cpu-interval", "5ms", "--"])
        .run()?;
    let path = run.folder.join("report.json");
    let report: Value = serde_json::from_slice(&std::fs::read(&path).context("no report")?)?;
    std::fs::remove_file(path)?;
    let mut checks = Checks::new(&run);
    checks.code(7);
    checks.sound();
    checks.that(run.outcome.stdout.starts_with("Hello from .NET"), &run.outcome.stdout);
    checks.that(report["exit_code"] == 7, &report);
    let total = run.view.total();
    checks.that(told(&report["total"]) == [total.count, total.cpu_ns, total.wall_ns], &report);
    let rows = report["rows"].as_array().context("no rows")?;
    checks.that(rows.len() == 20, format!("{} rows", rows.len()));
    for row in rows {
        let name = row["name"].as_str().context("a row without a name")?;
        let module = row["module"].as_str().context("a row without a module")?;
        // Two modules may have functions of one name, such as the kernel's page and the C library.
        let module = if module == "[no module]" { "" } else { module };
        let is_it = |(frame, file): (&String, &String)| frame == name && file == module;
        let mut own = Values::default();
        let mut all = Values::default();
        for row in &run.view.rows {
            let mut frames = row.frames.iter().zip(&row.modules);
            let is_leaf = frames.next().is_some_and(is_it);
            if is_leaf {
                own.add(row.values);
            }
            if is_leaf || frames.any(is_it) {
                all.add(row.values);
            }
        }
        for (values, told) in [(own, told(&row["self"])), (all, told(&row["total"]))] {
            let same = told == [values.count, values.cpu_ns, values.wall_ns];
            checks.that(same, format!("{name}: {values:?} and told {told:?}"));
        }
    }
    checks.done()
}

/// The values of a part of the report.
fn told(values: &Value) -> [u64; 3] {
    ["samples", "cpu_ns", "wall_ns"].map(|name| values[name].as_u64().unwrap_or(u64::MAX))
}
