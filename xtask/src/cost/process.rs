//! A process from outside: its CPU time, and that of the profiler's threads in it.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// The beginning of the names of the profiler's threads.
const OWN: &str = "corprof";

/// CPU time that a process has used so far, in nanoseconds: all of its threads, those that have
/// ended too.
pub fn cpu_ns(pid: u32) -> Result<u64> {
    let clock = clock_of(pid)?;
    let time = clock.now().with_context(|| format!("process {pid} has no CPU clock"))?;
    Ok(u64::try_from(Duration::from(time).as_nanos())?)
}

fn clock_of(pid: u32) -> Result<ClockId> {
    let pid = Pid::from_raw(i32::try_from(pid)?);
    clock_getcpuclockid(pid).with_context(|| format!("process {pid} is gone"))
}

/// The profiler's threads in a process.
#[derive(Clone, Debug, Default)]
pub struct OwnThreads(Vec<String>);

impl OwnThreads {
    /// Those that there are now.
    pub fn of(pid: u32) -> Result<Self> {
        let mut threads = Vec::new();
        for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
            // It may end meanwhile.
            let Ok(name) = fs::read_to_string(task.path().join("comm")) else { continue };
            if name.starts_with(OWN) {
                threads.push(task.path().join("schedstat").to_string_lossy().into_owned());
            }
        }
        Ok(Self(threads))
    }

    /// CPU nanoseconds that they have used so far.
    pub fn cpu_ns(&self) -> Result<u64> {
        self.0.iter().map(|path| first_number(&fs::read_to_string(path)?)).sum()
    }
}

fn first_number(stat: &str) -> Result<u64> {
    let word = stat.split(' ').next().and_then(|word| word.parse().ok());
    word.context("the kernel doesn't count threads' CPU time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_uses_is_seen() {
        let pid = std::process::id();
        let before = cpu_ns(pid).unwrap();
        let mut sum = 0_u64;
        while cpu_ns(pid).unwrap() < before + 1_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_ns(pid).unwrap() > before);
        assert_eq!(OwnThreads::of(pid).unwrap().cpu_ns().unwrap(), 0);
        assert_eq!(first_number("12 34 5\n").unwrap(), 12);
        assert!(first_number("").is_err());
    }
}
