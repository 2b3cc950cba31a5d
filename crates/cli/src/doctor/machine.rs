//! The checks without a process: this machine and this environment, as `corprof run` uses them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use diagnostics::{AttachError, Hidden, Process, Unreachable, check_fit};
use nix::unistd::Uid;

use super::cgroup::Limits;
use super::check::{Check, Level, Topic};
use super::folders::Folder;
use super::system;
use super::variables::{Start, Variables};
use crate::{agent, spans};

/// Where control groups are mounted.
pub const CGROUPS: &str = "/sys/fs/cgroup";
/// Where the settings have the output folder.
pub const OUTPUT_DIR: &str = "CORPROF_OUTPUT_DIR";

/// All checks.
pub fn checks(given: Option<&Path>) -> anyhow::Result<Vec<Check>> {
    let own = Process::new(std::process::id());
    let status = own.status().map_err(cannot_look)?;
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let mut checks = vec![agent_here(&own, given)];
    let is_file = |path: &Path| path.is_file();
    let start = Start::Ours;
    checks.extend(Variables { all: &variables, is_file: &is_file, start }.checks());
    checks.push(system::timers(&status, None));
    checks.extend(system::seccomp(&status, true));
    let groups = fs::read_to_string(own.file("cgroup")).unwrap_or_default();
    checks.extend(Limits::read(&groups, Path::new(CGROUPS)).checks());
    let user = Uid::effective().as_raw();
    let groups = status.groups();
    let named = |name: &str| {
        let (_, value) = variables.iter().find(|(other, _)| other == name)?;
        Some(PathBuf::from(value)).filter(|path| !path.as_os_str().is_empty())
    };
    let folder = |topic, path: PathBuf, level| -> anyhow::Result<Check> {
        let path = std::path::absolute(path)?;
        let user = Some((user, groups.as_slice()));
        Ok(Folder { topic, shown: &path, place: &path, user, level }.check())
    };
    let output = named(OUTPUT_DIR).unwrap_or_else(|| "corprof-out".into());
    checks.push(folder(Topic::OutputFolder, output, Level::Prevents)?);
    let temporary = own.temporary_folder(&variables);
    checks.push(folder(Topic::TemporaryFolder, temporary, Level::Note)?);
    let mounts = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    checks.push(system::proc_mount(&mounts, user == 0));
    Ok(checks)
}

/// The agent, and whether what runs here could load it.
fn agent_here(own: &Process, given: Option<&Path>) -> Check {
    let found = match agent::find(given) {
        Ok(path) => path,
        Err(error) => {
            let remedy = "`cargo xtask build` makes it, for this machine";
            return Check::bad(Topic::Agent, Level::Prevents, format!("{error:#}"), remedy);
        }
    };
    let mapped = own.mapped_files().unwrap_or_default();
    match check_fit(own, &mapped, &found) {
        Err(misfit) => misfit_check(&misfit),
        Ok(()) => with_hook(&found),
    }
}

/// An agent that does not fit.
pub fn misfit_check(misfit: &AttachError) -> Check {
    Check::bad(Topic::Agent, Level::Prevents, misfit.reason(), misfit.remedy())
}

/// An agent that fits, and whether its startup hook lies beside it.
fn with_hook(agent: &Path) -> Check {
    match spans::find(agent) {
        Ok(_) => Check::fine(Topic::Agent, format!("{} fits", agent.display())),
        Err(hint) => Check::bad(
            Topic::Agent,
            Level::Degrades,
            format!("{} fits, but there is no {} beside it", agent.display(), spans::HOOK),
            hint,
        ),
    }
}

/// What to say if a process can't be looked at.
pub fn cannot_look(hidden: Hidden) -> anyhow::Error {
    match hidden {
        Hidden::Gone => {
            anyhow::anyhow!("there is no such process; `corprof ps` lists those of .NET")
        }
        Hidden::Denied | Hidden::Failed(_) => anyhow::anyhow!("{}", Unreachable::Hidden(hidden)),
    }
}
