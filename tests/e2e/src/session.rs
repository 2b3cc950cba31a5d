//! A program that is to run under the agent.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rig::{Net8, Net9, Rig, RuntimeVersion};

use crate::alone::Alone;
use crate::built::{built, hook, target};
use crate::form::Form;
use crate::run::Run;
use crate::tasks::Tasks;

/// Longer than any program here runs, however busy the machine.
const LIMIT: Duration = Duration::from_secs(300);

/// A program, its arguments and its environment; not started yet. Nobody else measures while it is
/// there.
#[derive(Debug)]
pub struct Session {
    /// The test's name, which is its folder's, too.
    pub name: String,
    /// The command, with the agent in its environment.
    pub command: Command,
    /// Where its profiles go.
    pub folder: PathBuf,
    limit: Duration,
    alone: Arc<Alone>,
}

/// Names the startup hook to .NET, after the hooks that the command has already.
///
/// # Errors
/// As [`hook`](crate::hook).
pub fn add_hook(command: &mut Command) -> Result<()> {
    const VARIABLE: &str = "DOTNET_STARTUP_HOOKS";
    let present = command.get_envs().find(|(name, _)| *name == VARIABLE);
    let mut value = present.and_then(|(_, value)| value).unwrap_or_default().to_owned();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(hook()?);
    command.env(VARIABLE, value);
    Ok(())
}

/// Does the same on the two runtimes that are checked first of all.
///
/// # Errors
/// Those of both.
pub fn on_both(test: impl Fn(RuntimeVersion) -> Result<()>) -> Result<()> {
    on_each([Net8, Net9], test)
}

/// Does the same on that runtime, and in the long form on both that are checked first of all: what
/// doesn't depend on the runtime needs no second one with each change.
///
/// # Errors
/// Those of all.
pub fn on_one(version: RuntimeVersion, test: impl Fn(RuntimeVersion) -> Result<()>) -> Result<()> {
    if Form::asked()?.is_long() { on_both(test) } else { on_each([version], test) }
}

pub(crate) fn on_each(
    versions: impl IntoIterator<Item = RuntimeVersion>,
    test: impl Fn(RuntimeVersion) -> Result<()>,
) -> Result<()> {
    let results = versions.into_iter().map(|version| {
        test(version).with_context(|| format!("on {version}")).map_err(|error| format!("{error:#}"))
    });
    let errors: Vec<String> = results.filter_map(Result::err).collect();
    anyhow::ensure!(errors.is_empty(), "{}", errors.join("\n\n"));
    Ok(())
}

impl Session {
    /// A test program under the agent; `None`, and said loudly, if the runtime cannot be had.
    ///
    /// # Errors
    /// If the agent or the program does not build.
    pub fn new(test: &str, app: &str, version: RuntimeVersion) -> Result<Option<Self>> {
        let name = format!("{test}-net{}", version.major_minor());
        let command = Rig::ensure()?.command_or_skip(&name, app, version)?;
        Self::alone(name, command)
    }

    /// The C# compiler at work on so many classes, under the agent; else as [`new`](Self::new).
    ///
    /// # Errors
    /// As `new`.
    pub fn compiling(test: &str, classes: u32, version: RuntimeVersion) -> Result<Option<Self>> {
        let name = format!("{test}-net{}", version.major_minor());
        let rig = Rig::ensure()?;
        let command = rig.or_skip(&name, rig.roslyn_compile_command(version, classes))?;
        Self::alone(name, command)
    }

    fn alone(name: String, command: Option<Command>) -> Result<Option<Self>> {
        let Some(command) = command else { return Ok(None) };
        // Before the lock: others may measure while this builds.
        built()?;
        Self::make(name, command, Arc::new(Alone::take()?)).map(Some)
    }

    /// Another program, to run at the same time as this one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn beside(&self, test: &str, app: &str, version: RuntimeVersion) -> Result<Option<Self>> {
        let name = format!("{test}-net{}", version.major_minor());
        let Some(command) = Rig::ensure()?.command_or_skip(&name, app, version)? else {
            return Ok(None);
        };
        Self::make(name, command, Arc::clone(&self.alone)).map(Some)
    }

    fn make(name: String, mut command: Command, alone: Arc<Alone>) -> Result<Self> {
        let agent = &built()?.agent;
        command.envs(config::agent_variables(&agent.to_string_lossy()));
        Self::make_without_agent(name, command, alone)
    }

    /// The same without an agent, and nobody else measures meanwhile.
    pub(crate) fn make_alone(name: String, command: Command) -> Result<Self> {
        Self::make_without_agent(name, command, Arc::new(Alone::take()?))
    }

    fn make_without_agent(name: String, mut command: Command, alone: Arc<Alone>) -> Result<Self> {
        let folder = target().join("e2e").join(&name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {folder:?}"))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder:?}"))?;
        command.env("CORPROF_OUTPUT_DIR", &folder);
        // What a test asks for is what it gets, however much that costs.
        command.env("CORPROF_CPU_BUDGET", "100%");
        // Cargo sets it for the tests; nobody's program has it.
        command.env_remove("LD_LIBRARY_PATH");
        Ok(Self { name, command, folder, limit: LIMIT, alone })
    }

    /// With the startup hook that tells the agent of requests, after the hooks that the program has
    /// already.
    ///
    /// # Errors
    /// As [`hook`](crate::hook).
    pub fn with_spans(mut self) -> Result<Self> {
        add_hook(&mut self.command)?;
        Ok(self)
    }

    /// With more arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// With a variable of the environment.
    #[must_use]
    pub fn set(mut self, variable: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(variable, value);
        self
    }

    /// Without the agent: it is to be attached.
    #[must_use]
    pub fn without_agent(mut self) -> Self {
        for (name, _) in config::agent_variables("") {
            self.command.env_remove(name);
        }
        self
    }

    /// Killed if it still runs after that time.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Started by another program, whose arguments end with the command.
    #[must_use]
    pub fn behind<A: AsRef<OsStr>>(
        mut self,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let inner = self.command;
        let mut outer = Command::new(program);
        outer.args(arguments).arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        self.command = outer;
        self
    }

    /// Runs it to its end and reads its profiles.
    ///
    /// # Errors
    /// If it cannot be started, does not end, or leaves something that is no profile.
    pub fn run(self) -> Result<Run> {
        self.run_watched(|_| {})
    }

    /// The same; `watch` is called over and over while it runs, with its process id.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_watched(self, mut watch: impl FnMut(u32)) -> Result<Run> {
        let Self { name, command, folder, limit, alone } = self;
        let mut tasks = Tasks::default();
        let outcome = rig::run_watched(command, limit, |pid| {
            tasks.look(pid);
            watch(pid);
        })
        .with_context(|| name.clone())?;
        drop(alone);
        Run::read(name, folder, outcome, tasks)
    }
}
