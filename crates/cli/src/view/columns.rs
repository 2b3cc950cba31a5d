//! Profiles as columns: read once, added up again and again.
//!
//! A row is a sample of one of the sources (files, or what was pushed), by numbers that all sources
//! share. A moment is a stretch of a row's time. Whatever is asked for, one pass over rows or
//! moments answers it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use model::{FrameKind, ThreadState};
use profile::read::supersedes;
use profile::{FrameIndex, Moment, Profile, Sample, SpanIds, Thread};

use super::size::Counted;
use crate::endpoints::{NO_ENDPOINT, NO_REQUEST, or_none};
use crate::functions::Functions;
use crate::ranking;
use crate::stacks::{Numbered, Planter, Tree, number};

/// Longer moments are cut, so that those of a time are found by their beginnings, in microseconds.
pub const MOMENT_US_MAX: u32 = 1_000_000;
/// The numbers of the endpoints that are none.
const ENDPOINT_NO_REQUEST: u32 = 0;
const ENDPOINT_NONE: u32 = 1;

/// A function that all sources share.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    /// Its number among the modules' names.
    pub module: u32,
    /// Whose code it is, by its place in `Origin::ALL`.
    pub origin: u32,
}

/// A place in a function, to look for its line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub function: u32,
    pub module: String,
    pub build_id: String,
    pub address: u64,
    pub kind: Option<FrameKind>,
    pub raw_name: String,
    /// What the file itself says; empty and 0 if nothing.
    pub file: String,
    pub line: u32,
}

/// A request, as samples know it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub trace_id: [u8; 16],
    pub root: u64,
    pub endpoint: u32,
    /// When the source begins that told the endpoint, in nanoseconds since 1970.
    told_ns: u64,
}

/// Where rows come from: a file, or what was pushed at once.
#[derive(Clone, Debug, Default)]
pub struct Source {
    pub name: String,
    pub service: String,
    pub version: String,
    pub instance: String,
    /// A word that no other process has; empty if none is known.
    pub process: String,
    /// In microseconds since 1970.
    pub begin_us: u64,
    pub duration_us: u64,
    /// Requests that ended: endpoint, how many, nanoseconds from begin to end of all.
    pub ended: Vec<(u32, u64, u64)>,
    /// Whether samples say which request they are of.
    pub knows_requests: bool,
    pub rows: std::ops::Range<usize>,
    pub moments: std::ops::Range<usize>,
}

impl Source {
    pub fn end_us(&self) -> u64 {
        self.begin_us.saturating_add(self.duration_us)
    }
}

/// What is known of a source besides its profile.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    pub name: String,
    pub service: String,
    pub version: String,
    pub instance: String,
    /// A word for the process that no other has, if the profile says none itself; or empty.
    pub process: String,
    /// What all its samples are labelled with, besides their own labels.
    pub labels: Vec<(String, String)>,
    /// The process, 0 if unknown.
    pub pid: u64,
}

/// Rows, by columns.
#[derive(Debug, Default)]
pub struct Rows {
    /// The node of the whole stack, and of what `corprof top` shows.
    pub full: Vec<u32>,
    pub folded: Vec<u32>,
    /// Where its own time is, among the places; `u32::MAX` if nowhere.
    pub place: Vec<u32>,
    pub thread: Vec<u32>,
    /// 0 if unknown, else one more than its place in `ThreadState::ALL`.
    pub state: Vec<u8>,
    /// Whether the thread waited for work.
    pub idle: Vec<bool>,
    /// One more than its place among the requests; 0 if of none.
    pub request: Vec<u32>,
    /// Of a request that has no ids; else its request knows.
    pub endpoint: Vec<u32>,
    pub labels: Vec<u32>,
    pub count: Vec<u64>,
    /// Nanoseconds of each value, in the order of `Value::ALL`.
    pub values: [Vec<u64>; 3],
}

impl Rows {
    pub fn len(&self) -> usize {
        self.full.len()
    }
}

