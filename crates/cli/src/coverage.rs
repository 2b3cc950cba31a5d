//! Which parts of a process's time no file that was read tells of, and why, as far as the files or
//! the process's end say.

use std::time::{SystemTime, UNIX_EPOCH};

use profile::{After, Profile, SelfReport};
use serde_json::{Value, json};

use crate::loaded::Loaded;
use crate::units::time;

/// Shorter ones, in nanoseconds, say nothing: it takes a moment to go on with other settings, and
/// a process is looked at only now and then.
const WORTH_TELLING_NS: u64 = 250_000_000;
/// The same where no file says why: a runtime takes its time to end.
const UNEXPLAINED_NS: u64 = 1_000_000_000;

/// The time that a file is of.
#[derive(Clone, Debug)]
pub struct Stretch {
    start_ns: u64,
    end_ns: u64,
    seq: u64,
    after: Option<After>,
    /// Where later files are, if that is elsewhere.
    folder: String,
}

impl Stretch {
    /// That of a profile with the profiler's numbers.
    pub fn of(profile: &Profile, report: &SelfReport) -> Self {
        let start_ns = profile.period.start_unix_ns;
        Self {
            start_ns,
            end_ns: start_ns.saturating_add(profile.period.duration_ns),
            seq: report.seq,
            after: report.after(),
            folder: report.after_folder.clone(),
        }
    }

    /// Whether the profiler left the process after it.
    pub fn was_left(&self) -> bool {
        self.after == Some(After::Leave)
    }
}

/// Up to when a process was to be profiled.
#[derive(Clone, Debug)]
pub struct Until {
    /// Its number, as we and as itself see it.
    pub pids: [u64; 2],
    /// When, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Whether it was ended without a word to the agent, which is told elsewhere.
    pub is_cut_off: bool,
}

/// The time, in nanoseconds since 1970.
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A part of a process's time of which there is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pid: u64,
    /// Nanoseconds; `None` if nobody knows when it ends.
    ns: Option<u64>,
    /// Whether nothing comes after it.
    is_last: bool,
    after: Option<After>,
    folder: String,
}

impl Gap {
    /// Of which part nothing is known, and why, as a part of a sentence.
    fn told(&self, has_more: bool) -> String {
        let of = if has_more { format!(" of process {}", self.pid) } else { String::new() };
        let place = if self.is_last { "at the end" } else { "in between" };
        let what = match self.ns {
            Some(ns) => format!("{} {place}{of}", time(ns)),
            None => format!("what came after the last file{of}"),
        };
        format!("{what}: {}", self.reason())
    }

    fn reason(&self) -> String {
        match self.after {
            Some(After::Stop) => "the profiler was stopped (`corprof ctl PID stop`)".to_owned(),
            Some(After::Leave) => "the profiler left (`corprof ctl PID detach`)".to_owned(),
            Some(After::Set) if self.folder.is_empty() => {
                "`corprof ctl PID set` came, and then no files here; if it named other targets, \
                 they have the rest"
                    .to_owned()
            }
            Some(After::Set) => format!(
                "`corprof ctl PID set` had the files go to {folder}; `corprof top {folder}` \
                 shows them",
                folder = crate::table::printable(&self.folder)
            ),
            Some(After::End) => "the process's runtime had ended".to_owned(),
            None if self.is_last => {
                "the profiler wrote nothing more: the program ended without a word to it, or its \
                 log says why (CORPROF_LOG_FILE, or the program's own errors)"
                    .to_owned()
            }
            None => "there are files missing of what the profiler wrote".to_owned(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "pid": self.pid,
            "ns": self.ns,
            "at_end": self.is_last,
            "after": self.after.map(After::word),
            "folder": (!self.folder.is_empty()).then_some(&self.folder),
        })
    }
}

/// The parts of the processes' times of which there is nothing, as far as anybody knows.
pub fn gaps(loaded: &Loaded) -> Vec<Gap> {
    let of_process = |process: &crate::loaded::Process| {
        let until = loaded.until.as_ref().filter(|until| until.pids.contains(&process.pid));
        gaps_of(process.pid, process.stretches.clone(), until)
    };
    loaded.processes.iter().flat_map(of_process).collect()
}

fn gaps_of(pid: u64, mut stretches: Vec<Stretch>, until: Option<&Until>) -> Vec<Gap> {
    stretches.sort_by_key(|stretch| (stretch.start_ns, stretch.seq));
    let gap = |of: &Stretch, ns, is_last| {
        let folder = of.folder.clone();
        Gap { pid, ns, is_last, after: of.after, folder }
    };
    let mut gaps = Vec::new();
    for pair in stretches.windows(2) {
        let [one, next] = pair else { continue };
        let ns = next.start_ns.saturating_sub(one.end_ns);
        // Clocks may be set: without a reason, a number has to be missing, too.
        let is_known = one.after.is_some() || next.seq > one.seq.saturating_add(1);
        if is_known && ns >= WORTH_TELLING_NS {
            gaps.push(gap(one, Some(ns), false));
        }
    }
    let Some(last) = stretches.last() else { return gaps };
    let is_elsewhere = last.after == Some(After::Set) && !last.folder.is_empty();
    let Some(until) = until else {
        gaps.extend(is_elsewhere.then(|| gap(last, None, true)));
        return gaps;
    };
    let ns = until.unix_ns.saturating_sub(last.end_ns);
    let is_told = match last.after {
        Some(After::Set) if is_elsewhere => true,
        Some(After::Set | After::Stop | After::Leave) => ns >= WORTH_TELLING_NS,
        Some(After::End) => false,
        None => !until.is_cut_off && ns >= UNEXPLAINED_NS,
    };
    gaps.extend(is_told.then(|| gap(last, Some(ns), true)));
    gaps
}

