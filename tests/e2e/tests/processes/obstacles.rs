//! What can stand in the way of a profile, planted in real processes: each is found, with a remedy.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use e2e::{built, launcher, library};
use rig::{Net8, Net9, Rig, Unavailable};
use serde_json::Value;

use crate::running::{Running, behind, corprof, program};

/// A user that is nobody's.
const USER: &str = "1654";
/// The numbers of the calls that the agent can do without, on x86-64.
const CALLS: [(&str, &str); 2] = [("timer_create", "222"), ("process_vm_readv", "310")];

/// The findings on a topic, each with a remedy.
fn found(value: &Value, topic: &str) -> Result<Vec<String>> {
    let checks = value["checks"].as_array().context("no checks")?;
    let of_topic = checks.iter().filter(|c| c["check"] == topic && c["level"] != "ok");
    let text = |check: &Value, name: &str| check[name].as_str().unwrap_or_default().to_owned();
    let mut findings = Vec::new();
    for check in of_topic {
        ensure!(!text(check, "remedy").is_empty(), "{check}");
        findings.push(format!("{} {}", text(check, "level"), text(check, "found")));
    }
    Ok(findings)
}

/// What the doctor says of it on a topic, and its exit code.
fn doctor(of: &Running, topic: &str, options: &[&str]) -> Result<(String, Option<i32>)> {
    let pid = of.pid.to_string();
    let (value, code) = corprof(&[&["doctor", "--json", &pid], options].concat())?;
    // What else prevents something is no obstacle of the test's: it is to be seen.
    let checks = value["checks"].as_array().context("no checks")?;
    let prevents = |check: &&Value| check["level"] == "prevents" && check["check"] != topic;
    if let Some(other) = checks.iter().find(prevents) {
        bail!("another obstacle: {other}");
    }
    Ok((found(&value, topic)?.join("; "), code))
}

fn ready(command: Command) -> Result<Running> {
    let mut running = Running::start(command)?;
    // Until its runtime is up that alone would be an obstacle.
    running.row(|row| row["profilable"] == true)?;
    Ok(running)
}

