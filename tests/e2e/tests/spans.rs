//! The startup hook: it leaves programs alone, and the context block says at each instant which
//! request its thread works for.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Session, add_hook, built, hook};
use rig::{Net8, Net9, Net10, Net31, Outcome, Rig, RuntimeVersion};

const LIMIT: Duration = Duration::from_secs(300);
/// Enough that each kind of request comes a thousand times.
const REQUESTS: &str = "5000";

/// Runs a program, or says loudly that it can't be run here.
fn run(
    test: &str,
    app: &str,
    version: RuntimeVersion,
    prepare: impl FnOnce(&mut Command) -> Result<()>,
) -> Result<Option<Outcome>> {
    let name = format!("{test}-net{}", version.major_minor());
    let Some(mut command) = Rig::ensure()?.command_or_skip(&name, app, version)? else {
        return Ok(None);
    };
    command.env_remove("LD_LIBRARY_PATH");
    prepare(&mut command)?;
    rig::run(command, LIMIT).map(Some)
}

/// The first line and the code, which the program would have without the hook.
fn is_as_ever(outcome: &Outcome, version: RuntimeVersion) -> Result<()> {
    let hello = format!("Hello from .NET {}", version.major_minor());
    ensure!(outcome.stdout.starts_with(&hello), "{outcome:?}");
    ensure!(outcome.stdout.lines().count() == 2, "{outcome:?}");
    ensure!(outcome.status.code() == Some(7), "{outcome:?}");
    Ok(())
}

/// .NET's tracing costs a start several milliseconds, and a program's memory. Where the program
/// itself has it, it is seen; without, there must be none.
#[test]
fn a_program_that_traces_nothing_has_nothing_of_it_loaded() -> Result<()> {
    for (app, arguments, traces) in
        [("plain", &["--seconds", "1"][..], false), ("activities", &["--verify"], true)]
    {
        let Some(session) = Session::new("tracing", app, Net9)? else { continue };
        let (mut looks, mut found) = (0, false);
        let run = session.args(arguments).with_spans()?.run_watched(|pid| {
            // It may have ended since, or not begun.
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            looks += u32::from(maps.contains("System.Private.CoreLib"));
            found |= maps.contains("System.Diagnostics.DiagnosticSource");
        })?;
        let mut checks = run.checks();
        checks.that(looks > 0 && found == traces, format!("{app}: {found}, of {looks} looks"));
        checks.done()?;
    }
    Ok(())
}

/// Also where it is the server's assembly that comes first, and the hook that loads the other one:
/// who waits for that begins an activity as soon as it may.
#[test]
fn the_first_activity_of_all_is_seen() -> Result<()> {
    for version in [Net9, Net10] {
        let Some(session) = Session::new("early", "early", version)? else { continue };
        let run = session.with_spans()?.run()?;
        let mut checks = run.checks();
        let (begun, seen) = (run.number("begun")?, run.number("seen")?);
        checks.that((begun, seen) == (1, 1), format!("{seen} of {begun} seen"));
        checks.done()?;
    }
    Ok(())
}

/// Else nobody could tell a hook that saw no request from none.
#[test]
fn files_say_whether_the_hook_ran() -> Result<()> {
    for has_hook in [true, false] {
        let Some(session) = Session::new("traced", "plain", Net9)? else { return Ok(()) };
        let session = session.args(["--seconds", "0.2"]);
        let run = if has_hook { session.with_spans()?.run()? } else { session.run()? };
        let mut checks = run.checks();
        let traced = run.report.traced;
        checks.that(traced == u64::from(has_hook), format!("{traced}, hook: {has_hook}"));
        checks.done()?;
    }
    Ok(())
}

/// On old versions and on new ones, without an agent and with one that does nothing.
#[test]
fn without_a_profiler_it_does_nothing() -> Result<()> {
    for version in [Net31, Net8, Net9, Net10] {
        for (variables, said) in [
            (&[][..], ""),
            (&[("CORPROF_LOG", "info")], "there is no agent in this process"),
            (&[("CORPROF_LOG", "info"), ("CORPROF_SPANS", "no")], "CORPROF_SPANS is false"),
            // The runtime passes over a profiler that is not there.
            (
                &[
                    ("CORECLR_ENABLE_PROFILING", "1"),
                    ("CORECLR_PROFILER", config::PROFILER_GUID),
                    ("CORECLR_PROFILER_PATH", "/no/such/libcorprof.so"),
                    ("CORPROF_LOG", "debug"),
                ],
                "there is no agent in this process",
            ),
        ] {
            let outcome = run("alone", "plain", version, |command| {
                add_hook(command)?;
                command.args(["--seconds", "0", "--exit-code", "7"]);
                command.envs(variables.iter().copied());
                Ok(())
            })?;
            let Some(outcome) = outcome else { break };
            is_as_ever(&outcome, version)?;
            let lines: Vec<&str> = outcome.stderr.lines().collect();
            match lines.as_slice() {
                [] => ensure!(said.is_empty(), "it said nothing of {said:?}"),
                [line] => ensure!(!said.is_empty() && line.contains(said), "{line}"),
                lines => ensure!(false, "more than a line: {lines:?}"),
            }
        }
    }
    Ok(())
}

