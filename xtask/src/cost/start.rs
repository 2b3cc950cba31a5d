//! `cargo xtask bench start`: what the agent costs a program that does nothing: its start, the
//! names of what ran, its end and its one profile.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use rig::Net9;
use serde_json::{Value, json};

use super::peers::Place;
use super::setting::Setting;
use super::statistics::{Estimate, median};

const SETTINGS: [Setting; 3] = [Setting::Bare, Setting::Timer, Setting::Spans];
const LIMIT: Duration = Duration::from_secs(60);

/// Measures in so many rounds.
pub fn measure(rounds: usize, place: Place<'_>) -> Result<Value> {
    let folder = place.folder.join("start");
    fs::create_dir_all(&folder)?;
    let log = folder.join("log");
    let mut runs: [Vec<f64>; 3] = Default::default();
    let mut ready = [const { String::new() }; 3];
    for round in 0..rounds {
        eprintln!("bench: start, round {} of {rounds}", round + 1);
        let mut order = [0, 1, 2];
        if round % 2 == 1 {
            order.reverse();
        }
        for which in order {
            let setting = SETTINGS[which];
            // What is there is of the last run, if anything.
            let _gone = fs::remove_file(&log);
            runs[which].push(cpu_ms(setting, place, &folder, &log)?);
            ready[which] = said_ready(&log).unwrap_or_default();
        }
    }
    let mut told = json!({});
    for ((setting, runs_ms), ready) in SETTINGS.iter().zip(&runs).zip(ready) {
        let mut value = json!({ "cpu_ms": median(runs_ms), "ready": ready });
        let extra: Vec<f64> =
            runs_ms.iter().zip(&runs[0]).map(|(with, bare)| with - bare).collect();
        if *setting != Setting::Bare
            && let Some(extra) = Estimate::of(&extra)
        {
            value["extra_ms"] = extra.median.into();
            value["low"] = extra.low.into();
            value["high"] = extra.high.into();
        }
        told[setting.name()] = value;
    }
    Ok(told)
}

/// CPU milliseconds of a run.
fn cpu_ms(setting: Setting, place: Place<'_>, folder: &Path, log: &Path) -> Result<f64> {
    let mut program = place.rig.app("plain")?.command(Net9)?;
    program.args(["--seconds", "0"]).env("CORPROF_LOG", "debug").env("CORPROF_LOG_FILE", log);
    program.env("CORPROF_SPANS", (setting == Setting::Spans).to_string());
    let command = match setting {
        Setting::Bare => place.product.without_agent(&program, folder),
        _ => place.product.with_agent(&program, folder),
    };
    let used = || -> Result<f64> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let times = [usage.user_time(), usage.system_time()];
        let ms = |time: &nix::sys::time::TimeVal| {
            time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3
        };
        Ok(times.iter().map(ms).sum())
    };
    let before = used()?;
    let outcome = rig::run(command, LIMIT)?;
    ensure!(outcome.status.success(), "the program failed: {}", outcome.stderr);
    Ok(used()? - before)
}

/// What the agent's log says of when it was ready.
fn said_ready(log: &Path) -> Result<String> {
    let text = fs::read_to_string(log)?;
    let line = text.lines().find_map(|line| line.split_once("ready after "));
    Ok(line.context("the agent was never ready")?.1.trim().to_owned())
}
