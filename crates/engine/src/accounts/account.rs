//! What is known of one thread.

use model::{ThreadClass, ThreadState};
use profile::{ThreadKey, Values};
use signal::context::SpanContext;

use super::place::Place;
use crate::event::Within;

/// Different values that may wait for a thread's next sample.
const EARLY_MAX: usize = 16;

/// What is known of a thread.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) key: ThreadKey,
    pub(super) class: ThreadClass,
    /// Where it last computed.
    pub(super) ran: Option<Place>,
    /// Where it was last blocked.
    pub(super) blocked: Option<Place>,
    /// Values that wait for its next sample: delays, and what came before its first one.
    pub(super) early: Vec<Early>,
    /// Nanoseconds that it was late to come out of a wait that is not known yet.
    pub(super) late_ns: u64,
    /// Whether the registry has told of it. An account that a sample made, and that nobody tells
    /// of, is that of a thread which had just ended: nobody will tell of its end either.
    pub(super) started: bool,
}

/// Values that wait for a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    pub(super) state: ThreadState,
    /// The request that they belong to; `None` for the sample's.
    pub(super) context: Option<SpanContext>,
    pub(super) values: Values,
    /// When they came about.
    pub(super) within: Within,
}

impl Account {
    /// Keeps values for the next sample.
    pub(super) fn put_off(&mut self, new: Early) {
        let is_full = self.early.len() >= EARLY_MAX;
        let is_same = |early: &Early| early.state == new.state && early.context == new.context;
        // A thread that is delayed in one request after another, and sampled in none, is charged
        // with the rest in the last.
        let position = self.early.iter().position(is_same);
        let position = position.or_else(|| is_full.then_some(EARLY_MAX - 1));
        match position.and_then(|position| self.early.get_mut(position)) {
            Some(early) => {
                early.values.add(new.values);
                early.within = early.within.and(new.within);
            }
            None => self.early.push(new),
        }
    }
}
