//! A .NET process as the commands for running processes see it, and what keeps corprof out of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::PROFILER_GUID;
use diagnostics::{
    AttachError, Hidden, NamedProfiler, Process, ProcessInfo, RequestError, Runtime, Socket,
    Switch, Unreachable, check_fit, check_system, other_profilers, our_agent, switched_off,
};

/// How the agent's threads begin; a library that was detached stays mapped, without them.
const OUR_THREADS: &str = "corprof-";
/// The first version of .NET that loads profilers beside its main one.
const FIRST_WITH_OTHERS: u32 = 6;
/// Threads whose names are looked at.
const THREADS_LOOKED_AT: usize = 256;

/// Why a process can't be profiled now, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Why, in some words.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

/// A .NET process.
#[derive(Debug)]
pub struct Target {
    /// The process.
    pub process: Process,
    /// Its user; `None` if that can't be seen.
    pub user: Option<u32>,
    /// Its command line.
    pub command: Vec<String>,
    /// Its runtime; `None` if only its threads' names show that it has one.
    pub runtime: Option<Runtime>,
    /// What it has mapped, if we may look.
    pub mapped: Result<Vec<PathBuf>, Hidden>,
    /// What it was started with, if we may look.
    pub environment: Result<Vec<(String, String)>, Hidden>,
    /// Whether the agent works in it.
    pub is_profiled: bool,
}

impl Target {
    /// Looks at a process, without talking to it; `None` if it is none of .NET's.
    ///
    /// # Errors
    /// If it can't be seen whether it is one.
    pub fn look(process: Process) -> Result<Option<Self>, Hidden> {
        let command = process.command_line()?;
        if command.is_empty() {
            // A thread of the kernel, or a process that has ended.
            return Ok(None);
        }
        let mapped = process.mapped_files();
        let runtime = match &mapped {
            Ok(files) => match Runtime::of(&process, files)? {
                Some(runtime) => Some(runtime),
                None => return Ok(None),
            },
            Err(Hidden::Gone) => return Ok(None),
            // Names of threads may be seen by everybody, unless /proc hides even that.
            Err(hidden) => match process.thread_names(THREADS_LOOKED_AT) {
                Ok(names) if names.iter().any(|name| name.starts_with(".NET ")) => None,
                _ => return Err(*hidden),
            },
        };
        let user = process.status().ok().and_then(|status| status.user());
        let environment = process.environment();
        let is_ours = mapped.as_ref().is_ok_and(|mapped| our_agent(mapped).is_some());
        let is_profiled = is_ours && has_our_threads(&process);
        Ok(Some(Self { process, user, command, runtime, mapped, environment, is_profiled }))
    }

    /// A variable that it was started with.
    pub fn variable(&self, name: &str) -> Option<String> {
        let variables = self.environment.as_ref().ok()?;
        let (_, value) = variables.iter().find(|(other, _)| other == name)?;
        Some(value.clone())
    }

    /// Asks the runtime for what it knows of itself.
    ///
    /// # Errors
    /// If it can't be asked, or does not answer in that time. .NET Core 3.1 knows nothing.
    pub fn ask(&self, timeout: Duration) -> Result<Option<ProcessInfo>, Unreachable> {
        let socket = Socket::of_process(&self.process)?.with_timeout(timeout);
        match socket.process_info() {
            Ok(info) => Ok(Some(info)),
            Err(RequestError::Refused(_)) => Ok(None),
            Err(RequestError::Io(error))
                if error.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Err(self.user.map_or(Unreachable::Hidden(Hidden::Denied), Unreachable::OtherUser))
            }
            Err(error) => Err(Unreachable::Silent(error)),
        }
    }

    /// The runtime's version, as far as it is known without asking.
    pub fn version(&self) -> Option<String> {
        self.runtime.as_ref()?.version()
    }

    /// Another profiler that is loaded: its name or its library.
    pub fn other_profiler(&self) -> Option<String> {
        let mapped = self.mapped.as_ref().ok()?;
        if let Some(other) = other_profilers(mapped).into_iter().next() {
            return Some(other.owner.to_owned());
        }
        let named = NamedProfiler::of(|name| self.variable(name))?;
        let (_, library) = named.library.as_ref().filter(|_| !named.is(PROFILER_GUID))?;
        let name = library.file_name()?;
        let is_loaded = mapped.iter().any(|file| file.file_name() == Some(name));
        is_loaded.then(|| library.display().to_string())
    }

    /// Whether its runtime has room for us beside another profiler: .NET since 6.
    pub fn allows_others(&self) -> bool {
        let version = self.version().unwrap_or_default();
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        major.is_none_or(|major| major >= FIRST_WITH_OTHERS)
    }

    /// What keeps an agent out of it, apart from its socket; `None` if nothing is known to.
    pub fn obstacle(&self, agent: Option<&Path>) -> Option<Obstacle> {
        let because = |unreachable: Unreachable| Obstacle {
            reason: unreachable.reason(),
            remedy: unreachable.remedy().to_owned(),
        };
        match &self.runtime {
            Some(Runtime::NativeAot) => return Some(because(Unreachable::NativeAot)),
            Some(Runtime::Mono) => return Some(because(Unreachable::Mono)),
            _ => {}
        }
        if let Some(setting) = switched_off(Switch::Profiler, |name| self.variable(name)) {
            return Some(Obstacle {
                reason: format!("profilers are switched off by {setting}"),
                remedy: "start it without that variable".to_owned(),
            });
        }
        if let Some(other) = self.other_profiler().filter(|_| !self.allows_others()) {
            return Some(Obstacle {
                reason: format!("another profiler is loaded: {other}"),
                remedy: without_the_other(),
            });
        }
        let mapped = self.mapped.as_ref().ok()?;
        let agent = agent?;
        let misfit = match check_fit(&self.process, mapped, agent) {
            // `corprof attach` puts a copy there.
            Err(AttachError::NotVisible(_)) if agent.is_file() => {
                check_system(&self.process, mapped, agent, agent).err()?
            }
            other => other.err()?,
        };
        Some(Obstacle { reason: misfit.reason(), remedy: misfit.remedy() })
    }
}

/// What to do if another profiler is there, and the runtime has no room for us beside it.
pub fn without_the_other() -> String {
    "run it on .NET 6 or newer, where corprof can be beside another profiler, or start it without \
     the other one: unset CORECLR_ENABLE_PROFILING"
        .to_owned()
}

fn has_our_threads(process: &Process) -> bool {
    let names = process.thread_names(usize::MAX).unwrap_or_default();
    names.iter().any(|name| name.starts_with(OUR_THREADS))
}
