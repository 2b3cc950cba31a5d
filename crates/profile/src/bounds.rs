//! How much an aggregate may hold.

use model::limits;

/// Bounds of an aggregate. What is over them is counted and goes to a synthetic frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes of the stack tree. A node is a distinct stack, since every node is a path to the root.
    pub stacks: usize,
    /// Distinct (stack, thread, state, span, labels) in one period.
    pub samples: usize,
    /// Distinct functions, and distinct modules.
    pub functions: usize,
    /// Distinct frames: places in functions.
    pub frames: usize,
    /// Bytes of all strings together.
    pub string_bytes: usize,
    /// Frames of one stack; further ones at the root end are cut.
    pub depth: usize,
    /// Threads whose names are kept.
    pub threads: usize,
    /// Distinct spans in one period. Samples of further ones have none.
    pub spans: usize,
    /// Sets of labels. Samples with further ones have none.
    pub label_sets: usize,
    /// Labels of all sets together.
    pub labels: usize,
    /// Bytes of all labels' distinct names and values together.
    pub label_bytes: usize,
    /// Moments of one period, if they are wanted. Further ones are not there, the samples are.
    pub moments: usize,
    /// Distinct endpoints in one period. Further ones become `[other endpoints]`.
    pub endpoints: usize,
}

impl Limits {
    /// For the host: a few MiB in practice; with every bound reached 80 MiB, and as much again
    /// for a finished profile until it is written.
    pub const HOST: Self = Self {
        stacks: limits::STACKS_MAX,
        samples: limits::STACKS_MAX,
        functions: limits::FUNCTIONS_MAX,
        frames: limits::STACKS_MAX,
        // Full names of .NET methods are 60 to 100 bytes; FUNCTIONS_MAX of the longest allowed
        // would be 200 MiB, which no host owes us.
        string_bytes: 32 << 20,
        // One more than the walker keeps, for its end frame.
        depth: limits::FRAMES_MAX.saturating_add(1),
        threads: limits::THREADS_MAX,
        spans: limits::SPANS_MAX,
        label_sets: limits::LABEL_SETS_MAX,
        labels: limits::LABEL_SETS_MAX.saturating_mul(limits::LABELS_MAX),
        // Names and values that repeat count once; LABEL_SETS_MAX of the longest would be 32 MiB.
        label_bytes: 8 << 20,
        moments: limits::MOMENTS_MAX,
        endpoints: limits::ENDPOINTS_MAX,
    };

    /// For readers, which merge many files in a process of their own.
    pub const READER: Self = Self {
        stacks: 8 << 20,
        samples: 8 << 20,
        functions: 2 << 20,
        frames: 4 << 20,
        string_bytes: 512 << 20,
        depth: 1 << 16,
        threads: 1 << 20,
        spans: 8 << 20,
        label_sets: 4 << 20,
        labels: 16 << 20,
        label_bytes: 256 << 20,
        moments: 64 << 20,
        endpoints: 1 << 20,
    };
}
