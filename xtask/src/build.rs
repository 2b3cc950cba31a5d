//! `cargo xtask build`: all that users get, side by side in cargo's folder for releases.

use anyhow::{Result, bail};
use rig::Managed;

use crate::{product, workspace};

const USAGE: &str = "usage: cargo xtask build [--release]";

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    // There is nothing else yet; the flag is what people type.
    if arguments.iter().any(|argument| argument != "--release") {
        bail!("{USAGE}");
    }
    let target = workspace::metadata()?.target_directory;
    let product = product::build(&target)?;
    let labels = product.spans.with_file_name(format!("{}.dll", Managed::Labels.name()));
    for path in [&product.corprof, &product.agent, &product.spans, &labels] {
        println!("{}", path.display());
    }
    Ok(())
}
