//! `cargo xtask whole`, `chaos` and `outage`: tests that are short with every change, in their long
//! form. Workloads and bounds are in `tests/e2e/tests`; here is only how long.

use anyhow::{Context, Result, bail, ensure};
use rig::RuntimeVersion;

use crate::truth::{self, Said};

/// The variables by which `e2e::Form` is asked for.
const SECONDS: &str = "E2E_SECONDS";
const NET: &str = "E2E_NET";

/// A test that has a long form.
struct Long {
    usage: &'static str,
    /// What the option for the time is called, and how many seconds its unit has.
    option: (&'static str, u64),
    /// How many of them without the option.
    default: u64,
    /// The file of the tests, in `tests/e2e/tests`.
    test: &'static str,
    /// What the names of the tests begin with.
    only: &'static str,
    /// What those names, without this, may be chosen by.
    suffix: &'static str,
}

const WHOLE: Long = Long {
    usage: "usage: cargo xtask whole [--seconds N] [--net 8.0|9.0|10.0] [TEST]...",
    option: ("--seconds", 1),
    default: 22,
    test: "whole",
    only: "",
    suffix: "all_there",
};

const CHAOS: Long = Long {
    usage: "usage: cargo xtask chaos [--minutes N] [--net 8.0|9.0|10.0]",
    option: ("--minutes", 60),
    default: 10,
    test: "guest",
    only: "everything_at_once",
    suffix: "",
};

const OUTAGE: Long = Long {
    usage: "usage: cargo xtask outage [--minutes N] [--net 8.0|9.0|10.0] [TEST]...",
    option: ("--minutes", 60),
    default: 10,
    test: "outage",
    only: "",
    suffix: "",
};

/// CPU time of all kinds of programs against the kernel's count; whole stacks.
pub fn whole(arguments: &[String]) -> Result<()> {
    WHOLE.run(arguments)
}

/// A program that does everything at once, for minutes.
pub fn chaos(arguments: &[String]) -> Result<()> {
    CHAOS.run(arguments)
}

/// A target that is down for minutes, and all else that may happen to what is sent.
pub fn outage(arguments: &[String]) -> Result<()> {
    OUTAGE.run(arguments)
}

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    seconds: u64,
    net: Option<String>,
    tests: Vec<String>,
}

impl Long {
    fn run(&self, arguments: &[String]) -> Result<()> {
        let asked = self.parse(arguments)?;
        let mut variables = vec![(SECONDS, asked.seconds.to_string())];
        variables.extend(asked.net.map(|net| (NET, net)));
        // One after the other, and said by which test.
        let mut words = vec!["--test", self.test, "--", "--nocapture", "--test-threads=1"];
        words.extend(asked.tests.iter().map(String::as_str));
        let (said, passed) = truth::measure(&words, &variables)?;
        print!("{}", table(&said));
        ensure!(passed, "not all is within its bounds; see above");
        ensure!(!said.measurements.is_empty(), "nothing was measured: {}", self.usage);
        Ok(())
    }

    fn parse(&self, arguments: &[String]) -> Result<Asked> {
        let (option, unit) = self.option;
        let mut asked = Asked { seconds: self.default * unit, ..Asked::default() };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().with_context(|| self.usage);
            if argument == option {
                let number: u64 = value()?.parse().with_context(|| self.usage)?;
                ensure!(number > 0, "{}", self.usage);
                asked.seconds = number * unit;
            } else if argument == "--net" {
                let net = value()?;
                let is_one = RuntimeVersion::ALL.iter().any(|one| one.major_minor() == net);
                ensure!(is_one, "there is no version {net}; {}", self.usage);
                asked.net = Some(net.clone());
            } else if argument.starts_with('-') || !self.only.is_empty() {
                bail!("{argument} is no option; {}", self.usage);
            } else {
                asked.tests.push(argument.clone());
            }
        }
        if asked.tests.is_empty() {
            let all = if self.only.is_empty() { self.suffix } else { self.only };
            asked.tests.push(all.to_owned());
        }
        Ok(asked)
    }
}

/// All measurements, by run.
fn table(said: &Said) -> String {
    let mut text = "| Run | What | Found | Right | Off | |\n|---|---|---|---|---|---|\n".to_owned();
    for one in &said.measurements {
        let good = if one.good { "ok" } else { "FAIL" };
        let (what, found, right, off) = columns(&one.text);
        text.push_str(&format!("| {} | {what} | {found} | {right} | {off} | {good} |\n", one.run));
    }
    text
}

/// `what: found, and low to high is right (off)`; anything else is what it is.
fn columns(text: &str) -> (&str, &str, &str, &str) {
    let split = || {
        let (what, rest) = text.split_once(": ")?;
        let (found, rest) = rest.split_once(", and ")?;
        let (right, rest) = rest.split_once(" is right (").or(rest.split_once(" is the truth ("))?;
        Some((what, found, right, rest.strip_suffix(')')?))
    };
    split().unwrap_or((text, "", "", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(long: &Long, words: &[&str]) -> Result<Asked> {
        long.parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn how_long_and_on_what() {
        let asked = parsed(&CHAOS, &["--minutes", "3", "--net", "9.0"]).unwrap();
        assert_eq!((asked.seconds, asked.net.as_deref()), (180, Some("9.0")));
        assert_eq!(asked.tests, ["everything_at_once"]);
        let asked = parsed(&WHOLE, &["exceptions", "jit"]).unwrap();
        assert_eq!((asked.seconds, asked.net), (22, None));
        assert_eq!(asked.tests, ["exceptions", "jit"]);
        assert_eq!(parsed(&WHOLE, &[]).unwrap().tests, ["all_there"]);
        for wrong in [&["--minutes", "0"][..], &["--net", "7.0"], &["--minutes"], &["x"]] {
            assert!(parsed(&CHAOS, wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn measurements_have_columns() {
        let output = "test a ... whole-gc-net8.0\n  ok   CPU: 9, and 8 to 10 is right (+0.10 %)\n  \
                      FAIL 0.9 of 100 walks reached the root: [root] 90\n";
        let table = table(&truth::of_output(output));
        assert!(
            table.contains("| whole-gc-net8.0 | CPU | 9 | 8 to 10 | +0.10 % | ok |"),
            "{table}"
        );
        assert!(table.contains("reached the root: [root] 90 |  |  |  | FAIL |"), "{table}");
    }
}
