//! The profiler's own numbers, which every profile carries.
//!
//! In a pprof file each is a comment `corprof.<key>=<value>`; counters that are zero are left out.
//! Endpoints are comments too, one each, and no part of the report:
//! `corprof.endpoint=<requests> <nanoseconds> <name>`.

use std::collections::HashMap;
use std::fmt;

use model::{EndReason, Loss};

use crate::counts::{EndCounts, LossCounts};

/// Version of the comments. A reader refuses newer ones, since it could misread them.
const FORMAT: u64 = 1;
const PREFIX: &str = "corprof.";
/// The key of an endpoint's comment, the only one that is there several times.
const ENDPOINT: &str = "endpoint";

/// What the profiler did, lost and cost in one period of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelfReport {
    /// The agent's version.
    pub agent_version: String,
    /// The runtime and its version, such as `CoreCLR 9.0.5`.
    pub runtime_version: String,
    /// The service's name.
    pub service: String,
    /// The service's version; empty if unknown, and in files of before it was said.
    pub service_version: String,
    /// The CPU sampler in use: `timer` or `scan`.
    pub sampler: String,
    /// The process id.
    pub pid: u64,
    /// What tells the process from all others: 32 hexadecimal digits, by chance; empty in files of
    /// before there was one.
    pub instance: String,
    /// The number of the period in this process, from 0.
    pub seq: u64,
    /// CPU nanoseconds between two CPU samples of a thread.
    pub cpu_interval_ns: u64,
    /// Nanoseconds between two ticks of the wall sampler.
    pub wall_interval_ns: u64,
    /// Threads looked at in one tick of the wall sampler.
    pub wall_threads: u64,
    /// By how much sampling was slowed down at most, to stay within the budget; 1 for not at all,
    /// and 0 in files of before there was a budget.
    pub slowdown: u64,
    /// CPU samples taken.
    pub cpu_samples: u64,
    /// Wall samples taken.
    pub wall_samples: u64,
    /// CPU nanoseconds of the profiler's own threads. Handlers run on the program's.
    pub own_cpu_ns: u64,
    /// Bytes of memory that the profiler holds.
    pub own_memory_bytes: u64,
    /// CPU nanoseconds of the whole process in the period, as the kernel counted them.
    pub process_cpu_ns: u64,
    /// CPU nanoseconds of the sampled threads in the period, as the kernel counted them.
    pub sampled_cpu_ns: u64,
    /// 1 if a tracer has asked for a thread's context since the process began, as the startup hook
    /// does at its start; else 0.
    pub traced: u64,
    /// Garbage collections that began, by generation.
    pub gc_collections: [u64; 3],
    /// Those of the last generation that went on beside the program.
    pub gc_background: u64,
    /// Collections of generation 0 or 1 that such a one began with: of these the runtime doesn't
    /// tell the generation, and they are in neither's count.
    pub gc_before_background: u64,
    /// Pauses for garbage collections.
    pub gc_pauses: u64,
    /// How long they were, all together, in nanoseconds.
    pub gc_pause_ns: u64,
    /// How long the longest was, in nanoseconds.
    pub gc_pause_max_ns: u64,
    /// Pauses for anything else.
    pub other_pauses: u64,
    /// How long they were, all together, in nanoseconds.
    pub other_pause_ns: u64,
    /// Profiles that were sent and taken, over all targets, since the start.
    pub export_sent: u64,
    /// Attempts to send that failed, since the start.
    pub export_failed: u64,
    /// Profiles that were given up, since the start: refused for good, or over a limit.
    pub export_lost: u64,
    /// Bytes that wait in memory to be sent.
    pub export_queue_bytes: u64,
    /// Bytes that wait on disk to be sent.
    pub export_spool_bytes: u64,
    /// Why this is the process's last period for now: a word of [`After`]; empty if it is not, or
    /// if nothing could be said any more.
    pub after: String,
    /// Where files go after it, if they go elsewhere, as the process sees it.
    pub after_folder: String,
    /// Samples lost, by reason.
    pub losses: LossCounts,
    /// Walks by why they ended.
    pub ends: EndCounts,
}

/// What comes after the last profile before a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The process ends.
    End,
    /// Nothing, until somebody starts the profiler again.
    Stop,
    /// Nothing: the profiler leaves the process.
    Leave,
    /// Profiles with other settings.
    Set,
}

impl After {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::End, Self::Stop, Self::Leave, Self::Set];

    /// Its word in files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Stop => "stop",
            Self::Leave => "leave",
            Self::Set => "set",
        }
    }
}