/// A log that is a pipe holds up no program: what nobody reads there is said where it is read.
#[test]
fn a_log_that_nobody_reads_is_not_waited_for() -> Result<()> {
    let pipe = std::env::temp_dir().join(format!("corprof-spans-log-{}", std::process::id()));
    ensure!(Command::new("mkfifo").arg(&pipe).status()?.success(), "no pipe {}", pipe.display());
    for version in [Net31, Net10] {
        let outcome = run("unread-log", "plain", version, |command| {
            add_hook(command)?;
            command.args(["--seconds", "0", "--exit-code", "7"]);
            command.env("CORPROF_LOG", "info").env("CORPROF_LOG_FILE", &pipe);
            Ok(())
        })?;
        let Some(outcome) = outcome else { break };
        is_as_ever(&outcome, version)?;
        ensure!(outcome.stderr.contains("spans: off: there is no agent"), "{}", outcome.stderr);
    }
    Ok(std::fs::remove_file(&pipe)?)
}

/// An agent that is switched off is in the process, and answers nothing.
#[test]
fn with_an_agent_that_is_switched_off_it_does_nothing() -> Result<()> {
    let outcome = run("switched-off", "plain", Net8, |command| {
        add_hook(command)?;
        command.envs(config::agent_variables(&built()?.agent.to_string_lossy()));
        command.envs([("CORPROF_ENABLED", "false"), ("CORPROF_LOG", "info")]);
        command.args(["--seconds", "0", "--exit-code", "7"]);
        Ok(())
    })?;
    let Some(outcome) = outcome else { return Ok(()) };
    is_as_ever(&outcome, Net8)?;
    ensure!(outcome.stderr.contains("spans: off: there is no agent"), "{}", outcome.stderr);
    Ok(())
}

/// The rig's .NET 10 is itself started by a hook of the user's, so to speak.
#[test]
fn corprof_run_keeps_the_users_hooks() -> Result<()> {
    for version in [Net31, Net8, Net10] {
        hook()?;
        let Some(session) = Session::new("users-hooks", "plain", version)? else { return Ok(()) };
        let folder = session.folder.clone();
        let mut arguments = vec!["run".into(), "--out".into(), folder.into_os_string()];
        arguments.extend(["--log", "info", "--"].map(Into::into));
        let session = session.args(["--seconds", "0.2", "--exit-code", "7"]);
        let run = session.behind(&built()?.corprof, arguments).run()?;
        is_as_ever(&run.outcome, version)?;
        let said = if version == Net31 { "spans: only labels" } else { "spans: on" };
        ensure!(run.outcome.stderr.contains(said), "{version}: {}", run.outcome.stderr);
    }
    Ok(())
}

/// Activities in all orders, on all threads, with labels: thousands of looks at the block.
#[test]
fn the_block_follows_activities_and_labels() -> Result<()> {
    for version in [Net8, Net9, Net10] {
        let test = "activities";
        let Some(session) = Session::new(test, "activities", version)? else { continue };
        let run = session.with_spans()?.args(["--verify"]).run()?;
        let mut checks = run.checks();
        let wrong = run.number("wrong")?;
        checks.that(wrong == 0, format!("{wrong} are wrong: {}", run.outcome.stdout));
        let all = run.number("checks")?;
        checks.that(all > 10_000, format!("only {all} looks"));
        checks.done()?;
    }
    Ok(())
}

/// With activities of instrumentations around the server's, and in the place of it.
#[test]
fn the_block_follows_requests_that_others_instrument() -> Result<()> {
    for (version, arguments) in
        [(Net9, &[][..]), (Net9, &["--no-activities"]), (Net10, &["--listener"])]
    {
        let how = arguments.first().map_or("", |argument| argument.trim_start_matches('-'));
        let test = format!("instrumented-{how}");
        let Some(session) = Session::new(&test, "requests", version)? else { continue };
        let session = session.with_spans()?.args(["--verify", REQUESTS, "--instrumented"]);
        let run = session.args(arguments).run()?;
        let mut checks = run.checks();
        let wrong = run.number("wrong")?;
        checks.that(wrong == 0, format!("{wrong} are wrong: {}", run.outcome.stdout));
        let (requests, roots) = (run.number("requests")?, run.number("roots")?);
        checks.that(requests == roots, format!("{roots} roots of {requests} requests"));
        checks.that(requests.to_string() == REQUESTS, format!("{requests} requests"));
        checks.done()?;
    }
    Ok(())
}
