//! What the output of `cargo test` says.

/// How many lines a failed test's own output is told with.
const LINES_MAX: usize = 20;

/// What the tests came to.
#[derive(Debug, Default, PartialEq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
    pub failures: Vec<Failure>,
    /// Test programs and the seconds they took.
    times: Vec<(String, f64)>,
    /// The test program that runs.
    program: String,
    /// The failed test whose output follows.
    told: Option<usize>,
}

/// A test that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub name: String,
    /// The beginning of what it printed.
    pub output: Vec<String>,
}

impl Counts {
    /// Takes in a line of a test program's output, or of cargo's.
    pub fn add(&mut self, line: &str) {
        if let Some(running) = line.trim_start().strip_prefix("Running ") {
            self.program = program(running);
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|l| l.strip_suffix(" ... FAILED"))
        {
            self.failures.push(Failure { name: name.to_owned(), output: Vec::new() });
        } else if let Some(name) =
            line.strip_prefix("---- ").and_then(|l| l.strip_suffix(" stdout ----"))
        {
            self.told = self.failures.iter().rposition(|failure| failure.name == name);
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.result(result);
        } else if line == "failures:" {
            // The list of names after the outputs.
            self.told = None;
        } else if let Some(failure) = self.told.and_then(|told| self.failures.get_mut(told))
            && failure.output.len() < LINES_MAX
            && !line.trim().is_empty()
        {
            failure.output.push(line.to_owned());
        }
    }

    /// The test programs, the slowest first, with the seconds they took.
    pub fn slowest(&self) -> Vec<(&str, f64)> {
        let mut times: Vec<_> = self.times.iter().map(|(name, s)| (name.as_str(), *s)).collect();
        times.sort_by(|one, other| other.1.total_cmp(&one.1));
        times
    }

    /// `ok. 5 passed; 0 failed; 1 ignored; …; finished in 0.10s`
    fn result(&mut self, result: &str) {
        let numbers = result.split_once(". ").map_or("", |(_, numbers)| numbers);
        for part in numbers.split("; ") {
            if let Some(time) = part.strip_prefix("finished in ") {
                let seconds = time.trim_end_matches('s').parse().unwrap_or_default();
                self.times.push((self.program.clone(), seconds));
            }
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

/// The program's name out of `tests/wall.rs (target/debug/deps/wall-0123456789abcdef)`.
fn program(running: &str) -> String {
    let file = running.rsplit(['/', '(']).next().unwrap_or(running).trim_end_matches(')');
    let name = file.rsplit_once('-').map_or(file, |(name, _hash)| name);
    let of = if running.starts_with("unittests ") { "unit tests of " } else { "" };
    format!("{of}{name}")
}

#[cfg(test)]
pub mod tests {
    use super::*;

    impl Counts {
        /// What a text comes to whose lines are a test program's or cargo's own.
        pub fn of(text: &str) -> Self {
            let mut counts = Self::default();
            text.lines().for_each(|line| counts.add(line));
            counts
        }
    }

    pub const OUTPUT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/model-0123456789abcdef)
test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 1.00s
     Running tests/wall.rs (target/debug/deps/wall-0123456789abcdef)
running 3 tests
test a::one ... ok
test two ... FAILED
failures:

---- two stdout ----
Error: not so

failures:
    two

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 12.50s
";

    #[test]
    fn results_of_all_test_programs_add_up() {
        let counts = Counts::of(OUTPUT);
        assert_eq!((counts.passed, counts.failed, counts.ignored), (7, 1, 1));
        assert_eq!(counts.slowest(), [("wall", 12.5), ("unit tests of model", 1.0)]);
        let failure = Failure { name: "two".to_owned(), output: vec!["Error: not so".to_owned()] };
        assert_eq!(counts.failures, [failure]);
        assert_eq!(Counts::of("test result: nonsense"), Counts::default());
    }

    #[test]
    fn of_a_long_output_the_beginning_is_told() {
        let lines = "line\n".repeat(1_000);
        let counts = Counts::of(&format!("test x ... FAILED\n---- x stdout ----\n{lines}"));
        assert_eq!(counts.failures[0].output.len(), LINES_MAX);
    }
}
