//! What users get, built for release: the agent and the command line.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rig::Rig;

use crate::workspace;

/// The built files.
#[derive(Clone, Debug)]
pub struct Product {
    /// `libcorprof.so`.
    pub agent: PathBuf,
    /// `corprof`.
    pub corprof: PathBuf,
}

/// Builds both; cargo shows its own progress.
///
/// # Errors
/// If they do not build.
pub fn build(rig: &Rig) -> Result<Product> {
    cargo(&["build", "--release", "--package", "agent", "--package", "cli"])?;
    // The rig stands in cargo's target folder, wherever that is.
    let target = rig.root().parent().context("the rig stands nowhere")?;
    let folder = target.join("release");
    let product = Product { agent: folder.join("libcorprof.so"), corprof: folder.join("corprof") };
    for path in [&product.agent, &product.corprof] {
        ensure!(path.is_file(), "cargo has built no {}", path.display());
    }
    Ok(product)
}

/// Runs cargo in the workspace, with its output where ours goes.
///
/// # Errors
/// If it fails; it has said why.
pub fn cargo(arguments: &[&str]) -> Result<()> {
    let status = Command::new(workspace::cargo())
        .args(arguments)
        .current_dir(workspace::root())
        .status()
        .context("cargo could not be started")?;
    ensure!(status.success(), "cargo {} failed ({status})", arguments.join(" "));
    Ok(())
}
