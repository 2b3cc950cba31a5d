//! The managed assemblies, compiled and put where users have them: beside the agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rig::{Managed, Rig};

use crate::workspace;

/// Compiles both into the folder, by the machine's own .NET SDK if there is one and else by the
/// rig's compiler; gives the path of the startup hook.
///
/// # Errors
/// If they do not compile, or there is no compiler.
pub fn build(folder: &Path) -> Result<PathBuf> {
    let by_sdk = || Managed::ALL.iter().try_for_each(|managed| build_by_sdk(*managed, folder));
    let is_built = has_sdk()
        && by_sdk()
            .inspect_err(|error| eprintln!("{error:#}; taking the rig's compiler instead"))
            .is_ok();
    if !is_built {
        Rig::ensure()?.put_managed(folder)?;
    }
    let hook = folder.join(format!("{}.dll", Managed::Spans.name()));
    ensure!(hook.is_file(), "the compiler has made no {}", hook.display());
    Ok(hook)
}

/// A runtime alone has the command too, but no SDK that it could list.
fn has_sdk() -> bool {
    let output = Command::new("dotnet").arg("--list-sdks").stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
}

fn build_by_sdk(managed: Managed, folder: &Path) -> Result<()> {
    let name = managed.name();
    let project = workspace::root().join("managed").join(name).join(format!("{name}.csproj"));
    // Not into the sources, where the SDK would put its own files.
    let scratch = folder.join("managed").join(name);
    let status = Command::new("dotnet")
        .args(["build", "--nologo", "--configuration", "Release", "--output"])
        .arg(scratch.join("out"))
        .arg(format!("-p:BaseIntermediateOutputPath={}/", scratch.join("obj").display()))
        .arg(project)
        .stdin(Stdio::null())
        .status()
        .context("dotnet could not be started")?;
    ensure!(status.success(), "dotnet build of {name} failed ({status})");
    for extension in ["pdb", "dll"] {
        let file = format!("{name}.{extension}");
        let (from, to) = (scratch.join("out").join(&file), folder.join(&file));
        fs::rename(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}
