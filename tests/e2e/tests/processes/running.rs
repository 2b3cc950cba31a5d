//! Programs that run until they are dropped, and what corprof says of them.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::built;
use rig::{Net8, Rig, RuntimeVersion, Unavailable};
use serde_json::Value;

/// Longer than a runtime takes to start, however busy the machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A program that runs until it is dropped.
pub struct Running {
    pub child: Child,
    /// The .NET process, which may be a child of what was started.
    pub pid: u32,
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
    pub fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env_remove("LD_LIBRARY_PATH");
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        let pid = child.id();
        Ok(Self { child, pid })
    }

    /// Its row of `corprof ps`, once it is as wanted.
    pub fn row(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
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
    pub fn doctor(&self) -> Result<(Vec<String>, Option<i32>)> {
        let (value, code) = corprof(&["doctor", "--json", &self.pid.to_string()])?;
        let checks = value["checks"].as_array().context("no checks")?;
        let bad = checks.iter().filter(|check| check["level"] != "ok");
        let word = |check: &Value, name: &str| check[name].as_str().unwrap_or("?").to_owned();
        let shown = |check| format!("{} {}", word(check, "level"), word(check, "check"));
        Ok((bad.map(shown).collect(), code))
    }
}

pub fn signal(name: &str, pid: u32) -> Result<()> {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status()?;
    ensure!(status.success(), "kill -{name} {pid}: {status}");
    Ok(())
}

/// The command's JSON, and its exit code.
pub fn corprof(arguments: &[&str]) -> Result<(Value, Option<i32>)> {
    let built = built()?;
    let mut command = Command::new(&built.corprof);
    let output = command.args(arguments).env("CORPROF_AGENT", &built.agent).output()?;
    let value = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
    Ok((value, output.status.code()))
}

pub fn rows() -> Result<Vec<Value>> {
    let (value, code) = corprof(&["ps", "--json"])?;
    ensure!(code == Some(0), "exit code {code:?}");
    Ok(value["processes"].as_array().context("no processes")?.clone())
}

/// A program that waits and computes a little, for long; `None` if the runtime can't be had.
pub fn program(test: &str, version: RuntimeVersion) -> Result<Option<Command>> {
    built()?;
    let Some(mut command) = Rig::ensure()?.command_or_skip(test, "plain", version)? else {
        return Ok(None);
    };
    // It reads its input, and computes, until it is ended.
    command.args(["--seconds", "1000"]);
    Ok(Some(command))
}

/// The same command behind another program.
pub fn behind(program: &str, arguments: &[&str], inner: &Command) -> Command {
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

/// A program with numbers and mounts of its own, as in a container, after this script; `None`, and
/// said loudly, where that can't be had.
pub fn contained(test: &str, script: &str) -> Result<Option<Running>> {
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
