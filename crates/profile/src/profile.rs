//! A finished profile: plain tables that refer to each other by position.

use model::{FrameKind, ThreadState};

use crate::index::{
    FrameIndex, FunctionIndex, LabelsIndex, ModuleIndex, SpanIndex, StackIndex, StringIndex,
};
use crate::report::SelfReport;
use crate::span::SpanIds;
use crate::strings::Strings;
use crate::timeline::Moment;

/// When a profile was taken, and how often samples were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Start, in nanoseconds since 1970 (UTC).
    pub start_unix_ns: u64,
    /// Length in nanoseconds.
    pub duration_ns: u64,
    /// Nanoseconds of CPU time between two CPU samples of a thread.
    pub cpu_interval_ns: u64,
}

/// What samples add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// CPU samples taken.
    pub count: u64,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Wall time in nanoseconds.
    pub wall_ns: u64,
    /// Time for which the runtime had stopped all managed threads, in nanoseconds; once for all of
    /// them.
    pub gc_ns: u64,
}

impl Values {
    /// Adds another's values to these; a sum that doesn't fit stays at the largest number.
    pub fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.wall_ns = self.wall_ns.saturating_add(other.wall_ns);
        self.gc_ns = self.gc_ns.saturating_add(other.gc_ns);
    }
}

/// A module: an assembly, a native library, the executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// Path or name of its file.
    pub file: StringIndex,
    /// What tells this build from others: an ELF build id, an assembly's MVID; may be empty.
    pub build_id: StringIndex,
    /// First address, 0 where code of the module lies anywhere. Of native modules an address in
    /// the file, as those of frames are: they are the same in each process.
    pub start: u64,
    /// First address after the module, 0 where `start` is.
    pub limit: u64,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The name for a person.
    pub name: StringIndex,
    /// The name as the system has it; empty if it is the same.
    pub raw_name: StringIndex,
    /// Its source file; empty if unknown.
    pub file: StringIndex,
    /// What its frames are; `None` in files that others wrote.
    pub kind: Option<FrameKind>,
}

/// A frame: a place in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The function.
    pub function: FunctionIndex,
    /// The module the code belongs to.
    pub module: Option<ModuleIndex>,
    /// Address of the instruction in the module's file, or in the call before it; 0 if unknown. Of
    /// managed code the method's token (high 32 bits) and the offset in its IL.
    pub address: u64,
    /// Source line, 0 if unknown.
    pub line: u32,
}

/// A node of the stack tree: a frame and its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackNode {
    /// The caller; `None` for a root. A parent comes before its children in the table.
    pub parent: Option<StackIndex>,
    /// The frame.
    pub frame: FrameIndex,
}

/// The thread of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The operating system's thread id.
    pub tid: u32,
    /// The thread's name, may be empty.
    pub name: StringIndex,
}

/// A span that samples belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Its ids; all 0 where they are left out.
    pub ids: SpanIds,
    /// The endpoint of its request; empty if unknown.
    pub endpoint: StringIndex,
}

/// A label that the program gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// Its name.
    pub name: StringIndex,
    /// Its value, may be empty.
    pub value: StringIndex,
}

/// The requests of an endpoint that ended in the period, sampled or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The endpoint, such as `GET /orders/{id}`.
    pub name: StringIndex,
    /// Requests that ended.
    pub requests: u64,
    /// Their nanoseconds from begin to end, all together.
    pub duration_ns: u64,
}

/// What was added up for one stack of one thread in one state, for one span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The leaf node of its stack.
    pub stack: StackIndex,
    /// The thread, if known.
    pub thread: Option<Thread>,
    /// What the thread was doing; only wall samples know.
    pub state: Option<ThreadState>,
    /// The span it worked for, if any.
    pub span: Option<SpanIndex>,
    /// The program's labels, if any.
    pub labels: Option<LabelsIndex>,
    /// The sums.
    pub values: Values,
}

/// A finished profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// When, how long, how often.
    pub period: Period,
    /// All strings.
    pub strings: Strings,
    /// All modules.
    pub modules: Vec<Module>,
    /// All functions.
    pub functions: Vec<Function>,
    /// All frames.
    pub frames: Vec<Location>,
    /// The stack tree.
    pub stacks: Vec<StackNode>,
    /// All samples.
    pub samples: Vec<Sample>,
    /// All spans.
    pub spans: Vec<Span>,
    /// All sets of labels, each sorted by name and none empty.
    pub labels: Vec<Vec<Label>>,
    /// The endpoints of which requests ended.
    pub endpoints: Vec<Endpoint>,
    /// When samples came about, by their beginnings; empty if that was not wanted. Only files have
    /// it.
    pub moments: Vec<Moment>,
    /// The profiler's own numbers; `None` in files that others wrote and in merged profiles.
    pub report: Option<SelfReport>,
}

impl Profile {
    /// The frames of a stack, leaf first.
    pub fn stack(&self, leaf: StackIndex) -> impl Iterator<Item = FrameIndex> + '_ {
        let mut next = self.stacks.get(leaf.get()).map(|node| (leaf, node));
        std::iter::from_fn(move || {
            let (position, node) = next?;
            // A parent lies before its child, or the walk could go round for ever.
            let parent = node.parent.filter(|parent| *parent < position);
            next = parent.and_then(|p| self.stacks.get(p.get()).map(|node| (p, node)));
            Some(node.frame)
        })
    }

    /// The string at a position.
    #[must_use]
    pub fn text(&self, position: StringIndex) -> &str {
        self.strings.get(position)
    }

    /// The function of a frame.
    #[must_use]
    pub fn function_of(&self, frame: FrameIndex) -> Option<&Function> {
        self.functions.get(self.frames.get(frame.get())?.function.get())
    }

    /// The module of a frame.
    #[must_use]
    pub fn module_of(&self, frame: FrameIndex) -> Option<&Module> {
        self.modules.get(self.frames.get(frame.get())?.module?.get())
    }

    /// The span of a sample.
    #[must_use]
    pub fn span_of(&self, sample: &Sample) -> Option<&Span> {
        self.spans.get(sample.span?.get())
    }

    /// The program's labels of a sample, as names and values.
    pub fn labels_of(&self, sample: &Sample) -> impl Iterator<Item = (&str, &str)> + '_ {
        let labels = sample.labels.and_then(|labels| self.labels.get(labels.get()));
        let labels = labels.map(Vec::as_slice).unwrap_or_default();
        labels.iter().map(|label| (self.text(label.name), self.text(label.value)))
    }

    /// All samples together.
    #[must_use]
    pub fn total(&self) -> Values {
        let mut total = Values::default();
        for sample in &self.samples {
            total.add(sample.values);
        }
        total
    }
}
