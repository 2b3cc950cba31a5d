//! The bounded hand-off from many handlers to one reader.
//!
//! ```text
//! slot i at rest in round r:   turn = r·N         free for the writer of position r·N + i
//! after its writer:            turn = r·N + 1     full, for the reader
//! after its reader:            turn = (r+1)·N     free for the next round
//! ```
//!
//! All turns begin with 0, so that memory of zeroes is a ring, none of which has to be touched.
//!
//! A writer takes the position at `tail` by compare-exchange, and only if that slot's turn says
//! that it is free: so it owns the slot alone, and writes into it in place (a sample is 4 KiB: no
//! copy). It gives it over by a release store of the turn, which the reader acquires. The
//! reader is alone, hence `head` needs no exchange.
//!
//! *Full*: the slot at `tail` still has its turn of the last round: `Err(RingFull)`, at once.
//! *Slow writer*: the reader stops at a slot that was taken and not yet given over; the others fill
//! on behind it. *ABA*: positions are 64 bits and never come again. *Signals*: a handler is not
//! interrupted by another of ours on the same thread, and if it were, the inner one would take
//! another position; nobody waits for anybody.

use crate::sync::{AtomicU64, Ordering};
use core::cell::UnsafeCell;

use model::Loss;

/// Attempts at a position before a writer gives up. Each failed one means that another writer
/// succeeded, so this many handlers would have to win in the time of one.
const ATTEMPTS_MAX: u32 = 64;

/// One place in the ring.
pub struct Slot<T> {
    turn: AtomicU64,
    value: UnsafeCell<T>,
}

/// The ring, over slots that live for ever.
pub struct Ring<T: 'static> {
    slots: &'static [Slot<T>],
    tail: AtomicU64,
    head: AtomicU64,
}

// SAFETY: a slot's value is touched by one side at a time, as the protocol of turns above shows.
unsafe impl<T: Send> Sync for Ring<T> {}

/// A slot that a writer owns; given over by `commit`, and also when dropped.
pub struct Claim<'a, T> {
    slot: &'a Slot<T>,
    turn: u64,
}

impl<T> Slot<T> {
    /// A slot at rest.
    pub fn new(value: T) -> Self {
        Self { turn: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }
}

impl<T> Ring<T> {
    /// A ring over slots at rest; their number is a power of two, and at least 2: in a ring of one,
    /// "full" and "free for the next round" would be the same number.
    #[must_use]
    pub fn new(slots: &'static [Slot<T>]) -> Self {
        Self { slots, tail: AtomicU64::new(0), head: AtomicU64::new(0) }
    }

    /// The slot of a position, and its turn when it is free for it; `None` only for an empty ring.
    fn slot(&self, position: u64) -> Option<(&Slot<T>, u64)> {
        let mask = (self.slots.len() as u64).checked_sub(1)?;
        let slot = self.slots.get(usize::try_from(position & mask).ok()?)?;
        Some((slot, position & !mask))
    }

    /// Takes a slot to write in.
    ///
    /// # Errors
    /// `RingFull` if the reader is a whole ring behind.
    ///
    /// # Signal safety
    /// Atomics only; a bounded number of attempts.
    pub fn claim(&self) -> Result<Claim<'_, T>, Loss> {
        let mut position = self.tail.load(Ordering::Relaxed);
        for _ in 0..ATTEMPTS_MAX {
            let (slot, free) = self.slot(position).ok_or(Loss::RingFull)?;
            let turn = slot.turn.load(Ordering::Acquire);
            if turn == free {
                let taken = self.tail.compare_exchange_weak(
                    position,
                    position.wrapping_add(1),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                match taken {
                    Ok(_) => return Ok(Claim { slot, turn }),
                    Err(now) => position = now,
                }
            } else if turn < free {
                return Err(Loss::RingFull);
            } else {
                position = self.tail.load(Ordering::Relaxed);
            }
        }
        Err(Loss::RingFull)
    }

    /// Reads the oldest full slot, if there is one. For one reader only.
    pub fn read<R>(&self, take: impl FnOnce(&T) -> R) -> Option<R> {
        self.read_if(|_| true, take)
    }

