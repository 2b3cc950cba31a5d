//! A period's samples with just what they refer to, in the order of first use.
//!
//! The order is part of the format in one sense: a file that is read back gives an equal profile,
//! since reading interns in the same order. So does it keep files of the same work alike.

use std::hash::Hash;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::aggregate::{Aggregate, Key, ThreadKey};
use crate::index::{
    FrameIndex, FunctionIndex, LabelsIndex, ModuleIndex, SpanIndex, StackIndex, StringIndex,
};
use crate::labels::UsedSet;
use crate::profile::{
    Endpoint, Function, Label, Location, Module, Period, Profile, Sample, Span, StackNode, Thread,
    Values,
};
use crate::span::SpanNumber;
use crate::strings::Strings;

/// Copies what is used from an aggregate into a profile.
pub(crate) struct Compactor<'a> {
    from: &'a Aggregate,
    to: Profile,
    /// New positions by old ones, `None` while not copied.
    modules: Vec<Option<ModuleIndex>>,
    functions: Vec<Option<FunctionIndex>>,
    frames: Vec<Option<FrameIndex>>,
    stacks: Vec<Option<StackIndex>>,
    path: Vec<StackIndex>,
    spans: Distinct<Span, SpanIndex>,
    labels: Distinct<Vec<Label>, LabelsIndex>,
}

/// Copies of a table of which several may become equal.
struct Distinct<T, I> {
    /// New positions by old ones, `None` while not copied.
    copies: Vec<Option<I>>,
    positions: HashMap<T, I, FxBuildHasher>,
    /// Whether several did become equal.
    has_merged: bool,
}

impl<T: Clone + Eq + Hash, I: Copy> Distinct<T, I> {
    fn new(len: usize) -> Self {
        let positions = HashMap::with_hasher(FxBuildHasher);
        Self { copies: vec![None; len], positions, has_merged: false }
    }

    /// The new position of an item; a new item goes to the end of `to`.
    fn copy(&mut self, old: usize, item: T, next: I, to: &mut Vec<T>) -> I {
        let known = self.positions.get(&item).copied();
        self.has_merged |= known.is_some();
        let copy = known.unwrap_or(next);
        if known.is_none() {
            to.push(item.clone());
            self.positions.insert(item, copy);
        }
        if let Some(slot) = self.copies.get_mut(old) {
            *slot = Some(copy);
        }
        copy
    }
}

/// The position a table's next item gets.
macro_rules! next {
    ($table:expr, $index:ident) => {
        $index::new(u32::try_from($table.len()).unwrap_or(u32::MAX))
    };
}

impl<'a> Compactor<'a> {
    pub(crate) fn new(from: &'a Aggregate) -> Self {
        let to = Profile {
            period: Period::default(),
            // Nothing but strings of the aggregate and thread names come in, both bounded.
            strings: Strings::new(usize::MAX),
            modules: Vec::new(),
            functions: Vec::new(),
            frames: Vec::new(),
            stacks: Vec::new(),
            samples: Vec::with_capacity(from.keys.len()),
            spans: Vec::new(),
            labels: Vec::new(),
            endpoints: Vec::new(),
            moments: Vec::new(),
            report: None,
        };
        Self {
            from,
            to,
            modules: vec![None; from.modules.len()],
            functions: vec![None; from.functions.len()],
            frames: vec![None; from.frames.len()],
            stacks: vec![None; from.stacks.len()],
            path: Vec::new(),
            spans: Distinct::new(from.spans.len()),
            labels: Distinct::new(from.label_sets.used()),
        }
    }

    pub(crate) fn run(mut self, period: Period) -> Profile {
        let from = self.from;
        self.to.period = period;
        for key in from.keys.items() {
            self.span(key.span);
            self.labels(key.labels);
        }
        // Samples that became equal with their spans or labels are one; to look for them among all
        // samples is only needed then.
        let mut positions = Vec::new();
        let mut known = (self.spans.has_merged || self.labels.has_merged)
            .then(|| HashMap::with_hasher(FxBuildHasher));
        for (key, values) in from.keys.items().iter().zip(&from.values) {
            let span = self.span(key.span);
            let labels = self.labels(key.labels);
            let next = self.to.samples.len();
            let whole = (key.stack, key.thread, key.state, span, labels);
            let position = known.as_mut().map_or(next, |known| *known.entry(whole).or_insert(next));
            if from.moments.is_some() {
                positions.push(u32::try_from(position).unwrap_or(u32::MAX));
            }
            match self.to.samples.get_mut(position) {
                Some(sample) => sample.values.add(*values),
                None => self.sample(*key, *values),
            }
        }
        if from.homeless != Values::default() {
            self.sample(Key::of_stack(from.over_limit_stack()), from.homeless);
        }
        if let Some(moments) = &from.moments {
            let thread = |sample: u32| {
                let key = from.keys.items().get(sample as usize);
                key.map_or(ThreadKey::NONE, |key| key.thread)
            };
            self.to.moments = moments.sorted(&positions, thread);
        }
        for (name, requests, duration_ns) in from.endpoints.iter() {
            let name = self.string(from.strings.get(name));
            self.to.endpoints.push(Endpoint { name, requests, duration_ns });
        }
        self.to
    }

