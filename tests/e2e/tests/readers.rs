//! Others read the files, and what is sent, as we do: `go tool pprof`, a reader in JavaScript, and
//! our own command line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::wire::{form, pushed};
use e2e::{Checks, Intake, LeafSums, Run, Session, built};
use profile::Values;
use rig::{Net9, Rig};
use serde_json::Value;

/// How far two sums may differ: pprof prints no more digits.
const FRACTION: f64 = 0.001;
/// What a reader in JavaScript prints, exactly.
const NOTHING: f64 = 0.0;

/// The files, and what Pyroscope and Datadog get of the same periods.
#[test]
fn others_read_the_same() -> Result<()> {
    let (pyroscope, datadog) = (Intake::start()?, Intake::start()?);
    let Some(session) = Session::new("readers", "calls", Net9)? else { return Ok(()) };
    let spool = session.folder.with_extension("spool");
    let run = session
        .args(["--seconds", "3"])
        .set("CORPROF_CPU_INTERVAL", "2ms")
        .set("CORPROF_UPLOAD_PERIOD", "1s")
        .set("CORPROF_EXPORT", "file,pyroscope,datadog")
        .set("CORPROF_PYROSCOPE_URL", pyroscope.url())
        .set("CORPROF_DATADOG_URL", datadog.url())
        .set("CORPROF_SPOOL_DIR", spool)
        .run()?;
    pyroscope.check()?;
    datadog.check()?;
    let mut series = Vec::new();
    for received in pyroscope.taken() {
        series.push(pushed(&received)?.pprof);
    }
    let mut attached = Vec::new();
    for received in datadog.taken() {
        let parts = form(received.header("content-type"), &received.body)?;
        attached.push(parts.into_iter().nth(1).context("no profile in the form")?.bytes);
    }
    ensure!(series.len() == run.profiles.len(), "{} at Pyroscope", series.len());
    ensure!(attached.len() == run.profiles.len(), "{} at Datadog", attached.len());
    let sent = run.folder.with_extension("sent");
    let all = [
        ("files", files(&run)?),
        ("pyroscope", written(&sent, "pyroscope", &series)?),
        ("datadog", written(&sent, "datadog", &attached)?),
    ];
    let ours = run.view.leaf_sums();
    let mut checks = run.checks();
    for (who, paths) in &all {
        println!("{who}:");
        if let Some(theirs) = by_go(who, paths)? {
            checks.same_sums(&theirs, &ours, FRACTION);
        }
        if let Some(theirs) = by_node(who, paths)? {
            checks.same_sums(&theirs, &ours, NOTHING);
        }
    }
    fs::remove_dir_all(&sent)?;
    checks.done()
}

/// What was sent, as files.
fn written(folder: &Path, who: &str, sent: &[Vec<u8>]) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder)?;
    let paths = (0..sent.len()).map(|at| folder.join(format!("{who}-{at}.pb.gz")));
    let paths: Vec<PathBuf> = paths.collect();
    for (path, bytes) in paths.iter().zip(sent) {
        fs::write(path, bytes)?;
    }
    Ok(paths)
}

/// What `go tool pprof` reads; `None`, and said, without Go.
fn by_go(who: &str, paths: &[PathBuf]) -> Result<Option<LeafSums>> {
    let Some(go) = go() else {
        println!("SKIPPED readers: no Go on this machine, so `go tool pprof` was not asked");
        return Ok(None);
    };
    let samples = if who == "pyroscope" { "samples" } else { "cpu-samples" };
    let mut sums = LeafSums::new();
    for (index, kind) in [("cpu", "cpu"), ("wall", "wall"), (samples, "samples"), ("gc", "gc")] {
        let unit = if kind == "samples" { "count" } else { "ns" };
        let output = Command::new(&go)
            .args(["tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0"])
            .args([format!("-sample_index={index}"), format!("-unit={unit}")])
            .args(paths)
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{who}: {errors}");
        for (name, value) in flat(&String::from_utf8_lossy(&output.stdout))? {
            if value > 0 {
                sums.insert((kind.to_owned(), name), value);
            }
        }
    }
    Ok(Some(sums))
}

/// What a reader in JavaScript reads; `None`, and said, if it can't be had.
fn by_node(who: &str, paths: &[PathBuf]) -> Result<Option<LeafSums>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../readers/pprof.mjs");
    let rig = Rig::ensure()?;
    let Some(mut command) = rig.or_skip("readers", rig.pprof_reader(&script))? else {
        return Ok(None);
    };
    let output = command.args(paths).output()?;
    ensure!(output.status.success(), "{who}: {}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let mut sums = LeafSums::new();
    for (kind, functions) in answer.as_object().context("no sums")? {
        let kind = kind.trim_start_matches("cpu-");
        for (name, value) in functions.as_object().context("no functions")? {
            let value = value.as_u64().with_context(|| format!("{who}: {name}: {value}"))?;
            sums.insert((kind.to_owned(), name.clone()), value);
        }
    }
    Ok(Some(sums))
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
    let selfs = rows.iter().map(|row| told(&row["self"]));
    let sum = selfs.fold([0; 3], |sum, own| [0, 1, 2].map(|at| sum[at] + own[at]));
    checks.that(sum == told(&report["total"]), format!("{sum:?} in {} rows", rows.len()));
    for row in rows {
        let name = row["name"].as_str().context("a row without a name")?;
        let module = row["module"].as_str().context("a row without a module")?;
        // Two modules may have functions of one name, such as the kernel's page and the C library.
        let module = if module == "[no module]" { "" } else { module };
        let is_it = |((frame, raw), file): ((&String, &String), &String)| {
            file == module
                && (frame == name || in_full(raw, frame).is_some_and(|full| full == name))
        };
        let mut own = Values::default();
        let mut all = Values::default();
        for row in &run.view.rows {
            let mut frames = row.frames.iter().zip(&row.raw_names).zip(&row.modules);
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

/// A C++ function with its parameters, which the command line shows and files don't have. A name
/// that is the raw one stands there once.
fn in_full(raw: &str, name: &str) -> Option<String> {
    let raw = if raw.is_empty() { name } else { raw };
    cpp_demangle::Symbol::new(raw).ok()?.demangle().ok()
}

/// The values of a part of the report.
fn told(values: &Value) -> [u64; 3] {
    ["samples", "cpu_ns", "wall_ns"].map(|name| values[name].as_u64().unwrap_or(u64::MAX))
}
