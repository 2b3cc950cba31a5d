//! The outcome of a program: its exit, its output, and the truth that it measured about itself.

use std::fmt;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::layout;

/// The line of a test program that holds its facts.
const TRUTH: &str = "TRUTH ";

/// A program that ended by itself.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The OS process id that it had.
    pub pid: u32,
    /// How it ended.
    pub status: ExitStatus,
    /// The CPU time of its whole life, all threads, as the kernel tells it to the parent; in units
    /// of 10 ms. 0 where there is no `/proc`.
    pub cpu: Duration,
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
    let said = [stdout, stderr].map(joined);
    outcome(pid, &command, limit, status?, said)
}

/// Like [`run`], for a program that leaves others behind which hold its output open, as the first
/// of Wine's may: what those say later is not waited for.
///
/// # Errors
/// As [`run`].
pub fn run_by_files(mut command: Command, limit: Duration) -> Result<Outcome> {
    let base = std::env::temp_dir().join(format!("rig-{}", layout::unique()));
    let paths = ["out", "err"].map(|name| base.with_extension(name));
    let [stdout, stderr] = paths.each_ref().map(fs::File::create);
    command.stdin(Stdio::null()).stdout(stdout?).stderr(stderr?);
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let status = wait(&mut child, limit, || {});
    let said = paths.map(|path| {
        let bytes = fs::read(&path).unwrap_or_default();
        // Nobody is there to be told.
        let _gone = fs::remove_file(path);
        bytes
    });
    outcome(child.id(), &command, limit, status?, said)
}

/// What became of a program, if it ended by itself.
fn outcome(
    pid: u32,
    command: &Command,
    limit: Duration,
    status: Option<(ExitStatus, Duration)>,
    said: [Vec<u8>; 2],
) -> Result<Outcome> {
    let [stdout, stderr] = said.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    match status {
        Some((status, cpu)) => Ok(Outcome { pid, status, cpu, stdout, stderr }),
        None => {
            let what = format!("{command:?} still ran and was killed; {stdout}{stderr}");
            Err(anyhow::Error::new(Overdue { limit }).context(what))
        }
    }
}

/// `None` if the time was over and the program had to be killed.
fn wait(
    child: &mut Child,
    limit: Duration,
    mut watch: impl FnMut(),
) -> Result<Option<(ExitStatus, Duration)>> {
    let begin = Instant::now();
    loop {
        // Asked for its status it would be gone, with what it has used: hence first this.
        let ended = ended(child.id());
        if let Some(cpu) = ended
            && let Some(status) = child.try_wait()?
        {
            return Ok(Some((status, cpu)));
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

/// What a process has used that has ended; `None` while it runs.
fn ended(pid: u32) -> Option<Duration> {
    /// The unit of `stat`, whatever the kernel's own tick is.
    const TICK_MILLIS: u64 = 10;
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return Some(Duration::ZERO);
    };
    // The name may hold anything, the last parenthesis is its end; then come the state, ten
    // numbers, and the ticks for user and system.
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    let state = words.next()?;
    let mut ticks = words.skip(10).map(str::parse::<u64>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    (state == "Z").then(|| Duration::from_millis((user + system) * TICK_MILLIS))
}

fn collect(mut source: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = source.read_to_end(&mut bytes);
        bytes
    })
}

fn joined(reader: Option<thread::JoinHandle<Vec<u8>>>) -> Vec<u8> {
    reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
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
    fn what_it_has_used_is_told() {
        // Some loops, and then nothing: it is not the time that counts.
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 0.05";
        let outcome = shell(script, Duration::from_secs(60)).unwrap();
        assert!(outcome.cpu >= Duration::from_millis(20), "{outcome:?}");
        let idle = shell("sleep 0.2", Duration::from_secs(60)).unwrap();
        assert!(idle.cpu < Duration::from_millis(100), "{idle:?}");
    }

    /// By pipes it would take as long as the one that was left.
    #[test]
    fn who_is_left_with_the_output_is_not_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; echo no >&2; exit 3"]);
        let outcome = run_by_files(command, Duration::from_secs(60)).unwrap();
        let said = (outcome.status.code(), outcome.stderr.as_str());
        let left = outcome.stdout.trim();
        assert!(Command::new("kill").arg(left).status().unwrap().success(), "{outcome:?}");
        assert_eq!(said, (Some(3), "no\n"));
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let error = shell("exec sleep 60", Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("was killed"));
    }
}
