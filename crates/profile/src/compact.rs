//! A period's samples with just what they refer to, in the order of first use.
//!
//! The order is part of the format in one sense: a file that is read back gives an equal profile,
//! since reading interns in the same order. So does it keep files of the same work alike.

use crate::aggregate::{Aggregate, Key, ThreadKey};
use crate::index::{FrameIndex, FunctionIndex, ModuleIndex, StackIndex, StringIndex};
use crate::profile::{Function, Location, Module, Period, Profile, Sample, StackNode};
use crate::profile::{Thread, Values};
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
        }
    }

    pub(crate) fn run(mut self, period: Period) -> Profile {
        let from = self.from;
        self.to.period = period;
        for (key, values) in from.keys.items().iter().zip(&from.values) {
            self.sample(*key, *values);
        }
        if from.homeless != Values::default() {
            let stack = from.over_limit_stack();
            self.sample(Key { stack, thread: ThreadKey::NONE, state: None }, from.homeless);
        }
        self.to
    }

    fn sample(&mut self, key: Key, values: Values) {
        let Some(stack) = self.stack(key.stack) else { return };
        let thread = (key.thread != ThreadKey::NONE).then(|| Thread {
            tid: key.thread.tid,
            name: self.string(self.from.name_of(key.thread)),
        });
        self.to.samples.push(Sample { stack, thread, state: key.state, values });
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