/// Why the profiler's numbers in a file can't be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportError {
    /// A number is not a number.
    NotANumber {
        /// The comment's key.
        key: String,
        /// The comment's value.
        value: String,
    },
    /// A key is there twice, as in files that another tool merged.
    Twice {
        /// The comment's key.
        key: String,
    },
    /// A comment has no `=`.
    NoValue {
        /// The comment.
        comment: String,
    },
    /// The comments are of a later version, or say none.
    Format {
        /// The version found, if any.
        found: Option<u64>,
    },
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber { key, value } => write!(f, "{PREFIX}{key}={value}: not a number"),
            Self::Twice { key } => {
                write!(f, "{PREFIX}{key} is there twice: another tool merged this file")
            }
            Self::NoValue { comment } => write!(f, "the comment {comment:?} has no value"),
            Self::Format { found: Some(found) } => write!(
                f,
                "the profiler's numbers have format {found}, this corprof reads {FORMAT}: \
                 use a newer corprof"
            ),
            Self::Format { found: None } => write!(f, "{PREFIX}format is missing"),
        }
    }
}

impl std::error::Error for ReportError {}

/// A field of the report, for writing and for reading.
enum Field<'a> {
    Text(&'static str, &'a mut String),
    Number(&'static str, &'a mut u64),
}

impl SelfReport {
    /// All plain fields: the one list from which comments are written and read.
    fn fields(&mut self) -> [Field<'_>; 36] {
        use Field::{Number, Text};
        let [gen0, gen1, gen2] = &mut self.gc_collections;
        [
            Text("agent_version", &mut self.agent_version),
            Text("runtime_version", &mut self.runtime_version),
            Text("service", &mut self.service),
            Text("service_version", &mut self.service_version),
            Text("sampler", &mut self.sampler),
            Number("pid", &mut self.pid),
            Text("instance", &mut self.instance),
            Number("seq", &mut self.seq),
            Number("cpu_interval_ns", &mut self.cpu_interval_ns),
            Number("wall_interval_ns", &mut self.wall_interval_ns),
            Number("wall_threads", &mut self.wall_threads),
            Number("slowdown", &mut self.slowdown),
            Number("samples.cpu", &mut self.cpu_samples),
            Number("samples.wall", &mut self.wall_samples),
            Number("own_cpu_ns", &mut self.own_cpu_ns),
            Number("own_memory_bytes", &mut self.own_memory_bytes),
            Number("process_cpu_ns", &mut self.process_cpu_ns),
            Number("sampled_cpu_ns", &mut self.sampled_cpu_ns),
            Number("traced", &mut self.traced),
            Number("gc.gen0", gen0),
            Number("gc.gen1", gen1),
            Number("gc.gen2", gen2),
            Number("gc.background", &mut self.gc_background),
            Number("gc.before_background", &mut self.gc_before_background),
            Number("gc.pauses", &mut self.gc_pauses),
            Number("gc.pause_ns", &mut self.gc_pause_ns),
            Number("gc.pause_max_ns", &mut self.gc_pause_max_ns),
            Number("suspended.pauses", &mut self.other_pauses),
            Number("suspended.pause_ns", &mut self.other_pause_ns),
            Number("export.sent", &mut self.export_sent),
            Number("export.failed", &mut self.export_failed),
            Number("export.lost", &mut self.export_lost),
            Number("export.queue_bytes", &mut self.export_queue_bytes),
            Number("export.spool_bytes", &mut self.export_spool_bytes),
            Text("after", &mut self.after),
            Text("after_folder", &mut self.after_folder),
        ]
    }

