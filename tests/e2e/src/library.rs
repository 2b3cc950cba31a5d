//! The native libraries of the tests: C sources in `native`, compiled when they are needed.

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
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("native/{name}.c"));
    let folder = target().join("e2e-native");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder:?}"))?;
    let out = folder.join(format!("lib{name}.so"));
    // Put into place when it is whole: another test may have it loaded.
    let new = folder.join(format!("lib{name}.{}.so", process::id()));
    let status = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-pthread", "-o"])
        .args([&new, &source])
        .status()
        .context("no C compiler")?;
    ensure!(status.success(), "{source:?} does not compile");
    fs::rename(&new, &out).with_context(|| format!("cannot write {out:?}"))?;
    Ok(out)
}
