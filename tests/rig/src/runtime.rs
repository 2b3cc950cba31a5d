//! A runtime: one version of .NET that programs can be run on, and the command that does so.

use std::fmt;
use std::fs;
use std::path::{Display, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::deps::{ASPNETCORE, NETCORE, target_framework};
use crate::layout;

/// The versions that the rig offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuntimeVersion {
    /// .NET Core 3.1, in folder form.
    Net31,
    /// .NET 8, in folder form: the test programs are compiled for this one.
    Net8,
    /// .NET 9 with ASP.NET Core, in folder form.
    Net9,
    /// .NET 10 linked into a single-file program: there is no libcoreclr.so in the process.
    Net10,
}

use RuntimeVersion::{Net8, Net9, Net10, Net31};

impl RuntimeVersion {
    /// All versions, the oldest first.
    pub const ALL: [Self; 4] = [Net31, Net8, Net9, Net10];

    /// "8.0" and so on.
    pub fn major_minor(self) -> &'static str {
        match self {
            Net31 => "3.1",
            Net8 => "8.0",
            Net9 => "9.0",
            Net10 => "10.0",
        }
    }
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".NET {}", self.major_minor())
    }
}

/// The frameworks that a program is compiled against and run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frameworks {
    /// Microsoft.NETCore.App alone.
    NetCore,
    /// ASP.NET Core as well.
    AspNetCore,
}

impl Frameworks {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::NetCore => &[NETCORE],
            Self::AspNetCore => &[NETCORE, ASPNETCORE],
        }
    }
}

/// How a runtime lies on the disk.
#[derive(Clone, Debug)]
enum Form {
    /// A dotnet root with shared frameworks.
    Folder { root: PathBuf },
    /// An executable that holds the runtime, and the startup hook that puts a program into it.
    SingleFile { host: PathBuf, hook: PathBuf },
}

/// A runtime that is there.
#[derive(Clone, Debug)]
pub struct Runtime {
    version: RuntimeVersion,
    exact: String,
    form: Form,
}

/// Variables of the caller that would change how the runtime works, behind a test's back.
const FOREIGN_PREFIXES: [&str; 5] = ["CORECLR_", "CORPROF_", "COMPlus_", "DOTNET_", "RIG_"];

impl Runtime {
    pub(crate) fn folder(version: RuntimeVersion, exact: &str, root: &Path) -> Self {
        let form = Form::Folder { root: root.to_owned() };
        Self { version, exact: exact.to_owned(), form }
    }

    pub(crate) fn single_file(
        version: RuntimeVersion,
        exact: &str,
        host: PathBuf,
        hook: PathBuf,
    ) -> Self {
        Self { version, exact: exact.to_owned(), form: Form::SingleFile { host, hook } }
    }

    /// Which of the rig's versions this is.
    pub fn version(&self) -> RuntimeVersion {
        self.version
    }

    /// The exact version: "8.0.4".
    pub fn exact(&self) -> &str {
        &self.exact
    }

