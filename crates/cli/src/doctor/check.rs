//! One check: what was looked at, how bad it is, and what to do.

use serde_json::{Value, json};

/// What a check looks at. Each has its row in `docs/troubleshooting.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The agent's file: there, for this system, readable.
    Agent,
    /// Whether the runtime is one that can be profiled.
    Runtime,
    /// The diagnostics socket, by which the agent is attached.
    Socket,
    /// Variables that switch profilers off.
    Switches,
    /// Profilers of others.
    OtherProfiler,
    /// Settings of corprof itself that don't hold.
    Settings,
    /// Startup hooks, without which .NET does not start.
    StartupHooks,
    /// The signal that the agent uses.
    Signal,
    /// Timers against the limit of pending signals.
    Timers,
    /// Filters of system calls.
    Seccomp,
    /// Processor time of the control group.
    CpuLimit,
    /// Memory of the control group.
    MemoryLimit,
    /// The folder for profiles.
    OutputFolder,
    /// The folder for temporary files, where sockets are.
    TemporaryFolder,
    /// `/proc`, as the agent needs it and as we do.
    Proc,
    /// The targets that profiles are sent to.
    Export,
}

impl Topic {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 16] = [
        Self::Agent,
        Self::Runtime,
        Self::Socket,
        Self::Switches,
        Self::OtherProfiler,
        Self::Settings,
        Self::StartupHooks,
        Self::Signal,
        Self::Timers,
        Self::Seccomp,
        Self::CpuLimit,
        Self::MemoryLimit,
        Self::OutputFolder,
        Self::TemporaryFolder,
        Self::Proc,
        Self::Export,
    ];

    /// Its name, as in the output and in the documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Runtime => "runtime",
            Self::Socket => "socket",
            Self::Switches => "switches",
            Self::OtherProfiler => "other-profiler",
            Self::Settings => "settings",
            Self::StartupHooks => "startup-hooks",
            Self::Signal => "signal",
            Self::Timers => "timers",
            Self::Seccomp => "seccomp",
            Self::CpuLimit => "cpu-limit",
            Self::MemoryLimit => "memory-limit",
            Self::OutputFolder => "output-folder",
            Self::TemporaryFolder => "temporary-folder",
            Self::Proc => "proc",
            Self::Export => "export",
        }
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// In order.
    Fine,
    /// Good to know.
    Note,
    /// The profile is worse for it.
    Degrades,
    /// There is no profile.
    Prevents,
}

impl Level {
    /// Its name, as in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Degrades => "degrades",
            Self::Prevents => "prevents",
        }
    }
}

/// A check that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub topic: Topic,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do; nothing if all is well.
    pub remedy: Option<String>,
}

impl Check {
    /// All is well.
    pub fn fine(topic: Topic, found: impl Into<String>) -> Self {
        Self { topic, level: Level::Fine, found: found.into(), remedy: None }
    }

    /// Something is to be known or mended.
    pub fn bad(
        topic: Topic,
        level: Level,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { topic, level, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "check": self.topic.name(),
            "level": self.level.name(),
            "found": self.found,
            "remedy": self.remedy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_its_row_in_the_documents_and_nothing_else_has() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = std::fs::read_to_string(root.join("docs/troubleshooting.md")).unwrap();
        let (_, section) = page.split_once("\n## corprof doctor\n").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let names: Vec<&str> = rows.map(|row| row.split('`').next().unwrap()).collect();
        assert_eq!(names, Topic::ALL.map(Topic::name));
    }
}
