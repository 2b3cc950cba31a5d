//! Wrong settings cost the user a line, never the program.

use std::process::Command;

use anyhow::Result;
use e2e::{Checks, Run, Session, built, hook, on_both};
use rig::RuntimeVersion;

const SECONDS: &str = "0.2";

/// The program's own run is as ever: its exit code, its output, and nothing else on its errors than
/// lines of ours. Returns those.
fn unharmed(run: &Run) -> Result<Vec<&str>> {
    let mut checks = Checks::new(run);
    checks.code(7);
    checks.that(run.outcome.stdout.starts_with("Hello from .NET"), &run.outcome.stdout);
    checks.that(run.outcome.truth().is_ok(), "it told no truth");
    let lines: Vec<_> = run.outcome.stderr.lines().collect();
    checks.that(lines.iter().all(|line| line.starts_with("corprof: ")), &run.outcome.stderr);
    checks.done()?;
    Ok(lines)
}

/// Runs `plain` with some variables set.
fn run(test: &str, version: RuntimeVersion, set: &[(&str, &str)]) -> Result<Option<Run>> {
    let Some(session) = Session::new(test, "plain", version)? else { return Ok(None) };
    let session = session.args(["--seconds", SECONDS, "--exit-code", "7"]);
    set.iter().fold(session, |session, (name, value)| session.set(name, value)).run().map(Some)
}

#[test]
fn a_bad_value_is_one_warning_and_the_default() -> Result<()> {
    on_both(|version| {
        let bad = [
            ("CORPROF_CPU_INTERVAL", "banana"),
            ("CORPROF_WALL_INTERVAL", "5h"),
            ("CORPROF_WALL_THREADS", "-3"),
            ("CORPROF_SAMPLER", "magic"),
            ("CORPROF_ENABLED", "perhaps"),
            ("CORPROF_LOG", "loud"),
            ("CORPROF_UPLOAD_PERIOD", "0s"),
            ("CORPROF_NO_SUCH_OPTION", "1"),
        ];
        let Some(run) = run("bad-values", version, &bad)? else { return Ok(()) };
        let lines = unharmed(&run)?;
        let mut checks = run.checks_of_code(7);
        for (name, value) in bad {
            let about: Vec<_> = lines.iter().filter(|line| line.contains(name)).collect();
            let [line] = about[..] else {
                checks.that(false, format!("{name}={value}: {about:?}"));
                continue;
            };
            let says_value = line.contains(value) || name == "CORPROF_NO_SUCH_OPTION";
            checks.that(says_value && line.starts_with("corprof: warning: "), line);
        }
        checks.that(lines.len() == bad.len(), format!("{lines:?}"));
        let report = &run.report;
        let used = (report.sampler.as_str(), report.cpu_interval_ns, report.wall_threads);
        checks.that(used == ("timer", 10_000_000, 5), format!("used were {used:?}"));
        checks.done()
    })
}

#[test]
fn a_folder_that_cannot_be_written_is_told_at_both_ends() -> Result<()> {
    on_both(|version| {
        let file = built()?.agent.to_string_lossy();
        for folder in [&*file, "/proc/no-such-folder"] {
            let set = [("CORPROF_OUTPUT_DIR", folder)];
            let Some(run) = run("unwritable", version, &set)? else { return Ok(()) };
            let lines = unharmed(&run)?;
            // At the start, so that it is noticed; and at the end, when the profile is lost.
            let [first, last] = lines[..] else { anyhow::bail!("{folder}: {lines:?}") };
            for line in [first, last] {
                let says = line.starts_with("corprof: error: ")
                    && line.contains(folder)
                    && line.contains("CORPROF_OUTPUT_DIR");
                anyhow::ensure!(says, "{line}");
            }
            anyhow::ensure!(last.contains("is lost"), "{last}");
        }
        Ok(())
    })
}

#[test]
fn without_an_agent_the_program_runs() -> Result<()> {
    on_both(|version| {
        let set = [("CORECLR_PROFILER_PATH", "/no/such/libcorprof.so")];
        let Some(run) = run("no-agent", version, &set)? else { return Ok(()) };
        anyhow::ensure!(unharmed(&run)?.is_empty(), "{}", run.outcome.stderr);
        anyhow::ensure!(run.profiles.is_empty(), "who wrote a profile?");
        Ok(())
    })
}

#[test]
fn switched_off_it_does_nothing() -> Result<()> {
    on_both(|version| {
        let Some(run) = run("off", version, &[("CORPROF_ENABLED", "false")])? else {
            return Ok(());
        };
        anyhow::ensure!(unharmed(&run)?.is_empty(), "{}", run.outcome.stderr);
        anyhow::ensure!(run.profiles.is_empty(), "it wrote a profile");
        anyhow::ensure!(run.tasks.own.is_empty(), "it has threads");
        Ok(())
    })
}

/// Whatever is left to a program that it needs to start, the profiler and its hook leave it.
#[test]
fn a_program_starts_with_as_few_descriptors_as_without() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("descriptors", "plain", version)? else { return Ok(()) };
        let _hook = hook()?;
        let session = session.args(["--seconds", "0"]).without_agent();
        let program = &session.command;
        let succeeds = |profiled: bool, limit: u64| -> Result<bool> {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("ulimit -n {limit} && exec \"$@\""), "sh"]);
            if profiled {
                command.arg(&built()?.corprof).args(["run", "--out"]);
                command.arg(&session.folder).arg("--");
            }
            command.arg(program.get_program()).args(program.get_args());
            Ok(command.output()?.status.success())
        };
        let mut both = 0;
        for limit in (24..=72).step_by(4) {
            if succeeds(false, limit)? {
                both += 1;
                anyhow::ensure!(succeeds(true, limit)?, "with {limit} only the profiler fails");
            }
        }
        anyhow::ensure!(both > 3, "with up to 72 it starts {both} times");
        Ok(())
    })
}

/// Who started the program may have had no use for the signal.
#[test]
fn an_ignored_signal_is_used_all_the_same() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("ignored", "plain", version)? else { return Ok(()) };
        let run = session
            .args(["--seconds", "1"])
            .behind("sh", ["-c", "trap '' PROF; exec \"$@\"", "sh"])
            .run()?;
        let mut checks = run.checks();
        let spun = run.view.of(|row| row.has("Work.Spin("));
        checks.within("CPU of the work", spun.cpu_ns, 1_000_000_000, 0.04);
        checks.that(spun.count > 20, format!("only {} samples", spun.count));
        checks.done()
    })
}
