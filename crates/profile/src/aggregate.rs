//! Where samples add up: by stack, thread, state, span and labels, with a bound on everything.
//!
//! Ids stay valid over [`Aggregate::take`] until it says [`Ids::Reset`], which it does when more
//! than half of a bound is used, or little of much. An id from before is noticed (ids carry the
//! epoch they belong to) and becomes a synthetic frame, never another function's time.

use hashbrown::HashMap;
use model::{FrameKind, Loss, ThreadState, limits};
use rustc_hash::FxBuildHasher;

use crate::bounds::Limits;
use crate::compact::Compactor;
use crate::endpoints::Endpoints;
use crate::index::{FrameIndex, FunctionIndex, ModuleIndex, StackIndex, StringIndex};
use crate::interned::Interned;
use crate::labels::{LabelSets, UsedSet};
use crate::profile::{Function, Location, Module, Period, Profile, StackNode, Values};
use crate::span::{SpanIds, SpanKey, SpanNumber, Spans};
use crate::strings::Strings;
use crate::timeline::{Moment, Moments, Told};

mod epochs;

/// The frame for values whose stack had no place.
const STACKS_OVER_LIMIT: &str = "[stacks over the limit]";
/// The frame that stands for frames which had no place.
const FRAMES_OVER_LIMIT: &str = "[functions over the limit]";
/// The frame that stands for an id from before a reset: a mistake of the caller, made visible.
const FORGOTTEN: &str = "[forgotten frame]";
/// The frame of a stack that has none.
const NO_FRAMES: &str = "[no frames]";
/// The endpoint that stands for those which had no place.
const OTHER_ENDPOINTS: &str = "[other endpoints]";

/// A module of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleId {
    epoch: u32,
    index: ModuleIndex,
}

/// A frame of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameId {
    epoch: u32,
    index: FrameIndex,
}

/// A stack of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackId {
    epoch: u32,
    index: StackIndex,
}

/// A thread: the operating system's number, and which of the threads that had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey {
    /// The operating system's thread id.
    pub tid: u32,
    /// Counts up when the number is used again.
    pub generation: u32,
}

impl ThreadKey {
    /// No thread is known.
    pub const NONE: Self = Self { tid: 0, generation: 0 };
}

/// A module to be interned.
#[derive(Clone, Copy, Debug)]
pub struct ModuleInfo<'a> {
    /// Path or name of its file.
    pub file: &'a str,
    /// ELF build id or MVID; may be empty.
    pub build_id: &'a str,
    /// First address, 0 where code of the module lies anywhere (jitted code).
    pub start: u64,
    /// First address after the module, 0 where `start` is.
    pub limit: u64,
}

/// A frame to be interned.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The name for a person; longer than `limits::FUNCTION_NAME_BYTES_MAX` it is cut.
    pub name: &'a str,
    /// The name as the system has it; empty if it is the same.
    pub raw_name: &'a str,
    /// The module the code belongs to.
    pub module: Option<ModuleId>,
    /// Address of the instruction, 0 if it has none.
    pub address: u64,
    /// What the frame is.
    pub kind: FrameKind,
    /// Source file, if known.
    pub file: Option<&'a str>,
    /// Source line, if known.
    pub line: Option<u32>,
}

/// What samples are added up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SampleKey {
    /// The stack.
    pub stack: StackId,
    /// The thread.
    pub thread: ThreadKey,
    /// What it was doing; `None` for CPU samples.
    pub state: Option<ThreadState>,
    /// The span it worked for, if any.
    pub span: Option<SpanIds>,
    /// The caller's number of its set of labels, 0 for none: see [`Aggregate::labels`].
    pub labels: u64,
}

/// Whether a sample kept its stack and its span. Its values are in the totals either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a loss has to be counted"]
pub enum Added {
    /// As given.
    Kept,
    /// The values went to a synthetic frame, or lost their span, for this reason.
    Lost(Loss),
}

/// Whether ids from before a [`Aggregate::take`] are still good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "ids from before a reset are worth nothing"]
pub enum Ids {
    /// All ids stay valid.
    Kept,
    /// The tables were emptied to stay in their bounds: intern again.
    Reset,
}

