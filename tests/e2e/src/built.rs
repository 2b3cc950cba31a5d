//! The agent and the command line, as users have them: built for release before anything runs.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use anyhow::{Context, Result, anyhow, ensure};
use rig::Rig;

/// What is tested.
#[derive(Clone, Debug)]
pub struct Built {
    /// `libcorprof.so`.
    pub agent: PathBuf,
    /// `corprof`.
    pub corprof: PathBuf,
}

/// Both, built once a process; cargo's own lock orders several processes.
///
/// # Errors
/// If they do not build.
pub fn built() -> Result<&'static Built> {
    static BUILT: OnceLock<std::result::Result<Built, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.as_ref().map_err(|message| anyhow!("{message}"))
}

/// The startup hook, put beside the agent as users have it; once a process.
///
/// # Errors
/// If it does not compile, or there is no compiler ([`rig::Unavailable`] in the chain).
pub fn hook() -> Result<PathBuf> {
    static HOOK: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut hook = HOOK.lock().map_err(|_| anyhow!("the hook was being compiled in a panic"))?;
    if let Some(hook) = &*hook {
        return Ok(hook.clone());
    }
    let put = Rig::ensure()?.put_managed(&target().join("release"))?;
    let first = put.into_iter().next().context("no assembly")?;
    Ok(hook.insert(first).clone())
}

/// The agent that asks the runtime's own walker for a second opinion on each stack, in a folder of
/// its own: it must never be taken for the other.
///
/// # Errors
/// If it does not build.
pub fn oracle() -> Result<PathBuf> {
    let folder = target().join("oracle");
    cargo(&["-p", "agent", "--features", "oracle", "--target-dir", &folder.to_string_lossy()])?;
    let agent = folder.join("release/libcorprof.so");
    ensure!(agent.is_file(), "cargo has built no {agent:?}");
    Ok(agent)
}

fn cargo(what: &[&str]) -> Result<()> {
    let output = rig::cargo()
        .args(["build", "--release", "--quiet"])
        .args(what)
        .current_dir(workspace())
        .output()
        .context("cannot start cargo")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the agent does not build:\n{errors}");
    Ok(())
}

fn build() -> Result<Built> {
    cargo(&["-p", "agent", "-p", "cli"])?;
    let folder = target().join("release");
    let built = Built { agent: folder.join("libcorprof.so"), corprof: folder.join("corprof") };
    for path in [&built.agent, &built.corprof] {
        ensure!(path.is_file(), "cargo has built no {path:?}");
    }
    Ok(built)
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        // Cargo reads a relative one from where it was started: the workspace, in these tests.
        Some(folder) if !folder.is_empty() => workspace().join(folder),
        _ => workspace().join("target"),
    }
}

/// The root of the repository.
pub(crate) fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}
