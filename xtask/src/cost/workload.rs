//! The programs whose costs are compared.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use rig::{Net9, Rig};

/// A program at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What it is called on the command line and in files.
    pub name: &'static str,
    /// The same for people.
    pub text: &'static str,
    /// What it does.
    pub kind: Kind,
}

/// What a program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `tests/apps/cost` at this `--work`.
    Work {
        /// The value.
        what: &'static str,
        /// So many threads work.
        threads: usize,
        /// So many more wait.
        idle: usize,
        /// So deep are the stacks.
        depth: usize,
    },
    /// `tests/apps/web` under load.
    Web,
}

const fn work(what: &'static str, threads: usize, idle: usize) -> Kind {
    Kind::Work { what, threads, idle, depth: 1 }
}

/// Those of the table. Two threads keep both processors of a small machine busy.
pub const ALL: [Workload; 8] = [
    Workload { name: "cpu", text: "computing, 20 operations a request", kind: work("cpu", 2, 0) },
    Workload { name: "allocations", text: "allocating", kind: work("allocations", 2, 0) },
    Workload { name: "web", text: "ASP.NET Core", kind: Kind::Web },
    Workload { name: "locks", text: "4 threads and one lock", kind: work("locks", 4, 0) },
    Workload { name: "exceptions", text: "throwing", kind: work("exceptions", 2, 0) },
    Workload {
        name: "idle-200",
        text: "computing beside 200 idle threads",
        kind: work("cpu", 2, 200),
    },
    Workload { name: "idle-2000", text: "computing beside 2,000", kind: work("cpu", 2, 2_000) },
    Workload { name: "idle-10000", text: "computing beside 10,000", kind: work("cpu", 2, 10_000) },
];

impl Workload {
    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|workload| workload.name == name)
    }

    /// The command that runs it; it counts in that file.
    pub fn command(&self, rig: &Rig, counters: &Path) -> Result<Command> {
        let mut command = match &self.kind {
            Kind::Web => rig.app("web")?.command(Net9)?,
            Kind::Work { what, threads, idle, depth } => {
                let mut command = rig.app("cost")?.command(Net9)?;
                command.args(["--work", what, "--threads", &threads.to_string()]);
                command.args(["--idle", &idle.to_string(), "--depth", &depth.to_string()]);
                command.arg("--counters").arg(counters);
                command
            }
        };
        // Which methods are compiled how would else depend on what happened first, which differs
        // from process to process by more than a profiler costs.
        command.env("DOTNET_TieredPGO", "0");
        Ok(command)
    }
}
