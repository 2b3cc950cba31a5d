//! Compares stacks with the runtime's own walker, for a test.

use std::collections::VecDeque;
use std::sync::Arc;

use model::EndReason;
use rustc_hash::FxHashMap;
use signal::record::ThreadRef;
use signal::sample::Sample;

use crate::log::Log;
use crate::runtime::Runtime;

/// Stacks of a blocked thread that a later sample of it may be equal to.
const RECENT_MAX: usize = 16;
/// CPU time that the delivery of a signal may take, in nanoseconds: a thread that has used more has
/// run since its stack was read.
const DELIVERY_NS_MAX: u64 = 50_000;
/// Differences that are told in full.
const TOLD_MAX: u32 = 40;

/// A stack read without a signal, and the thread's CPU clock at that time, in nanoseconds.
type Read = (Box<[u64]>, u64);

/// What was compared so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    identical: u32,
    shorter: u32,
    different: u32,
    refused: u32,
    guessed: u32,
    blocked_identical: u32,
    blocked_different: u32,
}

/// The comparison.
pub struct Oracle {
    runtime: Arc<dyn Runtime>,
    log: Log,
    counts: Counts,
    told: u32,
    recent: FxHashMap<ThreadRef, VecDeque<Read>>,
}

impl Oracle {
    /// Nothing compared yet.
    pub fn new(runtime: Arc<dyn Runtime>, log: Log) -> Self {
        Self { runtime, log, counts: Counts::default(), told: 0, recent: FxHashMap::default() }
    }

    /// Remembers a stack that was read without a signal.
    pub fn blocked(&mut self, thread: ThreadRef, frames: &[u64], cpu_clock_ns: u64) {
        let recent = self.recent.entry(thread).or_default();
        recent.push_back((frames.into(), cpu_clock_ns));
        if recent.len() > RECENT_MAX {
            recent.pop_front();
        }
    }

    /// Compares a sample's final stack: `frames` as walked, `shown` without the exception handlers
    /// that the runtime counts to their methods.
    pub fn sample(
        &mut self,
        sample: &Sample,
        frames: &[u64],
        shown: &[u64],
        end: EndReason,
        name: &mut dyn FnMut(u64) -> String,
    ) {
        self.compare_blocked(sample, frames, name);
        let answer = &sample.oracle;
        let theirs = answer.addresses.get(..answer.length as usize).unwrap_or_default().to_vec();
        if answer.result < 0 || theirs.is_empty() {
            self.counts.refused += 1;
            return;
        }
        // By method, not address: where managed code was left for native code, the runtime gives
        // the place before the call, and for the others the return address.
        let reported = |address: &u64| self.runtime.reported(*address);
        let ours: Vec<usize> = shown.iter().filter_map(reported).collect();
        let before_return = theirs
            .iter()
            .enumerate()
            .map(|(index, address)| if index == 0 { *address } else { address.saturating_sub(1) });
        let theirs_methods: Vec<usize> =
            before_return.filter_map(|address| self.runtime.reported(address)).collect();
        if ours == theirs_methods {
            self.counts.identical += 1;
        } else if answer.native_leaf && ours.ends_with(&theirs_methods) {
            // In native code that has told the runtime of no exit, its walker begins at an earlier
            // exit from managed code, and misses what is above.
            self.counts.shorter += 1;
        } else {
            self.counts.different += 1;
            self.counts.guessed += u32::from(sample.guessed);
            let what = format!("ours ({end:?}, guessed {})", sample.guessed);
            self.tell(&what, frames, "the runtime's", &theirs, name);
        }
    }

    /// Compares with the stack that was read without a signal just before, if the thread has not
    /// run since.
    fn compare_blocked(
        &mut self,
        sample: &Sample,
        frames: &[u64],
        name: &mut dyn FnMut(u64) -> String,
    ) {
        let clock_ns = sample.oracle.cpu_clock_ns;
        let now = |(_, read_ns): &&Read| {
            clock_ns.checked_sub(*read_ns).is_some_and(|ran_ns| ran_ns < DELIVERY_NS_MAX)
        };
        let recent = self.recent.get(&sample.thread);
        let Some((read, _)) = recent.and_then(|recent| recent.iter().rev().find(now)) else {
            return;
        };
        // Another instruction at the top: the thread was on its way when the signal came.
        if read.first() != frames.first() {
            return;
        }
        if **read == *frames {
            self.counts.blocked_identical += 1;
        } else {
            self.counts.blocked_different += 1;
            let read = read.clone();
            self.tell("read without a signal", &read, "read in the handler", frames, name);
        }
    }

    fn tell(
        &mut self,
        first: &str,
        first_frames: &[u64],
        second: &str,
        second_frames: &[u64],
        name: &mut dyn FnMut(u64) -> String,
    ) {
        self.told += 1;
        if self.told > TOLD_MAX {
            return;
        }
        let mut text = |frames: &[u64]| -> String {
            let lines = frames.iter().map(|frame| format!("\n    {frame:#x} {}", name(*frame)));
            lines.collect()
        };
        let (left, right) = (text(first_frames), text(second_frames));
        self.log.debug(&format!("oracle: stacks differ\n  {first}:{left}\n  {second}:{right}"));
    }

    /// Says what was compared.
    pub fn report(&self) {
        let Counts { identical, shorter, different, refused, guessed, .. } = self.counts;
        let Counts { blocked_identical, blocked_different, .. } = self.counts;
        self.log.info(&format!(
            "oracle: identical={identical} shorter={shorter} different={different} \
             different_guessed={guessed} refused={refused} blocked_identical={blocked_identical} \
             blocked_different={blocked_different}"
        ));
    }
}
