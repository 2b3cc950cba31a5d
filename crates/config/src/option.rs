//! What an option is: its names, its kind with its bounds, and where its value goes.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::Config;
use crate::duration::{duration_from_text, duration_to_text};

/// An option, declared once.
#[derive(Debug)]
pub struct Opt {
    /// The environment variable.
    pub var: &'static str,
    /// Names that the ecosystem has already; the first that is set counts, after `var`.
    pub aliases: &'static [&'static str],
    /// The command line's flag, without dashes; `None` if a flag would make no sense.
    pub flag: Option<&'static str>,
    /// The default as one would write it; empty where it depends on the program.
    pub default: &'static str,
    /// The default in words, where `default` is empty.
    pub default_words: &'static str,
    /// What values it takes, and where they go.
    pub kind: Kind,
    /// What it is for: whole sentences, the first one short.
    pub help: &'static str,
}

/// One of the words an option takes.
#[derive(Debug)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Puts it into the settings.
    pub store: fn(&mut Config),
}

/// What values an option takes. Each kind says where the value goes, so no value can be of a type
/// that its setting is not.
#[derive(Debug)]
pub enum Kind {
    /// `true` or `false`, also `1`/`0`, `yes`/`no`, `on`/`off`.
    Switch {
        /// Puts it into the settings.
        store: fn(&mut Config, bool),
    },
    /// Any text.
    Text {
        /// Puts it into the settings.
        store: fn(&mut Config, String),
    },
    /// A name: a text without control characters.
    Name {
        /// Puts it into the settings.
        store: fn(&mut Config, String),
    },
    /// A path.
    Path {
        /// Puts it into the settings.
        store: fn(&mut Config, PathBuf),
    },
    /// A duration: `10ms`, `1s`, `250us`; a bare number is milliseconds.
    Duration {
        /// Shortest.
        min: Duration,
        /// Longest.
        max: Duration,
        /// Puts it into the settings.
        store: fn(&mut Config, Duration),
    },
    /// A whole number.
    Count {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
        /// Puts it into the settings.
        store: fn(&mut Config, u32),
    },
    /// A share in percent, with or without the sign: `0.5%`. In millionths here.
    Share {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
        /// Puts it into the settings.
        store: fn(&mut Config, u32),
    },
    /// One of some words.
    Choice(&'static [Choice]),
    /// Some of some words, with commas.
    Words {
        /// The words.
        words: &'static [Choice],
        /// Takes out of the settings what they have.
        clear: fn(&mut Config),
    },
}

/// Why a value is not good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Neither yes nor no.
    NotASwitch,
    /// Not a duration.
    NotADuration,
    /// Not a whole number.
    NotANumber,
    /// Not a share.
    NotAShare,
    /// Not a name.
    NotAName,
    /// A good value, but outside of the bounds.
    OutOfBounds {
        /// Smallest that is allowed, as one would write it.
        min: String,
        /// Largest that is allowed.
        max: String,
    },
    /// None of the words.
    NotAChoice {
        /// The words, with commas.
        choices: String,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASwitch => write!(f, "neither true nor false"),
            Self::NotADuration => write!(f, "not a duration such as 10ms, 1s or 250us"),
            Self::NotANumber => write!(f, "not a whole number"),
            Self::NotAShare => write!(f, "not a share such as 0.5%"),
            Self::NotAName => write!(f, "not a name: it has control characters"),
            Self::OutOfBounds { min, max } => write!(f, "not between {min} and {max}"),
            Self::NotAChoice { choices } => write!(f, "none of {choices}"),
        }
    }
}

impl std::error::Error for Reason {}

