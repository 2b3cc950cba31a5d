//! Which request a thread works for: the block that a tracer writes and samples are labelled with.
//!
//! The layout is that of `corprof_context` in `crates/agent/include/corprof.h`; a tracer, in any
//! language, writes to it without a call. Its rules:
//!
//! - Only the thread itself writes. It makes the sequence odd, writes, and makes it even again,
//!   each store released after the ones before.
//! - A reader takes what it read only if the sequence was even before and is the same after. On the
//!   thread itself (in the handler) an odd sequence means that the signal came within a write: the
//!   sample then has no span, and that is counted. From another thread the second look finds
//!   changes, too.
//!
//! From the trace id on it is a record of OpenTelemetry's thread context.

use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

pub use model::SpanContext;

/// The version of the layout.
pub const CONTEXT_VERSION: u32 = 1;
/// The size of the layout in bytes.
const CONTEXT_BYTES: u32 = 64;

/// A thread's context block.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Context {
    version: AtomicU32,
    size: AtomicU32,
    sequence: AtomicU32,
    reserved: AtomicU32,
    local_root_span_id: AtomicU64,
    labels: AtomicU64,
    /// Most significant byte first, as two words of memory.
    trace_id: [AtomicU64; 2],
    /// Most significant byte first.
    span_id: AtomicU64,
    valid: AtomicU8,
    rest: [AtomicU8; 7],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Context>() == CONTEXT_BYTES as usize, "as the header says");
    assert!(core::mem::offset_of!(Context, local_root_span_id) == 16, "as the header says");
    assert!(core::mem::offset_of!(Context, trace_id) == 32, "as the header says");
    assert!(core::mem::offset_of!(Context, valid) == 56, "as the header says");
};

impl Context {
    /// Makes the block a fresh thread's.
    pub fn reset(&self) {
        // Odd while it changes, like any write; the thread itself writes nothing yet, or no more.
        let sequence = self.sequence.load(Ordering::Relaxed) | 1;
        self.sequence.store(sequence, Ordering::Release);
        self.version.store(CONTEXT_VERSION, Ordering::Release);
        self.size.store(CONTEXT_BYTES, Ordering::Release);
        self.valid.store(0, Ordering::Release);
        self.local_root_span_id.store(0, Ordering::Release);
        self.labels.store(0, Ordering::Release);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Release);
    }

    /// What it says; `None` if it is being written, or was meanwhile.
    ///
    /// # Signal safety
    /// Reads atomics.
    #[must_use]
    pub fn read(&self) -> Option<SpanContext> {
        let before = self.sequence.load(Ordering::Acquire);
        if before & 1 != 0 {
            return None;
        }
        let mut context =
            SpanContext { labels: self.labels.load(Ordering::Relaxed), ..SpanContext::default() };
        if self.valid.load(Ordering::Relaxed) != 0 {
            let [high, low] = &self.trace_id;
            let words = [high, low].map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
            let bytes = context.trace_id.iter_mut().zip(words.as_flattened());
            bytes.for_each(|(to, from)| *to = *from);
            context.span_id = u64::from_be(self.span_id.load(Ordering::Relaxed));
            context.local_root_span_id = self.local_root_span_id.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        (self.sequence.load(Ordering::Relaxed) == before).then_some(context)
    }

    /// Where the record of OpenTelemetry's thread context begins.
    #[must_use]
    pub fn record(&self) -> *const AtomicU64 {
        self.trace_id.as_ptr()
    }

    /// Whether the thread seems to work for a request: a glance, to choose whom to look at.
    #[must_use]
    pub fn has_span(&self) -> bool {
        self.valid.load(Ordering::Relaxed) != 0
    }

    /// Another number after each write.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.sequence.load(Ordering::Acquire)
    }
}
