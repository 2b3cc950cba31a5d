//! The agent library: where it is, and whether it can be loaded here.

use std::env;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
#[cfg(unix)]
use diagnostics::machine_name;

use crate::folder;

/// The agent's file name.
pub const LIBRARY: &str = if cfg!(windows) { "corprof.dll" } else { "libcorprof.so" };
/// Environment variable that names the agent.
const VARIABLE: &str = "CORPROF_AGENT";
#[cfg(unix)]
/// Where ELF says which processor it is for, and what this one is.
const ELF_MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
#[cfg(unix)]
/// ELF's number for shared libraries.
const ELF_SHARED: u16 = 3;

/// Finds the agent and checks it; the path is absolute.
///
/// # Errors
/// If there is none, or it can't be loaded on this machine; the message says what to do.
pub fn find(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return check(path).context("the agent given by --agent can't be used");
    }
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        let why = || format!("the agent given by {VARIABLE} can't be used");
        return check(Path::new(&path)).with_context(why);
    }
    let places = places();
    match places.iter().find(|place| place.is_file()) {
        Some(path) => check(path).context("the agent beside corprof can't be used"),
        None => {
            let list: Vec<_> = places.iter().map(|p| format!("\n  {}", p.display())).collect();
            bail!(
                "there is no agent ({LIBRARY}) here; name it with --agent PATH or {VARIABLE}. \
                 Looked at:{}",
                list.concat()
            )
        }
    }
}

/// Where the agent may be: beside the executable, in `lib` of an installation, and in the other
/// profile's folder of a source tree.
fn places() -> Vec<PathBuf> {
    let Ok(program) = env::current_exe().and_then(fs::canonicalize).map(folder::plain) else {
        return Vec::new();
    };
    let Some(folder) = program.parent() else { return Vec::new() };
    let mut places = vec![folder.join(LIBRARY)];
    let Some(above) = folder.parent() else { return places };
    if above.file_name().is_some_and(|name| name == "target") {
        places.extend(["release", "debug"].map(|profile| above.join(profile).join(LIBRARY)));
        places.dedup();
    } else {
        places.push(above.join("lib/corprof").join(LIBRARY));
    }
    places
}

fn check(path: &Path) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    let path = folder::plain(fs::canonicalize(path).with_context(|| format!("{shown}"))?);
    if !path.is_file() {
        bail!("{shown}: not a file; it should be {LIBRARY}");
    }
    check_library(&path)?;
    Ok(path)
}

/// Whether a file is an image of Windows; the system says the rest when it loads it.
#[cfg(windows)]
fn check_library(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let mut head = [0; 2];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    if read.is_err() || &head != b"MZ" {
        bail!("{shown}: not a library of this system");
    }
    Ok(())
}

/// Whether a file is a library for this processor.
#[cfg(unix)]
fn check_library(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let mut head = [0; 20];
    let mut file = File::open(path).with_context(|| format!("{shown}"))?;
    if file.read_exact(&mut head).is_err() || !head.starts_with(b"\x7fELF") {
        bail!("{shown}: not a library of this system (no ELF header)");
    }
    let [_, _, _, _, class, order, .., kind_low, kind_high, machine_low, machine_high] = head;
    let machine = u16::from_le_bytes([machine_low, machine_high]);
    if (class, order, machine) != (2, 1, ELF_MACHINE) {
        bail!(
            "{shown}: made for {}, and this machine is {}; take the agent for this one",
            machine_name(machine),
            machine_name(ELF_MACHINE)
        );
    }
    if u16::from_le_bytes([kind_low, kind_high]) != ELF_SHARED {
        bail!("{shown}: an ELF file, but not a shared library");
    }
    Ok(())
}
