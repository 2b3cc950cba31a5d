//! Runs a test program: `cargo run -p rig --example app -- NET NAME [ARGUMENTS]`, NET as 3.1 or
//! 9.0. NAME `roslyn` is the compilation of many classes. NET may be preceded by `--print`, which
//! prints the command instead, to run it by hand with other variables.

use anyhow::{Context, Result};
use rig::{Rig, RuntimeVersion};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut arguments = arguments.by_ref().peekable();
    let print = arguments.next_if_eq("--print").is_some();
    let net = arguments.next().context("which version of .NET?")?;
    let name = arguments.next().context("which program?")?;
    let version = RuntimeVersion::ALL.into_iter().find(|version| version.major_minor() == net);
    let version = version.with_context(|| format!("no version {net}"))?;
    let rig = Rig::ensure()?;
    let mut command = match name.as_str() {
        "roslyn" => rig.roslyn_compile_command(version, rig::CLASSES)?,
        name => rig.app(name)?.command(version)?,
    };
    command.args(arguments);
    if print {
        println!("{command:?}");
        return Ok(());
    }
    let status = command.status()?;
    std::process::exit(status.code().unwrap_or(1))
}
