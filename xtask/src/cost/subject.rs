//! A program at work, which can be told to stand still, and tells how much it has done.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::process::{self, OwnThreads};
use super::service::{MIX, Service};
use super::workload::{Kind, Workload};

/// Bytes of a thread's count in the file, which begins with as many for the switch.
const LINE_BYTES: usize = 64;
/// Until threads that stood still are at work again.
const BEGIN: Duration = Duration::from_millis(30);
/// For how long after a window the program's CPU time still counts: the profiler takes in samples
/// in batches. What else it does in that time counts, too.
const LAG: Duration = Duration::from_millis(120);
const CLIENTS: usize = 4;

/// A program at work.
pub struct Subject {
    body: Body,
    own: OwnThreads,
}

enum Body {
    Work(Worker),
    Web(Service),
}

/// `tests/apps/cost`.
struct Worker {
    child: Child,
    counters: File,
    threads: usize,
}

/// What was done in a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Operations a second.
    pub rate: f64,
    /// CPU nanoseconds of the process for an operation.
    pub cpu_ns: f64,
    /// CPU nanoseconds of the profiler's threads for an operation.
    pub own_ns: f64,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended; there is nobody to tell.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Subject {
    /// Starts a workload by a command, which may have a profiler with it; it stands still.
    pub fn start(workload: &Workload, command: Command, counters: &Path) -> Result<Self> {
        let body = match workload.kind {
            Kind::Web => Body::Web(Service::start(command)?),
            Kind::Work { threads, .. } => Body::Work(Worker::start(command, counters, threads)?),
        };
        Ok(Self { body, own: OwnThreads::default() })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        match &self.body {
            Body::Work(worker) => worker.child.id(),
            Body::Web(service) => service.pid(),
        }
    }

    /// The service, if it is one.
    pub fn service(&self) -> Option<&Service> {
        match &self.body {
            Body::Web(service) => Some(service),
            Body::Work(_) => None,
        }
    }

    /// Has it work until the runtime has compiled what is often called once more.
    pub fn warm_up(&mut self, time: Duration) -> Result<()> {
        match &self.body {
            Body::Work(worker) => {
                worker.stand_still(false)?;
                sleep(time);
                worker.stand_still(true)?;
            }
            Body::Web(service) => {
                service.load(time, 2, &MIX)?;
            }
        }
        self.own = OwnThreads::of(self.pid())?;
        Ok(())
    }

    /// Has it work for that long. `cost` is what else counts as its own, in CPU nanoseconds so far.
    pub fn work(&self, window: Duration, cost: &dyn Fn() -> Result<u64>) -> Result<Reading> {
        let cpu = || -> Result<(u64, u64)> {
            Ok((process::cpu_ns(self.pid())? + cost()?, self.own.cpu_ns()?))
        };
        let (before, rate, done) = match &self.body {
            Body::Work(worker) => {
                worker.stand_still(false)?;
                sleep(BEGIN);
                let (before, first, began) = (cpu()?, worker.count()?, Instant::now());
                sleep(window);
                let rate = (worker.count()? - first) as f64 / began.elapsed().as_secs_f64();
                worker.stand_still(true)?;
                sleep(LAG);
                (before, rate, worker.count()? - first)
            }
            Body::Web(service) => {
                let (before, began) = (cpu()?, Instant::now());
                let done = service.load(window, CLIENTS, &MIX)?;
                let rate = done as f64 / began.elapsed().as_secs_f64();
                sleep(LAG);
                (before, rate, done)
            }
        };
        let after = cpu()?;
        ensure!(done > 0, "nothing was done in {window:?}");
        let each = |before: u64, after: u64| (after - before) as f64 / done as f64;
        Ok(Reading { rate, cpu_ns: each(before.0, after.0), own_ns: each(before.1, after.1) })
    }
}

impl Worker {
    fn start(mut command: Command, path: &Path, threads: usize) -> Result<Self> {
        let mut first = vec![0; LINE_BYTES * (threads + 1)];
        first[0] = 1;
        fs::write(path, first)?;
        let counters = OpenOptions::new().read(true).write(true).open(path)?;
        // The input's end is the program's: it ends even if nobody is there to kill it.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let output = child.stdout.take().context("no output")?;
        let worker = Self { child, counters, threads };
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        if line.trim_end() != "WORKING" {
            output.read_to_string(&mut line)?;
            anyhow::bail!("the program did not start: {line}");
        }
        Ok(worker)
    }

    fn stand_still(&self, whether: bool) -> Result<()> {
        self.counters.write_all_at(&[u8::from(whether)], 0)?;
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        let mut bytes = vec![0; LINE_BYTES * self.threads];
        self.counters.read_exact_at(&mut bytes, LINE_BYTES as u64)?;
        let counts = bytes.chunks(LINE_BYTES).filter_map(|line| line.first_chunk());
        Ok(counts.map(|count| u64::from_le_bytes(*count)).sum())
    }
}