/// Moments, by columns; sorted by their beginnings within a source.
#[derive(Debug, Default)]
pub struct Moments {
    /// In microseconds since 1970.
    pub begin_us: Vec<u64>,
    pub duration_us: Vec<u32>,
    pub row: Vec<u32>,
}

/// Everything that was read.
#[derive(Debug)]
pub struct Columns {
    pub functions: Vec<Function>,
    by_name: HashMap<(String, u32), u32>,
    pub modules: Numbered<String>,
    pub tree: Tree,
    /// Whether a node has no caller of the same function; that of the root is false.
    pub outermost: Vec<bool>,
    pub places: Numbered<Place>,
    pub threads: Numbered<String>,
    pub endpoints: Numbered<String>,
    pub labels: Numbered<Vec<(String, String)>>,
    pub requests: Vec<Request>,
    by_root: HashMap<u64, u32>,
    pub sources: Vec<Source>,
    pub rows: Rows,
    pub moments: Moments,
    counted: Counted,
}

impl Default for Columns {
    fn default() -> Self {
        let mut endpoints = Numbered::default();
        endpoints.number(NO_REQUEST.to_owned());
        endpoints.number(NO_ENDPOINT.to_owned());
        let mut labels = Numbered::default();
        labels.number(Vec::new());
        Self {
            functions: Vec::new(),
            by_name: HashMap::new(),
            modules: Numbered::default(),
            tree: Tree::default(),
            outermost: vec![false],
            places: Numbered::default(),
            threads: Numbered::default(),
            endpoints,
            labels,
            requests: Vec::new(),
            by_root: HashMap::new(),
            sources: Vec::new(),
            rows: Rows::default(),
            moments: Moments::default(),
            counted: Counted::default(),
        }
    }
}

/// The numbers that one profile's things have among all.
struct Translation {
    threads: HashMap<Option<Thread>, u32>,
    labels: Vec<u32>,
    /// Of samples that have none of their own.
    no_labels: u32,
    places: HashMap<FrameIndex, u32>,
    pids: [u64; 1],
    first_row: usize,
}

impl Columns {
    /// Adds a source.
    pub fn add(&mut self, identity: Identity, profile: &Profile) {
        let functions = self.functions_of(profile);
        let mut planter = Planter::new(profile, functions.clone(), &mut self.tree);
        let mut to = Translation {
            threads: HashMap::new(),
            labels: self.labels_of(profile, &identity.labels),
            no_labels: self.labels.number(identity.labels.clone()),
            places: HashMap::new(),
            pids: [identity.pid],
            first_row: self.rows.len(),
        };
        for sample in &profile.samples {
            let stacks = planter.stacks(sample, &mut self.tree);
            self.rows.full.push(stacks.full);
            self.rows.folded.push(stacks.folded);
            self.rows.idle.push(stacks.is_idle);
            let place = stacks.own.map(|own| self.place(profile, &functions, own, &mut to));
            self.rows.place.push(place.unwrap_or(u32::MAX));
            self.row(profile, sample, &mut to);
        }
        self.mark_outermost();
        let moments = self.moments.row.len();
        let begin_us = profile.period.start_unix_ns / 1_000;
        self.moments_of(profile, begin_us, to.first_row);
        let ended = profile.endpoints.iter().map(|endpoint| {
            let name = or_none(profile.text(endpoint.name)).to_owned();
            (self.endpoints.number(name), endpoint.requests, endpoint.duration_ns)
        });
        let ended = ended.collect();
        let told = profile.report.as_ref().map(|report| report.instance.clone());
        self.sources.push(Source {
            name: identity.name,
            service: identity.service,
            version: identity.version,
            instance: identity.instance,
            process: told.filter(|told| !told.is_empty()).unwrap_or(identity.process),
            begin_us,
            duration_us: profile.period.duration_ns / 1_000,
            ended,
            knows_requests: !profile.spans.is_empty(),
            rows: to.first_row..self.rows.len(),
            moments: moments..self.moments.row.len(),
        });
        let mut counted = std::mem::take(&mut self.counted);
        counted.follow(self);
        self.counted = counted;
    }