/// What [`Aggregate::take`] gives.
#[derive(Debug)]
pub struct Taken {
    /// The finished profile, without the profiler's own numbers: set `profile.report`.
    pub profile: Profile,
    /// Whether ids from before are still good.
    pub ids: Ids,
    /// Frames of this period that became `[functions over the limit]`.
    pub frames_over_limit: u64,
}

/// A sample's identity inside: positions of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) stack: StackIndex,
    pub(crate) thread: ThreadKey,
    pub(crate) state: Option<ThreadState>,
    pub(crate) span: Option<SpanNumber>,
    pub(crate) labels: Option<UsedSet>,
}

impl Key {
    /// Of a stack, and nothing else known.
    pub(crate) fn of_stack(stack: StackIndex) -> Self {
        Self { stack, thread: ThreadKey::NONE, state: None, span: None, labels: None }
    }
}

#[derive(Debug)]
struct ThreadName {
    name: Box<str>,
    ended: bool,
}

/// Positions of the synthetic entries that every epoch begins with.
#[derive(Clone, Copy, Debug)]
struct Preset {
    over_limit_name: StringIndex,
    over_limit_frame: FrameIndex,
    forgotten: FrameIndex,
    no_frames: FrameIndex,
    over_limit_stack: StackIndex,
    other_endpoints: StringIndex,
}

/// Samples of the current period, and the tables they refer to.
#[derive(Debug)]
pub struct Aggregate {
    limits: Limits,
    epoch: u32,
    preset: Preset,
    pub(crate) strings: Strings,
    pub(crate) modules: Interned<Module>,
    pub(crate) functions: Interned<Function>,
    pub(crate) frames: Interned<Location>,
    pub(crate) stacks: Interned<StackNode>,
    pub(crate) keys: Interned<Key>,
    /// The sums, in the order of `keys`.
    pub(crate) values: Vec<Values>,
    /// Values that had no place in `keys` even without their stack.
    pub(crate) homeless: Values,
    pub(crate) spans: Spans,
    pub(crate) label_sets: LabelSets,
    pub(crate) endpoints: Endpoints,
    /// When samples came about, if that is wanted.
    pub(crate) moments: Option<Moments>,
    names: HashMap<ThreadKey, ThreadName, FxBuildHasher>,
    frames_over_limit: u64,
    /// Frames of the stack at hand, root first; kept for its memory.
    path: Vec<FrameIndex>,
}

impl Default for Aggregate {
    fn default() -> Self {
        Self::new(Limits::HOST)
    }
}

