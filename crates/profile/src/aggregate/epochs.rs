//! When the tables begin anew: their ids of before are worth nothing then.

use super::{Aggregate, Ids};
use crate::interned::Interned;
use crate::profile::Profile;
use crate::strings::Strings;

impl Aggregate {
    /// Whether the period that gave this profile is the last of its tables.
    pub(super) fn is_to_be_reset(&self, profile: &Profile) -> bool {
        self.is_half_full() || self.is_mostly_stale(profile)
    }

    fn is_half_full(&self) -> bool {
        self.stacks.is_half_full()
            || self.frames.is_half_full()
            || self.functions.is_half_full()
            || self.modules.is_half_full()
            || self.strings.bytes() > self.limits.string_bytes / 2
    }

    /// Whether the tables are large, and the period had use for a small part of them: in a program
    /// that compiles ever new methods, or does something else by now.
    fn is_mostly_stale(&self, profile: &Profile) -> bool {
        const BYTES_MIN: usize = 4 << 20;
        const USES: usize = 4;
        let is_stale = |all: usize, used: usize| all > used.saturating_mul(USES);
        self.bytes() > BYTES_MIN
            && (is_stale(self.stacks.len(), profile.stacks.len())
                || is_stale(self.strings.bytes(), profile.strings.bytes()))
    }

    pub(super) fn reset(&mut self) -> Ids {
        // New tables, not cleared ones: what a burst took goes back to the host.
        self.strings = Strings::new(self.limits.string_bytes);
        self.modules = Interned::new(self.limits.functions);
        self.functions = Interned::new(self.limits.functions);
        self.frames = Interned::new(self.limits.frames);
        self.stacks = Interned::new(self.limits.stacks);
        self.keys = Interned::new(self.limits.samples);
        self.epoch = self.epoch.wrapping_add(1);
        self.preset();
        Ids::Reset
    }
}
