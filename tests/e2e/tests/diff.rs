//! `corprof diff` of programs whose work is known: what has changed is found, with its size and its
//! sign; what has not is not.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::{Run, Session, built};
use rig::Net9;
use serde_json::Value;

/// So sure that a test seldom fails by chance.
const CONFIDENCE: &str = "99.99";
const A: &str = "Corprof.TestApps.Split.MethodA(int)";
const B: &str = "Corprof.TestApps.Split.MethodB(int)";
/// The exit code of `--fail-if`.
const REGRESSED: i32 = 3;

#[test]
fn a_change_of_known_size_is_found() -> Result<()> {
    let Some(base) = split("diff-base", "40")? else { return Ok(()) };
    let Some(again) = split("diff-again", "40")? else { return Ok(()) };
    let Some(new) = split("diff-new", "80")? else { return Ok(()) };

    let (code, changed) = diff(&base, &new, ">10%")?;
    ensure!(code == REGRESSED, "exit code {code}: {}", changed["rows"]);
    ensure!(changed["failing"] == serde_json::json!([A]), "{}", changed["failing"]);
    for (name, truth) in [(A, "cpu_a_ns"), (B, "cpu_b_ns")] {
        let share = |run: &Run, side: &str| -> Result<f64> {
            let all = changed[side]["ns"].as_f64().context("no time")?;
            Ok(run.number(truth)? as f64 / all)
        };
        let expected = share(&new, "new")? - share(&base, "base")?;
        let row = row(&changed, name)?;
        ensure!(row["is_significant"] == true, "{row}");
        let number = |part: &str| row["share"][part].as_f64().context("no number");
        let (change, half) = (number("change")?, number("half_width")?);
        println!("{name}: {change:.4} ±{half:.4}, and really {expected:.4}");
        ensure!((change - expected).abs() <= half, "{row}, and really {expected}");
        ensure!(expected.abs() > 0.3, "{row}: the program's work hardly changed");
    }

    let (code, same) = diff(&base, &again, ">2%")?;
    ensure!(code == 0, "exit code {code}: {}", same["failing"]);
    for name in [A, B] {
        ensure!(row(&same, name)?["is_significant"] == false, "{}", row(&same, name)?);
    }
    Ok(())
}

/// A run that has as many samples on a busy machine, and writes some files.
fn split(test: &str, share: &str) -> Result<Option<Run>> {
    let Some(session) = Session::new(test, "split", Net9)? else { return Ok(None) };
    let session = session
        .args(["--share", share, "--seconds", "5", "--cpu-seconds", "5"])
        .set("CORPROF_CPU_INTERVAL", "4ms")
        .set("CORPROF_UPLOAD_PERIOD", "1s");
    Ok(Some(session.run()?))
}

/// The exit code, and what was told.
fn diff(base: &Run, new: &Run, limit: &str) -> Result<(i32, Value)> {
    let folder = |run: &Run| Path::new(&run.folder).to_owned();
    let output = Command::new(&built()?.corprof)
        .arg("diff")
        .args([folder(base), folder(new)])
        .args(["--json", "--confidence", CONFIDENCE, "--fail-if", limit])
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let told = serde_json::from_slice(&output.stdout).with_context(|| errors.into_owned())?;
    Ok((output.status.code().unwrap_or(-1), told))
}

fn row<'a>(told: &'a Value, name: &str) -> Result<&'a Value> {
    let rows = told["rows"].as_array().context("no rows")?;
    rows.iter().find(|row| row["name"] == name).with_context(|| format!("no {name}"))
}
