//! Stacks as they come from walks, and as the aggregate has them.

use std::sync::Arc;

use model::limits::FRAMES_MAX;
use model::{EndReason, Loss, ThreadClass};
use profile::{FrameId, StackId};
use signal::sample::{Sample, StackCopy};

use super::Accounts;
use super::place::{Place, Walked};
use crate::symbolizer::Rewalked;

/// How many times as much room as it needs a stack may have, and room that is never too much.
const SPARE_FACTOR: usize = 2;
const SPARE_FRAMES: usize = 32;

/// Memory that one sample leaves for the next.
#[derive(Default)]
pub(super) struct Buffers {
    /// Frames with their names.
    named: Vec<FrameId>,
    /// A stack that nobody needs any more.
    spare: Option<Arc<Vec<u64>>>,
}

impl Buffers {
    /// A stack of that many frames.
    fn filled(&mut self, frames: impl Iterator<Item = u64>, count: usize) -> Arc<Vec<u64>> {
        // Else each thread would in time have room for the deepest stack of all.
        let bounds = count..=count.saturating_mul(SPARE_FACTOR).max(SPARE_FRAMES);
        if let Some(mut stack) = self.spare.take()
            && let Some(spare) = Arc::get_mut(&mut stack)
            && bounds.contains(&spare.capacity())
        {
            spare.clear();
            spare.extend(frames);
            return stack;
        }
        let mut new = Vec::with_capacity(count);
        new.extend(frames);
        Arc::new(new)
    }

    /// Takes the memory of a place that another one has taken the place of.
    pub(super) fn give_back(&mut self, place: Option<Place>) {
        self.give_back_frames(place.map(|place| place.walked.frames));
    }

    fn give_back_frames(&mut self, frames: Option<Arc<Vec<u64>>>) {
        // What somebody else has, too, is no memory to write into.
        let unused = frames.filter(|frames| Arc::strong_count(frames) == 1);
        self.spare = unused.or_else(|| self.spare.take());
    }
}

impl Accounts {
    /// A sample's stack and its id.
    pub(super) fn placed(&mut self, sample: &Sample, class: ThreadClass) -> (Walked, StackId) {
        let version = self.symbolizer.version();
        let kind = (sample.end, class);
        if !sample.guessed
            && let Some((frames, id)) = self.recent.find(&sample.frames, kind, version)
        {
            return (Walked { frames, gap: None, end: sample.end, class }, id);
        }
        let walked = Walked { class, ..self.walked(sample) };
        let (id, is_lasting) = self.interned(&walked);
        // Naming it may have shown that other names are out of date.
        if !sample.guessed && is_lasting && version == self.symbolizer.version() {
            let before = self.recent.keep(&walked, id, version);
            self.buffers.give_back_frames(before);
        }
        (walked, id)
    }

    /// A sample's stack: walked again with what has been learned, if frames had to be guessed.
    fn walked(&mut self, sample: &Sample) -> Walked {
        let frames =
            self.buffers.filled(sample.frames.iter(), sample.frames.pushed().min(FRAMES_MAX));
        let copy = sample.guessed.then_some(&sample.copy);
        self.walked_again(frames, sample.frames.gap(), sample.end, copy)
    }

    /// A stack, walked again if there is a copy of it.
    pub(super) fn walked_again(
        &mut self,
        frames: Arc<Vec<u64>>,
        gap: Option<usize>,
        end: EndReason,
        copy: Option<&StackCopy>,
    ) -> Walked {
        let class = ThreadClass::Managed;
        let Some(copy) = copy else { return Walked { frames, gap, end, class } };
        // What lacks its middle can't be joined to another walk of it.
        let rewalked = match gap {
            None => self.symbolizer.rewalk(copy, &frames, end),
            Some(_) => {
                self.symbolizer.meet(&frames);
                None
            }
        };
        if !rewalked.as_ref().is_some_and(|rewalked| rewalked.whole) {
            self.shared.count(Loss::GuessedFrame);
        }
        if let Some(Rewalked { frames, end, .. }) = rewalked {
            return Walked { frames: Arc::new(frames.into_vec()), gap: None, end, class };
        }
        // A guess may have led astray.
        match frames.iter().position(|address| !self.symbolizer.know(*address)) {
            Some(astray) => {
                let frames = Arc::new(frames.get(..astray).unwrap_or_default().to_vec());
                let gap = gap.filter(|gap| *gap < astray);
                Walked { frames, gap, end: EndReason::NoRule, class }
            }
            None => Walked { frames, gap, end, class },
        }
    }

    /// Names a stack's frames and interns it.
    pub(super) fn intern(&mut self, walked: &Walked) -> StackId {
        self.interned(walked).0
    }

    /// The same, and whether all names last until the symbolizer has others.
    fn interned(&mut self, walked: &Walked) -> (StackId, bool) {
        let mut is_lasting = true;
        let mut frames = std::mem::take(&mut self.buffers.named);
        frames.clear();
        let mut last_anonymous = None;
        let mut last_funclet = None;
        for (index, address) in walked.frames.iter().enumerate() {
            if walked.gap == Some(index) {
                frames.push(self.aggregate.synthetic_frame(EndReason::Truncated.frame()));
                (last_anonymous, last_funclet) = (None, None);
            }
            let named = self.symbolizer.named(*address, &mut self.aggregate);
            is_lasting &= named.is_lasting;
            // The handler is the place that runs; where its method called it says no more.
            let called_it = last_funclet == Some(named.method) && !named.funclet;
            last_funclet = named.funclet.then_some(named.method);
            if called_it {
                continue;
            }
            // A row of unnamed functions of one module is shown as one.
            if !(named.anonymous && last_anonymous == Some(named.frame)) {
                frames.push(named.frame);
            }
            last_anonymous = named.anonymous.then_some(named.frame);
        }
        if walked.gap.is_none() && walked.end != EndReason::Root {
            frames.push(self.aggregate.synthetic_frame(walked.end.frame()));
        }
        frames.extend(walked.class.root().map(|name| self.aggregate.synthetic_frame(name)));
        let stack = self.aggregate.stack(frames.iter().copied());
        self.buffers.named = frames;
        (stack, is_lasting)
    }
}
