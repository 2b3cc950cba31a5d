//! Stacks that came a short time ago, with what they came to. Most stacks of a program come again
//! and again: one that is here needs no names, no place in the aggregate, and no memory.

use std::hash::Hasher as _;
use std::ops::Range;
use std::sync::Arc;

use model::{EndReason, ThreadClass};
use profile::StackId;
use rustc_hash::FxHasher;
use signal::frames::Frames;

use super::place::Walked;

/// Stacks that are kept.
const PLACES: usize = 2048;
/// Places among which a stack has one: those that its frames lead to.
const WAYS: usize = 4;
/// Deepest stack that is kept: with all places taken by such it is 2 MiB.
const FRAMES_MAX: usize = 128;

/// The stacks.
#[derive(Default)]
pub(super) struct Recent {
    places: Vec<Option<Known>>,
    /// Frames of all of them.
    frames: usize,
    /// Which of a full set is the next to go.
    turn: usize,
}

struct Known {
    hash: u64,
    frames: Arc<Vec<u64>>,
    end: EndReason,
    class: ThreadClass,
    id: StackId,
    /// Of which names it is, see `Symbolizer::version`.
    version: u64,
}

impl Recent {
    /// A stack that was kept, and its id, if that is still of these names.
    pub(super) fn find(
        &self,
        frames: &Frames,
        (end, class): (EndReason, ThreadClass),
        version: u64,
    ) -> Option<(Arc<Vec<u64>>, StackId)> {
        let count = frames.pushed();
        if count > FRAMES_MAX {
            return None;
        }
        let hash = hash(frames.iter());
        let is_same = |known: &&Known| {
            (known.hash, known.version, known.end, known.class) == (hash, version, end, class)
                && known.frames.len() == count
                && known.frames.iter().copied().eq(frames.iter())
        };
        let known = self.places.get(set(hash))?.iter().flatten().find(is_same)?;
        Some((Arc::clone(&known.frames), known.id))
    }

    /// Keeps a stack; gives the frames of the one whose place it takes.
    pub(super) fn keep(
        &mut self,
        walked: &Walked,
        id: StackId,
        version: u64,
    ) -> Option<Arc<Vec<u64>>> {
        let Walked { frames, gap, end, class } = walked;
        if frames.len() > FRAMES_MAX || gap.is_some() {
            return None;
        }
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || None);
        }
        let hash = hash(frames.iter().copied());
        let set = self.places.get_mut(set(hash))?;
        let is_free = |place: &Option<Known>| {
            place.as_ref().is_none_or(|known| known.hash == hash || known.version != version)
        };
        self.turn = self.turn.wrapping_add(1);
        let way = set.iter().position(is_free).unwrap_or(self.turn % WAYS);
        let frames = Arc::clone(frames);
        self.frames = self.frames.saturating_add(frames.len());
        let known = Known { hash, frames, end: *end, class: *class, id, version };
        let before = set.get_mut(way)?.replace(known).map(|known| known.frames);
        self.frames = self.frames.saturating_sub(before.as_ref().map_or(0, |frames| frames.len()));
        before
    }

    /// Bytes held, roughly.
    pub(super) fn bytes(&self) -> usize {
        let places = self.places.len().saturating_mul(size_of::<Option<Known>>());
        places.saturating_add(self.frames.saturating_mul(size_of::<u64>()))
    }
}

fn hash(frames: impl Iterator<Item = u64>) -> u64 {
    let mut hasher = FxHasher::default();
    frames.for_each(|frame| hasher.write_u64(frame));
    hasher.finish()
}

/// The places among which a stack has one.
fn set(hash: u64) -> Range<usize> {
    let first = usize::try_from(hash).unwrap_or(0) % (PLACES / WAYS) * WAYS;
    first..first.saturating_add(WAYS)
}

#[cfg(test)]
mod tests {
    use profile::Aggregate;

    use super::*;

    fn stack(addresses: &[u64]) -> (Frames, Walked) {
        let mut frames = Frames::default();
        addresses.iter().for_each(|address| frames.push(*address));
        let (end, class) = (EndReason::Root, ThreadClass::Managed);
        let frames_kept = Arc::new(addresses.to_vec());
        (frames, Walked { frames: frames_kept, gap: None, end, class })
    }

    #[test]
    fn only_the_very_stack_is_found_and_of_the_names_of_now() {
        let mut aggregate = Aggregate::default();
        let mut id = |name: &str| {
            let frame = aggregate.synthetic_frame(name);
            aggregate.stack([frame])
        };
        let kind = (EndReason::Root, ThreadClass::Managed);
        let mut recent = Recent::default();
        let (frames, walked) = stack(&[1, 2, 3]);
        assert!(recent.find(&frames, kind, 0).is_none());
        let first = id("first");
        assert!(recent.keep(&walked, first, 0).is_none());
        let found = recent.find(&frames, kind, 0);
        assert_eq!(found.map(|(_, id)| id), Some(first));
        for (addresses, kind, version) in [
            (&[1, 2, 3][..], kind, 1),
            (&[1, 2, 3], (EndReason::NoRule, ThreadClass::Managed), 0),
            (&[1, 2, 3], (EndReason::Root, ThreadClass::ServerGc), 0),
            (&[1, 2], kind, 0),
            (&[1, 2, 4], kind, 0),
            (&[], kind, 0),
        ] {
            let found = recent.find(&stack(addresses).0, kind, version);
            assert!(found.is_none(), "{addresses:?} {kind:?} {version}");
        }
        // A newer one takes its place, and gives back its memory.
        let newer = id("newer");
        let before = recent.keep(&walked, newer, 1).expect("the first one's");
        assert_eq!(*before, [1, 2, 3]);
        assert_eq!(recent.find(&frames, kind, 1).map(|(_, id)| id), Some(newer));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let id = Aggregate::default().stack([]);
        let mut recent = Recent::default();
        let deep: Vec<u64> = (0..=FRAMES_MAX as u64).collect();
        let (frames, walked) = stack(&deep);
        assert!(recent.keep(&walked, id, 0).is_none());
        assert!(recent.find(&frames, (walked.end, walked.class), 0).is_none());
        for number in 0..3 * PLACES as u64 {
            let addresses: Vec<u64> = (0..100).map(|depth| number * 1000 + depth).collect();
            let _before = recent.keep(&stack(&addresses).1, id, 0);
        }
        assert!(recent.frames <= 100 * PLACES && recent.frames > 90 * PLACES);
        assert!(recent.bytes() < 4 << 20, "{}", recent.bytes());
    }
}