    /// Bytes of memory, nearly.
    pub fn bytes(&self) -> usize {
        self.counted.bytes(self)
    }

    fn functions_of(&mut self, profile: &Profile) -> Vec<u32> {
        let functions = Functions::of(profile);
        let numbers: Vec<u32> = functions
            .list
            .iter()
            .map(|named| {
                let module = self.modules.number(named.module.to_owned());
                let key = (named.name.to_owned(), module);
                *self.by_name.entry(key).or_insert_with(|| {
                    let (name, origin) = (named.name.to_owned(), named.origin as u32);
                    self.functions.push(Function { name, module, origin });
                    number(self.functions.len() - 1)
                })
            })
            .collect();
        functions.positions().map(|at| numbers.get(at).copied().unwrap_or_default()).collect()
    }

    fn labels_of(&mut self, profile: &Profile, more: &[(String, String)]) -> Vec<u32> {
        let text = |at| profile.text(at).to_owned();
        let sets = profile.labels.iter().map(|set| {
            let own = set.iter().map(|label| (text(label.name), text(label.value)));
            own.chain(more.iter().cloned()).collect()
        });
        sets.map(|set| self.labels.number(set)).collect()
    }

    fn place(
        &mut self,
        profile: &Profile,
        functions: &[u32],
        frame: FrameIndex,
        to: &mut Translation,
    ) -> u32 {
        if let Some(place) = to.places.get(&frame) {
            return *place;
        }
        let location = profile.frames.get(frame.get());
        let function = profile.function_of(frame);
        let module = profile.module_of(frame);
        let place = self.places.number(Place {
            function: functions.get(frame.get()).copied().unwrap_or_default(),
            module: module.map_or("", |module| profile.text(module.file)).to_owned(),
            build_id: module.map_or("", |module| profile.text(module.build_id)).to_owned(),
            address: location.map_or(0, |location| location.address),
            kind: function.and_then(|function| function.kind),
            raw_name: function.map_or("", |function| profile.text(function.raw_name)).to_owned(),
            file: function.map_or("", |function| profile.text(function.file)).to_owned(),
            line: location.map_or(0, |location| location.line),
        });
        to.places.insert(frame, place);
        place
    }

    fn row(&mut self, profile: &Profile, sample: &Sample, to: &mut Translation) {
        let thread = *to.threads.entry(sample.thread).or_insert_with(|| {
            self.threads.number(ranking::thread_name(profile, sample.thread, &to.pids))
        });
        let (request, endpoint) = self.request(profile, sample);
        let state = ThreadState::ALL.iter().position(|state| Some(*state) == sample.state);
        let labels = sample.labels.and_then(|labels| to.labels.get(labels.get()).copied());
        let rows = &mut self.rows;
        rows.thread.push(thread);
        rows.state.push(state.map_or(0, |state| u8::try_from(state + 1).unwrap_or_default()));
        rows.request.push(request);
        rows.endpoint.push(endpoint);
        rows.labels.push(labels.unwrap_or(to.no_labels));
        rows.count.push(sample.values.count);
        let values = &sample.values;
        let all = [values.cpu_ns, values.wall_ns, values.gc_ns];
        rows.values.iter_mut().zip(all).for_each(|(column, ns)| column.push(ns));
    }