    fn sample(&mut self, key: Key, values: Values) {
        let Some(stack) = self.stack(key.stack) else { return };
        let span = self.span(key.span);
        let labels = self.labels(key.labels);
        let thread = (key.thread != ThreadKey::NONE).then(|| Thread {
            tid: key.thread.tid,
            name: self.string(self.from.name_of(key.thread)),
        });
        self.to.samples.push(Sample { stack, thread, state: key.state, span, labels, values });
    }

    fn span(&mut self, number: Option<SpanNumber>) -> Option<SpanIndex> {
        let number = number?;
        let old = number.get().saturating_sub(1) as usize;
        if let Some(copy) = self.spans.copies.get(old).copied().flatten() {
            return Some(copy);
        }
        let key = self.from.spans.get(number)?;
        let endpoint = self.string(self.from.strings.get(key.endpoint));
        let next = next!(self.to.spans, SpanIndex);
        let span = Span { ids: key.ids, endpoint };
        Some(self.spans.copy(old, span, next, &mut self.to.spans))
    }

    fn labels(&mut self, used: Option<UsedSet>) -> Option<LabelsIndex> {
        let used = used?;
        let old = used.get().saturating_sub(1) as usize;
        if let Some(copy) = self.labels.copies.get(old).copied().flatten() {
            return Some(copy);
        }
        let mut labels = Vec::new();
        for (name, value) in self.from.label_sets.get(used) {
            labels.push(Label { name: self.string(name), value: self.string(value) });
        }
        if labels.is_empty() {
            return None;
        }
        let next = next!(self.to.labels, LabelsIndex);
        Some(self.labels.copy(old, labels, next, &mut self.to.labels))
    }

    fn stack(&mut self, leaf: StackIndex) -> Option<StackIndex> {
        // Up to the first node that is copied already, then down again.
        self.path.clear();
        let mut parent = None;
        let mut next = Some(leaf);
        while let Some(index) = next {
            parent = self.stacks.get(index.get()).copied().flatten();
            if parent.is_some() {
                break;
            }
            self.path.push(index);
            next = self.from.stacks.get(index.get())?.parent;
        }
        while let Some(index) = self.path.pop() {
            let node = self.from.stacks.get(index.get())?;
            let frame = self.frame(node.frame)?;
            let copy = next!(self.to.stacks, StackIndex);
            self.to.stacks.push(StackNode { parent, frame });
            *self.stacks.get_mut(index.get())? = Some(copy);
            parent = Some(copy);
        }
        parent
    }

    fn frame(&mut self, index: FrameIndex) -> Option<FrameIndex> {
        if let Some(copy) = self.frames.get(index.get()).copied().flatten() {
            return Some(copy);
        }
        let frame = self.from.frames.get(index.get())?;
        let function = self.function(frame.function)?;
        let module = frame.module.and_then(|module| self.module(module));
        let copy = next!(self.to.frames, FrameIndex);
        self.to.frames.push(Location { function, module, ..frame });
        *self.frames.get_mut(index.get())? = Some(copy);
        Some(copy)
    }

    fn function(&mut self, index: FunctionIndex) -> Option<FunctionIndex> {
        if let Some(copy) = self.functions.get(index.get()).copied().flatten() {
            return Some(copy);
        }
        let function = self.from.functions.get(index.get())?;
        let function = Function {
            name: self.string(self.from.strings.get(function.name)),
            raw_name: self.string(self.from.strings.get(function.raw_name)),
            file: self.string(self.from.strings.get(function.file)),
            kind: function.kind,
        };
        let copy = next!(self.to.functions, FunctionIndex);
        self.to.functions.push(function);
        *self.functions.get_mut(index.get())? = Some(copy);
        Some(copy)
    }

    fn module(&mut self, index: ModuleIndex) -> Option<ModuleIndex> {
        if let Some(copy) = self.modules.get(index.get()).copied().flatten() {
            return Some(copy);
        }
        let module = self.from.modules.get(index.get())?;
        let module = Module {
            file: self.string(self.from.strings.get(module.file)),
            build_id: self.string(self.from.strings.get(module.build_id)),
            ..module
        };
        let copy = next!(self.to.modules, ModuleIndex);
        self.to.modules.push(module);
        *self.modules.get_mut(index.get())? = Some(copy);
        Some(copy)
    }

    fn string(&mut self, text: &str) -> StringIndex {
        self.to.strings.intern(text).unwrap_or(StringIndex::EMPTY)
    }
}
