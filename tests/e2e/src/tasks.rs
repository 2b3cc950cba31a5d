//! The threads of a running program, as the kernel shows them from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Looks that are skipped once the agent's threads are known: a look costs as much as there are
/// threads, and the program is being measured.
const SKIPPED: u32 = 20;

/// What was seen of a program's threads.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    /// The agent's own threads.
    pub own: BTreeSet<u32>,
    times: BTreeMap<u32, Times>,
    /// When it was looked at first, and last.
    looked: Option<(Instant, Instant)>,
    looks: u32,
}

/// What one thread got of the processors: nanoseconds while it was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Those of before the first look.
    before: Seen,
    last: Seen,
}

/// What the kernel has counted of a thread, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ran_ns: u64,
    /// It could have run, and no processor was free.
    waited_ns: u64,
}

impl Tasks {
    /// Looks at all threads of a process, now and then; of one in a root of its own, as Wine's
    /// programs are, at those of all processes there: some work for it.
    pub(crate) fn look(&mut self, pid: u32) {
        self.looks += 1;
        let roots = |pid: &str| fs::read_link(format!("/proc/{pid}/root")).ok();
        let is_due = (self.looks - 1).is_multiple_of(SKIPPED);
        if !self.own.is_empty() && !is_due {
            return;
        }
        let root = roots(&pid.to_string());
        if root == roots("self") {
            return self.look_at_all(&pid.to_string());
        }
        if root.is_none() || !is_due {
            return;
        }
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = process.file_name();
            let Some(pid) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else {
                continue;
            };
            if roots(pid) == root {
                self.look_at_all(pid);
            }
        }
    }

    fn look_at_all(&mut self, pid: &str) {
        let now = Instant::now();
        let is_first = self.looked.is_none();
        self.looked = Some((self.looked.map_or(now, |(first, _)| first), now));
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let name = task.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            self.look_at(tid, &task.path(), is_first);
        }
    }

    fn look_at(&mut self, tid: u32, task: &Path, is_first: bool) {
        let Ok(name) = fs::read_to_string(task.join("comm")) else { return };
        if name.starts_with("corprof-") {
            self.own.insert(tid);
        }
        let Ok(stat) = fs::read_to_string(task.join("schedstat")) else { return };
        let mut words = stat.split(' ').map_while(|word| word.parse().ok());
        let (Some(ran_ns), Some(waited_ns)) = (words.next(), words.next()) else { return };
        let last = Seen { ran_ns, waited_ns };
        let before = if is_first { last } else { Seen::default() };
        self.times.entry(tid).or_insert(Times { before, last }).last = last;
    }

    /// Of the processor time that the program wanted, and could have had on this machine if it were
    /// the only one: how much it got. 1 if nothing is known.
    #[must_use]
    pub fn share_got(&self) -> f64 {
        let Some((first, last)) = self.looked else { return 1.0 };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let room_s = (last - first).as_secs_f64() * processors as f64;
        let sum = |of: fn(&Seen) -> u64| -> f64 {
            let times = self.times.values();
            times.map(|times| of(&times.last).saturating_sub(of(&times.before)) as f64 / 1e9).sum()
        };
        let (ran_s, waited_s) = (sum(|seen| seen.ran_ns), sum(|seen| seen.waited_ns));
        let wanted_s = (ran_s + waited_s).min(room_s);
        if wanted_s > 0.0 { (ran_s / wanted_s).min(1.0) } else { 1.0 }
    }
}

#[cfg(test)]
impl Tasks {
    /// Of one thread, looked at for ten seconds, in which it ran and waited for a processor for so
    /// many seconds.
    pub(crate) fn of_one(ran_s: u64, waited_s: u64) -> Self {
        let begin = Instant::now();
        let before = Seen { ran_ns: 7_000_000_000, waited_ns: 9_000_000_000 };
        let last = Seen {
            ran_ns: before.ran_ns + ran_s * 1_000_000_000,
            waited_ns: before.waited_ns + waited_s * 1_000_000_000,
        };
        Self {
            times: BTreeMap::from([(1, Times { before, last })]),
            looked: Some((begin, begin + std::time::Duration::from_secs(10))),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_could_not_have_had_is_not_missing() {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let of = |ran_s, waited_s| Tasks::of_one(ran_s, waited_s).share_got();
        let is = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        is(Tasks::default().share_got(), 1.0);
        is(of(0, 0), 1.0);
        is(of(3, 1), 0.75);
        // All processors, and many threads that waited for each other.
        is(of(10 * processors, 50 * processors), 1.0);
        is(of(5 * processors, 50 * processors), 0.5);
    }

    #[test]
    fn own_threads_are_seen() {
        let mut tasks = Tasks::default();
        tasks.look(std::process::id());
        assert!(!tasks.times.is_empty() && tasks.looked.is_some());
        let got = tasks.share_got();
        assert!((0.0..=1.0).contains(&got), "{got}");
    }
}