/// Whether each process's last file says that it is the last: without that word, as of a process
/// that was killed, what the kernel counted is up to that file.
pub fn ends_are_told(loaded: &Loaded) -> bool {
    loaded.processes.iter().all(|process| says_its_end(&process.stretches))
}

fn says_its_end(stretches: &[Stretch]) -> bool {
    let last = stretches.iter().max_by_key(|stretch| (stretch.start_ns, stretch.seq));
    last.is_none_or(|last| last.after == Some(After::End))
}

/// How much of the time is missing, and a sentence a gap; `None` if none is known.
pub fn told(loaded: &Loaded) -> Option<(u64, Vec<String>)> {
    let gaps = gaps(loaded);
    let has_more = loaded.processes.len() > 1;
    let ns = gaps.iter().filter_map(|gap| gap.ns).fold(0, u64::saturating_add);
    let lines = gaps.iter().map(|gap| gap.told(has_more)).collect();
    (!gaps.is_empty()).then_some((ns, lines))
}

/// The gaps for a script.
pub fn json(loaded: &Loaded) -> Value {
    gaps(loaded).iter().map(Gap::json).collect()
}

/// How long before a time a process's last file ended, in nanoseconds, if the file doesn't say that
/// it is the last.
#[cfg(unix)]
pub fn unsaid_end_ns(loaded: &Loaded, pids: [u64; 2], unix_ns: u64) -> Option<u64> {
    let process = loaded.processes.iter().find(|process| pids.contains(&process.pid))?;
    let last = process.stretches.iter().max_by_key(|stretch| stretch.end_ns)?;
    last.after.is_none().then(|| unix_ns.saturating_sub(last.end_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn stretch(seq: u64, from: u64, to: u64, after: Option<After>) -> Stretch {
        let folder = if after == Some(After::Set) { "/else" } else { "" }.to_owned();
        Stretch { start_ns: from * S, end_ns: to * S, seq, after, folder }
    }

    fn found(
        stretches: &[Stretch],
        until: Option<u64>,
        is_cut_off: bool,
    ) -> Vec<(Option<u64>, bool)> {
        let until = until.map(|s| Until { pids: [7, 7], unix_ns: s * S, is_cut_off });
        let gaps = gaps_of(7, stretches.to_vec(), until.as_ref());
        gaps.iter().map(|gap| (gap.ns.map(|ns| ns / S), gap.is_last)).collect()
    }

    #[test]
    fn what_no_file_is_of_is_found_and_nothing_else() {
        let first = stretch(0, 0, 5, None);
        for (after, until, is_cut_off, gaps) in [
            (None, Some(11), false, &[(Some(5), true)][..]),
            (None, Some(11), true, &[]),
            (None, None, false, &[]),
            (Some(After::End), Some(11), false, &[]),
            (Some(After::Stop), Some(11), false, &[(Some(5), true)]),
            (Some(After::Stop), Some(6), false, &[]),
            (Some(After::Stop), None, false, &[]),
            (Some(After::Leave), Some(11), false, &[(Some(5), true)]),
            // Before what was the last to be looked at: somebody's own word to leave.
            (Some(After::Leave), Some(5), false, &[]),
            (Some(After::Set), Some(11), true, &[(Some(5), true)]),
            (Some(After::Set), None, false, &[(None, true)]),
        ] {
            let last = stretch(1, 5, 6, after);
            assert_eq!(found(&[last, first.clone()], until, is_cut_off), gaps, "{after:?}");
        }
    }

    #[test]
    fn what_lies_between_files_needs_a_reason() {
        let last = |seq| stretch(seq, 9, 12, Some(After::End));
        for (seq, after, gaps) in [
            (1, None, &[][..]),
            (2, None, &[(Some(4), false)]),
            (1, Some(After::Stop), &[(Some(4), false)]),
            (3, Some(After::Set), &[(Some(4), false)]),
        ] {
            let files = [stretch(0, 0, 5, after), last(seq)];
            assert_eq!(found(&files, Some(12), false), gaps, "{after:?}");
        }
    }

    #[test]
    fn an_end_is_told_by_the_last_file_alone() {
        let first = stretch(0, 0, 5, None);
        for (after, is_told) in [
            (Some(After::End), true),
            (None, false),
            (Some(After::Stop), false),
            (Some(After::Leave), false),
            (Some(After::Set), false),
        ] {
            let files = [stretch(1, 5, 6, after), first.clone()];
            assert_eq!(says_its_end(&files), is_told, "{after:?}");
        }
        // Files of others, which have no numbers of the kernel's either.
        assert!(says_its_end(&[]));
    }

    #[test]
    fn each_says_why() {
        for (after, words) in [
            (Some(After::Stop), "2.00 s at the end: the profiler was stopped"),
            (Some(After::Leave), "the profiler left"),
            (Some(After::Set), "go to /else; `corprof top /else` shows them"),
            (None, "its log says why"),
        ] {
            let until = Until { pids: [7, 1], unix_ns: 3 * S, is_cut_off: false };
            let gaps = gaps_of(7, vec![stretch(0, 0, 1, after)], Some(&until));
            let told = gaps[0].told(false);
            assert!(told.contains(words), "{told}");
            assert!(gaps[0].told(true).contains("at the end of process 7: "), "{gaps:?}");
        }
    }
}
