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
/// How many times as often as chance has it threads must have been found at a place in pauses, and
/// not outside of them, if it is the collector's. It is not never outside: those that wait there
/// begin to before a pause, and on a busy machine wake some time after it.
const TIMES: u64 = 5;

/// What is known of pauses where a thread was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InPause {
    /// Whether it was in one.
    pub now: bool,
    /// The part of the time so far that pauses took, in percent.
    pub percent: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Found {
    in_pauses: u32,
    outside: u32,
}

impl Found {
    /// Whether the two numbers are not those of a place where threads are found at all times. As if
    /// one had been found there half outside: so that one or two are not enough where pauses are a
    /// large part of the time.
    fn is_collectors(self, percent: u8) -> bool {
        let paused = u64::from(percent).clamp(1, 99);
        let running = 100_u64.saturating_sub(paused);
        let [in_pauses, outside] = [self.in_pauses, self.outside].map(|n| 2 * u64::from(n));
        in_pauses > outside && in_pauses * running >= TIMES * paused * (outside + 1)
    }
}

/// What is known of places in the runtime's code at which managed threads wait.
#[derive(Debug, Default)]
pub struct GcWaits {
    /// By the address of the innermost frame in the runtime's code.
    places: FxHashMap<u64, Found>,
}

impl GcWaits {
    /// A thread that was found at that place in a pause has stood there for long after it.
    pub fn outlasted(&mut self, place: u64) {
        if let Some(found) = self.places.get_mut(&place) {
            found.in_pauses = found.in_pauses.saturating_sub(1);
            found.outside = found.outside.saturating_add(1);
        }
    }

    /// What a thread waits for that was found at that place, and seemed to wait for `state`.
    #[must_use]
    pub fn state(&mut self, place: u64, pause: InPause, state: ThreadState) -> ThreadState {
        if self.places.len() >= PLACES_MAX && !self.places.contains_key(&place) {
            return state;
        }
        let found = self.places.entry(place).or_default();
        let count = if pause.now { &mut found.in_pauses } else { &mut found.outside };
        *count = count.saturating_add(1);
        match state {
            ThreadState::Lock | ThreadState::Waiting if found.is_collectors(pause.percent) => {
                // Outside, it has not been woken yet, or is the one that asks for a collection.
                if pause.now { ThreadState::GcPause } else { ThreadState::Waiting }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThreadState::{GcPause, Lock, Sleeping, Waiting};

    const IN: InPause = InPause { now: true, percent: 10 };
    const OUTSIDE: InPause = InPause { now: false, percent: 10 };

    #[test]
    fn a_place_is_the_collectors_if_threads_are_there_mostly_in_pauses() {
        let mut waits = GcWaits::default();
        assert_eq!(waits.state(1, IN, Lock), GcPause);
        assert_eq!(waits.state(1, OUTSIDE, Lock), Lock);
        assert_eq!(waits.state(1, IN, Waiting), GcPause);
        assert_eq!(waits.state(1, IN, Lock), GcPause);
        assert_eq!(waits.state(1, OUTSIDE, Lock), Waiting);
        // Where threads wait for locks they are found at all times, and sleep, too.
        for n in 0..100 {
            let sleeps = waits.state(2, OUTSIDE, Sleeping);
            assert_eq!((sleeps, waits.state(2, OUTSIDE, Lock)), (Sleeping, Lock));
            if n % 5 == 4 {
                assert_eq!(waits.state(2, IN, Lock), Lock);
            }
        }
    }

    #[test]
    fn where_pauses_take_half_of_the_time_it_takes_more_to_know() {
        let mut waits = GcWaits::default();
        let [inside, outside] = [true, false].map(|now| InPause { now, percent: 50 });
        assert_eq!(waits.state(1, inside, Lock), Lock);
        assert_eq!(waits.state(1, inside, Lock), Lock);
        assert_eq!(waits.state(1, inside, Lock), GcPause);
        assert_eq!(waits.state(1, outside, Lock), Lock);
        for _ in 0..20 {
            let _ = waits.state(1, inside, Lock);
        }
        assert_eq!(waits.state(1, inside, Lock), GcPause);
        for _ in 0..20 {
            let _ = waits.state(2, outside, Lock);
            assert_eq!(waits.state(2, inside, Lock), Lock);
        }
    }

    #[test]
    fn a_wait_that_outlasts_a_pause_was_none_of_the_collectors() {
        let mut waits = GcWaits::default();
        assert_eq!(waits.state(1, IN, Waiting), GcPause);
        waits.outlasted(1);
        assert_eq!(waits.state(1, IN, Lock), Lock);
    }

    #[test]
    fn there_is_a_bound() {
        let mut waits = GcWaits::default();
        for place in 0..2 * PLACES_MAX as u64 {
            let _ = waits.state(place, IN, Lock);
        }
        assert_eq!(waits.places.len(), PLACES_MAX);
        assert_eq!(waits.state(5, IN, Lock), GcPause);
        assert_eq!(waits.state(PLACES_MAX as u64 + 5, IN, Lock), Lock);
    }
}
