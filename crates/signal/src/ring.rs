//! The bounded hand-off from many handlers to one reader.
//!
//! ```text
//! slot i at rest in round r:   turn = r·N         free for the writer of position r·N + i
//! after its writer:            turn = r·N + 1     full, for the reader
//! after its reader:            turn = (r+1)·N     free for the next round
//! ```
//!
//! All turns begin with 0, and lie beside each other rather than in the slots, so that a slot is
//! touched by what is written to it and by nothing else.
//!
//! *Rewinding*: a reader that has read all takes the positions up to the end of the round as if it
//! were a writer, by one exchange, and sets their turns as if it had read them. Else samples would
//! touch all slots in turn, though a dozen of them wait at a time. A writer that was about to take
//! one of these positions sees that `tail` has changed; one that comes around to them while their
//! turns are being set finds the ring full.
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
use model::limits::RING_SLOTS;

/// Attempts at a position before a writer gives up. Each failed one means that another writer
/// succeeded, so this many handlers would have to win in the time of one.
const ATTEMPTS_MAX: u32 = 64;
/// Turns of a ring. Loom makes each of them anew for each order that it tries.
const TURNS: usize = if cfg!(loom) { 4 } else { RING_SLOTS };
/// A reader that has read all goes back to the first slot from this share of the slots on.
const REWIND_SHARE: u64 = 16;

/// One place in the ring.
pub struct Slot<T> {
    value: UnsafeCell<T>,
}

/// The ring, over slots that live for ever.
pub struct Ring<T: 'static> {
    slots: &'static [Slot<T>],
    turns: [AtomicU64; TURNS],
    tail: AtomicU64,
    head: AtomicU64,
    /// Slots that have been read so far; the reader's.
    touched: AtomicU64,
}

// SAFETY: a slot's value is touched by one side at a time, as the protocol of turns above shows.
unsafe impl<T: Send> Sync for Ring<T> {}

/// A slot that a writer owns; given over by `commit`, and also when dropped.
pub struct Claim<'a, T> {
    place: Place<'a, T>,
}

/// The place of a position.
struct Place<'a, T> {
    slot: &'a Slot<T>,
    turn: &'a AtomicU64,
    /// Its turn when it is free for the position.
    free: u64,
}

impl<T> Slot<T> {
    /// A slot for values, of which this is overwritten.
    pub const fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value) }
    }
}

impl<T> Ring<T> {
    /// A ring over slots; their number is a power of two, and at least 2: in a ring of one, "full"
    /// and "free for the next round" would be the same number. Of more than `RING_SLOTS` it has
    /// that many.
    #[must_use]
    pub fn new(slots: &'static [Slot<T>]) -> Self {
        Self {
            slots: slots.get(..TURNS).unwrap_or(slots),
            turns: core::array::from_fn(|_| AtomicU64::new(0)),
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            touched: AtomicU64::new(0),
        }
    }

