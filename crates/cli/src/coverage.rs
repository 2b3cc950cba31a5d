//! Which parts of a process's time no file that was read tells of, and why, as far as the files or
//! the process's end say.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

    /// How long it is, in nanoseconds.
    const fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Up to when a process was to be profiled.
#[derive(Clone, Debug)]
pub struct Until {
    /// Its number, as we and as itself see it.
    pub pids: [u64; 2],
    /// When, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// How long it ran until then, if the clock was set meanwhile.
    pub ran: Option<Duration>,
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
            None if self.is_last => format!("what came after the last file{of}"),
            None => format!("a time {place}{of}, and the clock was set back in it"),
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
    in_order(&mut stretches);
    // Where the clock was set, no more can be missing than it ran without a file.
    let covered = stretches.iter().map(Stretch::ns).fold(0, u64::saturating_add);
    let most_ns = until
        .and_then(|until| until.ran)
        .map_or(u64::MAX, |ran| nanos(ran).saturating_sub(covered));
    let gap = |of: &Stretch, ns: Option<u64>, is_last| {
        let (ns, folder) = (ns.map(|ns| ns.min(most_ns)), of.folder.clone());
        Gap { pid, ns, is_last, after: of.after, folder }
    };
    let mut gaps = Vec::new();
    for pair in stretches.windows(2) {
        let [one, next] = pair else { continue };
        let ns = next.start_ns.saturating_sub(one.end_ns).min(most_ns);
        // Without a reason, a number has to be missing.
        let is_missing = next.seq > one.seq.saturating_add(1);
        if is_missing && next.start_ns < one.end_ns {
            // The clock was set back in between: nobody knows for how long there is nothing.
            gaps.push(gap(one, None, false));
        } else if (is_missing || one.after.is_some()) && ns >= WORTH_TELLING_NS {
            gaps.push(gap(one, Some(ns), false));
        }
    }
    let Some(last) = stretches.last() else { return gaps };
    let is_elsewhere = last.after == Some(After::Set) && !last.folder.is_empty();
    let Some(until) = until else {
        gaps.extend(is_elsewhere.then(|| gap(last, None, true)));
        return gaps;
    };
    let ns = until.unix_ns.saturating_sub(last.end_ns).min(most_ns);
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
    let mut all = stretches.to_vec();
    in_order(&mut all);
    all.last().is_none_or(|last| last.after == Some(After::End))
}

/// Sorts a process's files by when they were written: by their numbers, which no clock changes, but
/// where several attaches wrote to several folders, each from 0.
fn in_order(stretches: &mut [Stretch]) {
    stretches.sort_by_key(|stretch| (stretch.seq, stretch.start_ns));
    let is_once = stretches.windows(2).all(|pair| match pair {
        [one, next] => one.seq < next.seq,
        _ => true,
    });
    if !is_once {
        stretches.sort_by_key(|stretch| (stretch.start_ns, stretch.seq));
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
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
    let mut stretches = process.stretches.clone();
    in_order(&mut stretches);
    let last = stretches.last()?;
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
        let until = until.map(|s| Until { pids: [7, 7], unix_ns: s * S, ran: None, is_cut_off });
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
    fn a_clock_that_is_set_makes_no_time_missing() {
        let ran = Some(Duration::from_secs(15));
        let told = |stretches: &[Stretch], unix_s: u64| -> Vec<_> {
            let until = Until { pids: [7, 7], unix_ns: unix_s * S, ran, is_cut_off: false };
            let gaps = gaps_of(7, stretches.to_vec(), Some(&until));
            gaps.iter().map(|gap| (gap.ns.map(|ns| ns / S), gap.is_last)).collect()
        };
        let end = Some(After::End);
        // Set back by a minute in the second file, and forward by one.
        for (second, third, now) in [(105, 50, 55), (105, 170, 175)] {
            let files = [
                stretch(0, 100, 105, None),
                stretch(1, second, second + 5, None),
                stretch(2, third, third + 5, end),
            ];
            assert_eq!(told(&files, now), []);
        }
        // A stop of five seconds, in which it was set forward, is no longer than the process ran.
        let stop = Some(After::Stop);
        let files = [stretch(0, 100, 105, stop), stretch(1, 170, 175, end)];
        assert_eq!(told(&files, 175), [(Some(5), false)]);
        // So is the end, and files that are missing where it was set back are told of all the same.
        assert_eq!(told(&[stretch(0, 100, 105, None)], 170), [(Some(10), true)]);
        let files = [stretch(0, 100, 105, None), stretch(3, 50, 55, end)];
        assert_eq!(told(&files, 55), [(None, false)]);
        let text = gaps_of(7, files.to_vec(), None)[0].told(false);
        assert!(text.contains("a time in between, and the clock was set back"), "{text}");
        // Two attaches, each with a folder of its own, whose numbers begin anew.
        let files = [stretch(0, 100, 105, None), stretch(0, 106, 110, None)];
        assert_eq!(gaps_of(7, files.to_vec(), None), []);
    }

    #[test]
    fn each_says_why() {
        for (after, words) in [
            (Some(After::Stop), "2.00 s at the end: the profiler was stopped"),
            (Some(After::Leave), "the profiler left"),
            (Some(After::Set), "go to /else; `corprof top /else` shows them"),
            (None, "its log says why"),
        ] {
            let until = Until { pids: [7, 1], unix_ns: 3 * S, ran: None, is_cut_off: false };
            let gaps = gaps_of(7, vec![stretch(0, 0, 1, after)], Some(&until));
            let told = gaps[0].told(false);
            assert!(told.contains(words), "{told}");
            assert!(gaps[0].told(true).contains("at the end of process 7: "), "{gaps:?}");
        }
    }
}
