//! What to tell a person whose settings make no sense.

use std::fmt;

use crate::option::{Kind, Opt, Reason};
use crate::options::OPTIONS;

/// Variables with our prefix that are no options of the agent.
const OTHERS: [&str; 1] = ["CORPROF_AGENT"];
/// Letters that a slip changes at most; of a name with few letters after the prefix, a third.
const SLIPS: usize = 2;
/// How all our names begin, which is no part of what was mistyped.
const PREFIX: &str = "CORPROF_";

/// One thing that is wrong with the settings; its text says what, why, and what is done instead.
#[derive(Clone, Debug)]
pub enum Warning {
    /// A value makes no sense; the default is used.
    BadValue {
        /// The variable, by the name that was set.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: Reason,
        /// The option.
        option: &'static Opt,
    },
    /// A variable looks like one of ours and isn't.
    UnknownName {
        /// The variable.
        name: String,
        /// The one that was likely meant.
        meant: Option<&'static str>,
    },
}

impl Warning {
    pub(crate) fn of_unknown(name: &str) -> Option<Self> {
        let known = |other: &str| other == name;
        if !name.starts_with(PREFIX)
            || OTHERS.into_iter().any(known)
            || OPTIONS.iter().any(|option| known(option.var))
        {
            return None;
        }
        let slips = |option: &&Opt| distance(name, option.var);
        let nearest = OPTIONS.iter().min_by_key(slips);
        let slips_max = SLIPS.min(name.len().saturating_sub(PREFIX.len()) / 3);
        let meant = nearest.filter(|option| slips(option) <= slips_max).map(|option| option.var);
        Some(Self::UnknownName { name: name.to_owned(), meant })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadValue { name, value, reason, option } => {
                let shown: String = value.chars().take(60).collect();
                let bare = value.trim().bytes().all(|byte| byte.is_ascii_digit());
                let unit = match option.kind {
                    Kind::Duration { .. } if bare => " (without a unit it counts milliseconds)",
                    _ => "",
                };
                write!(f, "{name}={shown:?} is {reason}{unit}; using {}", option.default_text())
            }
            Self::UnknownName { name, meant: Some(meant) } => {
                write!(f, "{name} is no option and has no effect; did you mean {meant}?")
            }
            Self::UnknownName { name, meant: None } => {
                write!(f, "{name} is no option and has no effect")
            }
        }
    }
}

/// How many letters have to be put in, taken out or changed to make one word of the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<u8> = to.bytes().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, a) in from.bytes().enumerate() {
        let mut left = line + 1;
        let mut above_left = line;
        let mut next = vec![left];
        for (b, above) in to.iter().zip(row.iter().skip(1)) {
            let change = above_left + usize::from(a != *b);
            left = change.min(left + 1).min(above + 1);
            above_left = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_meant() {
        for (name, meant) in [
            ("CORPROF_FOO", None),
            ("CORPROF_X", None),
            ("CORPROF_LOGS", Some("CORPROF_LOG")),
            ("CORPROF_SERVISE", Some("CORPROF_SERVICE")),
            ("CORPROF_CPU_INTREVAL", Some("CORPROF_CPU_INTERVAL")),
        ] {
            match Warning::of_unknown(name) {
                Some(Warning::UnknownName { meant: found, .. }) => assert_eq!(found, meant),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn distances() {
        for (from, to, slips) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "abd", 1),
            ("ac", "abc", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), slips, "{from} {to}");
        }
    }
}
