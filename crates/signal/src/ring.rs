//! The bounded hand-off from many handlers to one reader.
//!
//! ```text
//! slot i at rest in round r:   sequence = r·N + i        free for the writer of position r·N + i
//! after its writer:            sequence = position + 1   full, for the reader
//! after its reader:            sequence = position + N   free for the next round
//! ```
//!
//! A writer takes the position at `tail` by compare-exchange, and only if that slot's sequence says
//! that it is free: so it owns the slot alone, and writes into it in place (a sample is 4 KiB: no
//! copy). It gives it over by a release store of the sequence, which the reader acquires. The
//! reader is alone, hence `head` needs no exchange.
//!
//! *Full*: the slot at `tail` still holds the sequence of the last round: `Err(RingFull)`, at once.
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
    sequence: AtomicU64,
    value: UnsafeCell<T>,
}

/// The ring, over slots that live for ever.
pub struct Ring<T: 'static> {
    slots: &'static [Slot<T>],
    tail: AtomicU64,
    head: AtomicU64,
}

// SAFETY: a slot's value is touched by one side at a time, as the sequence protocol above shows.
unsafe impl<T: Send> Sync for Ring<T> {}

/// A slot that a writer owns; given over by `commit`, and also when dropped.
pub struct Claim<'a, T> {
    slot: &'a Slot<T>,
    position: u64,
}

impl<T> Slot<T> {
    /// A slot at rest; `index` is its place in the ring.
    pub fn new(index: u64, value: T) -> Self {
        Self { sequence: AtomicU64::new(index), value: UnsafeCell::new(value) }
    }

    /// Makes a slot one at rest, for slots that were not made by `new`.
    pub fn set_index(&mut self, index: u64) {
        self.sequence = AtomicU64::new(index);
    }
}

impl<T> Ring<T> {
    /// A ring over slots made by `Slot::new` with their index; their number is a power of two, and
    /// at least 2: in a ring of one, "full" and "free for the next round" would be the same number.
    #[must_use]
    pub fn new(slots: &'static [Slot<T>]) -> Self {
        Self { slots, tail: AtomicU64::new(0), head: AtomicU64::new(0) }
    }

    /// The slot of a position; `None` only for an empty ring.
    fn slot(&self, position: u64) -> Option<&Slot<T>> {
        let mask = (self.slots.len() as u64).checked_sub(1)?;
        usize::try_from(position & mask).ok().and_then(|index| self.slots.get(index))
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
            let slot = self.slot(position).ok_or(Loss::RingFull)?;
            let sequence = slot.sequence.load(Ordering::Acquire);
            if sequence == position {
                let taken = self.tail.compare_exchange_weak(
                    position,
                    position.wrapping_add(1),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                match taken {
                    Ok(_) => return Ok(Claim { slot, position }),
                    Err(now) => position = now,
                }
            } else if sequence < position {
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
        let slot = self.slot(position)?;
        if slot.sequence.load(Ordering::Acquire) != position.wrapping_add(1) {
            return None;
        }
        // SAFETY: the sequence says "full", so its writer is done and no other writer may touch it
        // until the store below; there is one reader.
        let value = unsafe { &*slot.value.get() };
        if !wanted(value) {
            return None;
        }
        let result = take(value);
        slot.sequence.store(position.wrapping_add(self.slots.len() as u64), Ordering::Release);
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
        self.slot.sequence.store(self.position.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn ring(slots: u64) -> &'static Ring<u64> {
        let slots: Vec<Slot<u64>> = (0..slots).map(|index| Slot::new(index, 0)).collect();
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
