//! The threads of a running program, as the kernel shows them from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Looks that are skipped once the agent's threads are known: a look costs as much as there are
/// threads, and the program is being measured.
const SKIPPED: u32 = 20;

/// What was seen of a program's threads.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    /// The agent's own threads.
    pub own: BTreeSet<u32>,
    /// CPU nanoseconds of each thread when it was last seen.
    pub cpu_ns: BTreeMap<u32, u64>,
    looks: u32,
}

impl Tasks {
    /// Looks at all threads of a process, now and then.
    pub(crate) fn look(&mut self, pid: u32) {
        self.looks += 1;
        if !self.own.is_empty() && !self.looks.is_multiple_of(SKIPPED) {
            return;
        }
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let name = task.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            self.look_at(tid, &task.path());
        }
    }

    fn look_at(&mut self, tid: u32, task: &Path) {
        let Ok(name) = fs::read_to_string(task.join("comm")) else { return };
        if name.starts_with("corprof-") {
            self.own.insert(tid);
        }
        let Ok(stat) = fs::read_to_string(task.join("schedstat")) else { return };
        if let Some(cpu_ns) = stat.split(' ').next().and_then(|word| word.parse().ok()) {
            self.cpu_ns.insert(tid, cpu_ns);
        }
    }
}
