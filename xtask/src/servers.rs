//! `cargo xtask servers`: real servers and official exporters, built once under `target/servers`,
//! and the tests that need them. It takes minutes, so it is no part of `cargo xtask test`.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::product::cargo;
use crate::workspace;

/// Lines of Go's output that say why something could not be built: the last ones.
const LINES: usize = 5;

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "usage: cargo xtask servers");
    let folder = workspace::metadata()?.target_directory.join("servers");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder:?}"))?;
    let mut missing = Vec::new();
    for (name, build) in [
        ("collector", collector as fn(&Path) -> Result<()>),
        ("pyroscope-api", pyroscope_api),
        ("pyroscope", pyroscope),
        ("datadog-exporter", datadog_exporter),
    ] {
        println!("=== {name}");
        if let Err(error) = build(&folder) {
            println!("SKIPPED {name}: {error:#}");
            // One of before would be taken for today's.
            let _gone = fs::remove_file(folder.join(name));
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
    go_build("collector", ".", &folder.join("collector"))
}

/// Both ends of Pyroscope's official API.
fn pyroscope_api(folder: &Path) -> Result<()> {
    go_build("pyroscope", ".", &folder.join("pyroscope-api"))
}

/// A Pyroscope server, from its Go module. It is under the AGPL: built and run here, and no part of
/// anything.
fn pyroscope(folder: &Path) -> Result<()> {
    const PACKAGE: &str = "github.com/grafana/pyroscope/cmd/pyroscope";
    go_build("pyroscope-server", PACKAGE, &folder.join("pyroscope"))
}

/// Builds a package as the module in a folder of `tests/servers` knows it. Go keeps what it has
/// built, so that a second time is short.
///
/// # Errors
/// What Go says, such as the answer of a proxy that doesn't have a module.
fn go_build(source: &str, package: &str, program: &Path) -> Result<()> {
    let mut command = Command::new(go()?);
    command.args(["build", "-o"]).arg(program).arg(package);
    command.current_dir(workspace::root().join("tests/servers").join(source));
    heard(command).context("go build failed")
}

/// Runs a command; should it fail, the error has the last lines of what it said.
fn heard(mut command: Command) -> Result<()> {
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let mut last = VecDeque::new();
    for line in BufReader::new(child.stderr.take().context("no output")?).lines() {
        let line = line?;
        eprintln!("{line}");
        last.push_back(line);
        if last.len() > LINES {
            last.pop_front();
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{status}:\n{}", Vec::from(last).join("\n"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_says_why() {
        let command = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        assert!(heard(command("echo warning >&2")).is_ok());
        let error = heard(command("seq 1 9 >&2; echo 403 Forbidden >&2; exit 3")).unwrap_err();
        let error = error.to_string();
        assert!(error.ends_with(":\n6\n7\n8\n9\n403 Forbidden"), "{error}");
        assert!(error.contains('3') && !error.contains('5'), "{error}");
    }
}
