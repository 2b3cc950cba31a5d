//! The checks of a running process.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use diagnostics::{
    AttachError, Hidden, Process, Runtime, Status, Unreachable, check_fit, check_system,
};

use super::cgroup::Limits;
use super::check::{Check, Level, Topic};
use super::folders::Folder;
use super::machine::{CGROUPS, OUTPUT_DIR, cannot_look, misfit_check};
use super::system;
use super::variables::{Start, Variables};
use crate::agent;
use crate::target::{Target, without_the_other};

/// How long the runtime may take to answer.
const ANSWER: Duration = Duration::from_secs(3);

/// All checks.
pub fn checks(pid: u32, given: Option<&Path>) -> anyhow::Result<Vec<Check>> {
    let process = Process::new(pid);
    let why = || format!("process {pid}");
    if let Some(of) = process.of_thread() {
        let error = Unreachable::Thread { tid: pid, pid: of };
        anyhow::bail!("{error}");
    }
    let target = match Target::look(process.clone()) {
        Ok(Some(target)) => target,
        Ok(None) if process.started().is_err() => {
            return Err(cannot_look(Hidden::Gone)).with_context(why);
        }
        Ok(None) => return Ok(vec![no_runtime(&process)]),
        Err(hidden) => return Err(cannot_look(hidden)).with_context(why),
    };
    let status = process.status().map_err(cannot_look).with_context(why)?;
    let mut checks = vec![agent_there(&target, given), runtime(&target)];
    checks.push(socket(&target));
    checks.extend(environment(&target));
    checks.extend(other_profiler(&target, &checks));
    checks.push(system::signal(&status, target.is_profiled));
    checks.push(system::timers(&status, status.threads()));
    checks.extend(system::seccomp(&status, false));
    let groups = fs::read_to_string(process.file("cgroup")).unwrap_or_default();
    checks.extend(Limits::read(&groups, Path::new(CGROUPS)).checks());
    checks.extend(folders(&target, &status));
    if target.environment.is_ok() && !process.outside(Path::new("/proc/version")).exists() {
        checks.push(Check::bad(
            Topic::Proc,
            Level::Degrades,
            "the process has no /proc: stacks of waiting threads can't be read",
            "mount it in its container or its root",
        ));
    }
    Ok(checks)
}

/// A process without a runtime: one that starts, or none of .NET's.
fn no_runtime(process: &Process) -> Check {
    let error = diagnostics::Socket::of_process(process).err().unwrap_or(Unreachable::NotDotnet);
    Check::bad(Topic::Runtime, Level::Prevents, error.reason(), error.remedy())
}

/// The agent: in the process already, or whether the process could load it.
fn agent_there(target: &Target, given: Option<&Path>) -> Check {
    if target.is_profiled && given.is_none() {
        let pid = target.process.pid();
        return Check::bad(
            Topic::Agent,
            Level::Note,
            "an agent is in it and works",
            format!("`corprof ctl {pid} status` says what it does"),
        );
    }
    // As the process sees it, it may be a path that is not there for us.
    let path = match (given, agent::find(given)) {
        (_, Ok(path)) => path,
        (Some(path), Err(_)) => path.to_owned(),
        (None, Err(error)) => {
            let remedy = "`cargo xtask build` makes it; --agent names it";
            return Check::bad(Topic::Agent, Level::Prevents, format!("{error:#}"), remedy);
        }
    };
    let Ok(mapped) = &target.mapped else {
        return Check::bad(
            Topic::Agent,
            Level::Note,
            "whether the agent fits can't be seen: it is another user's process",
            "run corprof as that user, or as root",
        );
    };
    match check_fit(&target.process, mapped, &path) {
        Err(misfit @ AttachError::NotVisible(_)) if path.is_file() => {
            match check_system(&target.process, mapped, &path, &path) {
                Err(misfit) => misfit_check(&misfit),
                Ok(()) => Check::bad(
                    Topic::Agent,
                    Level::Note,
                    format!("{}; `corprof attach` puts a copy there", misfit.reason()),
                    misfit.remedy(),
                ),
            }
        }
        Err(misfit) => misfit_check(&misfit),
        Ok(()) => Check::fine(Topic::Agent, format!("{} fits", path.display())),
    }
}

