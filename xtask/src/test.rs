//! `cargo xtask test`: everything that has to hold, in one command, with one summary.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rig::Rig;

use crate::product::{self, cargo};
use crate::{closure, setup, ui, workspace};

/// What the tests came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Names of those that failed.
    failures: Vec<String>,
}

/// A step that has been taken, or has failed.
struct Taken {
    title: &'static str,
    time: Duration,
    error: Option<anyhow::Error>,
}

/// A step: what it is called and what it does.
type Step = (&'static str, fn(&mut Counts) -> Result<()>);

const STEPS: [Step; 7] = [
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
    ("cargo test", tests),
];

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
    let mut child = Command::new(workspace::cargo())
        .args(["test", "--workspace", "--no-fail-fast"])
        .current_dir(workspace::root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo could not be started")?;
    let output = child.stdout.take().context("no output of cargo")?;
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

impl Counts {
    /// Takes in a line of a test program's output.
    fn add(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|l| l.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
            return;
        }
        let Some(result) = line.strip_prefix("test result: ") else { return };
        // `ok. 5 passed; 0 failed; 1 ignored; …`
        let numbers = result.split(". ").nth(1).unwrap_or_default();
        for part in numbers.split("; ") {
            let mut words = part.split(' ');
            let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            match words.next() {
                Some("passed") => self.passed += number,
                Some("failed") => self.failed += number,
                Some("ignored") => self.ignored += number,
                _ => {}
            }
        }
    }
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
    if !counts.failures.is_empty() {
        lines.push(String::new());
        lines.extend(counts.failures.iter().map(|name| format!("FAILED test {name}")));
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
    use super::*;

    fn counted(text: &str) -> Counts {
        let mut counts = Counts::default();
        text.lines().for_each(|line| counts.add(line));
        counts
    }

    const OUTPUT: &str = "\
running 3 tests
test a::one ... ok
test two ... FAILED
test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s
test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 1.00s
";

    #[test]
    fn results_of_all_test_programs_add_up() {
        let counts = counted(OUTPUT);
        assert_eq!((counts.passed, counts.failed, counts.ignored), (7, 1, 1));
        assert_eq!(counts.failures, ["two"]);
        assert_eq!(counted("test result: nonsense"), Counts::default());
    }

    #[test]
    fn the_summary_ends_with_the_totals_and_is_loud_about_skips() {
        let step = |error| Taken { title: "cargo test", time: Duration::from_secs(3), error };
        let skipped = ["SKIPPED web on .NET 9.0".to_owned()];
        let text = summary(&[step(None)], &counted(OUTPUT), &skipped, Duration::from_secs(4));
        assert!(text.ends_with("\n7 passed, 1 failed, 2 skipped\n"), "{text}");
        assert!(text.contains("!! 2 SKIPPED") && text.contains("!! SKIPPED web"), "{text}");
        assert!(text.contains("FAILED test two"), "{text}");

        let failed = step(Some(anyhow::anyhow!("it broke")));
        let text = summary(&[failed], &Counts::default(), &[], Duration::from_secs(4));
        assert!(text.ends_with("\n0 passed, 1 failed, 0 skipped\n"), "{text}");
        assert!(text.contains("it broke") && text.contains("not run"), "{text}");
        assert!(!text.contains("!!"), "{text}");
    }
}
