//! The simplest program, on each runtime that can be had.

use std::time::Duration;

use anyhow::Result;
use rig::{Net8, Net9, Net10, Net31, Rig, RuntimeVersion, Unavailable};

const LIMIT: Duration = Duration::from_secs(60);

fn check(version: RuntimeVersion) -> Result<()> {
    let rig = Rig::ensure()?;
    let test = format!("plain on {version}");
    let Some(mut command) = rig.command_or_skip(&test, "plain", version)? else { return Ok(()) };
    command.args(["--seconds", "0.1", "--exit-code", "7"]);
    let outcome = rig::run(command, LIMIT)?;

    let exact = rig.runtime(version)?.exact().to_owned();
    assert_eq!(outcome.stdout.lines().next(), Some(format!("Hello from .NET {exact}").as_str()));
    assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
    // The main thread of a process has the process's own id.
    assert_eq!(outcome.truth()?["tid"], outcome.pid);
    Ok(())
}

#[test]
fn plain_runs_on_net_3_1() -> Result<()> {
    check(Net31)
}

#[test]
fn plain_runs_on_net_8() -> Result<()> {
    check(Net8)
}

#[test]
fn plain_runs_on_net_9() -> Result<()> {
    check(Net9)
}

#[test]
fn plain_runs_on_net_10() -> Result<()> {
    check(Net10)
}

#[test]
fn what_is_missing_is_told_from_what_is_broken() {
    // No registry has ASP.NET Core 3.1; only a machine with it would run the program.
    let command = Rig::ensure().unwrap().app("web").unwrap().command(Net31);
    if let Err(error) = command {
        assert!(error.downcast_ref::<Unavailable>().is_some(), "{error:#}");
    }
}

#[test]
fn an_unknown_program_is_an_error_that_names_the_known_ones() {
    let error = Rig::ensure().unwrap().app("no-such").unwrap_err();
    assert!(error.to_string().contains("split"), "{error}");
}
