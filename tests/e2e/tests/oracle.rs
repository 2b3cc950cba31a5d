//! Stacks are held against the runtime's own stack walker, asked in the signal handler at the same
//! instant: method by method, from the leaf to the root.
//!
//! That walker is not safe in a handler (it has hung and crashed programs under stress), so a build
//! of the agent for this test alone asks it, in programs that are quiet enough. It refuses many
//! stacks, and in native code that has told the runtime of no exit from managed code it misses the
//! methods above an earlier exit; those are counted apart. A thread that waits is walked without a
//! signal first, and that stack must be the handler's, frame by frame.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::{Run, Session, on_both, oracle};
use rig::{Overdue, RuntimeVersion};

/// Runs of a program until one does not hang in the runtime's walker.
const ATTEMPTS: u32 = 3;
/// Five times what a run takes.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn waiting_stacks_are_the_runtimes() -> Result<()> {
    check("waits", 0.999, 1000)
}

#[test]
fn computing_stacks_are_the_runtimes() -> Result<()> {
    check("calls", 0.995, 100)
}

fn check(app: &str, identical_min: f64, compared_min: u64) -> Result<()> {
    let agent = oracle()?;
    on_both(|version| {
        let Some((run, log)) = compared(app, version, &agent)? else { return Ok(()) };
        let text = fs::read_to_string(&log).with_context(|| format!("cannot read {log:?}"))?;
        let count = |name: &str| -> Result<u64> {
            let line = text.lines().find(|line| line.contains("oracle: identical="));
            let line = line.context("the agent has compared nothing")?;
            let start = format!("{name}=");
            let word = line.split(' ').find_map(|word| word.strip_prefix(start.as_str()));
            Ok(word.with_context(|| format!("no {name} in {line}"))?.parse()?)
        };
        let mut checks = run.checks();
        for (what, same, other) in [
            ("stacks like the runtime's", count("identical")?, count("different")?),
            ("read without a signal", count("blocked_identical")?, count("blocked_different")?),
        ] {
            let all = same + other;
            checks.that(all >= compared_min, format!("{what}: only {all} were compared"));
            // On a busy machine few are compared: what is expected of them may vary by chance.
            let expected = all as f64 * (1.0 - identical_min);
            let most = expected + 4.0 * expected.max(1.0).sqrt();
            let told = format!("{what}: {same} of {all}\n{}", told(&text));
            checks.that(other as f64 <= most, told);
            println!("{app} on {version}: {what}: {same} of {all}");
        }
        // Told apart, but not so many that the comparison would be worth nothing.
        let (same, shorter) = (count("identical")?, count("shorter")?);
        checks.that(shorter * 5 <= same, format!("{shorter} answers shorter, {same} the same"));
        fs::remove_file(&log)?;
        checks.done()
    })
}

/// A run in which the stacks were compared, and the agent's log. The runtime's walker can wait for
/// a lock that the interrupted thread itself holds; such a run says nothing about ours, and is
/// repeated. That programs don't hang with the product is for the tests of the product.
fn compared(app: &str, version: RuntimeVersion, agent: &Path) -> Result<Option<(Run, PathBuf)>> {
    let mut attempt = 1;
    loop {
        let Some(session) = Session::new(&format!("{app}-oracle"), app, version)? else {
            return Ok(None);
        };
        let log = session.folder.with_extension("log");
        let run = session
            .args(["--seconds", "8"])
            // More stacks to compare.
            .set("CORPROF_CPU_INTERVAL", "4ms")
            .set("CORECLR_PROFILER_PATH", agent)
            .set("CORPROF_LOG", "debug")
            .set("CORPROF_LOG_FILE", &log)
            .limit(LIMIT)
            .run();
        match run {
            Err(error) if attempt < ATTEMPTS && is_overdue(&error) => {
                println!("{app} on {version}, attempt {attempt}: the runtime's walker hung");
                fs::remove_file(&log)?;
                attempt += 1;
            }
            other => return Ok(Some((other?, log))),
        }
    }
}

fn is_overdue(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Overdue>())
}

/// The first differences that the agent told of.
fn told(log: &str) -> String {
    const LINES_MAX: usize = 80;
    let lines = log.lines().skip_while(|line| !line.contains("stacks differ"));
    lines.take(LINES_MAX).collect::<Vec<_>>().join("\n")
}
