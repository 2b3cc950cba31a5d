//! One sample as a handler writes it.

use crate::frames::Frames;
use crate::record::ThreadRef;
use model::EndReason;

/// What a handler saw of its own thread.
#[repr(C)]
pub struct Sample {
    /// Whose.
    pub thread: ThreadRef,
    /// The kernel's thread id.
    pub tid: u32,
    /// Timer expirations that the kernel merged into this signal (beyond the first).
    pub overruns: u32,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Processor time since the thread's last kept sample, in nanoseconds.
    pub cpu_ns: u64,
    /// Why the walk ended.
    pub end: EndReason,
    /// Frames that were walked by a guess, since no rule was known yet.
    pub guessed: u32,
    /// The stack.
    pub frames: Frames,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            thread: ThreadRef { index: 0, generation: 0 },
            tid: 0,
            overruns: 0,
            time_ns: 0,
            cpu_ns: 0,
            end: EndReason::Root,
            guessed: 0,
            frames: Frames::default(),
        }
    }
}
