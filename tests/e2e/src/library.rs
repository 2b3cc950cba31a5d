//! The native parts of the tests: C sources in `native`, compiled when they are needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use anyhow::{Context, Result, ensure};

use crate::built::target;

/// The library of that source, built.
///
/// # Errors
/// If there is no C compiler, or it refuses.
pub fn library(name: &str) -> Result<PathBuf> {
    compiled(name, &format!("lib{name}.so"), &["-shared", "-fPIC", "-pthread"])
}

/// The program of that source, built.
///
/// # Errors
/// As [`library`].
pub fn launcher(name: &str) -> Result<PathBuf> {
    compiled(name, name, &[])
}

fn compiled(name: &str, file: &str, options: &[&str]) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("native/{name}.c"));
    let folder = target().join("e2e-native");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder:?}"))?;
    let out = folder.join(file);
    // Put into place when it is whole: another test may have it loaded.
    let new = folder.join(format!("{file}.{}", process::id()));
    let status = Command::new("cc")
        .arg("-O1")
        .args(options)
        .arg("-o")
        .args([&new, &source])
        .status()
        .context("no C compiler")?;
    ensure!(status.success(), "{source:?} does not compile");
    fs::rename(&new, &out).with_context(|| format!("cannot write {out:?}"))?;
    Ok(out)
}