    /// The report as names and values: numbers that are not zero, and texts that are not empty.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        for field in self.clone().fields() {
            match field {
                Field::Text(_, text) if text.is_empty() => {}
                Field::Number(_, 0) => {}
                Field::Text(key, text) => facts.push((key.to_owned(), text.clone())),
                Field::Number(key, number) => facts.push((key.to_owned(), number.to_string())),
            }
        }
        facts.extend(self.losses.iter().map(|(loss, n)| (loss_key(loss), n.to_string())));
        facts.extend(self.ends.iter().map(|(end, n)| (end_key(end), n.to_string())));
        facts
    }

    /// The report as comments of a pprof file.
    #[must_use]
    pub fn to_comments(&self) -> Vec<String> {
        let facts = self.facts().into_iter().map(|(key, value)| format!("{PREFIX}{key}={value}"));
        std::iter::once(format!("{PREFIX}format={FORMAT}")).chain(facts).collect()
    }

    /// Reads the report back. Comments of others and keys of later versions are passed over;
    /// `None` if there is no comment of ours.
    ///
    /// # Errors
    /// If a comment of ours doesn't make sense.
    pub fn from_comments<'a>(
        comments: impl IntoIterator<Item = &'a str>,
    ) -> Result<Option<Self>, ReportError> {
        let mut seen: HashMap<&str, &str> = HashMap::new();
        for comment in comments {
            let Some(text) = comment.strip_prefix(PREFIX) else { continue };
            let (key, value) = text
                .split_once('=')
                .ok_or_else(|| ReportError::NoValue { comment: comment.to_owned() })?;
            if key != ENDPOINT && seen.insert(key, value).is_some() {
                return Err(ReportError::Twice { key: key.to_owned() });
            }
        }
        if seen.is_empty() {
            return Ok(None);
        }
        let find = |key: &str| seen.get(key).copied();
        let number = |key: &str| find(key).map(|value| parse(key, value)).transpose();
        let found = number("format")?;
        if found != Some(FORMAT) {
            return Err(ReportError::Format { found });
        }
        let mut report = Self::default();
        for field in report.fields() {
            match field {
                Field::Text(key, text) => *text = find(key).unwrap_or_default().to_owned(),
                Field::Number(key, value) => *value = number(key)?.unwrap_or_default(),
            }
        }
        for loss in Loss::ALL {
            report.losses.add(loss, number(&loss_key(loss))?.unwrap_or_default());
        }
        for end in EndReason::ALL {
            report.ends.add(end, number(&end_key(end))?.unwrap_or_default());
        }
        Ok(Some(report))
    }

    /// What comes after the period; `None` if it says nothing, or what a later version says.
    #[must_use]
    pub fn after(&self) -> Option<After> {
        After::ALL.into_iter().find(|after| after.word() == self.after)
    }

    /// Adds a later period of the same process, or another process: counters and times add up,
    /// memory, slowdown, the longest pause, whether it is traced and the numbers of export are the
    /// larger, the rest stays.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in self.gc_collections.iter_mut().zip(other.gc_collections) {
            *sum = sum.saturating_add(more);
        }
        for (sum, more) in [
            (&mut self.cpu_samples, other.cpu_samples),
            (&mut self.wall_samples, other.wall_samples),
            (&mut self.own_cpu_ns, other.own_cpu_ns),
            (&mut self.process_cpu_ns, other.process_cpu_ns),
            (&mut self.sampled_cpu_ns, other.sampled_cpu_ns),
            (&mut self.gc_background, other.gc_background),
            (&mut self.gc_before_background, other.gc_before_background),
            (&mut self.gc_pauses, other.gc_pauses),
            (&mut self.gc_pause_ns, other.gc_pause_ns),
            (&mut self.other_pauses, other.other_pauses),
            (&mut self.other_pause_ns, other.other_pause_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
        for (largest, other) in [
            (&mut self.export_sent, other.export_sent),
            (&mut self.export_failed, other.export_failed),
            (&mut self.export_lost, other.export_lost),
            (&mut self.export_queue_bytes, other.export_queue_bytes),
            (&mut self.export_spool_bytes, other.export_spool_bytes),
        ] {
            *largest = (*largest).max(other);
        }
        self.own_memory_bytes = self.own_memory_bytes.max(other.own_memory_bytes);
        self.slowdown = self.slowdown.max(other.slowdown);
        self.traced = self.traced.max(other.traced);
        self.gc_pause_max_ns = self.gc_pause_max_ns.max(other.gc_pause_max_ns);
        self.losses.merge(&other.losses);
        self.ends.merge(&other.ends);
    }
}

/// An endpoint's numbers as a comment of a pprof file.
pub(crate) fn endpoint_to_comment(requests: u64, duration_ns: u64, name: &str) -> String {
    format!("{PREFIX}{ENDPOINT}={requests} {duration_ns} {name}")
}

/// An endpoint's requests, nanoseconds and name from its comment; `None` for other comments.
#[cfg(any(test, feature = "read"))]
pub(crate) fn endpoint_from_comment(
    comment: &str,
) -> Option<Result<(u64, u64, &str), ReportError>> {
    let (key, value) = comment.strip_prefix(PREFIX)?.split_once('=')?;
    if key != ENDPOINT {
        return None;
    }
    let mut parts = value.splitn(3, ' ');
    let mut number = || parse(ENDPOINT, parts.next().unwrap_or_default());
    let numbers = number().and_then(|requests| Ok((requests, number()?)));
    Some(numbers.map(|(requests, ns)| (requests, ns, parts.next().unwrap_or_default())))
}

fn parse(key: &str, value: &str) -> Result<u64, ReportError> {
    let not_a_number = || ReportError::NotANumber { key: key.to_owned(), value: value.to_owned() };
    // `parse` alone would take a leading plus.
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(not_a_number());
    }
    value.parse().map_err(|_| not_a_number())
}

