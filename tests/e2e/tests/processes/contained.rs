//! Attached again and again in a container: the agent is lent once, and what a killed attach left
//! is nobody's loss.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::built;
use rig::Rig;

use crate::running::{Running, contained};

/// An attach to what runs in the container.
fn attach(running: &Running, time: &str, folder: &Path) -> Result<Command> {
    let built = built()?;
    let mut command = Command::new(&built.corprof);
    command.args(["attach", &running.pid.to_string(), "--for", time, "--out"]).arg(folder);
    command.env("CORPROF_AGENT", &built.agent).stdin(Stdio::null()).stderr(Stdio::piped());
    Ok(command)
}

/// What it said, in one line, and whether there was a report.
fn said(mut command: Command) -> Result<(String, bool)> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    Ok((said.split_whitespace().collect::<Vec<_>>().join(" "), output.status.success()))
}

/// The agents that a process has mapped.
fn agents(pid: u32) -> Result<BTreeSet<String>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let paths = maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
    Ok(paths.filter(|path| path.contains("libcorprof.so")).map(str::to_owned).collect())
}

/// The folders of attaches in the container's temporary folder.
fn lent(pid: u32) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(format!("/proc/{pid}/root/tmp"))?.flatten();
    let is_lent = |path: &PathBuf| path.to_string_lossy().contains("/corprof-attach-");
    Ok(entries.map(|entry| entry.path()).filter(is_lent).collect())
}

#[test]
fn attached_again_a_container_has_one_agent_and_no_profile_is_lost() -> Result<()> {
    let script = "mount -t tmpfs none /tmp";
    let Some(mut running) = contained("attach-contained", script)? else { return Ok(()) };
    let folder = Rig::ensure()?.root().with_file_name("e2e").join("attach-contained");
    let _old = fs::remove_dir_all(&folder);
    running.row(|row| row["profilable"] == true)?;
    for n in 0..3 {
        let (said, is_good) = said(attach(&running, "300ms", &folder)?)?;
        ensure!(is_good, "{n}: {said}");
        let agents = agents(running.pid)?;
        ensure!(agents.len() == 1, "{n}: {agents:?}");
    }
    ensure!(lent(running.pid)?.is_empty(), "something is left");
    // Killed, it leaves an agent that works on, and that another attach does not harm.
    let mut killed = attach(&running, "100s", &folder)?.spawn()?;
    running.row(|row| row["profiled"] == true)?;
    killed.kill()?;
    killed.wait()?;
    let (text, is_good) = said(attach(&running, "300ms", &folder)?)?;
    ensure!(!is_good && text.contains("an agent is in it already"), "{text}");
    let left = lent(running.pid)?;
    ensure!(left.len() == 1, "{left:?}");
    let pid = running.pid.to_string();
    let told = Command::new(&built()?.corprof).args(["ctl", &pid, "detach"]).output()?;
    ensure!(told.status.success(), "{told:?}");
    running.row(|row| row["profiled"] == false)?;
    let (text, is_good) = said(attach(&running, "300ms", &folder)?)?;
    ensure!(is_good && text.contains(", now in"), "{text}");
    ensure!(lent(running.pid)?.is_empty(), "it is still there");
    let fetched = folder.join(left[0].file_name().context("no name")?);
    ensure!(fs::read_dir(&fetched)?.count() > 0, "no profile in {fetched:?}");
    let agents = agents(running.pid)?;
    ensure!(agents.len() == 1, "{agents:?}");
    Ok(())
}
