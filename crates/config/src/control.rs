//! What the command line says to an agent at work, as text: over its control socket, and as the
//! data of an attach.
//!
//! A request is a line with the command, and then a line `NAME=VALUE` for each setting. An answer
//! is `ok` and lines of the same kind, or `error: ` and why.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::duration::{duration_from_text, duration_to_text};

/// The folder that a process's `TMPDIR` names, as the runtime reads it: empty is as good as unset,
/// and a relative one is below the process's folder of the moment.
#[must_use]
pub fn temporary_folder(named: Option<&OsStr>) -> PathBuf {
    let named = named.filter(|named| !named.is_empty());
    named.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// The name of a process's control socket, in its temporary folder ([`temporary_folder`]). The pid
/// is that of its own namespace; `start_ticks` is when it began, by the kernel's count, so that
/// what a process of the same pid left behind is not mistaken for it.
#[must_use]
pub fn socket_name(pid: u32, start_ticks: u64) -> String {
    format!("corprof-{pid}-{start_ticks}.sock")
}

/// The pid and the start in a control socket's name; `None` if it is none.
#[must_use]
pub fn socket_name_parts(name: &str) -> Option<(u32, u64)> {
    let (pid, start) = name.strip_prefix("corprof-")?.strip_suffix(".sock")?.split_once('-')?;
    let (pid, start_ticks) = (pid.parse().ok()?, start.parse().ok()?);
    (socket_name(pid, start_ticks) == name).then_some((pid, start_ticks))
}

/// How the name of a folder begins that an attach makes in a process's temporary folder, for the
/// agent to write to.
pub const LENT_FOLDER: &str = "corprof-attach-";

/// Whether a folder is such a one. If it is gone, nobody will look for anything there.
#[must_use]
pub fn is_lent(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(LENT_FOLDER.as_bytes())
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Profile from now on. Not over the socket, but as the data of an attach.
    Attach(Stay),
    /// Say how things are.
    Status,
    /// Profile, if you don't.
    Start,
    /// Don't profile until told otherwise.
    Stop,
    /// Change settings, and go on with those.
    Set,
    /// Stop, and have the runtime let you go.
    Detach,
}

/// When an agent that is attached comes and goes, where a time is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// After this time it leaves by itself.
    pub leave_after: Option<Duration>,
    /// After this it doesn't begin: who asked has given up, since the runtime took so long. Whole
    /// milliseconds.
    pub begin_before: Option<SystemTime>,
}

impl Stay {
    /// Whether it is too late to begin.
    #[must_use]
    pub fn is_too_late(&self, now: SystemTime) -> bool {
        self.begin_before.is_some_and(|before| now > before)
    }

    fn to_text(self) -> String {
        let mut text = "attach".to_owned();
        if let Some(time) = self.leave_after {
            text.push_str(&format!(" for {}", duration_to_text(time)));
        }
        if let Some(before) = self.begin_before {
            let ms = before.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            text.push_str(&format!(" before {ms}"));
        }
        text
    }

    fn parse(mut text: &str) -> Result<Self, String> {
        let mut stay = Self::default();
        while !text.is_empty() {
            let mut words = text.splitn(3, ' ');
            let (name, value) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            text = words.next().unwrap_or("");
            let ms = || value.parse().ok().map(Duration::from_millis);
            match name {
                "for" => stay.leave_after = duration_from_text(value),
                "before" => stay.begin_before = ms().and_then(|ms| UNIX_EPOCH.checked_add(ms)),
                _ => return Err(format!("{name:?} is nothing to be said of an attach")),
            }
            let is_known = if name == "for" {
                stay.leave_after.is_some()
            } else {
                stay.begin_before.is_some()
            };
            if !is_known {
                return Err(format!("{value:?} is no time"));
            }
        }
        Ok(stay)
    }
}

/// A command, and settings by the names of their variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub command: Command,
    /// Settings that count instead of the environment's.
    pub settings: Vec<(String, String)>,
}

/// Names and values, or why not.
pub type Answer = Result<Vec<(String, String)>, String>;

impl Request {
    /// A request without settings.
    #[must_use]
    pub const fn of(command: Command) -> Self {
        Self { command, settings: Vec::new() }
    }

    /// As text; lines can't be told from each other in values, so line breaks become blanks.
    #[must_use]
    pub fn to_text(&self) -> String {
        let word = match self.command {
            Command::Attach(stay) => stay.to_text(),
            Command::Status => "status".to_owned(),
            Command::Start => "start".to_owned(),
            Command::Stop => "stop".to_owned(),
            Command::Set => "set".to_owned(),
            Command::Detach => "detach".to_owned(),
        };
        text(&word, &self.settings)
    }

