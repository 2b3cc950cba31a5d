//! Signals' alternate stacks: there are no signals here, hence always room.

/// Whether the calling thread has room: nothing of ours runs on it.
#[must_use]
pub fn make_room() -> bool {
    true
}

/// Whether the runtime's stacks have room, as above.
#[must_use]
pub fn runtimes_is_enough() -> bool {
    true
}

/// The size of a larger stack; there are none.
pub const SPARE_BYTES: u64 = 0;

/// Mappings of such a stack.
pub const SPARE_MAPPINGS: usize = 1;

/// A larger stack; there are none.
#[must_use]
pub fn spare() -> Option<u64> {
    None
}
