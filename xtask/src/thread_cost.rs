//! `cargo xtask bench threads`: what the profiler costs a process with many threads that only wait.
//! From outside: the kernel's counts of CPU time, in nanoseconds, of the profiler's threads and of
//! the program's.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rig::{Net8, Rig};

use crate::product::Product;

/// How many threads, unless others are asked for.
pub const THREADS: [usize; 4] = [10, 100, 1_000, 10_000];
/// For how long the idle process is watched, in seconds, unless said otherwise: a profile's period.
pub const SECONDS: u64 = 60;
/// How long the profiler has to get to know the threads. What it has used by then is told apart.
const START: Duration = Duration::from_secs(45);
/// Longer than anything here takes, however busy the machine.
const LIMIT: Duration = Duration::from_secs(120);
/// The beginning of the names of the profiler's threads.
const OWN: &str = "corprof";

/// Measures, and prints a table.
pub fn run(
    threads: &[usize],
    seconds: u64,
    rig: &Rig,
    product: &Product,
    target: &Path,
) -> Result<()> {
    let bench = Bench { window: Duration::from_secs(seconds), rig, product, target };
    let mut rows = Vec::new();
    for count in threads {
        eprintln!("bench: threads, {count}");
        rows.push(bench.row(*count)?);
    }
    println!("\nThreads that wait, watched for {seconds} s:\n");
    println!(
        "| threads | ready | threads started, without and with the agent | CPU time of the start | \
         idle: profiler | idle: program, without and with the agent | memory for a thread | \
         attached, all sampled | attached, idle |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    rows.iter().for_each(|row| println!("{row}"));
    Ok(())
}

struct Bench<'a> {
    window: Duration,
    rig: &'a Rig,
    product: &'a Product,
    target: &'a Path,
}

/// A program that waits, and what it said of its start.
struct Waiting {
    child: Child,
    started_ms: f64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It may have ended; there is nobody to tell.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// CPU time in a window, as thousandths of a processor.
struct Idle {
    own: f64,
    programs: f64,
}

impl Bench<'_> {
    fn row(&self, threads: usize) -> Result<String> {
        let bare = self.start(threads, None)?;
        let bare_kib = bare.resident_kib()?;
        sleep(START / 4);
        let without = bare.idle(self.window)?;

        let began = Instant::now();
        let attached = self.attach(&bare, began)?;
        let took_ms = attached.took.as_secs_f64() * 1e3;
        let all = bare.all_sampled(threads, began)?.as_secs_f64();
        sleep(START);
        let after_attach = bare.idle(self.window)?;
        drop(attached);
        drop(bare);

        let log = self.target.join("bench/threads.log");
        let profiled = self.start(threads, Some(&log))?;
        sleep(START);
        let start_ms = profiled.cpu_ns()?.0 as f64 / 1e6;
        let with = profiled.idle(self.window)?;
        let kib = profiled.resident_kib()?.saturating_sub(bare_kib) as f64 / threads as f64;
        let (started, bare_started) = (profiled.started_ms, self.bare_started(threads)?);
        Ok(format!(
            "| {threads} | {} | {bare_started:.0} ms, {started:.0} ms | {start_ms:.0} ms \
             | {:.3} % | {:.3} %, {:.3} % | {kib:.1} KiB | {took_ms:.0} ms, {all:.2} s | {:.3} % |",
            ready(&log)?,
            with.own / 10.0,
            without.programs / 10.0,
            with.programs / 10.0,
            after_attach.own / 10.0,
        ))
    }

    /// How long the program takes without a profiler; a second time, since the first one may have
    /// had to read its files.
    fn bare_started(&self, threads: usize) -> Result<f64> {
        Ok(self.start(threads, None)?.started_ms)
    }

