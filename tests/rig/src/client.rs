//! The registries' clients: pip, npm and apt-get, run in a folder of their own.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::digest;
use crate::package::{Package, Registry};
use crate::progress::Step;

/// Of a failed client's messages, the last lines name the cause.
const MESSAGE_LINES_MAX: usize = 6;

/// Downloads the package into the empty folder `dir` and checks it; gives its file, or the folder
/// if there are several.
pub(crate) fn download(package: &Package, dir: &Path, step: &Step) -> Result<PathBuf> {
    let Package { name, version, megabytes, .. } = package;
    let registry = match package.registry {
        Registry::PyPi | Registry::PyPiWindows => "PyPI",
        Registry::Npm => "npm",
        Registry::Apt | Registry::AptWithNeeds => "apt",
    };
    step.note(&format!("downloading {name} {version} from {registry} ({megabytes} MB)"));
    match package.registry {
        Registry::PyPi => pip(package, &[], dir)?,
        Registry::PyPiWindows => pip(package, &["--platform", "win_amd64"], dir)?,
        Registry::Npm => npm(package, dir)?,
        Registry::Apt => return apt(package, dir, step),
        Registry::AptWithNeeds => return apt_with_needs(package, dir, step),
    }
    let archive = only_file(dir)?;
    check(package, &archive)?;
    Ok(archive)
}

fn pip(package: &Package, more: &[&str], dir: &Path) -> Result<()> {
    let wanted = format!("{}=={}", package.name, package.version);
    let arguments = ["download", "--no-deps", "--only-binary=:all:", "--quiet", wanted.as_str()];
    let advice = "install Python 3 with pip (on Debian: apt-get install python3-pip)";
    let mut module = Command::new("python3");
    module.args(["-m", "pip"]).args(arguments).args(more);
    let mut script = Command::new("pip3");
    script.args(arguments).args(more);
    run_first([module, script], dir, advice)
}

fn npm(package: &Package, dir: &Path) -> Result<()> {
    let mut command = Command::new("npm");
    command.args(["pack", "--silent", &format!("{}@{}", package.name, package.version)]);
    run_first([command], dir, "install Node.js with npm (on Debian: apt-get install npm)")
}

/// A distribution drops a version when it publishes the next, so another version is taken rather
/// than none: apt has then checked it against the distribution's signature.
fn apt(package: &Package, dir: &Path, step: &Step) -> Result<PathBuf> {
    let advice = "the C# compiler mcs comes from Debian's or Ubuntu's archive by apt-get";
    let apt_get = |wanted: &str| {
        let mut command = Command::new("apt-get");
        command.args(["download", "--quiet", wanted]);
        run_first([command], dir, advice)
    };
    if apt_get(&format!("{}={}", package.name, package.version)).is_ok() {
        let archive = only_file(dir)?;
        check(package, &archive)?;
        return Ok(archive);
    }
    step.note(&format!("apt has no {} {}: taking its current one", package.name, package.version));
    if apt_get(package.name).is_err() {
        step.note("apt does not know the package: refreshing its lists");
        let mut update = Command::new("apt-get");
        update.args(["update", "--quiet"]);
        run_first([update], dir, advice)?;
        apt_get(package.name)?;
    }
    only_file(dir)
}

/// Also for a user who may not install anything: nothing is locked, and nothing outside of `dir` is
/// written.
fn apt_with_needs(package: &Package, dir: &Path, step: &Step) -> Result<PathBuf> {
    let advice = "the browser comes from Debian's archive by apt-get";
    let folder = dir.display();
    let archives = format!("Dir::Cache::archives={folder}");
    let download = || {
        let mut command = Command::new("apt-get");
        for option in ["Debug::NoLocking=1", "APT::Sandbox::User=", archives.as_str()] {
            command.args(["-o", option]);
        }
        command.args(["install", "--download-only", "--no-install-recommends", "--yes", "--quiet"]);
        command.args([package.name, "fonts-dejavu-core"]);
        run_first([command], dir, advice)
    };
    fs::create_dir_all(dir.join("partial"))?;
    if download().is_err() {
        step.note("apt has not found it: refreshing its lists");
        let mut update = Command::new("apt-get");
        update.args(["update", "--quiet"]);
        run_first([update], dir, advice)?;
        download()?;
    }
    Ok(dir.to_owned())
}

/// Runs the first of the commands that exists.
fn run_first<const N: usize>(commands: [Command; N], dir: &Path, advice: &str) -> Result<()> {
    let mut missing = String::new();
    for mut command in commands {
        let program = command.get_program().to_string_lossy().into_owned();
        let output = match command.current_dir(dir).stdin(Stdio::null()).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                missing = program;
                continue;
            }
            result => result.with_context(|| format!("cannot run {program}"))?,
        };
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        if message.contains("No module named pip") {
            missing = "pip".to_owned();
            continue;
        }
        bail!("`{}` failed ({}): {}", shown(&command), output.status, tail(&message));
    }
    bail!("{missing} was not found: {advice}")
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn tail(message: &str) -> String {
    let lines: Vec<_> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(MESSAGE_LINES_MAX)..].join(" | ")
}

fn only_file(dir: &Path) -> Result<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        files.push(entry?.path());
    }
    ensure!(files.len() == 1, "the client left {} files instead of one package", files.len());
    Ok(files.remove(0))
}

fn check(package: &Package, archive: &Path) -> Result<()> {
    let found = digest::of_file(archive)?;
    ensure!(
        found == package.sha256,
        "the registry's {} {} is not the one that was pinned: its SHA-256 is {found}, not {}",
        package.name,
        package.version,
        package.sha256
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_client_is_named_with_advice() {
        let command = Command::new("no-such-client-anywhere");
        let error = run_first([command], &std::env::temp_dir(), "install it").unwrap_err();
        assert_eq!(error.to_string(), "no-such-client-anywhere was not found: install it");
    }

    #[test]
    fn a_failing_client_tells_its_last_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo the cause >&2; exit 3"]);
        let error = run_first([command], &std::env::temp_dir(), "").unwrap_err();
        assert!(error.to_string().ends_with("(exit status: 3): the cause"), "{error}");
    }

    #[test]
    fn a_tail_is_short() {
        let message = (0..20).map(|n| format!("line {n}\n")).collect::<String>();
        assert!(tail(&message).starts_with("line 14 | "));
    }
}
