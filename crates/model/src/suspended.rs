//! What is seen of a thread while it is suspended: how the system's part hands it to the handler,
//! where a thread is not interrupted by a signal.

use crate::SpanContext;

/// Whose a sample is: the handler's second argument.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Whose {
    /// The value that the sampler was told to pass on: names the thread's record.
    pub value: u64,
    /// The system's thread id.
    pub tid: u32,
    /// Which request it works for: noted by the handler while the thread stands still. `None` if
    /// it stands in a write of that.
    pub context: Option<SpanContext>,
}

/// A thread's place, its stack and its clocks, copied while it stood still: the handler's third
/// argument once the thread was let go, and null while it stands still.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Suspended {
    /// The instruction pointer.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer's register.
    pub bp: u64,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// The thread's CPU clock, in nanoseconds.
    pub cpu_clock_ns: u64,
    /// The stack's words, from the stack pointer on.
    pub words: *const u64,
    /// How many were copied.
    pub words_len: usize,
    /// The code at the instruction pointer.
    pub code: *const u8,
    /// How many bytes of it.
    pub code_len: usize,
}

/// The word at an address of a stack whose words were copied from `start` on; `None` if it was not
/// copied.
#[must_use]
pub fn word_at(words: &[u64], start: u64, address: u64) -> Option<u64> {
    let index = address.checked_sub(start)?.checked_div(8)?;
    words.get(usize::try_from(index).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::word_at;

    #[test]
    fn words_are_found_by_their_addresses() {
        let words = [1, 2, 3];
        let found = [0x0ff8, 0x1000, 0x1008, 0x1010, 0x1018, u64::MAX, 0]
            .map(|address| word_at(&words, 0x1000, address));
        assert_eq!(found, [None, Some(1), Some(2), Some(3), None, None, None]);
    }
}
