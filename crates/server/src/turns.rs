//! Work that takes memory: so many at a time, and the others wait.

use std::sync::{Condvar, Mutex, PoisonError};

/// Gives turns.
#[derive(Debug)]
pub struct Turns {
    left: Mutex<usize>,
    freed: Condvar,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// So many at a time.
    #[must_use]
    pub const fn new(count: usize) -> Self {
        Self { left: Mutex::new(count), freed: Condvar::new() }
    }

    /// Waits for a turn.
    #[must_use]
    pub fn take(&self) -> Turn<'_> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.freed.wait_while(left, |left| *left == 0);
        *left.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn no_more_than_so_many_are_at_work() {
        let (turns, at_work, most) = (Turns::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _turn = turns.take();
                        most.fetch_max(
                            at_work.fetch_add(1, Ordering::SeqCst) + 1,
                            Ordering::SeqCst,
                        );
                        thread::yield_now();
                        at_work.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!((at_work.into_inner(), most.into_inner()), (0, 2));
    }
}
