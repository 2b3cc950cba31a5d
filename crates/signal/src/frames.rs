//! The frames of one stack, leaf first, in fixed space: a deeper stack loses its middle.
//!
//! The first `LEAF_MAX` frames stand in order. Those after them go round in the last
//! `ROOT_FRAMES_MAX` places, so that at the end these hold the stack's root end.

use model::limits::{FRAMES_MAX, ROOT_FRAMES_MAX};

/// Frames kept in order from the leaf.
const LEAF_MAX: usize = FRAMES_MAX.saturating_sub(ROOT_FRAMES_MAX);

/// Lookup addresses: of the interrupted instruction in the leaf frame, and one byte before the
/// return address in its callers, so that each lies in the instruction that was under way.
#[repr(C)]
pub struct Frames {
    addresses: [u64; FRAMES_MAX],
    /// Frames pushed, including those that were overwritten.
    pushed: u32,
}

impl Default for Frames {
    fn default() -> Self {
        Self { addresses: [0; FRAMES_MAX], pushed: 0 }
    }
}

impl Frames {
    /// Forgets all frames.
    ///
    /// # Signal safety
    /// Writes memory only.
    pub fn clear(&mut self) {
        self.pushed = 0;
    }

    /// Adds the next frame towards the root.
    ///
    /// # Signal safety
    /// Writes memory only.
    pub fn push(&mut self, address: u64) {
        let pushed = self.pushed as usize;
        let place = match pushed.checked_sub(LEAF_MAX) {
            None => pushed,
            Some(beyond) => {
                LEAF_MAX.saturating_add(beyond.checked_rem(ROOT_FRAMES_MAX).unwrap_or(0))
            }
        };
        if let Some(slot) = self.addresses.get_mut(place) {
            *slot = address;
        }
        self.pushed = self.pushed.saturating_add(1);
    }

    /// Frames pushed, including those that were lost.
    ///
    /// # Signal safety
    /// Reads a field.
    #[must_use]
    pub fn pushed(&self) -> usize {
        self.pushed as usize
    }

    /// Whether the middle was lost.
    ///
    /// # Signal safety
    /// Reads a field.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.pushed() > FRAMES_MAX
    }

    /// The kept frames, leaf first; with `truncated` the loss lies after the first `LEAF_MAX`.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let kept = self.pushed().min(FRAMES_MAX);
        let turn = if self.truncated() {
            self.pushed().saturating_sub(LEAF_MAX).checked_rem(ROOT_FRAMES_MAX).unwrap_or(0)
        } else {
            0
        };
        let leaf = self.addresses.get(..kept.min(LEAF_MAX)).unwrap_or_default();
        let root = self.addresses.get(LEAF_MAX..kept.max(LEAF_MAX)).unwrap_or_default();
        let (newest, oldest) = root.split_at_checked(turn).unwrap_or((root, &[]));
        leaf.iter().chain(oldest).chain(newest).copied()
    }

    /// Index in `iter` before which frames were lost, if any were.
    #[must_use]
    pub fn gap(&self) -> Option<usize> {
        self.truncated().then_some(LEAF_MAX)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn keeps_leaf_and_root_in_order() {
        for depth in
            [0, 1, LEAF_MAX, LEAF_MAX + 1, FRAMES_MAX, FRAMES_MAX + 1, FRAMES_MAX + 100, 5000]
        {
            let mut frames = Frames::default();
            (0..depth as u64).for_each(|address| frames.push(address));
            let kept: Vec<u64> = frames.iter().collect();
            let mut expected: Vec<u64> = (0..depth.min(LEAF_MAX) as u64).collect();
            let root_start = depth.saturating_sub(ROOT_FRAMES_MAX).max(LEAF_MAX);
            expected.extend(root_start as u64..(depth as u64).max(root_start as u64));
            assert_eq!(kept, expected, "depth {depth}");
            assert_eq!(frames.truncated(), depth > FRAMES_MAX, "depth {depth}");
        }
    }
}
