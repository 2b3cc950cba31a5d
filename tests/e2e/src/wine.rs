//! A program that is to run under the agent for Windows, in Wine.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use rig::{Dotnet, Rig, RuntimeVersion, Wine};

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

fn built(wine: &Wine, file: &str) -> Result<PathBuf> {
    let path = wine.built(file);
    ensure!(path.is_file(), "{} is not there: run `cargo xtask windows`", path.display());
    Ok(path)
}
