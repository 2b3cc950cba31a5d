//! Which request a thread works for, as its context block said.

/// What a block said: all 0 if the thread works for no request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SpanContext {
    /// The trace's id, most significant byte first.
    pub trace_id: [u8; 16],
    /// The span's id; 0 if there is none.
    pub span_id: u64,
    /// The span that the request began with in this process.
    pub local_root_span_id: u64,
    /// The number of a set of labels; 0 if there are none.
    pub labels: u64,
}
