//! Running processes: `corprof ps` says which can be profiled, and `corprof doctor` finds what is
//! wrong with one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::built;
use rig::{Net8, Net9, Net10, Net31, Rig, RuntimeVersion, Unavailable};
use serde_json::Value;

/// Longer than a runtime takes to start, however busy the machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A program that runs until it is dropped.
struct Running {
    child: Child,
    /// The .NET process, which may be a child of what was started.
    pid: u32,
}

impl Drop for Running {
    fn drop(&mut self) {
        // With SIGKILL also what is stopped ends; its parent then ends, too.
        let _ = signal("KILL", self.pid);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts it; its process is the one that this line of its command has.
    fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env_remove("LD_LIBRARY_PATH");
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        let pid = child.id();
        Ok(Self { child, pid })
    }

    /// Its row of `corprof ps`, once it is as wanted.
    fn row(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let begin = Instant::now();
        let mut last = Value::Null;
        while begin.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait()? {
                bail!("it has ended: {status}");
            }
            if let Some(row) = rows()?.into_iter().find(|row| row["pid"] == self.pid) {
                if wanted(&row) {
                    return Ok(row);
                }
                last = row;
            }
        }
        bail!("in {LIMIT:?} its row was never as wanted; the last one: {last}")
    }

    /// The checks of `corprof doctor` that are not in order, as `level check`, and the exit code.
    fn doctor(&self) -> Result<(Vec<String>, Option<i32>)> {
        let (value, code) = corprof(&["doctor", "--json", &self.pid.to_string()])?;
        let checks = value["checks"].as_array().context("no checks")?;
        let bad = checks.iter().filter(|check| check["level"] != "ok");
        let word = |check: &Value, name: &str| check[name].as_str().unwrap_or("?").to_owned();
        let shown = |check| format!("{} {}", word(check, "level"), word(check, "check"));
        Ok((bad.map(shown).collect(), code))
    }
}

fn signal(name: &str, pid: u32) -> Result<()> {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status()?;
    ensure!(status.success(), "kill -{name} {pid}: {status}");
    Ok(())
}

/// The command's JSON, and its exit code.
fn corprof(arguments: &[&str]) -> Result<(Value, Option<i32>)> {
    let built = built()?;
    let mut command = Command::new(&built.corprof);
    let output = command.args(arguments).env("CORPROF_AGENT", &built.agent).output()?;
    let value = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
    Ok((value, output.status.code()))
}

fn rows() -> Result<Vec<Value>> {
    let (value, code) = corprof(&["ps", "--json"])?;
    ensure!(code == Some(0), "exit code {code:?}");
    Ok(value["processes"].as_array().context("no processes")?.clone())
}

/// A program that waits and computes a little, for long; `None` if the runtime can't be had.
fn program(test: &str, version: RuntimeVersion) -> Result<Option<Command>> {
    built()?;
    let Some(mut command) = Rig::ensure()?.command_or_skip(test, "plain", version)? else {
        return Ok(None);
    };
    // It reads its input, and computes, until it is ended.
    command.args(["--seconds", "1000"]);
    Ok(Some(command))
}

