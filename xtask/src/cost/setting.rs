//! With which profiler a program runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::event_pipe;
use super::perf::Perf;
use crate::product::Product;

/// Samples a second of a thread's CPU time, as the agent takes them by default.
pub const RATE: u32 = 100;

/// A profiler, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// None.
    Bare,
    /// None in a second process: what the measurement itself makes of nothing.
    Again,
    /// The agent as it comes, without the startup hook.
    Timer,
    /// The agent that scans instead of setting timers.
    Scan,
    /// The agent as it comes, with the startup hook.
    Spans,
    /// The runtime's own.
    EventPipe,
    /// `perf record -g` with the runtime's map for it.
    Perf,
}

/// All but the first, which they are compared with.
pub const ALL: [Setting; 6] = [
    Setting::Again,
    Setting::Timer,
    Setting::Scan,
    Setting::Spans,
    Setting::EventPipe,
    Setting::Perf,
];

impl Setting {
    /// What it is called on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Again => "again",
            Self::Timer => "timer",
            Self::Scan => "scan",
            Self::Spans => "spans",
            Self::EventPipe => "eventpipe",
            Self::Perf => "perf",
        }
    }

    /// The same for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Bare => "no profiler",
            Self::Again => "no profiler, another process",
            Self::Timer => "corprof, without spans",
            Self::Scan => "corprof, scanning",
            Self::Spans => "corprof",
            Self::EventPipe => "EventPipe",
            Self::Perf => "perf record -g",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|setting| setting.name() == name)
    }

    /// Whether it is the agent.
    pub fn is_agent(self) -> bool {
        matches!(self, Self::Timer | Self::Scan | Self::Spans)
    }

    /// A program's command in this setting; the agent has its profiles in that folder.
    pub fn command(self, program: Command, product: &Product, folder: &Path) -> Command {
        let mut command = program;
        if self.is_agent() {
            // Before they are read: without spans there is to be no hook either.
            command.env("CORPROF_SPANS", (self == Self::Spans).to_string());
            command = product.with_agent(&command, folder);
        }
        match self {
            Self::Scan => {
                command.env("CORPROF_SAMPLER", "scan");
            }
            Self::Perf => {
                command.env("DOTNET_PerfMapEnabled", "1");
            }
            _ => {}
        }
        command
    }
}

/// What has to be switched on for a window: the agent is not, it has been there from the start.
pub enum Switch {
    /// Nothing.
    None,
    /// A session of EventPipe while it is on.
    EventPipe(Option<event_pipe::Session>),
    /// `perf` while it is on. It is attached for each window: some versions of it ask the kernel
    /// without a pause once a thread of the process has ended.
    Perf {
        /// Samples a second.
        rate: u32,
        /// For its files.
        folder: PathBuf,
        /// It, while it is on.
        at_work: Option<Perf>,
    },
}

impl Switch {
    /// The switch of a setting; `None` if it can't be had here. `perf` takes so many
    /// samples a second.
    pub fn of(setting: Setting, rate: u32, folder: &Path) -> Option<Self> {
        Some(match setting {
            Setting::EventPipe => Self::EventPipe(None),
            Setting::Perf if !Perf::is_there() => return None,
            Setting::Perf => Self::Perf { rate, folder: folder.to_owned(), at_work: None },
            _ => Self::None,
        })
    }

    /// Switches on or off.
    pub fn set(&mut self, pid: u32, on: bool) -> Result<()> {
        match self {
            Self::None => {}
            Self::Perf { rate, folder, at_work } if on => {
                *at_work = Some(Perf::start(pid, *rate, folder)?);
            }
            Self::Perf { at_work, .. } => *at_work = None,
            Self::EventPipe(session) if on => *session = Some(event_pipe::Session::start(pid)?),
            Self::EventPipe(session) => {
                if let Some(session) = session.take() {
                    session.stop()?;
                }
            }
        }
        Ok(())
    }

    /// CPU nanoseconds that the profiler has used so far in another process.
    pub fn cpu_ns(&self) -> Result<u64> {
        match self {
            Self::Perf { at_work: Some(perf), .. } => perf.cpu_ns(),
            _ => Ok(0),
        }
    }
}
