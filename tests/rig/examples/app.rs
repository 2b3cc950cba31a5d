//! Runs a test program: `cargo run -p rig --example app -- NET NAME [ARGUMENTS]`, NET as 3.1 or 9.0.

use anyhow::{Context, Result};
use rig::{Rig, RuntimeVersion};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let net = arguments.next().context("which version of .NET?")?;
    let name = arguments.next().context("which program?")?;
    let version = RuntimeVersion::ALL.into_iter().find(|version| version.major_minor() == net);
    let version = version.with_context(|| format!("no version {net}"))?;
    let mut command = Rig::ensure()?.app(&name)?.command(version)?;
    let status = command.args(arguments).status()?;
    std::process::exit(status.code().unwrap_or(1))
}
