//! The outcome of a program: its exit, its output, and the truth that it measured about itself.

use std::fmt;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

/// The line of a test program that holds its facts.
const TRUTH: &str = "TRUTH ";

/// A program that ended by itself.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The OS process id that it had.
    pub pid: u32,
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

impl Outcome {
    /// The facts in the program's last `TRUTH {json}` line.
    ///
    /// # Errors
    /// If there is no such line; the message holds what the program said instead.
    pub fn truth(&self) -> Result<Value> {
        let line = self.stdout.lines().rev().find_map(|line| line.strip_prefix(TRUTH));
        let json = line.with_context(|| format!("the program told no truth: {self:?}"))?;
        serde_json::from_str(json).with_context(|| format!("not JSON: {json}"))
    }
}

/// The program still ran when its time was over; in the chain of the error.
#[derive(Clone, Copy, Debug)]
pub struct Overdue {
    limit: Duration,
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it took more than {:?}", self.limit)
    }
}

impl std::error::Error for Overdue {}

/// Runs the command to its end. Standard input is empty; output is collected.
///
/// # Errors
/// If it cannot be started, or still runs after `limit`: then it is killed.
pub fn run(command: Command, limit: Duration) -> Result<Outcome> {
    run_watched(command, limit, |_| {})
}

/// The same; `watch` is called over and over while the program runs, with its process id.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    mut command: Command,
    limit: Duration,
    mut watch: impl FnMut(u32),
) -> Result<Outcome> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let pid = child.id();
    // Read at once, or the program would block on a full pipe.
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let status = wait(&mut child, limit, || watch(pid));
    let (stdout, stderr) = (text(stdout), text(stderr));
    match status? {
        Some(status) => Ok(Outcome { pid, status, stdout, stderr }),
        None => {
            let what = format!("{command:?} still ran and was killed; {stdout}{stderr}");
            Err(anyhow::Error::new(Overdue { limit }).context(what))
        }
    }
}

/// `None` if the time was over and the program had to be killed.
fn wait(child: &mut Child, limit: Duration, mut watch: impl FnMut()) -> Result<Option<ExitStatus>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begin.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        watch();
        thread::sleep(Duration::from_millis(10));
    }
}

fn collect(mut source: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = source.read_to_end(&mut bytes);
        bytes
    })
}

fn text(reader: Option<thread::JoinHandle<Vec<u8>>>) -> String {
    let bytes = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Outcome> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, limit)
    }

    #[test]
    fn the_last_truth_counts() {
        let script = "echo 'TRUTH {\"n\":1}'; echo other; echo 'TRUTH {\"n\":2}'; exit 4";
        let outcome = shell(script, Duration::from_secs(10)).unwrap();
        assert_eq!(outcome.truth().unwrap()["n"], 2);
        assert_eq!(outcome.status.code(), Some(4));
    }

    #[test]
    fn a_program_without_truth_is_an_error_that_shows_its_output() {
        let outcome = shell("echo oops >&2", Duration::from_secs(10)).unwrap();
        assert!(outcome.truth().unwrap_err().to_string().contains("oops"));
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let error = shell("exec sleep 60", Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("was killed"));
    }
}
