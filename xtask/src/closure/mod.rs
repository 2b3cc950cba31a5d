//! `cargo xtask signal-closure`: follows, in the linked library, everything that a signal handler
//! can reach, and fails on what may deadlock, allocate, panic or touch thread-local storage.

mod image;
mod reach;
mod report;
mod rules;
mod scan;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::{product, workspace};
use image::Image;
pub use rules::HANDLERS;
use rules::POLICY;

const USAGE: &str = "usage: cargo xtask signal-closure [--lib PATH]";
const LIBRARY: &str = "libcorprof.so";

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    let library = match arguments {
        [] => build()?,
        [flag, path] if flag == "--lib" => PathBuf::from(path),
        _ => bail!("{USAGE}"),
    };
    let bytes = std::fs::read(&library).with_context(|| format!("{}", library.display()))?;
    let image = Image::parse(&bytes).with_context(|| format!("{}", library.display()))?;
    let closure = reach::follow(&image, &POLICY);
    let text = report::text(&closure, &library.display().to_string());
    if closure.offences.is_empty() && closure.doubts.is_empty() {
        print!("{text}");
        return Ok(());
    }
    eprint!("{text}");
    bail!(
        "the signal handlers' closure breaks {} rule(s); {} doubt(s) about the check itself",
        closure.offences.len(),
        closure.doubts.len()
    )
}

/// Builds the library as it is shipped.
fn build() -> Result<PathBuf> {
    product::cargo(&product::BUILD)?;
    Ok(workspace::metadata()?.target_directory.join("release").join(LIBRARY))
}