/// A folder of this test, empty, that all may look into.
fn folder(test: &str) -> Result<PathBuf> {
    let folder = Rig::ensure()?.root().with_file_name("e2e").join(test);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Says loudly that something can't be planted here.
fn skip(test: &str, what: &str, reason: &str) -> Result<()> {
    let unavailable = Unavailable { what: what.to_owned(), reason: reason.to_owned() };
    Rig::ensure()?.skip(test, &unavailable);
    Ok(())
}

/// Whether another user can be had.
fn can_be_another() -> bool {
    let ids = ["--reuid", USER, "--regid", USER, "--clear-groups", "true"];
    Command::new("setpriv").args(ids).output().is_ok_and(|output| output.status.success())
}

fn as_another(command: &Command) -> Command {
    behind("setpriv", &["--reuid", USER, "--regid", USER, "--clear-groups"], command)
}

#[test]
fn a_filter_of_system_calls_is_found() -> Result<()> {
    let refuse = launcher("refuse")?;
    for (name, number) in CALLS {
        // Within the filter it is tried.
        let mut inside = Command::new(&refuse);
        let corprof = &built()?.corprof;
        inside.args([number, "--"]).arg(corprof).args(["doctor", "--json"]);
        let output = inside.env("CORPROF_AGENT", &built()?.agent).output()?;
        let value =
            serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
        let said = found(&value, "seccomp")?.join("; ");
        ensure!(said.starts_with(&format!("degrades {name} does not work here")), "{said}");
        // From outside it is seen that there is one.
        let Some(command) = program("doctor-seccomp", Net8)? else { return Ok(()) };
        let refuse = refuse.to_string_lossy();
        let running = ready(behind(&refuse, &[number, "--"], &command))?;
        let (said, code) = doctor(&running, "seccomp", &[])?;
        ensure!(said.starts_with("note a filter") && code == Some(0), "{said} {code:?}");
    }
    Ok(())
}

#[test]
fn an_agent_for_another_processor_is_found() -> Result<()> {
    let Some(command) = program("doctor-processor", Net9)? else { return Ok(()) };
    let folder = folder("doctor-processor")?;
    let other = folder.join("libcorprof.so");
    let mut bytes = fs::read(&built()?.agent)?;
    // The processor, in ELF's header: arm64.
    bytes[18] = 183;
    fs::write(&other, bytes)?;
    let running = ready(command)?;
    let (said, code) = doctor(&running, "agent", &["--agent", &other.to_string_lossy()])?;
    ensure!(said.starts_with("prevents ") && said.contains("arm64"), "{said}");
    ensure!(code == Some(1), "{code:?}");
    Ok(())
}

#[test]
fn an_agent_that_may_not_be_read_is_found() -> Result<()> {
    let test = "doctor-unreadable";
    let Some(command) = program(test, Net9)? else { return Ok(()) };
    if !can_be_another() {
        return skip(test, "a process of another user", "`setpriv` needs root here");
    }
    let folder = folder(test)?;
    let agent = folder.join("libcorprof.so");
    fs::copy(&built()?.agent, &agent)?;
    let running = ready(as_another(&command))?;
    let agent_text = agent.to_string_lossy();
    for (closed, path, mode) in [("file", &agent, 0o600), ("folder", &folder, 0o700)] {
        let before = fs::metadata(path)?.permissions();
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        let (said, code) = doctor(&running, "agent", &["--agent", &agent_text])?;
        ensure!(said.starts_with("prevents ") && code == Some(1), "{closed}: {said} {code:?}");
        fs::set_permissions(path, before)?;
    }
    let (said, code) = doctor(&running, "agent", &["--agent", &agent_text])?;
    ensure!(said.is_empty() && code == Some(0), "{said} {code:?}");
    Ok(())
}

#[test]
fn a_folder_of_another_user_is_found() -> Result<()> {
    let test = "doctor-output";
    let Some(mut command) = program(test, Net8)? else { return Ok(()) };
    if !can_be_another() {
        return skip(test, "a process of another user", "`setpriv` needs root here");
    }
    let folder = folder(test)?;
    command.env("CORPROF_OUTPUT_DIR", folder.join("profiles"));
    let running = ready(as_another(&command))?;
    let (said, code) = doctor(&running, "output-folder", &[])?;
    ensure!(said.contains("can't be written to by the program's user"), "{said}");
    ensure!(said.starts_with("prevents ") && code == Some(1), "{said} {code:?}");
    Ok(())
}

#[test]
fn an_attach_by_another_user_says_whose_process_it_is() -> Result<()> {
    let test = "attach-stranger";
    let Some(command) = program(test, Net9)? else { return Ok(()) };
    if !can_be_another() {
        return skip(test, "another user's command", "`setpriv` needs root here");
    }
    let running = ready(command)?;
    let mut attach = Command::new(&built()?.corprof);
    attach.args(["attach", &running.pid.to_string(), "--for", "1s"]);
    attach.env("CORPROF_AGENT", &built()?.agent);
    let output = as_another(&attach).current_dir("/tmp").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(said.contains("it belongs to another user, root (number 0)"), "{said}");
    ensure!(said.contains("run corprof as that user, or as root"), "{said}");
    ensure!(output.status.code() == Some(1), "{output:?}");
    Ok(())
}

#[test]
fn another_profiler_in_the_main_place_is_found() -> Result<()> {
    let Some(mut command) = program("doctor-other", Net8)? else { return Ok(()) };
    let other = library("other_profiler")?;
    command.env("CORECLR_ENABLE_PROFILING", "1");
    command.env("CORECLR_PROFILER", "{11111111-2222-3333-4444-555555555555}");
    command.env("CORECLR_PROFILER_PATH", &other);
    let running = ready(command)?;
    let (said, code) = doctor(&running, "other-profiler", &[])?;
    ensure!(said.starts_with("note ") && said.contains("beside"), "{said}");
    ensure!(code == Some(0), "{code:?}");
    Ok(())
}

#[test]
fn processes_that_are_hidden_are_told_of() -> Result<()> {
    let test = "doctor-hidepid";
    let script = format!(
        "mount -t proc -o hidepid=invisible none /proc && \
         exec setpriv --reuid {USER} --regid {USER} --clear-groups \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]);
    let corprof = &built()?.corprof;
    let output = command.arg(corprof).args(["doctor", "--json"]).current_dir("/tmp").output()?;
    let Ok(value) = serde_json::from_slice::<Value>(&output.stdout) else {
        let reason = String::from_utf8_lossy(&output.stderr);
        return skip(test, "a /proc that hides processes", reason.trim());
    };
    let said = found(&value, "proc")?.join("; ");
    ensure!(said.starts_with("note ") && said.contains("hidepid"), "{said}");
    Ok(())
}

/// A control group that is gone with the test.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A group of version 1 or 2 with a twentieth of a processor.
fn group(name: &str) -> Result<Group> {
    let root = Path::new("/sys/fs/cgroup");
    let make = |parent: PathBuf, limits: &[(&str, &str)]| -> Result<Group> {
        let folder = parent.join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("{folder:?}"))?;
        let group = Group(folder);
        for (file, value) in limits {
            // Not made anew: the kernel has it, or it is no such group.
            let file = fs::OpenOptions::new().write(true).open(group.0.join(file));
            std::io::Write::write_all(&mut file?, value.as_bytes())?;
        }
        Ok(group)
    };
    let first = [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "5000")];
    make(root.join("cpu"), &first).or_else(|_| make(root.to_owned(), &[("cpu.max", "5000 100000")]))
}

#[test]
fn a_control_group_with_little_is_found() -> Result<()> {
    let test = "doctor-cgroup";
    let Some(command) = program(test, Net8)? else { return Ok(()) };
    let group = match group("corprof-doctor") {
        Ok(group) => group,
        Err(error) => return skip(test, "a control group", &format!("{error:#}")),
    };
    // Once it runs: starting with so little takes long.
    let running = ready(command)?;
    fs::write(group.0.join("cgroup.procs"), running.pid.to_string())?;
    let (said, _) = doctor(&running, "cpu-limit", &[])?;
    drop(running);
    ensure!(said.starts_with("degrades ") && said.contains("0.05 processors"), "{said}");
    Ok(())
}
