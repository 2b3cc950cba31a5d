//! The drop-in of systemd, and the hardened unit that it works with.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::launcher;
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

/// The system calls of a set of systemd, and of the sets in it.
fn calls(set: &str) -> Result<Vec<String>> {
    let mut calls = Vec::new();
    let mut sets = vec![set.to_owned()];
    while let Some(set) = sets.pop() {
        let output = Command::new("systemd-analyze").args(["syscall-filter", &set]).output()?;
        ensure!(output.status.success(), "{set}: {output:?}");
        for line in String::from_utf8(output.stdout)?.lines().map(str::trim) {
            if line.starts_with('@') && line != set {
                sets.push(line.to_owned());
            } else if !line.is_empty() && !line.starts_with(['#', '@']) {
                calls.push(line.to_owned());
            }
        }
    }
    Ok(calls)
}

/// The numbers of all system calls that the unit's filter refuses, by the headers of the kernel;
/// `None`, and said loudly, if something for that isn't here.
fn refused(test: &str) -> Result<Option<Vec<String>>> {
    let filter = unit::value(&merged()?, "SystemCallFilter", "orders")?;
    if systemd(test, "systemd-analyze", &["syscall-filter"])?.is_none() {
        return Ok(None);
    }
    let header = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";
    let Ok(header_text) = fs::read_to_string(header) else {
        let what = header.to_owned();
        let reason = "it is not here; it comes with the C library's headers".to_owned();
        Rig::ensure()?.skip(test, &Unavailable { what, reason });
        return Ok(None);
    };
    let allowed = calls(&filter)?;
    for call in ["timer_create", "timer_settime", "process_vm_readv", "rt_sigaction"] {
        ensure!(allowed.iter().any(|known| known == call), "{call}");
    }
    let lines = header_text.lines().filter_map(|line| line.strip_prefix("#define __NR_"));
    let named = lines.filter_map(|line| line.split_once(' '));
    let refused = named.filter(|(name, _)| !allowed.iter().any(|call| call == name));
    Ok(Some(refused.map(|(_, number)| number.to_owned()).collect()))
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
    sandbox.mount(&launcher("refuse")?, "/refuse", true);
    variables.extend(unit::variables(&merged, "orders")?);
    let start = |program: &[String]| {
        service::serve(sandbox.command(&variables, program), &sandbox.folder("")?)
    };
    service::check(&start(&program)?, &kept.join(own), "orders", DYNAMIC)?;
    // Again, with SystemCallFilter=: as with systemd, a call that is not allowed ends the service.
    let Some(refused) = refused(test)? else { return Ok(()) };
    ensure!(refused.len() > 20, "{refused:?}");
    fs::remove_dir_all(kept.join(own))?;
    let filter = ["/refuse", "--kill"].map(str::to_owned).to_vec();
    let program = [filter, refused, vec!["--".to_owned()], program].concat();
    let served = start(&program)?;
    ensure!(served.status.contains("Seccomp:\t2"), "{}", served.status);
    service::check(&served, &kept.join(own), "orders", DYNAMIC)
}
