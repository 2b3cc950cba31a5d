//! `corprof convert`: speedscope itself reads what is meant for it, and understands all of it.

#[path = "../../../crates/cli/tests/support/made.rs"]
mod made;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::built;
use made::made;
use profile::{Profile, Values};
use rig::Rig;
use serde_json::Value;

/// Nanoseconds by function: its own, and with what it called.
type Totals = BTreeMap<String, (u64, u64)>;

#[test]
fn speedscope_reads_what_the_profile_says() -> Result<()> {
    let rig = Rig::ensure()?;
    let Some(browser) = rig.or_skip("speedscope", rig.browser())? else { return Ok(()) };
    let folder = built()?.corprof.with_file_name("pictures").join("speedscope");
    fs::create_dir_all(&folder)?;
    let profile = made(3, 900);
    let file = folder.join("made.pb.gz");
    fs::write(&file, profile::pprof::write(&profile, Vec::new())?)?;
    let converted = folder.join("made.speedscope.json");
    let mut convert = Command::new(&built()?.corprof);
    convert.args(["convert", "--to", "speedscope", "-o"]).arg(&converted).arg(&file);
    run(convert)?;

    let exported = folder.join("exported.json");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../browser/speedscope.mjs");
    let mut command = browser.script(&script);
    command.arg(&converted).arg(&exported).arg(folder.join("speedscope.png"));
    let answer: Value = serde_json::from_str(&run(command)?)?;
    ensure!(answer["complaints"] == serde_json::json!([]), "{answer}");

    let understood: Value = serde_json::from_slice(&fs::read(&exported)?)?;
    for (name, value) in [
        ("cpu", (|values: &Values| values.cpu_ns) as fn(&Values) -> u64),
        ("wall", |values| values.wall_ns),
        ("gc", |values| values.gc_ns),
    ] {
        let theirs = theirs(&understood, name)?;
        ensure!(theirs == ours(&profile, value), "{name} is not what it was");
        ensure!(!theirs.is_empty(), "no {name}");
    }
    Ok(())
}

fn run(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

fn add(totals: &mut Totals, stack: &[&str], ns: u64) {
    if ns == 0 {
        return;
    }
    if let Some(leaf) = stack.last() {
        totals.entry((*leaf).to_owned()).or_default().0 += ns;
    }
    for name in stack.iter().collect::<BTreeSet<_>>() {
        totals.entry((*name).to_owned()).or_default().1 += ns;
    }
}

fn ours(profile: &Profile, value: fn(&Values) -> u64) -> Totals {
    let mut totals = Totals::new();
    for sample in &profile.samples {
        let name = |frame| profile.function_of(frame).map_or("", |f| profile.text(f.name));
        let mut stack: Vec<&str> = profile.stack(sample.stack).map(name).collect();
        stack.reverse();
        add(&mut totals, &stack, value(&sample.values));
    }
    totals
}

/// What speedscope exports: of each profile when which frame begins and ends.
fn theirs(file: &Value, value: &str) -> Result<Totals> {
    let frames = file["shared"]["frames"].as_array().context("no frames")?;
    let name = |event: &Value| -> Result<&str> {
        let frame = event.as_u64().and_then(|frame| frames.get(frame as usize));
        frame.and_then(|frame| frame["name"].as_str()).context("no such frame")
    };
    let mut totals = Totals::new();
    for profile in file["profiles"].as_array().context("no profiles")? {
        if !profile["name"].as_str().unwrap_or_default().starts_with(&format!("{value} · ")) {
            continue;
        }
        ensure!(profile["unit"] == "nanoseconds", "{}", profile["unit"]);
        ensure!(profile["type"] == "evented", "{}", profile["type"]);
        let mut stack: Vec<&str> = Vec::new();
        let mut last = 0;
        for event in profile["events"].as_array().context("no events")? {
            let at = event["at"].as_u64().context("no time")?;
            add(&mut totals, &stack, at - last);
            last = at;
            if event["type"] == "O" {
                stack.push(name(&event["frame"])?);
            } else {
                ensure!(stack.pop() == Some(name(&event["frame"])?), "the wrong frame ends");
            }
        }
        ensure!(stack.is_empty(), "frames that don't end");
    }
    Ok(totals)
}
