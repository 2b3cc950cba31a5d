//! The gate that handlers pass: counts those inside, and can be shut.
//!
//! Two promises rest on it. **Stopping**: after `shut`, wait until `inside` is 0, and no handler
//! runs or will run any code past the gate. **Freeing**: memory that was unpublished before
//! `inside` was seen as 0 is referred to by no handler, since each one enters before it loads the
//! pointer. Both need one order of all these operations, hence `SeqCst` throughout.
//! `tests/loom.rs` tries all orders.

use crate::sync::{AtomicU32, Ordering};

const SHUT: u32 = 1 << 31;

/// Counts handlers inside; the top bit says that it is shut.
pub struct Gate(AtomicU32);

/// Being inside; leaves when dropped.
pub struct Inside<'a>(&'a Gate);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A gate that is shut.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU32::new(SHUT))
    }

    /// Enters, unless the gate is shut.
    ///
    /// # Signal safety
    /// One atomic operation, two if shut.
    pub fn enter(&self) -> Option<Inside<'_>> {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(self);
        (before & SHUT == 0).then_some(inside)
    }

    /// Lets handlers in.
    pub fn open(&self) {
        self.0.fetch_and(!SHUT, Ordering::SeqCst);
    }

    /// Lets no further handler in; those inside go on.
    pub fn shut(&self) {
        self.0.fetch_or(SHUT, Ordering::SeqCst);
    }

    /// How many are inside now.
    #[must_use]
    pub fn inside(&self) -> u32 {
        self.0.load(Ordering::SeqCst) & !SHUT
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}
