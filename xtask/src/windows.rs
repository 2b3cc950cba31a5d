//! `cargo xtask windows`: the agent and the command line for Windows, built with Debian's tools,
//! and their truth tests in Wine.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rig::{Rig, Wine};
use serde_json::Value;

use crate::workspace;

const USAGE: &str = "usage: cargo xtask windows [--build-only] [--minutes N] [TEST]...";
/// The triple that is built for: what Debian's linker and libraries are for.
const TARGET: &str = "x86_64-pc-windows-gnu";
/// Debian's packages: a linker, and a Rust whose standard library comes as source, since there is
/// no built one for Windows among them.
const PACKAGES: [&str; 5] =
    ["gcc-mingw-w64-x86-64", "rust-web-src", "rustc-web", "cargo-web", "debootstrap"];
/// What they bring.
const TOOLS: [&str; 4] = [
    "/usr/bin/x86_64-w64-mingw32-gcc",
    "/usr/bin/cargo",
    "/usr/lib/rustlib/src/rust/library/std/Cargo.toml",
    "/usr/sbin/debootstrap",
];

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    build_only: bool,
    seconds: Option<u64>,
    tests: Vec<String>,
}

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    let asked = parse(arguments)?;
    install_tools()?;
    let wine = Wine::install()?;
    build(&wine)?;
    let folder = wine.built("corprof.dll");
    let folder = folder.parent().context("the library is in no folder")?;
    Rig::ensure()?.put_managed(folder)?;
    for file in ["corprof.dll", "corprof.exe"] {
        println!("{}", wine.built(file).display());
    }
    if asked.build_only {
        return Ok(());
    }
    let _server = wine.serve()?;
    if asked.tests.is_empty() {
        unit_tests(&wine)?;
    }
    test(&asked)
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let mut asked = Asked::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--build-only" => asked.build_only = true,
            "--minutes" => {
                let minutes: u64 = rest.next().context(USAGE)?.parse().context(USAGE)?;
                asked.seconds = Some(minutes.saturating_mul(60));
            }
            other if other.starts_with('-') => bail!("{other} is no option; {USAGE}"),
            test => asked.tests.push(test.to_owned()),
        }
    }
    Ok(asked)
}

/// Installs what is missing of the tools.
fn install_tools() -> Result<()> {
    if TOOLS.iter().all(|tool| std::path::Path::new(tool).exists()) {
        return Ok(());
    }
    eprintln!("windows: apt-get install {}", PACKAGES.join(" "));
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install.args(["install", "-y", "--no-install-recommends"]).args(PACKAGES);
    let installed = install.status().is_ok_and(|status| status.success());
    ensure!(
        installed,
        "the tools could not be installed: it needs Debian 12 or later, root and `apt-get update`. \
         They are {}",
        PACKAGES.join(", ")
    );
    Ok(())
}

/// Debian's cargo, which builds the standard library, too: stable Rust lets nobody else do that.
fn cargo(wine: &Wine, task: &str, packages: &[&str]) -> Command {
    let mut cargo = Command::new("/usr/bin/cargo");
    cargo.args([task, "--release", "--locked", "-Zbuild-std", "--target", TARGET]);
    cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    cargo.current_dir(workspace::root());
    cargo.env("PATH", "/usr/bin:/bin").env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_TARGET_DIR", wine.folder().join("build"));
    // Ours are of another Rust.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "CARGO_MANIFEST_DIR"] {
        cargo.env_remove(name);
    }
    cargo
}

fn build(wine: &Wine) -> Result<()> {
    let status = cargo(wine, "build", &["agent", "cli"]).status();
    let status = status.context("cannot run Debian's cargo")?;
    ensure!(status.success(), "the build for Windows failed ({status})");
    Ok(())
}

/// Runs the unit tests of what asks Windows, and of what decodes its answers; of the handler, of
/// connections that stand still, and of who is believed at a pipe.
fn unit_tests(wine: &Wine) -> Result<()> {
    run_tests(wine, &["sys", "unwind"], &["--lib"], &[])?;
    run_tests(wine, &["signal"], &["--test", "context"], &[])?;
    run_tests(wine, &["export"], &["--lib"], &["socket::"])?;
    run_tests(wine, &["diagnostics"], &["--lib"], &["windows::"])
}

/// Builds tests of packages, and runs those of such names in Wine.
fn run_tests(wine: &Wine, packages: &[&str], which: &[&str], names: &[&str]) -> Result<()> {
    let mut build = cargo(wine, "test", packages);
    build.args(which).args(["--no-run", "--message-format=json-render-diagnostics"]);
    let built = build.stderr(Stdio::inherit()).output().context("cannot run Debian's cargo")?;
    ensure!(built.status.success(), "the unit tests for Windows do not build ({})", built.status);
    let lines = String::from_utf8_lossy(&built.stdout);
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let programs: Vec<PathBuf> = messages
        .filter(|message| message["profile"]["test"] == true)
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect();
    ensure!(!programs.is_empty(), "cargo has built no unit tests");
    for program in programs {
        let status = wine.command(&program)?.args(names).status().context("cannot run Wine")?;
        ensure!(status.success(), "{} failed ({status})", program.display());
    }
    Ok(())
}

fn test(asked: &Asked) -> Result<()> {
    let mut cargo = rig::cargo();
    cargo.args(["test", "-p", "e2e", "--test", "windows", "--test", "windows_tools", "--"]);
    cargo.args(["--nocapture", "--test-threads=1"]).args(&asked.tests);
    cargo.env("RIG_WINDOWS", "1").current_dir(workspace::root());
    if let Some(seconds) = asked.seconds {
        cargo.env("E2E_SECONDS", seconds.to_string());
    }
    let status = cargo.status().context("cannot run cargo")?;
    ensure!(status.success(), "some tests for Windows failed; see above");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parsed = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            parse(&words)
        };
        assert_eq!(parsed(&[]).unwrap(), Asked::default());
        let asked = parsed(&["--minutes", "10", "exceptions"]).unwrap();
        let expected =
            Asked { build_only: false, seconds: Some(600), tests: vec!["exceptions".to_owned()] };
        assert_eq!(asked, expected);
        assert!(parsed(&["--build-only"]).unwrap().build_only);
        assert!(parsed(&["--minutes"]).is_err() && parsed(&["--fast"]).is_err());
    }
}
