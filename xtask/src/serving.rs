//! `cargo xtask bench serve` and `cargo xtask fuzz intake`: tests of `corprof serve` that are short
//! with every change, in their long form. They are in `crates/cli/tests/serve`.

use anyhow::{Context, Result, bail, ensure};

use crate::product::cargo_with;

const BENCH: Long = Long {
    usage: "usage: cargo xtask bench serve [--minutes N]",
    default: 10,
    variable: "SERVE_SECONDS",
    test: "an_hour_of_twenty_agents",
};

const FUZZ: Long = Long {
    usage: "usage: cargo xtask fuzz intake [--minutes N]",
    default: 60,
    variable: "FUZZ_SECONDS",
    test: "changed_bodies",
};

/// A test that has a long form.
struct Long {
    usage: &'static str,
    /// Minutes without the option.
    default: u64,
    /// The variable that has the seconds.
    variable: &'static str,
    test: &'static str,
}

/// Twenty agents that push while questions are asked, for minutes; the arguments are those after
/// `serve`.
pub fn bench(arguments: &[String]) -> Result<()> {
    BENCH.run(arguments)
}

/// Bodies that were changed at random, for minutes; the first argument is what is fuzzed.
pub fn fuzz(arguments: &[String]) -> Result<()> {
    let what = arguments.first().map(String::as_str);
    ensure!(what == Some("intake"), FUZZ.usage);
    FUZZ.run(&arguments[1..])
}

impl Long {
    fn run(&self, arguments: &[String]) -> Result<()> {
        let minutes = match arguments {
            [] => self.default,
            [option, minutes] if option == "--minutes" => minutes.parse().context(self.usage)?,
            _ => bail!(self.usage),
        };
        let seconds = (minutes * 60).to_string();
        let test = ["test", "--release", "-p", "cli", "--test", "serve", self.test];
        let flags = ["--", "--nocapture", "--test-threads=1"];
        cargo_with(&[&test[..], &flags].concat(), &[(self.variable, &seconds)])
    }
}
