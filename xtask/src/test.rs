//! `cargo xtask test`: everything that has to hold, in one command, with one summary.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rig::Rig;

use crate::product::{self, cargo};
use crate::{closure, micro_cost, setup, ui, workspace};
use counts::Counts;

mod counts;

/// A step that has been taken, or has failed.
struct Taken {
    title: &'static str,
    time: Duration,
    error: Option<anyhow::Error>,
}

/// A step: what it is called and what it does.
type Step = (&'static str, fn(&mut Counts) -> Result<()>);

const STEPS: [Step; 9] = [
    ("set up runtimes, compilers and test programs", set_up),
    ("cargo fmt --check", |_| cargo(&["fmt", "--all", "--check"])),
    ("cargo clippy", |_| {
        cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    }),
    ("pages are what their sources say", |_| ui::run(&["--check".to_owned()])),
    ("build the agent and the command line", |_| {
        product::build(&workspace::metadata()?.target_directory)?;
        Ok(())
    }),
    ("signal-closure of the built agent", |_| closure::run(&[])),
    ("build the tests", |_| cargo(&["test", "--workspace", "--no-run"])),
    ("what each part costs", |_| micro_cost::check_tests(&workspace::metadata()?.target_directory)),
    ("cargo test", tests),
];

/// How many test programs are told with their times.
const SLOWEST: usize = 12;

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "usage: cargo xtask test");
    let begin = Instant::now();
    let mut counts = Counts::default();
    let mut taken = Vec::new();
    for (number, (title, step)) in STEPS.iter().enumerate() {
        println!("\n=== {} of {}: {title}", number + 1, STEPS.len());
        let begin = Instant::now();
        let error = step(&mut counts).err();
        let failed = error.is_some();
        taken.push(Taken { title, time: begin.elapsed(), error });
        if failed {
            break;
        }
    }
    // Without a rig the first step has failed, and nothing was skipped.
    let skipped = Rig::ensure().map(Rig::skipped).unwrap_or_default();
    let failed = taken.iter().any(|step| step.error.is_some());
    let summary = summary(&taken, &counts, &skipped, begin.elapsed());
    let mut out = std::io::stdout();
    out.write_all(summary.as_bytes())?;
    out.flush()?;
    ensure!(!failed, "not everything holds; see above");
    Ok(())
}

/// The rig, which downloads what is missing.
fn set_up(_: &mut Counts) -> Result<()> {
    // A list of an earlier run would be taken for this one's.
    Rig::ensure()?.clear_skipped().context("the list of skipped tests cannot be cleared")?;
    setup::run(&[])
}

/// All tests of the workspace; those of one program that fail don't keep the others from running.
fn tests(counts: &mut Counts) -> Result<()> {
    // One pipe for both: cargo says on the one which program runs, and that speaks on the other.
    let (output, input) = std::io::pipe().context("no pipe")?;
    let mut command = rig::cargo();
    command
        .args(["test", "--workspace", "--no-fail-fast"])
        .current_dir(workspace::root())
        .stdin(Stdio::null())
        .stdout(input.try_clone().context("no pipe")?)
        .stderr(input);
    let mut child = command.spawn().context("cargo could not be started")?;
    // With the command go its ends of the pipe, so that the output ends when the tests do.
    drop(command);
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        counts.add(&line);
    }
    let status = child.wait()?;
    // Also when a test program crashed, which prints no result.
    ensure!(status.success(), "cargo test failed ({status})");
    Ok(())
}

/// The steps, what failed, what was skipped; the totals last.
fn summary(taken: &[Taken], counts: &Counts, skipped: &[String], time: Duration) -> String {
    let mut lines = vec![String::new(), "=== summary".to_owned()];
    for step in taken {
        let word = if step.error.is_some() { "FAILED" } else { "ok" };
        lines.push(format!("{word:<6} {:>7.1} s  {}", step.time.as_secs_f64(), step.title));
        if let Some(error) = &step.error {
            lines.push(format!("{:18}{error:#}", ""));
        }
    }
    for (title, _) in STEPS.iter().skip(taken.len()) {
        lines.push(format!("{:<6} {:>7}    {title}", "not run", ""));
    }
    lines.push(format!("{:<6} {:>7.1} s  altogether", "", time.as_secs_f64()));
    let slowest = counts.slowest().into_iter().take(SLOWEST);
    lines.extend(slowest.map(|(name, s)| format!("{:<6} {s:>7.1} s    {name}", "")));
    for failure in &counts.failures {
        lines.extend([String::new(), format!("FAILED test {}", failure.name)]);
        lines.extend(failure.output.iter().map(|line| format!("  {line}")));
    }
    let skips = skipped.len() as u64 + counts.ignored;
    if skips > 0 {
        let rule = "!".repeat(78);
        lines.extend([String::new(), rule.clone()]);
        lines.push(format!("!! {skips} SKIPPED: what they would have shown is NOT known"));
        lines.extend(skipped.iter().map(|line| format!("!! {line}")));
        if counts.ignored > 0 {
            lines.push(format!("!! {} marked #[ignore]", counts.ignored));
        }
        lines.push(rule);
    }
    // A step that fails without a failing test, such as the format, is a failure as well.
    let steps = taken.iter().any(|step| step.error.is_some());
    let failed = counts.failed.max(u64::from(steps));
    lines.push(String::new());
    lines.push(format!("{} passed, {failed} failed, {skips} skipped", counts.passed));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::counts::tests::OUTPUT;
    use super::*;

    #[test]
    fn the_summary_ends_with_the_totals_and_is_loud_about_skips() {
        let step = |error| Taken { title: "cargo test", time: Duration::from_secs(3), error };
        let skipped = ["SKIPPED web on .NET 9.0".to_owned()];
        let text = summary(&[step(None)], &Counts::of(OUTPUT), &skipped, Duration::from_secs(4));
        assert!(text.ends_with("\n7 passed, 1 failed, 2 skipped\n"), "{text}");
        assert!(text.contains("!! 2 SKIPPED") && text.contains("!! SKIPPED web"), "{text}");
        assert!(text.contains("FAILED test two\n  Error: not so\n"), "{text}");
        assert!(text.contains("12.5 s    wall\n"), "{text}");

        let failed = step(Some(anyhow::anyhow!("it broke")));
        let text = summary(&[failed], &Counts::default(), &[], Duration::from_secs(4));
        assert!(text.ends_with("\n0 passed, 1 failed, 0 skipped\n"), "{text}");
        assert!(text.contains("it broke") && text.contains("not run"), "{text}");
        assert!(!text.contains("!!"), "{text}");
    }
}
