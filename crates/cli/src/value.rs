//! Which of a sample's values is meant.

use clap::ValueEnum;
use profile::Values;

use crate::args::Clock;

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

    /// This value, or any if none is named.
    pub fn or_any(named: Option<Self>) -> Vec<Self> {
        named.map_or_else(|| Self::ALL.to_vec(), |value| vec![value])
    }

    /// What people look at first: CPU time, if there is any.
    pub fn first_of(total: &Values) -> Self {
        Self::ALL.into_iter().find(|value| value.of(total) > 0).unwrap_or(Self::Cpu)
    }
}

impl From<Clock> for Value {
    fn from(clock: Clock) -> Self {
        match clock {
            Clock::Cpu => Self::Cpu,
            Clock::Wall => Self::Wall,
        }
    }
}

/// The values of which there is any.
pub fn there(total: &Values) -> Vec<Value> {
    Value::ALL.into_iter().filter(|value| value.of(total) > 0).collect()
}

/// Names of values, the last after that word: `cpu, wall and gc`; nothing for none.
pub fn names(values: impl IntoIterator<Item = Value>, word: &str) -> String {
    let names: Vec<&str> = values.into_iter().map(Value::name).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} {word} {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_there_are_named() {
        let mut total = Values::default();
        assert_eq!(names(there(&total), "and"), "");
        total.gc_ns = 1;
        assert_eq!(names(there(&total), "and"), "gc");
        total.wall_ns = 1;
        assert_eq!(names(there(&total), "and"), "wall and gc");
        assert_eq!(names(Value::ALL, "or"), "cpu, wall or gc");
    }
}
