//! What users get, built for release: the agent, its managed part, and the command line.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{managed, workspace};

/// What builds both. Always both: a package built alone has other features of what they share, so
/// it would be built anew each time the one follows the other, and what is checked would not be
/// what is shipped.
pub const BUILD: [&str; 6] = ["build", "--release", "--package", "agent", "--package", "cli"];

/// The built files.
#[derive(Clone, Debug)]
pub struct Product {
    /// `libcorprof.so`.
    pub agent: PathBuf,
    /// `corprof`.
    pub corprof: PathBuf,
    /// `Corprof.Spans.dll`.
    pub spans: PathBuf,
}

impl Product {
    /// A program's command with `corprof run` and these options before it.
    #[must_use]
    pub fn profiled<O: AsRef<OsStr>>(
        &self,
        program: &Command,
        options: impl IntoIterator<Item = O>,
    ) -> Command {
        let mut command = Command::new(&self.corprof);
        command.arg("run").args(options).arg("--");
        command.arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("CORPROF_AGENT", &self.agent).current_dir(workspace::root());
        command
    }

    /// A program's command with the variables of the agent, as a service has them: the process is
    /// the program itself. Profiles go to that folder.
    #[must_use]
    pub fn with_agent(&self, program: &Command, folder: &Path) -> Command {
        self.after(r#"eval "$("$0" env --out "$1")"; shift; exec "$@""#, program, folder)
    }

    /// The same without the agent, after just as much work for the shell.
    #[must_use]
    pub fn without_agent(&self, program: &Command, folder: &Path) -> Command {
        self.after(r#"(eval "$("$0" env --out "$1")"); shift; exec "$@""#, program, folder)
    }

    fn after(&self, script: &str, program: &Command, folder: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&self.corprof).arg(folder);
        command.arg(program.get_program()).args(program.get_args());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("CORPROF_AGENT", &self.agent);
        command
    }
}

/// Builds all into cargo's target folder; cargo and the rig show their own progress.
///
/// # Errors
/// If something does not build.
pub fn build(target: &Path) -> Result<Product> {
    cargo(&BUILD)?;
    let folder = target.join("release");
    let spans = managed::build(&folder)?;
    let (agent, corprof) = (folder.join("libcorprof.so"), folder.join("corprof"));
    let product = Product { agent, corprof, spans };
    for path in [&product.agent, &product.corprof] {
        ensure!(path.is_file(), "cargo has built no {}", path.display());
    }
    Ok(product)
}

/// Runs cargo in the workspace, with its output where ours goes.
///
/// # Errors
/// If it fails; it has said why.
pub fn cargo(arguments: &[&str]) -> Result<()> {
    cargo_with(arguments, &[])
}

/// The same, with variables.
pub fn cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let status = rig::cargo()
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(workspace::root())
        .status()
        .context("cargo could not be started")?;
    ensure!(status.success(), "cargo {} failed ({status})", arguments.join(" "));
    Ok(())
}