fn loss_key(loss: Loss) -> String {
    format!("lost.{}", loss.name())
}

fn end_key(end: EndReason) -> String {
    format!("end.{}", end.frame().trim_matches(['[', ']']).replace(' ', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> SelfReport {
        let mut report = SelfReport {
            agent_version: "0.1.0".into(),
            runtime_version: "CoreCLR 9.0.5".into(),
            service: "orders = a\nb".into(),
            service_version: "1.0=rc".into(),
            sampler: "timer".into(),
            pid: 42,
            instance: "00112233445566778899aabbccddeeff".into(),
            own_cpu_ns: u64::MAX,
            gc_collections: [1, 0, 3],
            ..SelfReport::default()
        };
        report.losses.add(Loss::RingFull, 3);
        report.ends.add(EndReason::Root, 1000);
        report.ends.add(EndReason::NoRule, 2);
        report
    }

    fn read(comments: &[&str]) -> Result<Option<SelfReport>, ReportError> {
        SelfReport::from_comments(comments.iter().copied())
    }

    #[test]
    fn a_report_is_read_back() {
        let comments = report().to_comments();
        assert!(comments.contains(&"corprof.lost.ring_full=3".to_owned()), "{comments:?}");
        assert!(comments.contains(&"corprof.end.no_unwind_rule=2".to_owned()), "{comments:?}");
        let texts = comments.iter().map(String::as_str).chain(["other tool's words"]);
        assert_eq!(SelfReport::from_comments(texts), Ok(Some(report())));
    }

    #[test]
    fn keys_are_distinct() {
        let mut full = report();
        let mut keys: Vec<_> = full
            .fields()
            .iter()
            .map(|field| match field {
                Field::Text(key, _) | Field::Number(key, _) => (*key).to_owned(),
            })
            .chain(Loss::ALL.into_iter().map(loss_key))
            .chain(EndReason::ALL.into_iter().map(end_key))
            .collect();
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["corprofile", "x=1"]), Ok(None));
        for (comments, error) in [
            (&["corprof.pid=1"][..], "format is missing"),
            (&["corprof.format=2"], "newer corprof"),
            (&["corprof.format=1", "corprof.pid=-1"], "not a number"),
            (&["corprof.format=1", "corprof.pid="], "not a number"),
            (&["corprof.format=1", "corprof.lost.moved=+1"], "not a number"),
            (&["corprof.format=1", "corprof.pid=18446744073709551616"], "not a number"),
            (&["corprof.format=1", "corprof.pid=1", "corprof.pid=2"], "twice"),
            (&["corprof.format"], "no value"),
        ] {
            let found = read(comments).unwrap_err().to_string();
            assert!(found.contains(error), "{comments:?}: {found}");
        }
        assert!(read(&["corprof.format=1", "corprof.from_the_future=x"]).unwrap().is_some());
    }

    #[test]
    fn an_endpoint_is_read_back() {
        for name in ["GET /orders/{id}", "", " a  b ", "5 6 7"] {
            let comment = endpoint_to_comment(3, u64::MAX, name);
            assert_eq!(endpoint_from_comment(&comment), Some(Ok((3, u64::MAX, name))));
        }
        for comment in ["", "corprof.pid=1", "corprof.endpoint", "corprof.endpoints=1 2 a"] {
            assert_eq!(endpoint_from_comment(comment), None, "{comment}");
        }
        for comment in ["corprof.endpoint=", "corprof.endpoint=1", "corprof.endpoint=1 x a"] {
            assert!(endpoint_from_comment(comment).unwrap().is_err(), "{comment}");
        }
        // They are no part of the report, and make none.
        assert_eq!(read(&["corprof.endpoint=1 2 a", "corprof.endpoint=1 2 b"]), Ok(None));
    }

    #[test]
    fn merging_adds_counters() {
        let mut sum = report();
        sum.own_cpu_ns = 5;
        sum.gc_collections = [1, 2, 3];
        sum.gc_pause_max_ns = 9;
        let more =
            SelfReport { own_cpu_ns: 7, traced: 1, gc_collections: [10, 20, 30], ..report() };
        sum.merge(&SelfReport { gc_pause_max_ns: 8, ..more });
        assert_eq!((sum.own_cpu_ns, sum.traced), (12, 1));
        assert_eq!((sum.gc_collections, sum.gc_pause_max_ns), ([11, 22, 33], 9));
        assert_eq!(sum.losses.get(Loss::RingFull), 6);
        assert_eq!(sum.pid, 42);
    }
}
