//! What the rows of a table are, and in which order they stand.

use std::fmt;

use clap::ValueEnum;

/// What a row of a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A function
    Function,
    /// A thread
    Thread,
    /// What threads were doing (wall time)
    State,
    /// An assembly or a native library
    Module,
    /// An endpoint, as requests go to
    Endpoint,
    /// A span of a trace
    Span,
    /// A value of the label with this name
    Label(String),
}

/// As it is typed.
impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function => f.write_str("function"),
            Self::Thread => f.write_str("thread"),
            Self::State => f.write_str("state"),
            Self::Module => f.write_str("module"),
            Self::Endpoint => f.write_str("endpoint"),
            Self::Span => f.write_str("span"),
            Self::Label(name) => write!(f, "label:{name}"),
        }
    }
}

pub fn by(text: &str) -> Result<By, String> {
    let plain = [By::Function, By::Thread, By::State, By::Module, By::Endpoint, By::Span];
    let names = || plain.clone().map(|by| by.to_string()).join(", ");
    let label = text.strip_prefix("label:").filter(|name| !name.is_empty());
    let label = label.map(|name| By::Label(name.to_owned()));
    let found = plain.iter().find(|by| by.to_string() == text).cloned().or(label);
    found.ok_or_else(|| format!("none of {}, label:NAME", names()))
}

/// What a table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Time in the function itself
    #[value(name = "self")]
    Own,
    /// Time in the function and in what it called
    Total,
}

/// Which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    /// Time on a processor
    Cpu,
    /// Time on the clock, waiting included
    Wall,
}
