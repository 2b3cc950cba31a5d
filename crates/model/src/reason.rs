//! Why a sample was lost, and why a walk ended.

/// Why a sample was not kept, or not kept whole. Each has its own counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Loss {
    /// The ring was full: the engine did not drain it in time. The CPU time goes to the thread's
    /// next sample.
    RingFull,
    /// A signal arrived for a record whose thread has gone.
    StaleThread,
    /// A signal of our number came from somebody else.
    ForeignSignal,
    /// The thread moved while its stack was read without a signal.
    Moved,
    /// The state of a blocked thread could not be read (`/proc` refused, or the thread ended).
    StateUnreadable,
    /// More threads than records.
    TooManyThreads,
    /// A CPU timer could not be had; the scan sampler took the thread over.
    NoTimer,
    /// A frame was walked by a guess because its method was not known yet.
    GuessedFrame,
    /// An aggregate was full; the value went to a synthetic frame.
    AggregateFull,
    /// A system call was seen to end early with our signal pending.
    InterruptedCall,
    /// A panic inside the profiler was caught at its border.
    CaughtPanic,
    /// A profile could not be written.
    WriteFailed,
    /// Other code took the sampling signal: counted each time it is looked at, some ten times a
    /// second, until it is given back.
    SignalTaken,
    /// Too many events waited for the collector; what the event carried is lost.
    EventsFull,
    /// Too many spans or sets of labels in a period; the sample has its stack and its values, and
    /// not its span.
    SpansFull,
    /// A sample came while its thread's context was being written: it has no span and no labels.
    ContextBusy,
    /// Too many requests were under way; what is told of another is lost.
    RequestsFull,
    /// Too many moments in a period: a sample has its values, and nobody knows when it came about.
    MomentsFull,
}

impl Loss {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 18] = [
        Self::RingFull,
        Self::StaleThread,
        Self::ForeignSignal,
        Self::Moved,
        Self::StateUnreadable,
        Self::TooManyThreads,
        Self::NoTimer,
        Self::GuessedFrame,
        Self::AggregateFull,
        Self::InterruptedCall,
        Self::CaughtPanic,
        Self::WriteFailed,
        Self::SignalTaken,
        Self::EventsFull,
        Self::SpansFull,
        Self::ContextBusy,
        Self::RequestsFull,
        Self::MomentsFull,
    ];

    /// The counter's name in a profile and in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RingFull => "ring_full",
            Self::StaleThread => "stale_thread",
            Self::ForeignSignal => "foreign_signal",
            Self::Moved => "moved",
            Self::StateUnreadable => "state_unreadable",
            Self::TooManyThreads => "too_many_threads",
            Self::NoTimer => "no_timer",
            Self::GuessedFrame => "guessed_frame",
            Self::AggregateFull => "aggregate_full",
            Self::InterruptedCall => "interrupted_call",
            Self::CaughtPanic => "caught_panic",
            Self::WriteFailed => "write_failed",
            Self::SignalTaken => "signal_taken",
            Self::EventsFull => "events_full",
            Self::SpansFull => "spans_full",
            Self::ContextBusy => "context_busy",
            Self::RequestsFull => "requests_full",
            Self::MomentsFull => "moments_full",
        }
    }
}

/// Why a walk ended. All but `Root` become a synthetic frame at the root end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EndReason {
    /// The thread's first frame: the walk is whole.
    Root,
    /// Deeper than `limits::FRAMES_MAX`; the leaf and the root ends were kept.
    Truncated,
    /// The stack pointer left the thread's stack.
    OutsideStack,
    /// A frame did not lie above the one it was called from.
    NoProgress,
    /// No rule is known for the address.
    NoRule,
    /// The unwind data says something the walker does not speak.
    Unsupported,
    /// The frame pointer was needed and not known.
    NoFramePointer,
    /// The stack could not be read.
    Unreadable,
}

impl EndReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Root,
        Self::Truncated,
        Self::OutsideStack,
        Self::NoProgress,
        Self::NoRule,
        Self::Unsupported,
        Self::NoFramePointer,
        Self::Unreadable,
    ];

    /// The synthetic frame's name in a profile.
    #[must_use]
    pub const fn frame(self) -> &'static str {
        match self {
            Self::Root => "[root]",
            Self::Truncated => "[truncated]",
            Self::OutsideStack => "[outside the stack]",
            Self::NoProgress => "[stack does not grow]",
            Self::NoRule => "[no unwind rule]",
            Self::Unsupported => "[unwind rule not supported]",
            Self::NoFramePointer => "[frame pointer unknown]",
            Self::Unreadable => "[stack unreadable]",
        }
    }
}
