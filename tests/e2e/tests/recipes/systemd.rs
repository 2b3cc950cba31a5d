//! The drop-in of systemd, and the hardened unit that it works with.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rig::{Rig, Unavailable};

use crate::sandbox::Sandbox;
use crate::unit::{self, Setting};
use crate::{env_variables, product, recipe, service};

/// A user that systemd would make for a unit with `DynamicUser=`.
const DYNAMIC: u32 = 61_184;

fn settings(name: &str) -> Result<Vec<Setting>> {
    unit::settings(&recipe(&format!("systemd/{name}"))?)
}

/// The unit with its drop-in, as systemd adds them up.
fn merged() -> Result<Vec<Setting>> {
    Ok([settings("orders.service")?, settings("corprof.conf")?].concat())
}

#[test]
fn variables_are_those_of_env() -> Result<()> {
    let mut found = unit::variables(&settings("corprof.conf")?, "orders")?;
    found.sort();
    let options = ["--out", "/var/lib/corprof/orders", "--service", "orders"];
    let mut printed = env_variables(&options)?;
    printed.sort();
    ensure!(found == printed, "{found:?} is not {printed:?}");
    // The folder is the one that systemd makes.
    let state = unit::value(&settings("corprof.conf")?, "StateDirectory", "orders")?;
    let folder = ("CORPROF_OUTPUT_DIR".to_owned(), format!("/var/lib/{state}"));
    ensure!(found.contains(&folder), "{folder:?} in {found:?}");
    let clean = recipe("systemd/corprof.tmpfiles.conf")?;
    ensure!(clean.contains("\ne /var/lib/corprof/* - - - "), "{clean}");
    ensure!(clean.contains("\ne /var/lib/private/corprof/* - - - "), "{clean}");
    Ok(())
}

#[test]
fn the_unit_is_hardened_and_lets_the_runtime_compile() -> Result<()> {
    let merged = merged()?;
    for (name, wanted) in [
        ("ProtectSystem", "strict"),
        ("PrivateTmp", "yes"),
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("ProtectProc", "invisible"),
        ("ProcSubset", "pid"),
        ("SystemCallFilter", "@system-service"),
    ] {
        let found = unit::value(&merged, name, "orders")?;
        ensure!(found == wanted, "{name}={found}");
    }
    ensure!(unit::value(&merged, "MemoryDenyWriteExecute", "orders").is_err());
    Ok(())
}

/// `None`, and said loudly, if a program of systemd isn't here.
fn systemd(test: &str, program: &str, arguments: &[&str]) -> Result<Option<Command>> {
    let mut command = Command::new(program);
    if command.args(arguments).arg("--version").output().is_ok_and(|o| o.status.success()) {
        let mut command = Command::new(program);
        command.args(arguments);
        return Ok(Some(command));
    }
    let what = program.to_owned();
    let reason = "it is not here; it comes with systemd".to_owned();
    Rig::ensure()?.skip(test, &Unavailable { what, reason });
    Ok(None)
}

#[test]
fn systemd_knows_all_settings() -> Result<()> {
    let test = "recipe-systemd-verify";
    let Some(mut verify) = systemd(test, "systemd-analyze", &["verify", "--man=no"])? else {
        return Ok(());
    };
    let folder = Rig::ensure()?.root().with_file_name("e2e").join(test);
    let drop_ins = folder.join("orders.service.d");
    fs::create_dir_all(&drop_ins)?;
    let unit = recipe("systemd/orders.service")?;
    // It looks whether that is there.
    let unit = unit.replace("ExecStart=/usr/bin/dotnet ", "ExecStart=/bin/sh ");
    fs::write(folder.join("orders.service"), unit)?;
    fs::write(drop_ins.join("corprof.conf"), recipe("systemd/corprof.conf")?)?;
    let path = folder.join("orders.service");
    let mut said = || -> Result<String> {
        verify.arg(&path).env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display()));
        let output = verify.output()?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let good = said()?;
    ensure!(!good.contains("orders.service"), "{good}");
    // And it does look at the drop-in.
    fs::write(drop_ins.join("corprof.conf"), "[Service]\nStateDirectories=x\n")?;
    let bad = said()?;
    ensure!(bad.contains("StateDirectories"), "{bad:?}");
    Ok(())
}

/// The calls that sampling is made of are among those of `@system-service`.
#[test]
fn the_filter_of_calls_lets_the_agent_work() -> Result<()> {
    let test = "recipe-systemd-filter";
    let filter = ["syscall-filter"];
    let Some(_) = systemd(test, "systemd-analyze", &filter)? else { return Ok(()) };
    let mut calls = Vec::new();
    let mut sets = vec!["@system-service".to_owned()];
    while let Some(set) = sets.pop() {
        let output = Command::new("systemd-analyze").args(filter).arg(&set).output()?;
        for line in String::from_utf8(output.stdout)?.lines().map(str::trim) {
            if line.starts_with('@') && line != set {
                sets.push(line.to_owned());
            } else if !line.starts_with(['#', '@']) {
                calls.push(line.to_owned());
            }
        }
    }
    for call in ["timer_create", "timer_settime", "process_vm_readv", "rt_sigaction", "pread64"] {
        ensure!(calls.iter().any(|known| known == call), "{call}");
    }
    Ok(())
}

#[test]
fn a_service_is_profiled() -> Result<()> {
    let test = "recipe-systemd";
    let Some(mut sandbox) = Sandbox::new(test, DYNAMIC)? else { return Ok(()) };
    let Some((program, mut variables)) = service::program(test, &mut sandbox)? else {
        return Ok(());
    };
    let merged = merged()?;
    for name in ["libcorprof.so", "Corprof.Spans.dll"] {
        sandbox.mount(&product(name)?, &format!("/opt/corprof/{name}"), true);
    }
    let state = unit::value(&merged, "StateDirectory", "orders")?;
    let kept = sandbox.folder("state")?;
    let (parent, own) = state.rsplit_once('/').context("no folder of its own")?;
    sandbox.mount(&kept, &format!("/var/lib/{parent}"), false);
    // As systemd makes it: for the unit's user, with its own mode; and a /tmp that is private.
    sandbox.prepare(&format!("install -d -o {DYNAMIC} -g {DYNAMIC} -m 755 /var/lib/{state}"));
    let tmp = sandbox.folder("tmp")?;
    sandbox.mount(&tmp, "/tmp", false).prepare("chmod 1777 /tmp");
    // ProtectProc= and ProcSubset=.
    sandbox.proc("hidepid=invisible,subset=pid");
    variables.extend(unit::variables(&merged, "orders")?);
    let served = service::serve(sandbox.command(&variables, &program), &sandbox.folder("")?)?;
    service::check(&served, &kept.join(own), "orders", DYNAMIC)
}
