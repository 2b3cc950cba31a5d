//! Which of a sample's values is meant.

use clap::ValueEnum;
use profile::Values;

/// A value of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Value {
    /// Time on a processor
    Cpu,
    /// Time on the clock, waiting included
    Wall,
    /// Time for which the runtime had stopped all managed threads
    Gc,
}

impl Value {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Wall, Self::Gc];

    /// Its name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Wall => "wall",
            Self::Gc => "gc",
        }
    }

    /// The value that is typed so.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.name() == name)
    }

    /// The value, in nanoseconds.
    pub fn of(self, values: &Values) -> u64 {
        match self {
            Self::Cpu => values.cpu_ns,
            Self::Wall => values.wall_ns,
            Self::Gc => values.gc_ns,
        }
    }

    /// What people look at first: CPU time, if there is any.
    pub fn first_of(total: &Values) -> Self {
        Self::ALL.into_iter().find(|value| value.of(total) > 0).unwrap_or(Self::Cpu)
    }
}