/// The same command behind another program.
fn behind(program: &str, arguments: &[&str], inner: &Command) -> Command {
    let mut outer = Command::new(program);
    outer.args(arguments).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

fn is_no(row: &Value, reason: &str) -> bool {
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    row["profilable"] == false
        && row["profiled"] == false
        && text("reason").contains(reason)
        && !text("remedy").is_empty()
}

#[test]
fn processes_of_all_versions_are_listed() -> Result<()> {
    for (version, number) in [(Net31, "3.1."), (Net8, "8.0."), (Net9, "9.0."), (Net10, "10.0.")] {
        let Some(command) = program("ps", version)? else { continue };
        let mut running = Running::start(command)?;
        let row = running.row(|row| row["profilable"] == true).context(number)?;
        let runtime = row["runtime"].as_str().unwrap_or_default();
        ensure!(runtime.starts_with(number), "{row}");
        ensure!(row["command"].as_str().unwrap_or_default().contains("--seconds 1000"), "{row}");
        ensure!(row["profiled"] == false && row["other_user"].is_null(), "{row}");
        let (bad, code) = running.doctor()?;
        ensure!(code == Some(0) && !bad.iter().any(|bad| bad.contains("prevents")), "{bad:?}");
    }
    Ok(())
}

#[test]
fn a_profiled_process_is_told_as_such() -> Result<()> {
    let Some(mut command) = program("ps-profiled", Net8)? else { return Ok(()) };
    command.envs(config::agent_variables(&built()?.agent.to_string_lossy()));
    command.env("CORPROF_OUTPUT_DIR", std::env::temp_dir().join("corprof-ps-profiled"));
    let mut running = Running::start(command)?;
    running.row(|row| row["profiled"] == true && row["profilable"] == false)?;
    let (bad, code) = running.doctor()?;
    // The agent's own handler is no obstacle.
    ensure!(code == Some(0) && !bad.iter().any(|bad| bad.contains("signal")), "{bad:?}");
    Ok(())
}

#[test]
fn why_a_process_cannot_be_profiled_is_said() -> Result<()> {
    let other = "{846F5F1C-F9AE-4B07-969E-05C26BC060D8}";
    for (variables, reason, checks) in [
        (
            &[("DOTNET_EnableDiagnostics", "0")][..],
            "switched off by DOTNET_EnableDiagnostics=0",
            &["prevents socket", "prevents switches"][..],
        ),
        (
            &[("DOTNET_EnableDiagnostics_IPC", "0")],
            "switched off by DOTNET_EnableDiagnostics_IPC=0",
            &["prevents socket", "note switches"],
        ),
        (
            &[("DOTNET_EnableDiagnostics_Profiler", "0")],
            "DOTNET_EnableDiagnostics_Profiler=0",
            &["prevents switches"],
        ),
        (
            &[("TMPDIR", "/proc/sys")],
            "no diagnostics socket in /proc/sys",
            &["prevents socket", "degrades temporary-folder"],
        ),
        (
            // Named, and not there: .NET runs without it.
            &[("CORECLR_ENABLE_PROFILING", "1"), ("CORECLR_PROFILER", other)],
            "",
            &["note other-profiler"],
        ),
        (&[("CORPROF_WALL_INTERVAL", "soon")], "", &["degrades settings"]),
    ] {
        let Some(mut command) = program("ps-why", Net9)? else { return Ok(()) };
        command.envs(variables.iter().copied());
        let mut running = Running::start(command)?;
        match reason {
            "" => running.row(|row| row["profilable"] == true),
            reason => running.row(|row| is_no(row, reason)),
        }
        .with_context(|| format!("{variables:?}"))?;
        let (bad, code) = running.doctor()?;
        for check in checks {
            ensure!(bad.iter().any(|bad| bad == check), "{variables:?}: {check} in {bad:?}");
        }
        let prevents = checks.iter().any(|check| check.starts_with("prevents"));
        ensure!(code == Some(i32::from(prevents)), "{variables:?}: {code:?}, {bad:?}");
    }
    Ok(())
}

#[test]
fn a_stopped_process_holds_up_nobody() -> Result<()> {
    let Some(command) = program("ps-stopped", Net8)? else { return Ok(()) };
    let mut running = Running::start(command)?;
    running.row(|row| row["profilable"] == true)?;
    signal("STOP", running.pid)?;
    running.row(|row| is_no(row, "did not answer"))?;
    let (bad, code) = running.doctor()?;
    ensure!(code == Some(1) && bad.contains(&"prevents socket".to_owned()), "{bad:?}");
    signal("CONT", running.pid)?;
    running.row(|row| row["profilable"] == true)?;
    Ok(())
}

#[test]
fn limits_of_a_running_process_are_found() -> Result<()> {
    let Some(command) = program("doctor-limits", Net8)? else { return Ok(()) };
    let mut running = Running::start(behind("prlimit", &["--sigpending=5"], &command))?;
    running.row(|row| row["profilable"] == true)?;
    let (bad, code) = running.doctor()?;
    ensure!(code == Some(0) && bad.contains(&"degrades timers".to_owned()), "{bad:?}");
    Ok(())
}

/// A program with numbers and mounts of its own, as in a container, after this script; `None`, and
/// said loudly, where that can't be had.
fn contained(test: &str, script: &str) -> Result<Option<Running>> {
    let Some(command) = program(test, Net8)? else { return Ok(None) };
    let spaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let mut unshare = Command::new("unshare");
    let can = unshare.args(spaces).arg("true").stderr(Stdio::null()).status()?.success();
    let reason = if can && !Path::new(env!("CARGO_MANIFEST_DIR")).starts_with("/tmp") {
        None
    } else if can {
        Some("the tests lie in /tmp, which would be hidden")
    } else {
        Some("`unshare` needs root here")
    };
    if let Some(reason) = reason {
        let what = "a process in namespaces of its own".to_owned();
        Rig::ensure()?.skip(test, &Unavailable { what, reason: reason.to_owned() });
        return Ok(None);
    }
    let script = format!("{script} && exec \"$@\"");
    let arguments = [&spaces[..], &["sh", "-c", &script, "sh"]].concat();
    let mut running = Running::start(behind("unshare", &arguments, &command))?;
    let children = format!("/proc/{0}/task/{0}/children", running.child.id());
    let begin = Instant::now();
    running.pid = loop {
        let text = std::fs::read_to_string(&children).context("no children in /proc")?;
        if let Ok(pid) = text.trim().parse() {
            break pid;
        }
        ensure!(begin.elapsed() < LIMIT && running.child.try_wait()?.is_none(), "no child");
    };
    Ok(Some(running))
}

#[test]
fn processes_in_other_namespaces_are_found() -> Result<()> {
    let script = "mount -t tmpfs none /tmp";
    let Some(mut running) = contained("ps-container", script)? else { return Ok(()) };
    let row = running.row(|row| row["profilable"] == true)?;
    ensure!(row["runtime"].as_str().unwrap_or_default().starts_with("8.0."), "{row}");
    let (_, code) = running.doctor()?;
    ensure!(code == Some(0), "{code:?}");
    Ok(())
}

#[test]
fn temporary_folders_that_are_full_or_read_only_are_found() -> Result<()> {
    for (options, is_profilable) in [("ro", false), ("size=1m", true)] {
        let script = format!("mount -t tmpfs -o {options} none /tmp");
        let Some(mut running) = contained("doctor-tmp", &script)? else { return Ok(()) };
        running.row(|row| match is_profilable {
            true => row["profilable"] == true,
            false => is_no(row, "no diagnostics socket in /tmp"),
        })?;
        let (bad, code) = running.doctor()?;
        ensure!(bad.contains(&"degrades temporary-folder".to_owned()), "{options}: {bad:?}");
        ensure!(code == Some(i32::from(!is_profilable)), "{options}: {code:?}");
    }
    Ok(())
}
