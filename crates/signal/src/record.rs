//! The thread record: what a handler knows of its thread, in memory that is never freed or moved.
//!
//! Who touches what: the registry (under its lock) writes a record when a thread comes or goes;
//! the thread's own handler moves `cpu_seen_ns`; everybody else reads. A record is retired by
//! taking its thread's id off it, and its next user has another generation, so that a signal that
//! was under way finds that it no longer concerns it.
//!
//! CPU time is carried once: by the sample that moves the mark, or by whoever closes the record. A
//! handler may be past its check when another thread closes the record, so the two meet at the
//! mark: closing takes it away, and a handler that comes too late carries nothing.

use crate::context::Context;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Names a record: its index, and which of its users is meant. Fits a signal's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadRef {
    /// Index in the pool.
    pub index: u32,
    /// Which user of that record; never 0 for a live one.
    pub generation: u32,
}

impl ThreadRef {
    /// As the value of a signal.
    #[must_use]
    pub const fn to_value(self) -> u64 {
        ((self.generation as u64) << 32) | self.index as u64
    }

    /// From the value of a signal.
    ///
    /// # Signal safety
    /// Shifts only.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
    pub const fn from_value(value: u64) -> Self {
        Self { index: value as u32, generation: (value >> 32) as u32 }
    }
}

/// The mark of a record that is closed: no clock ever gets there.
const CLOSED: u64 = u64::MAX;

/// What the handler says of a thread's room.
const ROOM: u32 = 1;
const NO_ROOM: u32 = 2;

/// One thread.
#[repr(align(64))]
#[derive(Default)]
pub struct Record {
    generation: AtomicU32,
    tid: AtomicU32,
    stack_start: AtomicU64,
    stack_end: AtomicU64,
    /// The mark: the thread's CPU clock at its last kept sample, in nanoseconds; `CLOSED` if the
    /// time is no longer the handler's to carry.
    cpu_seen_ns: AtomicU64,
    /// The thread's CPU timer, plus one; 0 if it has none.
    timer: AtomicU32,
    /// State of the generator of the timer's jitter; never 0 when used.
    jitter: AtomicU64,
    /// When, on the thread's CPU clock, the timer was last meant to expire.
    timer_due_ns: AtomicU64,
    /// How large the thread's alternate stack must be; 0 if that is of no interest.
    room_bytes: AtomicU64,
    /// A stack of that size for the thread to take; 0 if there is none.
    spare_stack: AtomicU64,
    /// What the handler has seen of it.
    room: AtomicU32,
    /// Which request the thread works for.
    context: Context,
}

impl Record {
    /// Gives the record to a thread; a generation of 0 is skipped since it means "nobody".
    pub fn open(&self, tid: u32, stack_start: u64, stack_end: u64, cpu_seen_ns: u64) -> u32 {
        let next = match self.generation.load(Ordering::Relaxed).wrapping_add(1) {
            0 => 1,
            other => other,
        };
        self.tid.store(tid, Ordering::Relaxed);
        self.stack_start.store(stack_start, Ordering::Relaxed);
        self.stack_end.store(stack_end, Ordering::Relaxed);
        self.cpu_seen_ns.store(cpu_seen_ns, Ordering::Relaxed);
        self.timer.store(0, Ordering::Relaxed);
        self.want_room(0, 0);
        self.room.store(0, Ordering::Relaxed);
        self.context.reset();
        self.generation.store(next, Ordering::Release);
        next
    }

    /// Takes the record back: signals under way for its thread are stale from now on. Returns up to
    /// where on the thread's CPU clock samples carry its time; the rest is the caller's.
    pub fn close(&self) -> u64 {
        self.tid.store(0, Ordering::Release);
        self.cpu_seen_ns.swap(CLOSED, Ordering::AcqRel)
    }

    /// Has the handler look whether the thread's alternate stack has so many bytes, and take the
    /// one of that size at `spare` if not; 0 if there is none.
    pub fn want_room(&self, bytes: u64, spare: u64) {
        self.spare_stack.store(spare, Ordering::Relaxed);
        self.room_bytes.store(bytes, Ordering::Release);
    }

    /// The room that is wanted, and where there is some; `None` if none is wanted.
    ///
    /// # Signal safety
    /// Reads atomics.
    #[must_use]
    pub fn wanted_room(&self) -> Option<(u64, u64)> {
        let bytes = self.room_bytes.load(Ordering::Acquire);
        (bytes > 0).then(|| (self.spare_stack.load(Ordering::Relaxed), bytes))
    }

