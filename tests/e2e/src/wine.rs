//! A program that is to run under the agent for Windows, in Wine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rig::{Dotnet, Outcome, Rig, RuntimeVersion, Wine};
use serde_json::Value;

use crate::session::Session;

/// What Windows' variables of the agent are called and hold.
fn agent_variables(library: &str) -> Vec<(&'static str, String)> {
    config::agent_variables(library).into_iter().collect()
}

impl Session {
    /// A test program on .NET for Windows, under the agent for Windows; `None`, and said loudly, if
    /// nobody asked for it or it cannot be had.
    ///
    /// # Errors
    /// If the program does not compile, or the agent was not built.
    pub fn on_windows(test: &str, app: &str, version: RuntimeVersion) -> Result<Option<Self>> {
        let name = format!("{test}-windows-net{}", version.major_minor());
        let rig = Rig::ensure()?;
        let Some(wine) = rig.or_skip(&name, Wine::asked().map_err(Into::into))? else {
            return Ok(None);
        };
        let Dotnet { program, arguments, variables } = rig.app(app)?.on_windows(&wine, version)?;
        let mut command = wine.command(&program)?;
        command.args(arguments).envs(variables);
        let session = Self::of_windows(name, command)?;
        let agent = wine.inside(&built(&wine, "corprof.dll")?)?;
        let folder = wine.inside(&session.folder)?;
        let session = session.set("CORPROF_OUTPUT_DIR", folder);
        Ok(Some(
            agent_variables(&agent)
                .iter()
                .fold(session, |session, (name, value)| session.set(name, value)),
        ))
    }

    /// The same by `corprof.exe run` with its options, which names the agent and the folder.
    ///
    /// # Errors
    /// As [`on_windows`](Self::on_windows).
    pub fn by_windows_run(
        test: &str,
        app: &str,
        version: RuntimeVersion,
        options: &[&str],
    ) -> Result<Option<Self>> {
        let name = format!("{test}-windows-net{}", version.major_minor());
        let rig = Rig::ensure()?;
        let Some(wine) = rig.or_skip(&name, Wine::asked().map_err(Into::into))? else {
            return Ok(None);
        };
        let Dotnet { program, arguments, variables } = rig.app(app)?.on_windows(&wine, version)?;
        let mut command = wine.command(&built(&wine, "corprof.exe")?)?;
        command.arg("run").args(options);
        let session = Self::of_windows(name, command)?;
        let folder = wine.inside(&session.folder)?;
        let words = ["--out", folder.as_str(), "--"].map(str::to_owned);
        let mut session = session.args(words).args([wine.inside(&program)?]).args(arguments);
        session.command.env_remove("CORPROF_OUTPUT_DIR");
        session.command.envs(variables);
        Ok(Some(session.without_agent()))
    }

    /// A command that runs a Windows program.
    fn of_windows(name: String, mut command: Command) -> Result<Self> {
        // A bare machine has no ICU.
        command.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
        Self::make_alone(name, command)
    }
}

/// `corprof.exe`, for what is done beside a program or afterwards.
#[derive(Clone, Debug)]
pub struct WindowsTools {
    wine: Wine,
}

/// A .NET process, as `corprof ps` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Windows' number of it.
    pub pid: String,
    /// `yes` if it can be profiled, `profiled` if it is.
    pub state: String,
}

impl WindowsTools {
    /// Where the build has left them.
    ///
    /// # Errors
    /// If nobody asked for them, or they were not built.
    pub fn asked() -> Result<Self> {
        let wine = Wine::asked()?;
        built(&wine, "corprof.exe")?;
        Ok(Self { wine })
    }

    /// A path as Windows programs see it.
    ///
    /// # Errors
    /// If they don't.
    pub fn inside(&self, path: &Path) -> Result<String> {
        self.wine.inside(path)
    }

    /// `corprof.exe` with these arguments.
    ///
    /// # Errors
    /// If it is not there.
    pub fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = self.wine.command(&built(&self.wine, "corprof.exe")?)?;
        command.args(arguments);
        Ok(command)
    }

    /// A test program on .NET for Windows, without the agent.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn app(&self, app: &str, version: RuntimeVersion) -> Result<Command> {
        let Dotnet { program, arguments, variables } =
            Rig::ensure()?.app(app)?.on_windows(&self.wine, version)?;
        let mut command = self.wine.command(&program)?;
        command.args(arguments).envs(variables);
        command.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
        // It is nobody's that a test looks for.
        command.env("DOTNET_EnableDiagnostics", "0");
        Ok(command)
    }

    /// The same, run to its end.
    ///
    /// # Errors
    /// If it does not end.
    pub fn run(&self, arguments: &[&str]) -> Result<Outcome> {
        const LIMIT: Duration = Duration::from_secs(120);
        // The first Windows program starts Wine's services, with its own output. They stay as long
        // as any runs, and that may be the one that waits for the answer of this.
        rig::run_by_files(self.command(arguments)?, LIMIT)
    }

    /// What it said, of which nothing went wrong.
    ///
    /// # Errors
    /// If something did.
    pub fn good(&self, arguments: &[&str]) -> Result<String> {
        let Outcome { status, stdout, stderr, .. } = self.run(arguments)?;
        let said = format!("{stdout}{stderr}");
        ensure!(status.success(), "corprof {}: {status}: {said}", arguments.join(" "));
        Ok(said)
    }

    /// The .NET processes that listen: one, if a test has one.
    ///
    /// # Errors
    /// If `corprof ps` fails.
    pub fn processes(&self) -> Result<Vec<Listed>> {
        let said = self.run(&["ps", "--json"])?;
        let list: Value = serde_json::from_str(&said.stdout)
            .with_context(|| format!("corprof ps: {}{}", said.stdout, said.stderr))?;
        let processes = list["processes"].as_array().context("no list of processes")?;
        let listed = |process: &Value| Listed {
            pid: process["pid"].to_string(),
            state: process["state"].as_str().unwrap_or_default().to_owned(),
        };
        Ok(processes.iter().map(listed).collect())
    }
}

fn built(wine: &Wine, file: &str) -> Result<PathBuf> {
    let path = wine.built(file);
    ensure!(path.is_file(), "{} is not there: run `cargo xtask windows`", path.display());
    Ok(path)
}