    /// The slot of a position; `None` only for an empty ring.
    fn place(&self, position: u64) -> Option<Place<'_, T>> {
        let mask = (self.slots.len() as u64).checked_sub(1)?;
        let index = usize::try_from(position & mask).ok()?;
        let (slot, turn) = (self.slots.get(index)?, self.turns.get(index)?);
        Some(Place { slot, turn, free: position & !mask })
    }

    /// Takes a slot to write in.
    ///
    /// # Errors
    /// `RingFull` if the reader is a whole ring behind.
    ///
    /// # Signal safety
    /// Atomics only; a bounded number of attempts.
    pub fn claim(&self) -> Result<Claim<'_, T>, Loss> {
        // Acquired, so that a slot which was free when the reader went back to it is seen to be.
        let mut position = self.tail.load(Ordering::Acquire);
        for _ in 0..ATTEMPTS_MAX {
            let place = self.place(position).ok_or(Loss::RingFull)?;
            let turn = place.turn.load(Ordering::Acquire);
            if turn == place.free {
                let taken = self.tail.compare_exchange_weak(
                    position,
                    position.wrapping_add(1),
                    Ordering::Relaxed,
                    Ordering::Acquire,
                );
                match taken {
                    Ok(_) => return Ok(Claim { place }),
                    Err(now) => position = now,
                }
            } else if turn < place.free {
                return Err(Loss::RingFull);
            } else {
                position = self.tail.load(Ordering::Acquire);
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
        let Place { slot, turn, free } = self.place(position)?;
        if turn.load(Ordering::Acquire) != free.wrapping_add(1) {
            return None;
        }
        // SAFETY: the turn says "full", so its writer is done and no other writer may touch it
        // until the store below; there is one reader.
        let value = unsafe { &*slot.value.get() };
        if !wanted(value) {
            return None;
        }
        let result = take(value);
        turn.store(free.wrapping_add(self.slots.len() as u64), Ordering::Release);
        let past = position.wrapping_add(1);
        self.head.store(past, Ordering::Relaxed);
        let touched = self.touched.load(Ordering::Relaxed).max(past.wrapping_sub(free));
        self.touched.store(touched, Ordering::Relaxed);
        Some(result)
    }

    /// If all has been read, has writers begin at the first slot again, unless they are still near
    /// it. For one reader only, hence not for handlers.
    ///
    /// # Signal safety
    /// Atomics only; a bounded number of them.
    pub fn rewind(&self) {
        let size = self.slots.len() as u64;
        let position = self.head.load(Ordering::Relaxed);
        let Some(Place { free, .. }) = self.place(position) else { return };
        let index = position.wrapping_sub(free);
        if index <= size / REWIND_SHARE {
            return;
        }
        let next = free.wrapping_add(size);
        let (released, seen) = (Ordering::Release, Ordering::Relaxed);
        if self.tail.compare_exchange(position, next, released, seen).is_err() {
            return;
        }
        // These positions are the reader's now, as if it had written and read them.
        (position..next).filter_map(|skipped| self.place(skipped)).for_each(|place| {
            place.turn.store(next, Ordering::Release);
        });
        self.head.store(next, Ordering::Relaxed);
    }

    /// Bytes of the slots that have been read so far: the others were hardly touched.
    #[must_use]
    pub fn bytes_touched(&self) -> usize {
        let slots = usize::try_from(self.touched.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        slots.saturating_mul(size_of::<Slot<T>>())
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
        unsafe { &mut *self.place.slot.value.get() }
    }
}

impl<T> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        self.place.turn.store(self.place.free.wrapping_add(1), Ordering::Release);
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
    fn a_reader_that_has_read_all_goes_back() {
        let ring = ring(64);
        for value in 0..1000_u64 {
            *ring.claim().map_err(drop).expect("free").value() = value;
            assert_eq!(ring.read(|v| *v), Some(value));
            ring.rewind();
            assert_eq!(ring.fill(), 0);
        }
        // Of 64 slots, those up to a sixteenth and one.
        assert_eq!(ring.bytes_touched(), 5 * size_of::<Slot<u64>>());
        // It holds as many as before, keeps those that wait, and says when it is full.
        for round in 0..3 {
            for value in 0..64 {
                *ring.claim().map_err(drop).expect("free").value() = value;
            }
            assert_eq!(ring.claim().err(), Some(Loss::RingFull), "round {round}");
            for value in 0..64 {
                ring.rewind();
                assert_eq!(ring.read(|v| *v), Some(value));
            }
            ring.rewind();
        }
        assert_eq!(ring.bytes_touched(), 64 * size_of::<Slot<u64>>());
    }

    #[test]
    fn a_slot_that_is_being_written_is_not_passed_over() {
        let ring = ring(4);
        assert_eq!(ring.read(|v| *v), None);
        for value in 0..2 {
            *ring.claim().map_err(drop).expect("free").value() = value;
            assert_eq!(ring.read(|v| *v), Some(value));
        }
        let mut slow = ring.claim().map_err(drop).expect("free");
        ring.rewind();
        *slow.value() = 7;
        drop(slow);
        assert_eq!(ring.read(|v| *v), Some(7));
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
            match ring.read(|v| *v) {
                Some(value) => check(value),
                None => ring.rewind(),
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
