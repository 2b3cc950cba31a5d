//! `cargo xtask truth`: runs the truth tests and prints what they measured, as the tables of
//! `docs/truth.md`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

mod claims;

use claims::{CLAIMS, Claim, Kind};

const USAGE: &str = "usage: cargo xtask truth [--write] [--from OUTPUT]";
const DOCUMENT: &str = "docs/truth.md";
/// The part of the document that is made here stands between these.
const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->\n";

/// What was claimed holds or does not, without a number: a test, and what it shows.
const TESTS: [(&str, &str); 16] = [
    (
        "blocking_collections_and_their_pauses",
        "collections of each generation are those that the runtime counted, and a thread that \
         sleeps is held up by none",
    ),
    ("collections_in_the_background_stay_there", "what is concurrent stays concurrent"),
    (
        "waits_are_charged_to_where_they_were",
        "sleep, lock, socket, CPU: each is in its method, in the right state, within 2 %",
    ),
    (
        "no_system_call_ends_early",
        "`poll`, `nanosleep`, `usleep`, `recv`, looked at every millisecond for 20 s: none ends \
         early",
    ),
    (
        "everything_at_once",
        "100 threads, garbage, exceptions, faults, dynamic methods, unloaded assemblies, `dlopen`, \
         `fork`, thieves of signals, at 1 kHz: no crash, no hang, no growth",
    ),
    (
        "every_construct_has_its_name",
        "each construct of C# in the names program has the name that a person gave it",
    ),
    ("by_return_and_exit", "a program that returns or exits has its last profile"),
    ("by_a_signal", "so has one that gets SIGTERM"),
    ("by_a_crash", "one that crashes does so as without the agent"),
    ("the_exit_code_is_the_programs", "the exit code is the program's"),
    ("periods", "a file each period, numbered without a gap, together the whole"),
    (
        "others_read_the_same",
        "`go tool pprof` and a reader in JavaScript read the same numbers, in files and in what is \
         sent to Pyroscope and Datadog",
    ),
    ("the_command_line_says_what_the_files_say", "`corprof run` reports what the files say"),
    (
        "nothing_is_left_for_the_next_request",
        "25,000 requests four times, each asked at up to 17 points which request its thread works \
         for: none wrong, nothing left for the next",
    ),
    (
        "a_request_longer_than_a_period_has_its_endpoint_in_all_of_them",
        "a request that is longer than a period has its endpoint in all of them",
    ),
    ("net_3_1_is_profiled", ".NET Core 3.1 is profiled"),
];

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The name of the run.
    pub run: String,
    /// What was measured, with the numbers.
    pub text: String,
    /// Whether it was within its bound.
    pub good: bool,
}

/// All that a run of the tests said.
#[derive(Debug, Default)]
pub struct Said {
    run: String,
    /// In the order in which they were made.
    pub measurements: Vec<Measurement>,
    tests: Vec<(String, bool)>,
}

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut write = false;
    let mut from = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--write" => write = true,
            "--from" => from = Some(rest.next().context(USAGE)?),
            _ => bail!("{USAGE}"),
        }
    }
    let (said, passed) = match from {
        Some(file) => (of_output(&fs::read_to_string(file).context("--from")?), true),
        None => measure(&["--no-fail-fast", "--", "--nocapture"], &[])?,
    };
    let tables = said.tables();
    if write {
        let path = workspace::root().join(DOCUMENT);
        let document = fs::read_to_string(&path).context(DOCUMENT)?;
        fs::write(&path, replaced(&document, &tables)?).context(DOCUMENT)?;
        eprintln!("truth: written to {DOCUMENT}");
    } else {
        print!("{tables}");
    }
    ensure!(passed, "some truth tests failed; see above");
    Ok(())
}

/// What an earlier run of the tests printed.
pub fn of_output(output: &str) -> Said {
    let mut said = Said::default();
    output.lines().for_each(|line| said.add(line));
    said
}