    /// Reads the oldest full slot, if there is one and it is wanted. For one reader only.
    pub fn read_if<R>(
        &self,
        wanted: impl FnOnce(&T) -> bool,
        take: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        let position = self.head.load(Ordering::Relaxed);
        let (slot, free) = self.slot(position)?;
        if slot.turn.load(Ordering::Acquire) != free.wrapping_add(1) {
            return None;
        }
        // SAFETY: the turn says "full", so its writer is done and no other writer may touch it
        // until the store below; there is one reader.
        let value = unsafe { &*slot.value.get() };
        if !wanted(value) {
            return None;
        }
        let result = take(value);
        slot.turn.store(free.wrapping_add(self.slots.len() as u64), Ordering::Release);
        self.head.store(position.wrapping_add(1), Ordering::Relaxed);
        Some(result)
    }

    /// Bytes of the slots that have been used so far: the others were never touched.
    #[must_use]
    pub fn bytes_touched(&self) -> usize {
        let taken = usize::try_from(self.tail.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        taken.min(self.slots.len()).saturating_mul(size_of::<Slot<T>>())
    }

    /// How many positions have been taken and not read: an instant's view.
    #[must_use]
    pub fn fill(&self) -> u64 {
        self.tail.load(Ordering::Relaxed).wrapping_sub(self.head.load(Ordering::Relaxed))
    }
}

impl<T> Claim<'_, T> {
    /// What the slot holds, to be overwritten.
    ///
    /// # Signal safety
    /// Forms a reference.
    pub fn value(&mut self) -> &mut T {
        // SAFETY: the compare-exchange gave this position, and with it the slot, to this claim
        // alone.
        unsafe { &mut *self.slot.value.get() }
    }
}

impl<T> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        self.slot.turn.store(self.turn.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn ring(slots: u64) -> &'static Ring<u64> {
        let slots: Vec<Slot<u64>> = (0..slots).map(|_| Slot::new(0)).collect();
        Box::leak(Box::new(Ring::new(slots.leak())))
    }

    #[test]
    fn gives_back_in_order_and_says_when_full() {
        let ring = ring(4);
        for round in 0..10_u64 {
            for value in 0..4 {
                *ring.claim().map_err(drop).expect("free").value() = round * 4 + value;
            }
            assert_eq!(ring.claim().err(), Some(Loss::RingFull));
            assert_eq!(ring.fill(), 4);
            for value in 0..4 {
                assert_eq!(ring.read(|v| *v), Some(round * 4 + value));
            }
            assert_eq!(ring.read(|v| *v), None);
        }
    }

    #[test]
    fn reader_waits_for_a_slow_writer() {
        let ring = ring(4);
        let mut slow = ring.claim().map_err(drop).expect("free");
        *ring.claim().map_err(drop).expect("free").value() = 2;
        assert_eq!(ring.read(|v| *v), None);
        *slow.value() = 1;
        drop(slow);
        assert_eq!(ring.read(|v| *v), Some(1));
        assert_eq!(ring.read(|v| *v), Some(2));
    }

    #[test]
    fn many_writers_lose_nothing_uncounted() {
        let ring = ring(64);
        let each = 20_000_u64;
        let writers: Vec<_> = (0..4_u64)
            .map(|id| {
                std::thread::spawn(move || {
                    let mut lost = 0;
                    for n in 0..each {
                        match ring.claim() {
                            Ok(mut claim) => *claim.value() = id << 32 | n,
                            Err(_) => lost += 1,
                        }
                    }
                    lost
                })
            })
            .collect();
        let mut last = [None; 4];
        let mut kept = 0_u64;
        let mut check = |value: u64| {
            let (id, n) = ((value >> 32) as usize, value & 0xffff_ffff);
            assert!(last[id] < Some(n), "writer {id} out of order");
            last[id] = Some(n);
            kept += 1;
        };
        while !writers.iter().all(std::thread::JoinHandle::is_finished) {
            if let Some(value) = ring.read(|v| *v) {
                check(value);
            }
        }
        while let Some(value) = ring.read(|v| *v) {
            check(value);
        }
        let lost: u64 = writers.into_iter().map(|w| w.join().expect("joined")).sum();
        assert_eq!(kept + lost, 4 * each);
        assert!(kept > 0);
    }
}
