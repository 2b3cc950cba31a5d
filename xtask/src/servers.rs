//! `cargo xtask servers`: real servers and official exporters, built once under `target/servers`,
//! and the tests that need them. It takes minutes, so it is no part of `cargo xtask test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::product::cargo;
use crate::workspace;

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "usage: cargo xtask servers");
    let folder = workspace::metadata()?.target_directory.join("servers");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder:?}"))?;
    let mut missing = Vec::new();
    for (name, build) in [
        ("collector", collector as fn(&Path) -> Result<()>),
        ("pyroscope-api", pyroscope_api),
        ("datadog-exporter", datadog_exporter),
    ] {
        println!("=== {name}");
        if let Err(error) = build(&folder) {
            println!("SKIPPED {name}: {error:#}");
            missing.push(name);
        }
    }
    let tests = ["--test", "servers", "--test", "pyroscope", "--", "--nocapture"];
    cargo(&[&["test", "--package", "e2e"], &tests[..]].concat())?;
    match missing.is_empty() {
        true => println!("\nall servers were there"),
        false => println!("\nSKIPPED, since they could not be built: {}", missing.join(", ")),
    }
    Ok(())
}

/// An OpenTelemetry collector with the profiles pipeline, from its Go modules.
fn collector(folder: &Path) -> Result<()> {
    go_build("collector", &folder.join("collector"))
}

/// Both ends of Pyroscope's official API. Its server is not built here: a real one is used by the
/// tests where it is installed.
fn pyroscope_api(folder: &Path) -> Result<()> {
    go_build("pyroscope", &folder.join("pyroscope-api"))
}

fn go_build(source: &str, program: &Path) -> Result<()> {
    let status = Command::new(go()?)
        .args(["build", "-o"])
        .arg(program)
        .arg(".")
        .current_dir(workspace::root().join("tests/servers").join(source))
        .status()?;
    ensure!(status.success(), "go build failed ({status})");
    Ok(())
}

fn go() -> Result<PathBuf> {
    let candidates = [PathBuf::from("go"), PathBuf::from("/usr/local/go/bin/go")];
    let works = |go: &PathBuf| Command::new(go).arg("version").output().is_ok();
    candidates.into_iter().find(works).context("there is no Go on this machine")
}

/// Datadog's own exporter, from crates.io, in a workspace of its own.
fn datadog_exporter(folder: &Path) -> Result<()> {
    let target = folder.join("oracles");
    let manifest = workspace::root().join("tests/oracles/Cargo.toml");
    let status = rig::cargo()
        .args(["build", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .status()?;
    ensure!(status.success(), "cargo build failed ({status})");
    let built = target.join("debug/oracles");
    fs::copy(&built, folder.join("datadog-exporter"))
        .with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(())
}