    /// Starts the program, with the agent if there is a file for its log; returns when all of its
    /// threads wait.
    fn start(&self, threads: usize, log: Option<&Path>) -> Result<Waiting> {
        let mut command = self.rig.app("idle")?.command(Net8)?;
        let seconds = (START * 3 + self.window * 3 + LIMIT).as_secs().to_string();
        command.args(["--threads", &threads.to_string(), "--seconds", &seconds]);
        if let Some(log) = log {
            // What is there is of the last run, if anything.
            let _gone = fs::remove_file(log);
            command = self.product.with_agent(&command, &self.folder());
            command.env("CORPROF_LOG", "debug").env("CORPROF_LOG_FILE", log);
            // Its threads wait, and none has a request to wait for.
            command.env("CORPROF_SPANS", "false");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let output = child.stdout.take().context("no output")?;
        let mut waiting = Waiting { child, started_ms: 0.0 };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let nanos = line.trim_end().strip_prefix("WAITING ").context("it did not start")?;
        waiting.started_ms = nanos.parse::<f64>()? / 1e6;
        Ok(waiting)
    }

    fn folder(&self) -> PathBuf {
        self.target.join("bench/threads")
    }

    fn attach(&self, program: &Waiting, began: Instant) -> Result<Attached> {
        let mut command = Command::new(&self.product.corprof);
        command.args(["attach", &program.child.id().to_string(), "--upload-period", "60s"]);
        command.arg("--out").arg(self.folder()).arg("--agent").arg(&self.product.agent);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start corprof attach")?;
        let errors = child.stderr.take().context("no output")?;
        let mut attached = Attached { child, took: Duration::ZERO };
        let (mut errors, mut said) = (BufReader::new(errors), String::new());
        while !said.contains("profiling process") {
            ensure!(errors.read_line(&mut said)? > 0, "not attached: {said}");
        }
        attached.took = began.elapsed();
        Ok(attached)
    }
}

/// `corprof attach` at work; it is not asked for its report.
struct Attached {
    child: Child,
    took: Duration,
}

impl Drop for Attached {
    fn drop(&mut self) {
        // It may have ended; there is nobody to tell.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Waiting {
    fn file(&self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/{name}", self.child.id());
        fs::read_to_string(&path).with_context(|| path)
    }

    fn resident_kib(&self) -> Result<u64> {
        let status = self.file("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.context("no resident memory")?.parse()?)
    }

    /// CPU nanoseconds so far, of the profiler's threads and of the program's. A thread that has
    /// ended is missing.
    fn cpu_ns(&self) -> Result<(u64, u64)> {
        let (mut own_ns, mut programs_ns) = (0, 0);
        for (is_own, cpu_ns) in self.threads()?.values() {
            *if *is_own { &mut own_ns } else { &mut programs_ns } += cpu_ns;
        }
        Ok((own_ns, programs_ns))
    }

    fn threads(&self) -> Result<BTreeMap<String, (bool, u64)>> {
        let mut threads = BTreeMap::new();
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))?.flatten() {
            let read = |file| fs::read_to_string(task.path().join(file));
            // It may end meanwhile.
            let (Ok(name), Ok(stat)) = (read("comm"), read("schedstat")) else { continue };
            let cpu_ns = stat.split(' ').next().and_then(|word| word.parse().ok());
            let cpu_ns = cpu_ns.context("the kernel doesn't count threads' CPU time")?;
            let tid = task.file_name().to_string_lossy().into_owned();
            threads.insert(tid, (name.starts_with(OWN), cpu_ns));
        }
        Ok(threads)
    }

    /// What is used from now on for that time, in thousandths of a processor.
    fn idle(&self, window: Duration) -> Result<Idle> {
        let (before, began) = (self.cpu_ns()?, Instant::now());
        sleep(window);
        let (after, elapsed) = (self.cpu_ns()?, began.elapsed());
        let used = |before: u64, after: u64| {
            after.saturating_sub(before) as f64 / elapsed.as_nanos() as f64 * 1e3
        };
        Ok(Idle { own: used(before.0, after.0), programs: used(before.1, after.1) })
    }

    /// When every thread has a timer, from `began` on.
    fn all_sampled(&self, threads: usize, began: Instant) -> Result<Duration> {
        loop {
            let timers =
                self.file("timers")?.lines().filter(|line| line.starts_with("ID:")).count();
            if timers >= threads {
                return Ok(began.elapsed());
            }
            ensure!(began.elapsed() < LIMIT, "only {timers} threads of {threads} are sampled");
            sleep(Duration::from_millis(20));
        }
    }
}

/// What the agent's log says of when it was ready.
fn ready(log: &Path) -> Result<String> {
    let text = fs::read_to_string(log).with_context(|| format!("no log {}", log.display()))?;
    let line = text.lines().find_map(|line| line.split_once("ready after "));
    let (_, time) = line.with_context(|| format!("the agent was never ready: {text}"))?;
    Ok(time.trim().to_owned())
}
