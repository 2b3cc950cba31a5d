//! Checks of a run: all are made, and all that do not hold are shown at once, with the evidence.

use std::fmt::{Display, Write as _};
use std::fs;
use std::io::ErrorKind;

use anyhow::{Result, bail};
use model::{EndReason, Loss};

use crate::run::Run;
use crate::view::LeafSums;

/// Standard deviations within which a share must lie.
const SIGMAS: f64 = 4.0;
/// How much the variance of a share grows because samples weigh between half and one and a half of
/// their mean, evenly: the variance of such a weight is a twelfth of its squared mean.
const JITTER: f64 = 1.0 + 1.0 / 12.0;
/// The same for samples that weigh what a thread happened to get between two looks: spread like the
/// time between chance events at worst, whose variance is their squared mean.
const UNEVEN: f64 = 2.0;

/// The checks of one run.
#[must_use = "checks count when they are done"]
#[derive(Debug)]
pub struct Checks<'a> {
    run: &'a Run,
    failed: Vec<String>,
    /// Numbers that are not right: by the program, or by a machine that gave it no processor.
    off: Vec<String>,
    notes: Vec<String>,
}

impl<'a> Checks<'a> {
    /// No checks yet.
    pub fn new(run: &'a Run) -> Self {
        Self { run, failed: Vec::new(), off: Vec::new(), notes: Vec::new() }
    }

    /// Something must hold.
    pub fn that(&mut self, holds: bool, what: impl Display) {
        if !holds {
            self.failed.push(what.to_string());
        }
    }

    /// A number must be at least so large.
    pub fn at_least(&mut self, what: impl Display, found: u64, low: u64) {
        self.judge(found >= low, format!("{what}: {found}, and {low} is the least that is right"));
    }

    /// A number must be as large as another, but for a fraction of that, up and down.
    pub fn within(&mut self, what: impl Display, found: u64, expected: u64, fraction: f64) {
        let slack = (expected as f64 * fraction) as u64;
        self.between(what, found, expected.saturating_sub(slack), expected.saturating_add(slack));
    }

    /// A number must lie between two others, both included.
    pub fn between(&mut self, what: impl Display, found: u64, low: u64, high: u64) {
        let middle = low.midpoint(high).max(1);
        let off = (found as f64 / middle as f64 - 1.0) * 100.0;
        let text = format!("{what}: {found}, and {low} to {high} is right ({off:+.2} %)");
        self.judge((low..=high).contains(&found), text);
    }

    /// Another's sums must be ours, each but for a fraction, and of no more functions.
    pub fn same_sums(&mut self, theirs: &LeafSums, ours: &LeafSums, fraction: f64) {
        self.that(ours.len() > 20, format!("only {} sums", ours.len()));
        self.that(ours.len() == theirs.len(), format!("{} and {}", theirs.len(), ours.len()));
        let mut most = 0.0_f64;
        for (of, value) in ours {
            let their = theirs.get(of).copied().unwrap_or_default();
            let off = their.abs_diff(*value) as f64 / *value as f64;
            most = most.max(off);
            self.that(off <= fraction, format!("{of:?}: {their} and not {value}"));
        }
        self.judge(most <= fraction, format!("{} sums, off by {most:.5} at most", ours.len()));
    }

    /// A share of `n` samples must be the true one, within four standard deviations.
    pub fn share(&mut self, what: impl Display, found: f64, expected: f64, n: u64) {
        self.share_by(JITTER, what, found, expected, n);
    }

    /// The same for samples whose weights are what the machine made them.
    pub fn share_of_uneven(&mut self, what: impl Display, found: f64, expected: f64, n: u64) {
        self.share_by(UNEVEN, what, found, expected, n);
    }

    fn share_by(&mut self, design: f64, what: impl Display, found: f64, expected: f64, n: u64) {
        let deviation = (expected * (1.0 - expected) * design / n.max(1) as f64).sqrt();
        let sigmas = (found - expected) / deviation;
        let text = format!(
            "{what}: a share of {found:.4} of {n} samples, and {expected:.4} is the truth \
             ({sigmas:+.1} σ)"
        );
        self.judge(sigmas.abs() <= SIGMAS, text);
    }

    fn judge(&mut self, holds: bool, text: String) {
        if holds {
            self.notes.push(text);
        } else {
            self.off.push(text);
        }
    }

    /// The numbers that are not right, if it is only numbers.
    #[must_use]
    pub(crate) fn off(&self) -> Option<String> {
        let is_only = self.failed.is_empty() && !self.off.is_empty();
        is_only.then(|| self.off.iter().map(|text| format!("  off  {text}\n")).collect())
    }

