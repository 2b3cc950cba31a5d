//! `cargo xtask loom`: the concurrent parts of `signal` under loom, in a build of their own.

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "loom takes no arguments");
    let target = workspace::root().join("target").join("loom");
    // Only loom's own tests: the atomics of all others would be loom's too, outside of a model.
    let status = rig::cargo()
        .args(["test", "--release", "--package", "signal", "--test", "loom"])
        .arg("--target-dir")
        .arg(target)
        .env("RUSTFLAGS", "--cfg loom")
        .current_dir(workspace::root())
        .status()
        .context("cargo test")?;
    if !status.success() {
        bail!("loom found an order that breaks a promise: {status}");
    }
    Ok(())
}