    /// From text.
    ///
    /// # Errors
    /// What makes no sense in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let (word, argument) = first.split_once(' ').unwrap_or((first, ""));
        let command = match (word, argument) {
            ("attach", times) => Command::Attach(Stay::parse(times)?),
            ("status", "") => Command::Status,
            ("start", "") => Command::Start,
            ("stop", "") => Command::Stop,
            ("set", "") => Command::Set,
            ("detach", "") => Command::Detach,
            _ => return Err(format!("{first:?} is no command of this agent's version")),
        };
        Ok(Self { command, settings: pairs(lines)? })
    }
}

/// An answer as text.
#[must_use]
pub fn answer_to_text(answer: &Answer) -> String {
    match answer {
        Ok(pairs) => text("ok", pairs),
        Err(why) => format!("error: {}\n", one_line(why)),
    }
}

/// An answer from text.
///
/// # Errors
/// The answer's own, or that it makes no sense.
pub fn answer_from_text(text: &str) -> Answer {
    let mut lines = text.lines();
    match lines.next() {
        Some("ok") => pairs(lines),
        Some(line) => Err(line.strip_prefix("error: ").unwrap_or(line).to_owned()),
        None => Err("the agent said nothing".to_owned()),
    }
}

fn text(word: &str, pairs: &[(String, String)]) -> String {
    let mut text = format!("{word}\n");
    for (name, value) in pairs {
        text.push_str(&format!("{}={}\n", one_line(name), one_line(value)));
    }
    text
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn pairs<'a>(lines: impl Iterator<Item = &'a str>) -> Answer {
    let pair = |line: &str| {
        let (name, value) = line.split_once('=').ok_or(format!("{line:?} is no NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    lines.filter(|line| !line.is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn the_temporary_folder_is_the_runtimes() {
        for (named, folder) in
            [(None, "/tmp"), (Some(""), "/tmp"), (Some("/var/tmp"), "/var/tmp"), (Some("a"), "a")]
        {
            assert_eq!(temporary_folder(named.map(OsStr::new)), PathBuf::from(folder));
        }
    }

    #[test]
    fn requests_come_as_they_were_sent() {
        let leave_after = Some(Duration::from_millis(2500));
        let begin_before = UNIX_EPOCH.checked_add(Duration::from_millis(1_764_000_000_123));
        for command in [
            Command::Attach(Stay::default()),
            Command::Attach(Stay { leave_after, begin_before: None }),
            Command::Attach(Stay { leave_after: None, begin_before }),
            Command::Attach(Stay { leave_after, begin_before }),
            Command::Status,
            Command::Start,
            Command::Stop,
            Command::Set,
            Command::Detach,
        ] {
            let settings = vec![pair("CORPROF_LOG", "info"), pair("A", "b=c"), pair("B", "")];
            let request = Request { command, settings };
            assert_eq!(Request::parse(&request.to_text()), Ok(request));
            assert_eq!(Request::parse(&Request::of(command).to_text()), Ok(Request::of(command)));
        }
    }

    #[test]
    fn who_has_given_up_is_not_served() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let before = |time| Stay { begin_before: Some(time), ..Stay::default() };
        assert!(!Stay::default().is_too_late(now) && !before(now).is_too_late(now));
        assert!(before(now).is_too_late(now + Duration::from_millis(1)));
    }

    #[test]
    fn names_of_sockets_are_known_and_others_are_not() {
        assert_eq!(socket_name_parts(&socket_name(7, 4711)), Some((7, 4711)));
        for other in ["corprof-7.sock", "corprof-7-4711", "corprof-07-1.sock", "x-corprof-7-1.sock"]
        {
            assert_eq!(socket_name_parts(other), None, "{other}");
        }
    }

    #[test]
    fn nonsense_is_refused_and_said() {
        for (text, word) in [
            ("", "\"\" is no command"),
            ("dance\n", "\"dance\" is no command"),
            ("attach for soon\n", "\"soon\" is no time"),
            ("attach before\n", "\"\" is no time"),
            ("attach 2s\n", "\"2s\" is nothing to be said"),
            ("stop now\n", "\"stop now\" is no command"),
            ("set\nA\n", "\"A\" is no NAME=VALUE"),
        ] {
            let refused = Request::parse(text).expect_err(text);
            assert!(refused.contains(word), "{refused}");
        }
    }

    #[test]
    fn answers_come_as_they_were_given() {
        for answer in [Ok(vec![]), Ok(vec![pair("state", "running")]), Err("why".to_owned())] {
            assert_eq!(answer_from_text(&answer_to_text(&answer)), answer);
        }
        let broken = Ok(vec![pair("path", "a\nerror: b")]);
        assert_eq!(
            answer_from_text(&answer_to_text(&broken)),
            Ok(vec![pair("path", "a error: b")])
        );
        assert!(answer_from_text("").is_err() && answer_from_text("what\n").is_err());
    }
}
