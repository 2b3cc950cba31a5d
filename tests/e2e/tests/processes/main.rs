//! Running processes: `corprof ps` says which can be profiled, and `corprof doctor` finds what is
//! wrong with one.

mod contained;
mod obstacles;
mod running;

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use config::PROFILER_GUID;
use config::control::{self, Request, Stay};
use diagnostics::{AttachError, Guid, Hresult, Socket};
use e2e::built;
use rig::{Net8, Net9, Net10, Net31, Rig};
use serde_json::Value;

use crate::running::{LIMIT, Running, behind, contained, program, signal};

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
    let pid = running.pid.to_string();
    running.row(|row| row["profilable"] == true)?;
    signal("STOP", running.pid)?;
    running.row(|row| is_no(row, "stopped by a signal"))?;
    let (bad, code) = running.doctor()?;
    ensure!(code == Some(1) && bad.contains(&"prevents socket".to_owned()), "{bad:?}");
    // It would come in when the process goes on, and nobody would wait for it.
    let output = Command::new(&built()?.corprof).args(["attach", &pid]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(said.contains("kill -CONT") && !output.status.success(), "{said}");
    signal("CONT", running.pid)?;
    running.row(|row| row["profilable"] == true)?;
    Ok(())
}

/// Profiles it for so long, with something that happens meanwhile, once the agent is in it.
fn attached(
    running: &mut Running,
    time: &str,
    meanwhile: impl FnOnce(u32) -> Result<()>,
) -> Result<(String, Option<i32>)> {
    let folder = Rig::ensure()?.root().with_file_name("e2e").join("attach-stopped");
    let mut attach = Command::new(&built()?.corprof);
    attach.args(["attach", &running.pid.to_string(), "--for", time, "--out"]).arg(folder);
    let attach = attach.env("CORPROF_AGENT", &built()?.agent).stderr(Stdio::piped()).spawn()?;
    running.row(|row| row["profiled"] == true)?;
    meanwhile(running.pid)?;
    let output = attach.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    Ok((said.split_whitespace().collect::<Vec<_>>().join(" "), output.status.code()))
}

#[test]
fn a_stop_while_a_process_is_profiled_is_told() -> Result<()> {
    let Some(command) = program("attach-stopped", Net9)? else { return Ok(()) };
    let mut running = Running::start(command)?;
    running.row(|row| row["profilable"] == true)?;
    let (said, code) = attached(&mut running, "10s", |pid| {
        signal("STOP", pid)?;
        std::thread::sleep(Duration::from_secs(1));
        signal("CONT", pid)
    })?;
    ensure!(said.contains("of which it was stopped (SIGSTOP") && code == Some(0), "{said}");
    // At the end the agent can't leave; it does once the process goes on.
    let (said, _) = attached(&mut running, "3s", |pid| signal("STOP", pid))?;
    ensure!(said.contains("kill -CONT") && !said.contains("runs on without"), "{said}");
    signal("CONT", running.pid)?;
    running.row(|row| row["profiled"] == false)?;
    Ok(())
}

/// A runtime that took too long to load the agent, for whoever asked for it.
#[test]
fn an_agent_that_comes_too_late_does_not_stay() -> Result<()> {
    let Some(command) = program("attach-late", Net9)? else { return Ok(()) };
    let mut running = Running::start(command)?;
    running.row(|row| row["profilable"] == true)?;
    let stay = Stay { begin_before: Some(SystemTime::UNIX_EPOCH), ..Stay::default() };
    let data = Request::of(control::Command::Attach(stay)).to_text();
    let class = Guid::parse(PROFILER_GUID).context("no number")?;
    let socket = Socket::of(running.pid)?.with_timeout(LIMIT);
    let answer = socket.attach_profiler(LIMIT, class, &built()?.agent, data.as_bytes());
    ensure!(matches!(answer, Err(AttachError::Refused(Hresult::CANCELLED))), "{answer:?}");
    running.row(|row| row["profiled"] == false)?;
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