    /// The folder or file that it runs from.
    pub fn origin(&self) -> Display<'_> {
        match &self.form {
            Form::Folder { root } => root.display(),
            Form::SingleFile { host, .. } => host.display(),
        }
    }

    /// The module that holds the runtime's code: libcoreclr.so, or the single-file executable.
    pub fn coreclr(&self) -> PathBuf {
        match &self.form {
            Form::Folder { root } => {
                root.join("shared").join(NETCORE).join(&self.exact).join("libcoreclr.so")
            }
            Form::SingleFile { host, .. } => host.clone(),
        }
    }

    /// The folders of the frameworks' assemblies; none if they are inside a single file.
    pub fn framework_dirs(&self, frameworks: Frameworks) -> Vec<PathBuf> {
        match &self.form {
            Form::Folder { root } => {
                let shared = root.join("shared");
                let names = frameworks.names().iter();
                names.map(|name| shared.join(name).join(&self.exact)).collect()
            }
            Form::SingleFile { .. } => Vec::new(),
        }
    }

    /// Whether programs that need these frameworks run on it.
    pub fn has(&self, frameworks: Frameworks) -> bool {
        // The single file holds ASP.NET Core as well, out of sight.
        self.framework_dirs(frameworks).iter().all(|dir| dir.is_dir())
    }

    /// The command that runs the program on this runtime; environment and arguments may be added.
    pub fn command(&self, program: &Path, frameworks: Frameworks) -> Result<Command> {
        let mut command = match &self.form {
            Form::Folder { root } => {
                let config = self.write_config(program, frameworks)?;
                let mut command = Command::new(root.join("dotnet"));
                command.arg("exec").arg("--runtimeconfig").arg(config).arg(program);
                command
            }
            Form::SingleFile { host, .. } => Command::new(host),
        };
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if FOREIGN_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        if let Form::SingleFile { hook, .. } = &self.form {
            command.env("DOTNET_STARTUP_HOOKS", hook).env("RIG_APP", program);
        }
        // A bare machine has no ICU, and without it the runtime would not start.
        command.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
        Ok(command)
    }

    /// Writes `PROGRAM.netX.Y.runtimeconfig.json`, by which one program runs on several versions.
    fn write_config(&self, program: &Path, frameworks: Frameworks) -> Result<PathBuf> {
        let tfm = target_framework(&self.exact);
        let path = program.with_extension(format!("{tfm}.runtimeconfig.json"));
        let text = self.config(frameworks).to_string();
        if fs::read_to_string(&path).is_ok_and(|present| present == text) {
            return Ok(path);
        }
        // Renamed into place, since another test may start the same program at this moment.
        let new = program.with_extension(format!("{tfm}.{}", layout::unique()));
        fs::write(&new, text).with_context(|| format!("cannot write {new:?}"))?;
        fs::rename(&new, &path).with_context(|| format!("cannot write {path:?}"))?;
        Ok(path)
    }

    fn config(&self, frameworks: Frameworks) -> Value {
        let names = frameworks.names().iter();
        let frameworks: Vec<_> =
            names.map(|name| json!({ "name": name, "version": self.exact })).collect();
        json!({ "runtimeOptions": {
            "tfm": target_framework(&self.exact),
            "frameworks": frameworks,
            "rollForward": "LatestPatch",
            "configProperties": { "System.Globalization.Invariant": true },
        }})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_file_takes_the_program_by_the_hook() {
        let runtime = Runtime::single_file(Net10, "10.0.13", "/rt/host".into(), "/rt/hook".into());
        let command = runtime.command(Path::new("/apps/split.dll"), Frameworks::NetCore).unwrap();
        assert_eq!(command.get_program(), "/rt/host");
        assert_eq!(command.get_args().count(), 0);
        let app = command.get_envs().find(|(name, _)| *name == "RIG_APP").unwrap().1;
        assert_eq!(app.unwrap(), "/apps/split.dll");
        assert_eq!(runtime.coreclr(), Path::new("/rt/host"));
        assert!(runtime.framework_dirs(Frameworks::NetCore).is_empty());
    }

    #[test]
    fn a_folder_runs_the_program_by_its_launcher_and_an_exact_configuration() {
        let dir = std::env::temp_dir().join(format!("rig-runtime-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let runtime = Runtime::folder(Net8, "8.0.4", Path::new("/rt"));
        let command = runtime.command(&dir.join("split.dll"), Frameworks::NetCore).unwrap();
        assert_eq!(command.get_program(), "/rt/dotnet");
        let config = dir.join("split.net8.0.runtimeconfig.json");
        let config: Value = serde_json::from_slice(&fs::read(config).unwrap()).unwrap();
        let frameworks = json!([{ "name": NETCORE, "version": "8.0.4" }]);
        assert_eq!(config["runtimeOptions"]["frameworks"], frameworks);
        fs::remove_dir_all(&dir).unwrap();
    }
}
