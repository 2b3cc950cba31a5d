//! `cargo xtask setup`: the runtimes, compilers and test programs under `target/rig`.

use anyhow::{Result, ensure};
use rig::{Net8, Rig, RuntimeVersion};

/// Sets up the rig and says what is there.
pub fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "setup takes no arguments");
    let rig = Rig::set_up()?;
    for version in RuntimeVersion::ALL {
        match rig.runtime(version) {
            Ok(runtime) => println!("{version}: {} ({})", runtime.exact(), runtime.origin()),
            Err(unavailable) => println!("{version}: MISSING, {}", unavailable.reason),
        }
    }
    match rig.browser() {
        Ok(_) => println!("browser: there"),
        Err(error) => println!("browser: MISSING, {error:#}"),
    }
    // The other versions only add coverage; without this one and the compilers nothing runs.
    let program = rig.app("plain")?.assembly(Net8)?;
    println!("test programs: such as {}", program.display());
    Ok(())
}