fn runtime(target: &Target) -> Check {
    let cannot =
        |why: Unreachable| Check::bad(Topic::Runtime, Level::Prevents, why.reason(), why.remedy());
    match &target.runtime {
        Some(Runtime::NativeAot) => cannot(Unreachable::NativeAot),
        Some(Runtime::Mono) => cannot(Unreachable::Mono),
        Some(Runtime::CoreClr(library)) => {
            let version = target.version().unwrap_or_else(|| library.display().to_string());
            Check::fine(Topic::Runtime, format!(".NET {version}"))
        }
        Some(Runtime::SingleFile) => Check::fine(Topic::Runtime, ".NET, in a single file"),
        Some(Runtime::Unknown) | None => {
            Check::fine(Topic::Runtime, "a .NET runtime, by the names of its threads")
        }
    }
}

/// The socket is needed to attach, and not by what was loaded from the start.
fn socket(target: &Target) -> Check {
    let level = if target.is_profiled { Level::Note } else { Level::Prevents };
    match target.ask(ANSWER) {
        Ok(Some(info)) => {
            let version = info.runtime_version.unwrap_or_else(|| "of unknown version".to_owned());
            Check::fine(Topic::Socket, format!("the runtime, {version}, answers"))
        }
        Ok(None) => Check::fine(Topic::Socket, "the runtime answers"),
        Err(error) => Check::bad(Topic::Socket, level, error.reason(), error.remedy()),
    }
}

fn environment(target: &Target) -> Vec<Check> {
    let Ok(variables) = &target.environment else {
        return vec![Check::bad(
            Topic::Settings,
            Level::Note,
            "the environment that it was started with can't be seen",
            "run corprof as its user, or as root",
        )];
    };
    let is_file = |path: &Path| target.process.outside(path).is_file();
    let start = Start::Theirs { allows_others: target.allows_others() };
    Variables { all: variables, is_file: &is_file, start }.checks()
}

/// A profiler that was attached, or that the variables don't tell of.
fn other_profiler(target: &Target, so_far: &[Check]) -> Option<Check> {
    if so_far.iter().any(|check| check.topic == Topic::OtherProfiler) {
        return None;
    }
    let Some(other) = target.other_profiler() else {
        return Some(Check::fine(Topic::OtherProfiler, "no other profiler is known to be there"));
    };
    if target.allows_others() {
        return Some(Check::bad(
            Topic::OtherProfiler,
            Level::Note,
            format!("another profiler is loaded: {other}; corprof can be beside it"),
            "nothing, unless one of them disturbs the other",
        ));
    }
    Some(Check::bad(
        Topic::OtherProfiler,
        Level::Prevents,
        format!("another profiler is loaded: {other}, and this runtime has room for only one"),
        without_the_other(),
    ))
}

fn folders(target: &Target, status: &Status) -> Vec<Check> {
    let process = &target.process;
    let groups = status.groups();
    let user = status.user().map(|user| (user, groups.as_slice()));
    let work = fs::read_link(process.file("cwd")).unwrap_or_else(|_| "/".into());
    let check = |topic, path: PathBuf, level| {
        let place = process.outside(&path);
        Folder { topic, shown: &path, place: &place, user, level }.check()
    };
    let named = |name| target.variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let mut checks = Vec::new();
    let Ok(environment) = &target.environment else { return checks };
    // What is attached says itself where it writes to.
    if let Some(output) = named(OUTPUT_DIR) {
        let output = work.join(output);
        checks.push(check(Topic::OutputFolder, output, Level::Prevents));
    }
    let temporary = process.temporary_folder(environment);
    checks.push(check(Topic::TemporaryFolder, temporary, Level::Degrades));
    checks
}