    /// Says whether there is room.
    ///
    /// # Signal safety
    /// Writes an atomic.
    pub fn set_room(&self, is_there: bool) {
        self.room.store(if is_there { ROOM } else { NO_ROOM }, Ordering::Release);
    }

    /// Whether there is room; `None` if no handler has looked yet.
    #[must_use]
    pub fn has_room(&self) -> Option<bool> {
        match self.room.load(Ordering::Acquire) {
            ROOM => Some(true),
            NO_ROOM => Some(false),
            _ => None,
        }
    }

    /// The number of its current user, or of the last one.
    ///
    /// # Signal safety
    /// Reads an atomic.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Which request the thread works for.
    ///
    /// # Signal safety
    /// Forms a reference.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Whether the record belongs to that thread, in that life.
    ///
    /// # Signal safety
    /// Reads atomics.
    #[must_use]
    pub fn is(&self, generation: u32, tid: u32) -> bool {
        self.generation.load(Ordering::Acquire) == generation
            && self.tid.load(Ordering::Acquire) == tid
    }

    /// The thread's id; 0 if the record is free.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.tid.load(Ordering::Acquire)
    }

    /// First and one-past-last address of the thread's stack.
    ///
    /// # Signal safety
    /// Reads atomics.
    #[must_use]
    pub fn stack(&self) -> (u64, u64) {
        (self.stack_start.load(Ordering::Relaxed), self.stack_end.load(Ordering::Relaxed))
    }

    /// The CPU time since the last kept sample, for the sample at hand to carry: the mark moves to
    /// `now_ns`. 0 if the record was closed meanwhile.
    ///
    /// # Signal safety
    /// Two atomic operations.
    #[must_use]
    pub fn take_cpu_ns(&self, now_ns: u64) -> u64 {
        let seen_ns = self.cpu_seen_ns.load(Ordering::Relaxed);
        if seen_ns >= now_ns {
            return 0;
        }
        let moved =
            self.cpu_seen_ns.compare_exchange(seen_ns, now_ns, Ordering::AcqRel, Ordering::Relaxed);
        if moved.is_ok() { now_ns.saturating_sub(seen_ns) } else { 0 }
    }

    /// The thread's CPU clock at its last kept sample, in nanoseconds.
    #[must_use]
    pub fn cpu_seen_ns(&self) -> u64 {
        self.cpu_seen_ns.load(Ordering::Relaxed)
    }

    /// Tells the handler which timer to set anew after each sample, and when it was first due.
    pub fn set_timer(&self, timer: i32, due_ns: u64) {
        self.jitter.store(due_ns | 1, Ordering::Relaxed);
        self.timer_due_ns.store(due_ns, Ordering::Relaxed);
        self.timer.store(timer.cast_unsigned().wrapping_add(1), Ordering::Release);
    }

    /// The thread's timer.
    ///
    /// # Signal safety
    /// Reads an atomic.
    #[must_use]
    pub fn timer(&self) -> Option<i32> {
        self.timer.load(Ordering::Acquire).checked_sub(1).map(u32::cast_signed)
    }

    /// When the timer is to expire next: a jittered interval after it was last due, so that samples
    /// come at the wanted rate and can't fall into step with periodic work.
    ///
    /// # Signal safety
    /// Reads and writes atomics that belong to the thread's own handler.
    #[must_use]
    pub fn next_due_ns(&self, now_ns: u64, interval_ns: u64) -> u64 {
        let mut state = self.jitter.load(Ordering::Relaxed);
        state ^= state.wrapping_shl(13);
        state ^= state.wrapping_shr(7);
        state ^= state.wrapping_shl(17);
        self.jitter.store(state, Ordering::Relaxed);
        // Evenly between half and one and a half of the interval.
        let spread = state.checked_rem(interval_ns).unwrap_or(0);
        let step_ns = interval_ns.wrapping_shr(1).saturating_add(spread);
        let due_ns = self.timer_due_ns.load(Ordering::Relaxed).saturating_add(step_ns);
        // Behind, as when the interval is shorter than the kernel's tick: no catching up.
        let due_ns = if due_ns > now_ns { due_ns } else { now_ns.saturating_add(step_ns) };
        self.timer_due_ns.store(due_ns, Ordering::Relaxed);
        due_ns
    }
}