impl Opt {
    /// All names of its variable, the one that counts most first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.var).chain(self.aliases.iter().copied())
    }

    /// Whether a value is good.
    ///
    /// # Errors
    /// If it isn't, with the reason.
    pub fn check(&self, value: &str) -> Result<(), Reason> {
        self.store(&mut Config::defaults(""), value)
    }

    /// Reads a value and puts it into the settings; an empty one leaves them as they are.
    pub(crate) fn store(&self, config: &mut Config, value: &str) -> Result<(), Reason> {
        let value = value.trim();
        if value.is_empty() {
            return Ok(());
        }
        match &self.kind {
            Kind::Switch { store } => store(config, switch(value)?),
            Kind::Text { store } => store(config, value.to_owned()),
            Kind::Name { store } if is_name(value) => store(config, value.to_owned()),
            Kind::Name { .. } => return Err(Reason::NotAName),
            Kind::Path { store } => store(config, PathBuf::from(value)),
            Kind::Duration { min, max, store } => {
                let duration = duration_from_text(value).ok_or(Reason::NotADuration)?;
                store(config, within(duration, (min, max), |d| duration_to_text(*d))?);
            }
            Kind::Count { min, max, store } => {
                let count = value.parse::<u64>().map_err(|_| Reason::NotANumber)?;
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                store(config, within(count, (min, max), u32::to_string)?);
            }
            Kind::Share { min, max, store } => {
                let share = share(value).ok_or(Reason::NotAShare)?;
                store(config, within(share, (min, max), |share| share_to_text(*share))?);
            }
            Kind::Choice(choices) => {
                (chosen(choices, value)?.store)(config);
            }
            Kind::Words { words, clear } => {
                let chosen: Result<Vec<_>, _> =
                    value.split(',').map(|word| chosen(words, word.trim())).collect();
                let chosen = chosen?;
                clear(config);
                chosen.iter().for_each(|word| (word.store)(config));
            }
        }
        Ok(())
    }

    /// The values it takes, in one short text.
    #[must_use]
    pub fn values(&self) -> String {
        match &self.kind {
            Kind::Switch { .. } => "true, false".to_owned(),
            Kind::Text { .. } | Kind::Name { .. } => "text".to_owned(),
            Kind::Path { .. } => "path".to_owned(),
            Kind::Duration { min, max, .. } => {
                format!("{} to {}", duration_to_text(*min), duration_to_text(*max))
            }
            Kind::Count { min, max, .. } => format!("{min} to {max}"),
            Kind::Share { min, max, .. } => {
                format!("{} to {}", share_to_text(*min), share_to_text(*max))
            }
            Kind::Choice(choices) => names(choices),
            Kind::Words { words, .. } => format!("some of {}", names(words)),
        }
    }

    /// Whether its value is a path.
    #[must_use]
    pub const fn is_path(&self) -> bool {
        matches!(self.kind, Kind::Path { .. })
    }

    /// What stands for the value in a usage line, such as `DURATION`.
    #[must_use]
    pub const fn placeholder(&self) -> &'static str {
        match self.kind {
            Kind::Switch { .. } => "BOOL",
            Kind::Text { .. } | Kind::Name { .. } => "TEXT",
            Kind::Path { .. } => "PATH",
            Kind::Duration { .. } => "DURATION",
            Kind::Count { .. } => "N",
            Kind::Share { .. } => "PERCENT",
            Kind::Choice(_) => "WORD",
            Kind::Words { .. } => "WORDS",
        }
    }

    /// The default as a person reads it.
    #[must_use]
    pub const fn default_text(&self) -> &'static str {
        if self.default.is_empty() { self.default_words } else { self.default }
    }
}

fn chosen<'a>(choices: &'a [Choice], word: &str) -> Result<&'a Choice, Reason> {
    let choice = choices.iter().find(|choice| choice.name.eq_ignore_ascii_case(word));
    choice.ok_or_else(|| Reason::NotAChoice { choices: names(choices) })
}

fn names(choices: &[Choice]) -> String {
    choices.iter().map(|choice| choice.name).collect::<Vec<_>>().join(", ")
}

/// Whether a text can be a name: terminals, files and other programs get it as it is.
pub(crate) fn is_name(text: &str) -> bool {
    !text.contains(char::is_control)
}

fn switch(value: &str) -> Result<bool, Reason> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(Reason::NotASwitch),
    }
}

/// A share in millionths.
fn share(value: &str) -> Option<u32> {
    let number: f64 = value.trim_end_matches('%').trim_end().parse().ok()?;
    let millionths = (number * 10_000.0).round();
    // As a cast it is also right for what is no number, or too large for any bound.
    (millionths >= 0.0).then_some(millionths as u32)
}

/// A share in millionths as one would write it.
fn share_to_text(millionths: u32) -> String {
    format!("{}%", f64::from(millionths) / 10_000.0)
}

fn within<T: PartialOrd>(
    value: T,
    (min, max): (&T, &T),
    text: impl Fn(&T) -> String,
) -> Result<T, Reason> {
    if *min <= value && value <= *max {
        Ok(value)
    } else {
        Err(Reason::OutOfBounds { min: text(min), max: text(max) })
    }
}