/// Runs the tests with these arguments and variables; what they print goes on to standard error.
pub fn measure(arguments: &[&str], variables: &[(&str, String)]) -> Result<(Said, bool)> {
    let mut child = rig::cargo()
        .args(["test", "--package", "e2e"])
        .args(arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(workspace::root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo could not be started")?;
    let output = child.stdout.take().context("no output of cargo")?;
    let mut said = Said::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        eprintln!("{line}");
        said.add(&line);
    }
    Ok((said, child.wait()?.success()))
}

/// The document with other tables.
fn replaced(document: &str, tables: &str) -> Result<String> {
    let (before, rest) = document.split_once(BEGIN).context("the document has no place for it")?;
    let (_, after) = rest.split_once(END).context("the place in the document has no end")?;
    Ok(format!("{before}{BEGIN}{tables}{END}{after}"))
}

impl Said {
    /// Takes in a line: a run's name, a measurement below it, or a test's result.
    fn add(&mut self, line: &str) {
        let good = line.trim_start().strip_prefix("ok   ").map(|text| (text, true));
        let bad = line.trim_start().strip_prefix("FAIL ").map(|text| (text, false));
        if let Some((text, good)) = good.or(bad).filter(|_| line.starts_with(' ')) {
            let (run, text) = (self.run.clone(), text.to_owned());
            self.measurements.push(Measurement { run, text, good });
            return;
        }
        if let Some((run, text)) = line.split_once(": stacks like the runtime's: ") {
            let (run, text) = (run.to_owned(), text.to_owned());
            self.measurements.push(Measurement { run, text, good: true });
            return;
        }
        let result = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        match result {
            Some((name, "ok")) => self.tests.push((name.to_owned(), true)),
            Some((name, "FAILED")) => self.tests.push((name.to_owned(), false)),
            // Without threads the test's name stands before what it prints; of one that failed,
            // that it is an error. No run's name has a space.
            _ => self.run = line.rsplit(' ').next().unwrap_or_default().to_owned(),
        }
    }

    fn tables(&self) -> String {
        let mut text = "| Claim | Bound | Farthest off | Measurements | Test |\n".to_owned();
        text.push_str("|---|---|---|---|---|\n");
        for claim in &CLAIMS {
            let (worst, count) = self.worst(claim);
            let Claim { text: what, bound, test, .. } = claim;
            text.push_str(&format!("| {what} | {bound} | {worst} | {count} | `{test}` |\n"));
        }
        text.push_str("\n| Claim | Result | Test |\n|---|---|---|\n");
        for (test, what) in TESTS {
            let result = match self.tests.iter().find(|(name, _)| name == test) {
                Some((_, true)) => "holds",
                Some((_, false)) => "DOES NOT HOLD",
                None => "not run",
            };
            text.push_str(&format!("| {what} | {result} | `{test}` |\n"));
        }
        text
    }

    /// The measurement of a claim that is farthest off, and how many there are.
    fn worst(&self, claim: &Claim) -> (String, usize) {
        // Of the whole process only limits are known: it does more than its program can measure.
        let of_claim = |one: &&Measurement| {
            one.run.starts_with(claim.run)
                && one.text.starts_with(claim.what)
                && !one.text.starts_with("CPU of the process,")
                && !one.text.starts_with("CPU of the process and")
        };
        let numbers = self.measurements.iter().filter(of_claim);
        let numbers = numbers.filter_map(|one| Some((number(&one.text, claim.kind)?, one)));
        let badness = |number: f64| match claim.kind {
            Kind::Roots | Kind::Same | Kind::Within => -number,
            Kind::Off | Kind::Sigmas => number.abs(),
        };
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_by(|(a, _), (b, _)| badness(*b).total_cmp(&badness(*a)));
        let count = numbers.len();
        let Some((number, worst)) = numbers.first() else { return ("not run".to_owned(), 0) };
        let number = match claim.kind {
            Kind::Off => format!("{number:+.2} %"),
            Kind::Sigmas => format!("{number:+.1} σ ({})", shares(&worst.text).unwrap_or_default()),
            Kind::Roots | Kind::Within => format!("{:.2} %", number * 100.0),
            Kind::Same => format!("{:.2} % ({})", number * 100.0, worst.text),
        };
        // A failed one shows itself even if its number looks well.
        let all_good = numbers.iter().all(|(_, one)| one.good);
        (if all_good { number } else { format!("**{number}**") }, count)
    }
}

/// The number of a measurement, if it is one of that kind.
fn number(text: &str, kind: Kind) -> Option<f64> {
    match kind {
        Kind::Off => text.strip_suffix(" %)")?.rsplit_once('(')?.1.parse().ok(),
        Kind::Sigmas => text.strip_suffix(" σ)")?.rsplit_once('(')?.1.parse().ok(),
        Kind::Same => {
            let (same, all) = text.split_once(" of ")?;
            Some(same.parse::<f64>().ok()? / all.parse::<f64>().ok()?)
        }
        Kind::Within => {
            let (_, numbers) = text.split_once(": ")?;
            let (found, rest) = numbers.split_once(", and ")?;
            let (_, most) = rest.split_once(" to ")?;
            let most = most.split(' ').next()?;
            Some(found.parse::<f64>().ok()? / most.parse::<f64>().ok()?)
        }
        Kind::Roots => {
            text.split_once(" walks reached the root")?.0.split(' ').next()?.parse().ok()
        }
    }
}

/// The shares of a measurement: `0.8913 of 800 samples for 0.9000`.
fn shares(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("a share of ")?;
    let (found, rest) = rest.split_once(", and ")?;
    let (truth, _) = rest.split_once(" is the truth")?;
    Some(format!("{found} for {truth}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
busy-timer-5ms-net8.0
  ok   CPU of busy-0: 1010, and 980 to 1020 is right (+1.00 %)
  ok   CPU of busy-1: 985, and 980 to 1020 is right (-1.50 %)
  ok   CPU of the process, reported: 900, and 980 to 1020 is right (-10.00 %)
  ok   0.99812 of 1600 walks reached the root: [root] 1597, [no unwind rule] 3

test others_read_the_same ... ok
split-99-timer-5ms-net9.0
  ok   the first method: a share of 0.9870 of 800 samples, and 0.9900 is the truth (-0.8 σ)
requests-activities-net9.0
  ok   time in work with the right ids: 995, and 990 to 1000 is right (+0.00 %)
waits on .NET 8.0: stacks like the runtime's: 3 of 4
waits-walks-net8.0
  FAIL 0.98000 of 100 walks reached the root: [root] 98, [truncated] 2
test by_a_crash ... FAILED
";

    #[test]
    fn the_farthest_off_is_shown() {
        let tables = of_output(OUTPUT).tables();
        for row in [
            "at 5, 10 and 50 ms | ±2 % | -1.50 % | 2 | `cpu_totals` |",
            "99 to 1 | 4 σ | -0.8 σ (0.9870 of 800 samples for 0.9900) | 1 | `cpu_shares` |",
            "in a program that waits | ≥99 % | **98.00 %** | 1 | `walks` |",
            "frame by frame, where threads wait | ≥99.9 % | 75.00 % (3 of 4) | 1 | `oracle` |",
            "the service logged | ≥99 % | 99.50 % | 1 | `requests` |",
            "its lifetime | ±2 % | not run | 0 | `wall` |",
            "sent to Pyroscope and Datadog | holds | `others_read_the_same` |",
            "as without the agent | DOES NOT HOLD | `by_a_crash` |",
        ] {
            assert!(tables.contains(row), "no {row} in\n{tables}");
        }
    }

    #[test]
    fn only_the_place_in_the_document_changes() {
        let document = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(replaced(&document, "new\n").unwrap(), format!("a\n{BEGIN}new\n{END}b\n"));
        assert!(replaced("nothing", "new").is_err());
    }

    #[test]
    fn the_tests_are_there_and_the_document_has_its_place() {
        let tests = workspace::root().join("tests/e2e/tests");
        let read = |name: &str| fs::read_to_string(tests.join(format!("{name}.rs"))).unwrap();
        let files = [
            "cpu_totals",
            "cpu_shares",
            "lines",
            "wall",
            "requests",
            "guest",
            "walks",
            "names",
            "ends",
            "oracle",
            "pauses",
            "whole",
            "idle",
            "small",
        ];
        let all: String = files.iter().chain(&["readers", "versions"]).map(|f| read(f)).collect();
        for (test, _) in TESTS {
            assert!(all.contains(&format!("fn {test}()")), "there is no test {test}");
        }
        for claim in &CLAIMS {
            assert!(files.contains(&claim.test), "{}", claim.test);
        }
        let document = fs::read_to_string(workspace::root().join(DOCUMENT)).unwrap();
        assert!(replaced(&document, "").is_ok());
    }
}
