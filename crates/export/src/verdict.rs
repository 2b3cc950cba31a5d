//! What an answer means for a profile: taken, try again, or never.

use std::fmt;
use std::time::Duration;

use crate::fault::Fault;
use crate::request::Answer;

/// Letters of an answer's text that are shown.
const SHOWN: usize = 200;
/// Bytes of a secret that is looked for in what they say.
const SECRET_MIN: usize = 4;

/// What came of sending a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is theirs now.
    Taken {
        /// Whether it was before, as they say: after an answer that was lost, or sent twice.
        was_there: bool,
    },
    /// It may be taken another time.
    Later {
        /// Why not now.
        why: Why,
        /// How long they want to be left alone.
        after: Option<Duration>,
    },
    /// It will never be taken.
    Never(Why),
}

/// Why a profile was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There was no answer.
    Fault(Fault),
    /// The answer was no.
    Status {
        /// Its status.
        status: u16,
        /// The beginning of its text, fit to be shown.
        text: String,
    },
}

impl Why {
    /// Whether it may be for what was sent, and not for the way there.
    #[must_use]
    pub const fn may_be_the_profiles(&self) -> bool {
        match self {
            Self::Status { .. } => true,
            Self::Fault(fault) => fault.is_after_connecting(),
        }
    }

    /// The same words for all of a kind: without the text of an answer, in which a server may well
    /// have the number of the request.
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Self::Fault(fault) => fault.to_string(),
            Self::Status { status, .. } => {
                Self::Status { status: *status, text: String::new() }.to_string()
            }
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::Status { status, text } => {
                write!(f, "status {status}")?;
                let meaning = meaning(*status);
                if !meaning.is_empty() {
                    write!(f, " ({meaning})")?;
                }
                if text.is_empty() { Ok(()) } else { write!(f, ": {text}") }
            }
        }
    }
}

/// What a status says to a person, where that is not plain.
const fn meaning(status: u16) -> &'static str {
    match status {
        300..=399 => "a redirection, which is not followed: set the address it leads to",
        401 | 403 => "no access: the key, the token or the user is wrong",
        404 => "nothing takes profiles at that address",
        413 => "the profile is too large for them",
        429 => "too much at once",
        _ => "",
    }
}

impl Verdict {
    /// What came of it. What was sent to `hidden` must not be shown should they send it back.
    #[must_use]
    pub fn of(result: Result<Answer, Fault>, hidden: &[String]) -> Self {
        let answer = match result {
            Ok(answer) => answer,
            Err(fault) => return Self::Later { why: Why::Fault(fault), after: None },
        };
        let text = shown(&answer.text, hidden);
        let why = Why::Status { status: answer.status, text };
        match answer.status {
            200..300 => Self::Taken { was_there: answer.was_there },
            408 | 425 | 429 | 500..600 => Self::Later { why, after: answer.retry_after },
            _ => Self::Never(why),
        }
    }
}

/// The beginning of a text in one line, without secrets and without what a terminal would obey.
fn shown(text: &[u8], hidden: &[String]) -> String {
    let mut text = String::from_utf8_lossy(text).into_owned();
    // What is shorter is in other words by chance, and no secret.
    let hidden = || hidden.iter().filter(|secret| secret.len() >= SECRET_MIN);
    for secret in hidden() {
        text = text.replace(secret.as_str(), "[secret]");
    }
    // Only the beginning of what they say was read: it may end within a secret.
    let halves = hidden().filter_map(|secret| cut_in(&text, secret));
    if let Some(end) = halves.min() {
        text.truncate(end);
    }
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect()
}

/// Where the beginning of a secret begins, with which a text ends.
fn cut_in(text: &str, secret: &str) -> Option<usize> {
    let mut begins = secret.char_indices().map(|(at, _)| at).filter(|at| *at >= SECRET_MIN).rev();
    begins.find_map(|at| text.strip_suffix(secret.get(..at)?).map(str::len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16) -> &'static str {
        let answer = Answer { status, ..Answer::default() };
        match Verdict::of(Ok(answer), &[]) {
            Verdict::Taken { .. } => "taken",
            Verdict::Later { .. } => "later",
            Verdict::Never(_) => "never",
        }
    }

    #[test]
    fn some_refusals_are_for_good() {
        for (statuses, expected) in [
            (&[200, 202, 204][..], "taken"),
            (&[408, 425, 429, 500, 502, 503, 504, 599], "later"),
            (&[101, 301, 307, 400, 401, 403, 404, 405, 413, 415, 422], "never"),
        ] {
            for status in statuses {
                assert_eq!(verdict(*status), expected, "{status}");
            }
        }
        let none = Verdict::of(Err(Fault::NotHttp), &[]);
        assert!(matches!(none, Verdict::Later { after: None, .. }));
    }

    #[test]
    fn what_they_say_is_shown_without_secrets_and_in_one_line() {
        let text = b"bad key 'abc123'\r\n\x1b[31m and\tmore \xff".to_vec();
        let answer = Answer { status: 403, text, ..Answer::default() };
        let Verdict::Never(why) = Verdict::of(Ok(answer), &["".to_owned(), "abc123".to_owned()])
        else {
            panic!("taken")
        };
        let shown = why.to_string();
        assert!(shown.ends_with(": bad key '[secret]' [31m and more \u{fffd}"), "{shown}");
        let cut = Answer { status: 400, text: b"no: abc12".to_vec(), ..Answer::default() };
        let hidden = ["abc123".to_owned(), "xyz-xyz".to_owned()];
        let Verdict::Never(why) = Verdict::of(Ok(cut), &hidden) else { panic!("taken") };
        assert_eq!(why.to_string(), "status 400: no:");
        let long = Answer { status: 400, text: vec![b'x'; 4000], ..Answer::default() };
        let Verdict::Never(Why::Status { text, .. }) = Verdict::of(Ok(long), &[]) else {
            panic!("taken")
        };
        assert_eq!(text.len(), SHOWN);
    }
}