    /// The request and the endpoint of a sample. The endpoint that the latest source tells is that
    /// of the request's samples in all others.
    fn request(&mut self, profile: &Profile, sample: &Sample) -> (u32, u32) {
        let Some(span) = profile.span_of(sample) else { return (0, ENDPOINT_NO_REQUEST) };
        let endpoint = match profile.text(span.endpoint) {
            "" => ENDPOINT_NONE,
            name => self.endpoints.number(name.to_owned()),
        };
        let SpanIds { trace_id, local_root_span_id: root, .. } = span.ids;
        if root == 0 {
            return (0, endpoint);
        }
        let told_ns = profile.period.start_unix_ns;
        let next = number(self.requests.len());
        let at = *self.by_root.entry(root).or_insert(next);
        if at == next {
            self.requests.push(Request { trace_id, root, endpoint, told_ns });
        } else if let Some(request) = self.requests.get_mut(at as usize) {
            let name = |endpoint: u32| match endpoint {
                ENDPOINT_NONE => "",
                endpoint => self.endpoints.list.get(endpoint as usize).map_or("", String::as_str),
            };
            if supersedes((told_ns, name(endpoint)), (request.told_ns, name(request.endpoint))) {
                (request.endpoint, request.told_ns) = (endpoint, told_ns);
            }
        }
        (at.saturating_add(1), endpoint)
    }

    /// How rows have the request of a local root span.
    pub fn request_of(&self, root: u64) -> Option<u32> {
        Some(self.by_root.get(&root)?.saturating_add(1))
    }

    /// The endpoint of a row.
    pub fn endpoint_of(&self, row: usize) -> u32 {
        let request = self.rows.request[row].checked_sub(1);
        let request = request.and_then(|request| self.requests.get(request as usize));
        request.map_or(self.rows.endpoint[row], |request| request.endpoint)
    }

    /// Marks the nodes that are new.
    fn mark_outermost(&mut self) {
        let nodes = &self.tree.nodes;
        for node in self.outermost.len()..=nodes.len() {
            let (mut parent, function) = nodes[node - 1];
            while parent > 0 && nodes[parent as usize - 1].1 != function {
                parent = nodes[parent as usize - 1].0;
            }
            self.outermost.push(parent == 0);
        }
    }

    fn moments_of(&mut self, profile: &Profile, begin_us: u64, first_row: usize) {
        // What is cut off of a long one comes later, among those that begin then.
        let mut cut: BinaryHeap<Reverse<Moment>> = BinaryHeap::new();
        let mut all = profile.moments.iter().copied().peekable();
        loop {
            let rest = cut.peek().map(|rest| rest.0.begin_us);
            let next = all.peek().map(|next| next.begin_us);
            let is_rest = rest.is_some_and(|rest| next.is_none_or(|next| rest <= next));
            let moment = if is_rest { cut.pop().map(|rest| rest.0) } else { all.next() };
            let Some(moment) = moment else { break };
            let duration_us = moment.duration_us.min(MOMENT_US_MAX);
            self.moments.begin_us.push(begin_us.saturating_add(moment.begin_us.into()));
            self.moments.duration_us.push(duration_us);
            self.moments.row.push(number(first_row.saturating_add(moment.sample as usize)));
            if moment.duration_us > duration_us {
                let begin_us = moment.begin_us.saturating_add(duration_us);
                let duration_us = moment.duration_us - duration_us;
                cut.push(Reverse(Moment { begin_us, duration_us, ..moment }));
            }
        }
    }

    /// From the first beginning to the last end, in microseconds since 1970.
    pub fn period(&self) -> (u64, u64) {
        self.period_of(|_, _| true).unwrap_or_default()
    }

    /// The same of those sources; `None` if there are none.
    pub fn period_of(&self, is_of: impl Fn(usize, &Source) -> bool) -> Option<(u64, u64)> {
        let of = self.sources.iter().enumerate().filter(|(at, source)| is_of(*at, source));
        let periods = of.map(|(_, source)| (source.begin_us, source.end_us()));
        periods.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The threads that a source has rows of, by number.
    pub fn threads_of(&self, source: &Source) -> Vec<u32> {
        let mut threads = self.rows.thread[source.rows.clone()].to_vec();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// The number of a function's module name and the name.
    pub fn module_of(&self, function: &Function) -> &str {
        self.modules.list.get(function.module as usize).map_or("", String::as_str)
    }
}
