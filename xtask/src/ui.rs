//! `cargo xtask ui`: builds the pages in `ui/dist` out of their TypeScript, or checks that they are
//! what the sources say.
//!
//! What is built is committed, so that the command line builds without Node.js.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

const USAGE: &str = "usage: cargo xtask ui [--check]";
const PAGES: [&str; 2] = ["flamegraph.html", "view.html"];
/// Holds the lock file that the installed packages are of.
const INSTALLED: &str = "node_modules/.installed";

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    let is_check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => bail!(USAGE),
    };
    let folder = workspace::root().join("ui");
    install(&folder)?;
    call(&folder, "npx", &["--no-install", "tsc", "--noEmit"])?;
    if !is_check {
        return call(&folder, "node", &["build.mjs"]);
    }
    let fresh = workspace::metadata()?.target_directory.join("ui");
    call(&folder, "node", &["build.mjs", &fresh.to_string_lossy()])?;
    for page in PAGES {
        let built = fs::read(fresh.join(page))?;
        let committed = fs::read(folder.join("dist").join(page)).unwrap_or_default();
        ensure!(
            built == committed,
            "ui/dist/{page} is not what its sources say: run `cargo xtask ui` and commit it"
        );
        println!("ui/dist/{page} is what its sources say");
    }
    Ok(())
}

/// The pinned compiler and bundler, unless they are there; no script of a package is run.
fn install(folder: &Path) -> Result<()> {
    let lock = fs::read(folder.join("package-lock.json")).context("ui/package-lock.json")?;
    let installed = folder.join(INSTALLED);
    if fs::read(&installed).is_ok_and(|of| of == lock) {
        return Ok(());
    }
    call(folder, "npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"])?;
    fs::write(installed, lock)?;
    Ok(())
}

fn call(folder: &Path, program: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .status()
        .with_context(|| {
            format!("cannot run {program}: install Node.js with npm (on Debian: nodejs, npm)")
        })?;
    ensure!(status.success(), "{program} {} failed ({status})", arguments.join(" "));
    Ok(())
}
