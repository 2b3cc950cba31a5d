//! `cargo xtask windows`: the agent and the command line for Windows, built with Debian's tools,
//! and their truth tests in Wine.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rig::Wine;

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
    for file in ["corprof.dll", "corprof.exe"] {
        println!("{}", wine.built(file).display());
    }
    if asked.build_only { Ok(()) } else { test(&asked) }
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

/// Builds with Debian's cargo: the standard library, too, which stable Rust lets nobody else do.
fn build(wine: &Wine) -> Result<()> {
    let target = wine.folder().join("build");
    let mut cargo = Command::new("/usr/bin/cargo");
    cargo.args(["build", "--release", "--locked", "-Zbuild-std", "--target", TARGET]);
    cargo.args(["-p", "agent", "-p", "cli"]).current_dir(workspace::root());
    cargo.env("PATH", "/usr/bin:/bin").env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_TARGET_DIR", target);
    // Ours are of another Rust.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "CARGO_MANIFEST_DIR"] {
        cargo.env_remove(name);
    }
    let status = cargo.status().context("cannot run Debian's cargo")?;
    ensure!(status.success(), "the build for Windows failed ({status})");
    Ok(())
}

fn test(asked: &Asked) -> Result<()> {
    let mut cargo = rig::cargo();
    cargo.args(["test", "-p", "e2e", "--test", "windows", "--"]);
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
