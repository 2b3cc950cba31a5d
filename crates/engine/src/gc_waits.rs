//! Waits inside of the garbage collector, as of a thread that needs memory while another one
//! collects.
//!
//! Such a thread is not told of as held up: it waits in the collector's own code, for the
//! collector's own event. By its stack it looks like one that wants a lock. But it can be found
//! there only while all managed threads are stopped, or nearly so, and other waits have another
//! place in the runtime's code, at which threads are found at all times. Which place is which is
//! learned from that.

use model::ThreadState;
use rustc_hash::FxHashMap;

/// Places at which the runtime's code waits; it has a dozen.
const PLACES_MAX: usize = 1000;
/// Before this many threads were found at a place, nobody knows what it is.
const FOUND_MIN: u32 = 2;
/// A place is the collector's if so many times as many threads were found there in pauses as
/// outside of them. Pauses are a part of the time, mostly a small one.
const TIMES: u32 = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Found {
    in_pauses: u32,
    outside: u32,
}

impl Found {
    fn is_collectors(self) -> bool {
        self.in_pauses >= FOUND_MIN && self.in_pauses >= self.outside.saturating_mul(TIMES)
    }
}

/// What is known of places in the runtime's code at which managed threads wait.
#[derive(Debug, Default)]
pub struct GcWaits {
    /// By the address of the innermost frame in the runtime's code.
    places: FxHashMap<u64, Found>,
}

impl GcWaits {
    /// What a thread waits for that was found at that place, and seemed to wait for `state`.
    #[must_use]
    pub fn state(&mut self, place: u64, in_pause: bool, state: ThreadState) -> ThreadState {
        if self.places.len() >= PLACES_MAX && !self.places.contains_key(&place) {
            return state;
        }
        let found = self.places.entry(place).or_default();
        let count = if in_pause { &mut found.in_pauses } else { &mut found.outside };
        *count = count.saturating_add(1);
        match state {
            _ if !found.is_collectors() => state,
            _ if in_pause => ThreadState::GcPause,
            // It has not been woken yet.
            ThreadState::Lock => ThreadState::Waiting,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThreadState::{GcPause, Lock, Waiting};

    #[test]
    fn a_place_is_the_collectors_if_threads_are_there_in_pauses_only() {
        let mut waits = GcWaits::default();
        // One alone says nothing.
        assert_eq!(waits.state(1, true, Lock), Lock);
        assert_eq!(waits.state(1, true, Lock), GcPause);
        assert_eq!(waits.state(1, false, Lock), Lock);
        for _ in 0..20 {
            let _ = waits.state(1, true, Lock);
        }
        assert_eq!(waits.state(1, true, Waiting), GcPause);
        assert_eq!(waits.state(1, false, Lock), Waiting);
        // Where threads wait for locks they are found at all times.
        for _ in 0..9 {
            assert_eq!(waits.state(2, false, Lock), Lock);
        }
        for _ in 0..20 {
            assert_eq!(waits.state(2, true, Lock), Lock);
        }
    }

    #[test]
    fn there_is_a_bound() {
        let mut waits = GcWaits::default();
        for place in 0..2 * PLACES_MAX as u64 {
            let _ = waits.state(place, true, Lock);
        }
        assert_eq!(waits.places.len(), PLACES_MAX);
        assert_eq!(waits.state(5, true, Lock), GcPause);
        assert_eq!(waits.state(PLACES_MAX as u64 + 5, true, Lock), Lock);
    }
}
