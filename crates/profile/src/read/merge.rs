//! Several profiles as one.

use super::labels::Labels;
use super::request_names::RequestNames;
use super::threads::Threads;
use crate::aggregate::{Aggregate, Key, ThreadKey};
use crate::bounds::Limits;
use crate::index::{FrameIndex, ModuleIndex, StackIndex, StringIndex};
use crate::labels::UsedSet;
use crate::profile::{Function, Label, Module, Period, Profile, Span, StackNode};
use crate::span::{SpanKey, SpanNumber};

/// Adds profiles up, one after the other, so that not all have to be in memory.
///
/// What is equal in all parts becomes one: functions by name and file, threads by number and
/// name. Where one profile knows the endpoint of a local root span, the samples of all others have
/// it too; of several that know one, the latest counts. When samples came about is left out.
#[derive(Debug)]
pub struct Merger {
    aggregate: Aggregate,
    threads: Threads,
    labels: Labels,
    names: RequestNames,
    period: Option<Period>,
}

impl Default for Merger {
    fn default() -> Self {
        Self {
            aggregate: Aggregate::new(Limits::READER),
            threads: Threads::default(),
            labels: Labels::default(),
            names: RequestNames::default(),
            period: None,
        }
    }
}

impl Merger {
    /// Adds a profile. Over the bounds of a reader its values go to `[stacks over the limit]`.
    pub fn add(&mut self, profile: &Profile) {
        self.period = Some(match self.period {
            None => profile.period,
            Some(before) => union(before, profile.period),
        });
        let frames = self.frames(profile);
        let stacks = self.stacks(profile, &frames);
        self.names.learn(profile);
        let spans = self.spans(profile);
        let labels = self.labels(profile);
        for endpoint in &profile.endpoints {
            let name = self.string(profile, endpoint.name);
            self.aggregate.endpoints.add(name, endpoint.requests, endpoint.duration_ns);
        }
        for sample in &profile.samples {
            let over_limit = self.aggregate.over_limit_stack();
            let stack = stacks.get(sample.stack.get()).copied().flatten().unwrap_or(over_limit);
            let thread = sample.thread.map_or(ThreadKey::NONE, |thread| {
                let name = profile.text(thread.name);
                self.threads.key(thread.tid, name, &mut self.aggregate)
            });
            // The loss is in the profile, as the frame that says so.
            let span = sample.span.and_then(|span| spans.get(span.get()).copied().flatten());
            let labels = sample.labels.and_then(|at| labels.get(at.get()).copied().flatten());
            let key = Key { stack, thread, state: sample.state, span, labels };
            let _ = self.aggregate.add_key(key, sample.values);
        }
    }

    /// The sum of all. It has no report: those of the parts can't be told from one another in it.
    #[must_use]
    pub fn finish(mut self) -> Profile {
        let period = self.period.unwrap_or_default();
        for (root, name) in self.names.iter() {
            let name = self.aggregate.strings.intern(name).unwrap_or(StringIndex::EMPTY);
            self.aggregate.spans.set_endpoint(root, name);
        }
        self.aggregate.take(period).profile
    }

    fn string(&mut self, profile: &Profile, position: StringIndex) -> StringIndex {
        let text = profile.text(position);
        self.aggregate.strings.intern(text).unwrap_or(StringIndex::EMPTY)
    }

    fn frames(&mut self, profile: &Profile) -> Vec<FrameIndex> {
        let modules: Vec<Option<ModuleIndex>> = profile
            .modules
            .iter()
            .map(|module| {
                let file = self.string(profile, module.file);
                let build_id = self.string(profile, module.build_id);
                let module = Module { file, build_id, ..*module };
                self.aggregate.modules.intern(module).map(ModuleIndex::new)
            })
            .collect();
        let functions: Vec<Function> = profile
            .functions
            .iter()
            .map(|function| Function {
                name: self.string(profile, function.name),
                raw_name: self.string(profile, function.raw_name),
                file: self.string(profile, function.file),
                kind: function.kind,
            })
            .collect();
        let unknown = Function {
            name: StringIndex::EMPTY,
            raw_name: StringIndex::EMPTY,
            file: StringIndex::EMPTY,
            kind: None,
        };
        profile
            .frames
            .iter()
            .map(|frame| {
                let function = functions.get(frame.function.get()).copied().unwrap_or(unknown);
                let module = frame.module.and_then(|at| modules.get(at.get()).copied().flatten());
                self.aggregate.location(function, module, (frame.address, frame.line))
            })
            .collect()
    }

    fn spans(&mut self, profile: &Profile) -> Vec<Option<SpanNumber>> {
        let span = |span: &Span| {
            // A request has the name that the latest profile tells, once all were read.
            let has_name = self.names.get(span.ids.local_root_span_id).is_some();
            let name = if has_name { StringIndex::EMPTY } else { span.endpoint };
            let endpoint = self.string(profile, name);
            self.aggregate.spans.intern(SpanKey { ids: span.ids, endpoint })
        };
        profile.spans.iter().map(span).collect()
    }

    fn labels(&mut self, profile: &Profile) -> Vec<Option<UsedSet>> {
        let set = |labels: &Vec<Label>| {
            let pair = |label: &Label| (profile.text(label.name), profile.text(label.value));
            let mut pairs: Vec<_> = labels.iter().map(pair).collect();
            self.labels.key(&mut pairs, &mut self.aggregate).ok().flatten()
        };
        profile.labels.iter().map(set).collect()
    }

    /// New positions by old ones; a parent is before its children, so it is there already.
    fn stacks(&mut self, profile: &Profile, frames: &[FrameIndex]) -> Vec<Option<StackIndex>> {
        let mut stacks: Vec<Option<StackIndex>> = Vec::with_capacity(profile.stacks.len());
        for node in &profile.stacks {
            let copy = frames.get(node.frame.get()).and_then(|frame| {
                let parent = match node.parent {
                    None => None,
                    Some(parent) => Some(stacks.get(parent.get()).copied().flatten()?),
                };
                self.aggregate.stacks.intern(StackNode { parent, frame: *frame })
            });
            stacks.push(copy.map(StackIndex::new));
        }
        stacks
    }
}

/// Adds profiles up.
#[must_use]
pub fn merge<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Profile {
    let mut merger = Merger::default();
    profiles.into_iter().for_each(|profile| merger.add(profile));
    merger.finish()
}

/// From the first start to the last end; the interval only if it is the same.
fn union(a: Period, b: Period) -> Period {
    let end = |period: Period| period.start_unix_ns.saturating_add(period.duration_ns);
    let start_unix_ns = a.start_unix_ns.min(b.start_unix_ns);
    let duration_ns = end(a).max(end(b)).saturating_sub(start_unix_ns);
    let same = a.cpu_interval_ns == b.cpu_interval_ns;
    Period { start_unix_ns, duration_ns, cpu_interval_ns: if same { a.cpu_interval_ns } else { 0 } }
}
