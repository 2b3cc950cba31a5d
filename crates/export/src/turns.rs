//! Whose turn it is in a lane: the oldest's, but one that is not taken while others are must not
//! hold them up for ever, nor be tried for ever.
//!
//! A profile that was tried in vain is passed over until nothing else waits, or for as many as are
//! remembered. If a target takes others between its failures, again and again, it is the profile's
//! fault and no outage: then it is given up. In an outage nothing is taken, so nothing is given up.

/// Profiles that are passed over at a time; in an outage it is the first ones' turn again then.
const PASSED_MAX: usize = 64;
/// Failures of one profile, with others taken in between, before it is given up.
const TRIES_MAX: u32 = 20;

/// A profile that failed, by when it began.
#[derive(Debug)]
struct Failed {
    time_ns: u64,
    tries: u32,
    /// Whether another was taken since it was tried last.
    is_other_taken: bool,
}

/// Which profiles are passed over.
#[derive(Debug, Default)]
pub struct Turns {
    passed: Vec<u64>,
    failed: Vec<Failed>,
}

impl Turns {
    /// Whether it is the turn of others.
    #[must_use]
    pub fn is_passed(&self, time_ns: u64) -> bool {
        self.passed.contains(&time_ns)
    }

    /// Nothing waits but what is passed over: it is its turn again. Returns whether there is any.
    pub fn again(&mut self) -> bool {
        let any = !self.passed.is_empty();
        self.passed.clear();
        any
    }

    /// A profile was tried in vain; returns whether it is to be given up.
    pub fn failed(&mut self, time_ns: u64) -> bool {
        if self.passed.len() >= PASSED_MAX {
            self.passed.clear();
        }
        self.passed.push(time_ns);
        let known = self.failed.iter_mut().find(|failed| failed.time_ns == time_ns);
        match known {
            Some(failed) if failed.is_other_taken => {
                failed.tries = failed.tries.saturating_add(1);
                failed.is_other_taken = false;
                failed.tries >= TRIES_MAX
            }
            Some(_) => false,
            None => {
                if self.failed.len() >= PASSED_MAX {
                    self.failed.remove(0);
                }
                self.failed.push(Failed { time_ns, tries: 0, is_other_taken: false });
                false
            }
        }
    }

    /// A profile is gone: it was taken, or given up.
    pub fn gone(&mut self, time_ns: u64, is_taken: bool) {
        self.passed.retain(|passed| *passed != time_ns);
        self.failed.retain(|failed| failed.time_ns != time_ns);
        for failed in &mut self.failed {
            failed.is_other_taken |= is_taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_an_outage_nothing_is_given_up() {
        let mut turns = Turns::default();
        for n in 0..10_000 {
            assert!(!turns.failed(n % 5), "{n}");
        }
        assert!(turns.passed.len() <= PASSED_MAX && turns.failed.len() <= PASSED_MAX);
    }

    #[test]
    fn what_fails_among_others_is_given_up_and_not_soon() {
        let mut turns = Turns::default();
        for n in 0..TRIES_MAX {
            assert!(!turns.failed(7), "{n}");
            assert!(turns.is_passed(7));
            turns.gone(100 + u64::from(n), true);
            assert!(turns.again());
        }
        assert!(turns.failed(7));
        turns.gone(7, false);
        assert!(!turns.is_passed(7) && !turns.again());
    }

    /// A target that chokes on all profiles of a kind, which are older than the others.
    #[test]
    fn many_that_fail_hold_up_no_other() {
        let mut turns = Turns::default();
        let many = PASSED_MAX as u64;
        for round in 0..u64::from(TRIES_MAX) {
            for n in 0..many {
                assert!(!turns.failed(n), "{round} {n}");
            }
            assert!((0..many).all(|n| turns.is_passed(n)));
            turns.gone(1000 + round, true);
            assert!(turns.again());
        }
        assert!((0..many).all(|n| turns.failed(n)), "all are given up at last");
    }

    #[test]
    fn one_that_is_refused_is_no_sign_that_others_are_taken() {
        let mut turns = Turns::default();
        for n in 0..100 {
            assert!(!turns.failed(7), "{n}");
            turns.gone(100 + n, false);
        }
    }
}