impl Aggregate {
    /// An empty aggregate.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let mut aggregate = Self {
            limits,
            epoch: 0,
            preset: Preset {
                over_limit_name: StringIndex::EMPTY,
                over_limit_frame: FrameIndex::new(0),
                forgotten: FrameIndex::new(0),
                no_frames: FrameIndex::new(0),
                over_limit_stack: StackIndex::new(0),
                other_endpoints: StringIndex::EMPTY,
            },
            strings: Strings::new(limits.string_bytes),
            modules: Interned::new(limits.functions),
            functions: Interned::new(limits.functions),
            frames: Interned::new(limits.frames),
            stacks: Interned::new(limits.stacks),
            keys: Interned::new(limits.samples),
            values: Vec::new(),
            homeless: Values::default(),
            spans: Spans::new(limits.spans),
            label_sets: LabelSets::new(&limits),
            endpoints: Endpoints::new(limits.endpoints, StringIndex::EMPTY),
            moments: None,
            names: HashMap::with_hasher(FxBuildHasher),
            frames_over_limit: 0,
            path: Vec::new(),
        };
        aggregate.preset();
        aggregate
    }

    /// The same, but ids of spans stay out of its profiles, for privacy; their endpoints and labels
    /// stay in. Samples that differ in ids only are then one.
    #[must_use]
    pub fn without_span_ids(mut self) -> Self {
        self.spans.with_ids = false;
        self
    }

    /// The same, and its profiles say when samples came about, as far as [`Aggregate::add_at`] or
    /// [`Aggregate::add_within`] was told.
    #[must_use]
    pub fn with_moments(mut self) -> Self {
        self.moments = Some(Moments::new(self.limits.moments));
        self
    }

    /// Interns what must have a place however full the tables get later.
    fn preset(&mut self) {
        let name = self.strings.intern(FRAMES_OVER_LIMIT).unwrap_or(StringIndex::EMPTY);
        self.preset.over_limit_name = name;
        // The first frame is the one that others fall back to, even these if the bounds are tiny.
        self.preset.over_limit_frame = self.synthetic(FRAMES_OVER_LIMIT);
        self.preset.forgotten = self.synthetic(FORGOTTEN);
        self.preset.no_frames = self.synthetic(NO_FRAMES);
        let frame = self.synthetic(STACKS_OVER_LIMIT);
        let node = self.stacks.intern(StackNode { parent: None, frame });
        self.preset.over_limit_stack = StackIndex::new(node.unwrap_or(0));
        self.frames_over_limit = 0;
        let other = self.strings.intern(OTHER_ENDPOINTS).unwrap_or(StringIndex::EMPTY);
        self.preset.other_endpoints = other;
        self.endpoints.clear(other);
    }

    fn synthetic(&mut self, name: &str) -> FrameIndex {
        self.frame_index(&Frame {
            name,
            raw_name: "",
            module: None,
            address: 0,
            kind: FrameKind::Synthetic,
            file: None,
            line: None,
        })
    }

    /// Interns a module; `None` if there is no room, and then its frames have no module.
    pub fn module(&mut self, module: &ModuleInfo<'_>) -> Option<ModuleId> {
        let module = Module {
            file: self.strings.intern(cut(module.file))?,
            build_id: self.strings.intern(cut(module.build_id))?,
            start: module.start,
            limit: module.limit,
        };
        let index = ModuleIndex::new(self.modules.intern(module)?);
        Some(ModuleId { epoch: self.epoch, index })
    }

    /// Interns a frame; one that has no place becomes `[functions over the limit]`, counted.
    pub fn frame(&mut self, frame: &Frame<'_>) -> FrameId {
        FrameId { epoch: self.epoch, index: self.frame_index(frame) }
    }

    /// Interns a frame that is not code: `[unsampled]`, a root such as `Garbage Collector`.
    pub fn synthetic_frame(&mut self, name: &str) -> FrameId {
        FrameId { epoch: self.epoch, index: self.synthetic(name) }
    }

    fn frame_index(&mut self, frame: &Frame<'_>) -> FrameIndex {
        let function = Function {
            name: self.name(frame.name),
            raw_name: self.name(if frame.raw_name == frame.name { "" } else { frame.raw_name }),
            file: self.name(frame.file.unwrap_or_default()),
            kind: Some(frame.kind),
        };
        let location = (frame.address, frame.line.unwrap_or_default());
        let module = frame.module.filter(|module| module.epoch == self.epoch);
        self.location(function, module.map(|module| module.index), location)
    }

    /// Interns a frame of a function whose strings are interned already.
    pub(crate) fn location(
        &mut self,
        function: Function,
        module: Option<ModuleIndex>,
        (address, line): (u64, u32),
    ) -> FrameIndex {
        let index = self.functions.intern(function).and_then(|function| {
            let function = FunctionIndex::new(function);
            self.frames.intern(Location { function, module, address, line })
        });
        match index {
            Some(index) => FrameIndex::new(index),
            None => {
                self.frames_over_limit = self.frames_over_limit.saturating_add(1);
                self.preset.over_limit_frame
            }
        }
    }

    fn name(&mut self, text: &str) -> StringIndex {
        self.strings.intern(cut(text)).unwrap_or(self.preset.over_limit_name)
    }

    /// Interns a stack given leaf first, as walks go. Over the bound it is the stack
    /// `[stacks over the limit]`, and [`Aggregate::add`] says so.
    pub fn stack(&mut self, leaf_first: impl IntoIterator<Item = FrameId>) -> StackId {
        let (epoch, forgotten) = (self.epoch, self.preset.forgotten);
        let current = |id: FrameId| if id.epoch == epoch { id.index } else { forgotten };
        let index = self.stack_index(leaf_first.into_iter().map(current));
        StackId { epoch, index }
    }

    pub(crate) fn stack_index(
        &mut self,
        leaf_first: impl Iterator<Item = FrameIndex>,
    ) -> StackIndex {
        self.path.clear();
        self.path.extend(leaf_first.take(self.limits.depth));
        if self.path.is_empty() {
            self.path.push(self.preset.no_frames);
        }
        let mut parent = None;
        for frame in self.path.iter().rev() {
            match self.stacks.intern(StackNode { parent, frame: *frame }) {
                Some(node) => parent = Some(StackIndex::new(node)),
                None => return self.preset.over_limit_stack,
            }
        }
        parent.unwrap_or(self.preset.over_limit_stack)
    }

    /// Adds a sample's values to the period.
    pub fn add(&mut self, key: &SampleKey, values: Values) -> Added {
        self.add_placed(key, values).0
    }

    /// Adds a sample's values that came about then: from `begin_us` on, in microseconds since the
    /// period began, as is exactly known.
    pub fn add_at(&mut self, key: &SampleKey, values: Values, begin_us: u32) -> Added {
        let (added, position) = self.add_placed(key, values);
        let duration_us = values.wall_ns.max(values.cpu_ns) / 1_000;
        let (Some(sample), Ok(duration_us)) = (position, u32::try_from(duration_us)) else {
            return added;
        };
        let moment = Moment { begin_us, duration_us, sample };
        let has_room = duration_us == 0 || self.moment(moment);
        if has_room { added } else { Added::Lost(Loss::MomentsFull) }
    }

    /// Adds a sample's values that came about between those times, in microseconds since the period
    /// began. If they are longer than that, they began before. In the finished profile each
    /// thread's moments lie one after the other.
    pub fn add_within(
        &mut self,
        key: &SampleKey,
        values: Values,
        since_us: u32,
        until_us: u32,
    ) -> Added {
        let (added, position) = self.add_placed(key, values);
        let duration_us = values.wall_ns.max(values.cpu_ns) / 1_000;
        let (Some(sample), Ok(duration_us)) = (position, u32::try_from(duration_us)) else {
            return added;
        };
        let told = Told::new((since_us, until_us), duration_us, sample);
        let moments = self.moments.as_mut().filter(|_| duration_us > 0);
        let has_room = moments.is_none_or(|moments| moments.tell(told));
        if has_room { added } else { Added::Lost(Loss::MomentsFull) }
    }

    /// Notes a moment of a key's position; whether there was room, if moments are wanted.
    pub(crate) fn moment(&mut self, moment: Moment) -> bool {
        self.moments.as_mut().is_none_or(|moments| moments.note(moment))
    }

    /// Adds values, and says at which position of `keys` they are.
    fn add_placed(&mut self, key: &SampleKey, values: Values) -> (Added, Option<u32>) {
        // A stack from before a reset has no frames any more; its time must stay in the total.
        let stack = if key.stack.epoch == self.epoch {
            key.stack.index
        } else {
            self.stack_index(std::iter::once(self.preset.forgotten))
        };
        let mut is_whole = true;
        let span = key.span.and_then(|ids| {
            let span = self.spans.intern(SpanKey { ids, endpoint: StringIndex::EMPTY });
            is_whole &= span.is_some();
            span
        });
        let labels = (key.labels != 0).then_some(key.labels).and_then(|number| {
            let labels = self.label_sets.intern(number);
            is_whole &= labels.is_some();
            labels
        });
        let key = Key { stack, thread: key.thread, state: key.state, span, labels };
        match self.add_key(key, values) {
            (Added::Kept, position) if !is_whole => (Added::Lost(Loss::SpansFull), position),
            added => added,
        }
    }

    /// Adds values to a key, and says at which position they are; at none if they are homeless.
    pub(crate) fn add_key(&mut self, key: Key, values: Values) -> (Added, Option<u32>) {
        let over_limit = self.preset.over_limit_stack;
        if let Some(position) = self.put(key, values) {
            let kept = key.stack != over_limit;
            let added = if kept { Added::Kept } else { Added::Lost(Loss::AggregateFull) };
            return (added, Some(position));
        }
        // What finds no place with its span may find one without: that of samples outside of spans.
        let outside = Key { span: None, labels: None, ..key };
        let position = self
            .put(outside, values)
            .or_else(|| self.put(Key { stack: over_limit, ..outside }, values));
        if position.is_none() {
            self.homeless.add(values);
        }
        (Added::Lost(Loss::AggregateFull), position)
    }

    /// The place that the key had.
    fn put(&mut self, key: Key, values: Values) -> Option<u32> {
        let position = self.keys.intern(key)?;
        match self.values.get_mut(position as usize) {
            Some(sum) => sum.add(values),
            None => self.values.push(values),
        }
        Some(position)
    }

    /// Sets a thread's name: it counts for the whole period, also for samples before.
    pub fn thread_name(&mut self, thread: ThreadKey, name: &str) {
        let name = cut_to(name, limits::THREAD_NAME_BYTES_MAX);
        if self.names.len() >= self.limits.threads && !self.names.contains_key(&thread) {
            return;
        }
        self.names.insert(thread, ThreadName { name: name.into(), ended: false });
    }

    /// Says that a thread has ended: its name goes with the period.
    pub fn thread_ended(&mut self, thread: ThreadKey) {
        if let Some(name) = self.names.get_mut(&thread) {
            name.ended = true;
        }
    }

    /// Says what a set of labels holds, as names and values. It is kept over periods, and a set
    /// that is known stays as it is; samples may come before. Over the bounds a set is left out,
    /// and its samples have no labels: then this is false.
    pub fn labels(&mut self, number: u64, pairs: &[(&str, &str)]) -> bool {
        number == 0 || self.label_sets.learn(number, pairs)
    }

    /// Whether samples of this period have a span with this local root.
    #[must_use]
    pub fn has_root(&self, local_root_span_id: u64) -> bool {
        self.spans.has_root(local_root_span_id)
    }

    /// Sets the endpoint of all samples of the period whose span has this local root, also of those
    /// that are still to come. The last one counts. Without such a sample it does nothing: ask
    /// [`Aggregate::has_root`].
    pub fn endpoint(&mut self, local_root_span_id: u64, name: &str) {
        if self.has_root(local_root_span_id) {
            let name = self.endpoint_name(name);
            self.spans.set_endpoint(local_root_span_id, name);
        }
    }

    /// Counts a request that ended in this period.
    pub fn request(&mut self, endpoint: &str, duration_ns: u64) {
        let name = self.endpoint_name(endpoint);
        self.endpoints.add(name, 1, duration_ns);
    }

    fn endpoint_name(&mut self, name: &str) -> StringIndex {
        match self.strings.intern(cut_to(name, limits::ENDPOINT_BYTES_MAX)) {
            Some(StringIndex::EMPTY) => StringIndex::EMPTY,
            Some(name) => self.endpoints.name(name),
            None => self.preset.other_endpoints,
        }
    }

    /// Frames that had no place in this period.
    #[cfg(feature = "read")]
    pub(crate) fn frames_over_limit(&self) -> u64 {
        self.frames_over_limit
    }

    pub(crate) fn name_of(&self, thread: ThreadKey) -> &str {
        self.names.get(&thread).map_or("", |thread| &thread.name)
    }

    /// The stack of values without a place.
    pub(crate) fn over_limit_stack(&self) -> StackIndex {
        self.preset.over_limit_stack
    }

    /// Bytes in use by the tables, roughly: for the profiler's own memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        [
            self.strings.bytes(),
            self.strings.len().saturating_mul(11),
            self.modules.bytes(),
            self.functions.bytes(),
            self.frames.bytes(),
            self.stacks.bytes(),
            self.keys.bytes(),
            self.spans.bytes(),
            self.label_sets.bytes(),
            self.endpoints.bytes(),
            self.moments.as_ref().map_or(0, Moments::bytes),
            self.values.len().saturating_mul(size_of::<Values>()),
        ]
        .iter()
        .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Ends the period: gives its profile and begins the next one with no samples.
    pub fn take(&mut self, period: Period) -> Taken {
        let profile = Compactor::new(self).run(period);
        let frames_over_limit = std::mem::take(&mut self.frames_over_limit);
        self.keys.clear();
        self.values.clear();
        self.homeless = Values::default();
        self.spans.clear();
        self.label_sets.clear();
        self.endpoints.clear(self.preset.other_endpoints);
        if let Some(moments) = &mut self.moments {
            moments.clear();
        }
        self.names.retain(|_, thread| !thread.ended);
        let ids = if self.is_to_be_reset(&profile) { self.reset() } else { Ids::Kept };
        Taken { profile, ids, frames_over_limit }
    }
}

fn cut(text: &str) -> &str {
    cut_to(text, limits::FUNCTION_NAME_BYTES_MAX)
}

/// The longest beginning of whole characters that fits.
fn cut_to(text: &str, bytes_max: usize) -> &str {
    let end = text.floor_char_boundary(bytes_max);
    text.get(..end).unwrap_or_default()
}
