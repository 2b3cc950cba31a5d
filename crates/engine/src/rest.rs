//! The ticker's rest: it looks rarely while no thread has a span, and whoever begins one wakes it.

use std::sync::atomic::{AtomicU8, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use crate::ticker::TickerState;

const AWAKE: u8 = 0;
const RESTS: u8 = 1;
const ROUSED: u8 = 2;

/// Whether the ticker rests. Outlives tickers, as those do that wake them.
#[derive(Debug, Default)]
pub struct Rest {
    state: AtomicU8,
    ticker: Mutex<Option<Arc<TickerState>>>,
}

impl Rest {
    /// That is the ticker from now on.
    pub fn begin(&self, ticker: &Arc<TickerState>) {
        *self.ticker.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(ticker));
    }

    /// Said by the ticker before each look at what has begun: whether it may sleep for long after
    /// it. Returns whether it was roused since the last time.
    pub fn set(&self, rests: bool) -> bool {
        let state = if rests { RESTS } else { AWAKE };
        let before = self.state.swap(state, Ordering::SeqCst);
        // Between what is said here and the look. Who begins something has it the other way around:
        // either the look sees that, or the question below sees this.
        fence(Ordering::SeqCst);
        before == ROUSED
    }

    /// Something has begun: the ticker looks at once, if it rests. Costs a load if it doesn't.
    pub fn rouse(&self) {
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) != RESTS {
            return;
        }
        let change = (Ordering::SeqCst, Ordering::Relaxed);
        if self.state.compare_exchange(RESTS, ROUSED, change.0, change.1).is_ok() {
            let ticker = self.ticker.lock().unwrap_or_else(PoisonError::into_inner);
            ticker.iter().for_each(|ticker| ticker.wake());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Of the calling thread.
    fn rest() -> Rest {
        let (rest, ticker) = (Rest::default(), Arc::<TickerState>::default());
        ticker.begin();
        rest.begin(&ticker);
        rest
    }

    #[test]
    fn who_rests_is_roused_once() {
        let rest = rest();
        rest.rouse();
        assert!(!rest.set(false), "it was awake");
        assert!(!rest.set(true));
        rest.rouse();
        rest.rouse();
        assert!(rest.set(true));
        assert!(!rest.set(true), "nothing has begun since");
    }

    #[test]
    fn a_sleep_ends_with_a_beginning() {
        let rest = Arc::new(rest());
        for _ in 0..100 {
            rest.set(true);
            let begins = Arc::clone(&rest);
            let other = std::thread::spawn(move || begins.rouse());
            // Not by its time: the test would take hours. A sleep may also end for no reason.
            while !rest.set(true) {
                std::thread::park_timeout(Duration::from_secs(600));
            }
            other.join().expect("no panic");
        }
    }
}