    /// The program must have ended with that code.
    pub fn code(&mut self, code: i32) {
        let status = self.run.outcome.status;
        self.that(status.code() == Some(code), format!("the program ended with {status}"));
    }

    /// What holds for every profile: it is there, its numbers agree with each other, and nothing
    /// went wrong inside.
    pub fn sound(&mut self) {
        let run = self.run;
        self.that(!run.profiles.is_empty(), "no profile was written");
        let left: Vec<_> = fs::read_dir(&run.folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| !name.ends_with(".pb.gz") || name.starts_with('.'))
            .collect();
        self.that(left.is_empty(), format!("files were left behind: {left:?}"));
        for (position, (seq, _)) in run.profiles.iter().enumerate() {
            self.that(*seq == position as u64, format!("profile {position} has the number {seq}"));
        }
        let (total, report) = (run.view.total(), &run.report);
        let mut same = |what: &str, one: u64, other: u64| {
            self.that(one == other, format!("{what}: {one} and {other}"));
        };
        same("CPU samples in the profile and reported", total.count, report.cpu_samples);
        same("CPU time in the profile and reported", total.cpu_ns, report.sampled_cpu_ns);
        for loss in [
            Loss::CaughtPanic,
            Loss::WriteFailed,
            Loss::EventsFull,
            Loss::AggregateFull,
            Loss::SpansFull,
        ] {
            let lost = report.losses.get(loss);
            self.that(lost == 0, format!("{} is {lost}", loss.name()));
        }
        let ends: u64 = report.ends.iter().map(|(_, n)| n).sum();
        self.that(
            ends >= report.cpu_samples,
            format!("{ends} ends of walks for {} CPU samples", report.cpu_samples),
        );
    }

    /// The agent's threads were there, and are not in the profile.
    pub fn without_own_threads(&mut self) {
        let run = self.run;
        self.that(!run.tasks.own.is_empty(), "no thread of the agent was seen");
        for row in &run.view.rows {
            let own = row.thread.starts_with("corprof-") || run.tasks.own.contains(&row.tid);
            self.that(!own, format!("a thread of the agent is in the profile: {row:?}"));
        }
    }

    /// Nearly all walks must have reached their thread's first frame: as many as that, but for what
    /// chance makes of so few walks.
    pub fn roots(&mut self, at_least: f64) {
        let ends = &self.run.report.ends;
        let all: u64 = ends.iter().map(|(_, n)| n).sum();
        let share = ends.get(EndReason::Root) as f64 / all.max(1) as f64;
        let deviation = (at_least * (1.0 - at_least) / all.max(1) as f64).sqrt();
        let others: Vec<_> = ends.iter().map(|(end, n)| format!("{} {n}", end.frame())).collect();
        let text = format!("{share:.5} of {all} walks reached the root: {}", others.join(", "));
        let is_right = share >= at_least - SIGMAS * deviation;
        // That holds for a program without a processor, too, but for one that was never walked.
        if is_right || all == 0 { self.judge(is_right, text) } else { self.failed.push(text) }
    }

    /// The end of all checks, where numbers that are not right say nothing.
    ///
    /// # Errors
    /// All others that do not hold.
    pub(crate) fn done_but_for_numbers(mut self) -> Result<()> {
        self.off.clear();
        self.done()
    }

    /// The end of all checks.
    ///
    /// # Errors
    /// All that do not hold, with what there is to know of the run.
    pub fn done(self) -> Result<()> {
        let Self { run, mut failed, off, notes } = self;
        failed.extend(off);
        let mut text = format!("{}\n", run.name);
        for note in notes {
            let _infallible = writeln!(text, "  ok   {note}");
        }
        if failed.is_empty() {
            println!("{text}");
            // Profiles are kept for those who have to find out what was wrong.
            return match fs::remove_dir_all(&run.folder) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
                _ => Ok(()),
            };
        }
        for failure in failed {
            let _infallible = writeln!(text, "  FAIL {failure}");
        }
        bail!("{text}{}", evidence(run));
    }
}

fn evidence(run: &Run) -> String {
    let comments = run.report.to_comments().join("\n  ");
    format!(
        "the profiles: {}\nthe program's errors:\n{}\nthe report:\n  {comments}\n\
         the largest rows:\n{}",
        run.folder.display(),
        run.outcome.stderr,
        run.view.top(25)
    )
}
