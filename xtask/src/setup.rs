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
    // All other versions only add coverage; without this one no test program runs.
    rig.runtime(Net8)?;
    println!("test programs: {}", rig.root().join("apps").display());
    Ok(())
}
