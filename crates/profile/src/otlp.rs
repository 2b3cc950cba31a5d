//! Writing a profile as OpenTelemetry's, `v1development`: the message
//! `ExportProfilesServiceRequest` as of opentelemetry-proto 1.9 and 1.10 (a dictionary beside the
//! resources, one type of value a profile; of 1.10 no references in resources).
//!
//! There is a profile for each type of value. Samples have their thread (`thread.id`,
//! `thread.name`), what it was doing (`corprof.thread.state`), the endpoint
//! (`corprof.endpoint`) and the program's labels as attributes, and a link to their span. Frames
//! have `profile.frame.type`; native modules `process.executable.build_id.gnu`. The profiler's own
//! numbers are attributes of each profile, named as in pprof's comments.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use model::FrameKind;

use crate::index::{SpanIndex, StackIndex, StringIndex};
use crate::label_name::name_in_file;
use crate::profile::{Profile, Sample, Values};
use crate::strings::Strings;
use crate::wire::Message;

/// Field numbers of `profiles.proto`, `resource.proto` and `common.proto`.
pub(crate) mod field {
    pub(crate) const REQUEST_RESOURCES: u64 = 1;
    pub(crate) const REQUEST_DICTIONARY: u64 = 2;
    pub(crate) const RESOURCE_RESOURCE: u64 = 1;
    pub(crate) const RESOURCE_SCOPES: u64 = 2;
    pub(crate) const RESOURCE_ATTRIBUTES: u64 = 1;
    pub(crate) const SCOPE_SCOPE: u64 = 1;
    pub(crate) const SCOPE_PROFILES: u64 = 2;
    pub(crate) const SCOPE_NAME: u64 = 1;
    pub(crate) const SCOPE_VERSION: u64 = 2;
    pub(crate) const KEY: u64 = 1;
    pub(crate) const KEY_VALUE: u64 = 2;
    pub(crate) const ANY_TEXT: u64 = 1;
    pub(crate) const ANY_NUMBER: u64 = 3;
    pub(crate) const DICTIONARY_MAPPING: u64 = 1;
    pub(crate) const DICTIONARY_LOCATION: u64 = 2;
    pub(crate) const DICTIONARY_FUNCTION: u64 = 3;
    pub(crate) const DICTIONARY_LINK: u64 = 4;
    pub(crate) const DICTIONARY_STRING: u64 = 5;
    pub(crate) const DICTIONARY_ATTRIBUTE: u64 = 6;
    pub(crate) const DICTIONARY_STACK: u64 = 7;
    pub(crate) const PROFILE_TYPE: u64 = 1;
    pub(crate) const PROFILE_SAMPLE: u64 = 2;
    pub(crate) const PROFILE_TIME: u64 = 3;
    pub(crate) const PROFILE_DURATION: u64 = 4;
    pub(crate) const PROFILE_PERIOD_TYPE: u64 = 5;
    pub(crate) const PROFILE_PERIOD: u64 = 6;
    pub(crate) const PROFILE_ID: u64 = 7;
    pub(crate) const PROFILE_ATTRIBUTES: u64 = 11;
    pub(crate) const TYPE_TYPE: u64 = 1;
    pub(crate) const TYPE_UNIT: u64 = 2;
    pub(crate) const SAMPLE_STACK: u64 = 1;
    pub(crate) const SAMPLE_ATTRIBUTES: u64 = 2;
    pub(crate) const SAMPLE_LINK: u64 = 3;
    pub(crate) const SAMPLE_VALUES: u64 = 4;
    pub(crate) const LINK_TRACE: u64 = 1;
    pub(crate) const LINK_SPAN: u64 = 2;
    pub(crate) const MAPPING_START: u64 = 1;
    pub(crate) const MAPPING_LIMIT: u64 = 2;
    pub(crate) const MAPPING_FILE: u64 = 4;
    pub(crate) const MAPPING_ATTRIBUTES: u64 = 5;
    pub(crate) const STACK_LOCATIONS: u64 = 1;
    pub(crate) const LOCATION_MAPPING: u64 = 1;
    pub(crate) const LOCATION_ADDRESS: u64 = 2;
    pub(crate) const LOCATION_LINES: u64 = 3;
    pub(crate) const LOCATION_ATTRIBUTES: u64 = 4;
    pub(crate) const LINE_FUNCTION: u64 = 1;
    pub(crate) const LINE_LINE: u64 = 2;
    pub(crate) const FUNCTION_NAME: u64 = 1;
    pub(crate) const FUNCTION_SYSTEM_NAME: u64 = 2;
    pub(crate) const FUNCTION_FILE: u64 = 3;
}

const PROCESS_ID: &str = "process.pid";
pub(crate) const THREAD_ID: &str = "thread.id";
pub(crate) const THREAD_NAME: &str = "thread.name";
pub(crate) const THREAD_STATE: &str = "corprof.thread.state";
pub(crate) const ENDPOINT: &str = "corprof.endpoint";
pub(crate) const LOCAL_ROOT: &str = "corprof.local_root_span_id";
pub(crate) const FRAME_TYPE: &str = "profile.frame.type";
pub(crate) const BUILD_ID: &str = "process.executable.build_id.gnu";

/// A type of value: its name, its unit, and the value itself.
type ValueType = (&'static str, &'static str, fn(&Values) -> u64);

/// The types of values, in the order of their profiles. The first is shown by default.
const VALUE_TYPES: [ValueType; 4] = [
    ("cpu", "nanoseconds", |values| values.cpu_ns),
    ("wall", "nanoseconds", |values| values.wall_ns),
    ("samples", "count", |values| values.count),
    ("gc", "nanoseconds", |values| values.gc_ns),
];

/// Who sends, and which profile it is.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// The attributes of the process.
    pub resource: &'a [(String, String)],
    /// The process's number; 0 if it is not known, or there are several.
    pub pid: u64,
    /// The profiler's version.
    pub version: &'a str,
    /// What tells this profile from all others; the four in it have this and the next three.
    pub id: u128,
}

/// The profile as a request, not compressed.
#[must_use]
pub fn request(profile: &Profile, sender: Sender<'_>) -> Vec<u8> {
    let mut encoder = Encoder::new(profile);
    let resources = encoder.resources(sender);
    let dictionary = encoder.dictionary();
    let mut request = Message::default();
    request.nested(field::REQUEST_RESOURCES, resources.bytes());
    request.nested(field::REQUEST_DICTIONARY, dictionary.bytes());
    request.into_bytes()
}

/// The value of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Value {
    /// A string's position.
    Text(u64),
    Number(u64),
}

/// Messages of a table, each once; the first is empty, for "none".
struct Table<K> {
    positions: HashMap<K, u64, FxBuildHasher>,
    items: Vec<K>,
}

impl<K: Copy + Eq + std::hash::Hash> Table<K> {
    fn new() -> Self {
        Self { positions: HashMap::with_hasher(FxBuildHasher), items: Vec::new() }
    }

    fn position(&mut self, item: K) -> u64 {
        let next = (self.items.len() as u64).saturating_add(1);
        let position = *self.positions.entry(item).or_insert(next);
        if position == next {
            self.items.push(item);
        }
        position
    }
}

struct Encoder<'a> {
    profile: &'a Profile,
    /// Strings that are not in the profile's table; their positions follow its own.
    extra: Strings,
    attributes: Table<(u64, Value)>,
    links: Table<([u8; 16], u64)>,
    stacks: Table<StackIndex>,
    /// What a sample refers to, found once for all profiles.
    samples: Vec<Referring>,
}

/// What a sample refers to.
struct Referring {
    stack: u64,
    attributes: Vec<u64>,
    link: u64,
}

impl<'a> Encoder<'a> {
    fn new(profile: &'a Profile) -> Self {
        let mut encoder = Self {
            profile,
            extra: Strings::new(usize::MAX),
            attributes: Table::new(),
            links: Table::new(),
            stacks: Table::new(),
            samples: Vec::with_capacity(profile.samples.len()),
        };
        for sample in &profile.samples {
            let referring = Referring {
                stack: encoder.stacks.position(sample.stack),
                attributes: encoder.sample_attributes(sample),
                link: sample.span.map_or(0, |span| encoder.link(span)),
            };
            encoder.samples.push(referring);
        }
        encoder
    }

    /// The position of a further string.
    fn string(&mut self, text: &str) -> u64 {
        let position = self.extra.intern(text).unwrap_or(StringIndex::EMPTY).raw();
        match position.checked_sub(1) {
            Some(position) => (self.profile.strings.len() as u64).saturating_add(position.into()),
            None => 0,
        }
    }

    fn attribute(&mut self, key: &str, value: Value) -> u64 {
        let key = self.string(key);
        self.attributes.position((key, value))
    }

    fn text_attribute(&mut self, key: &str, text: &str) -> u64 {
        let value = Value::Text(self.string(text));
        self.attribute(key, value)
    }

    fn sample_attributes(&mut self, sample: &Sample) -> Vec<u64> {
        let profile = self.profile;
        let mut found = Vec::new();
        let text = |index: StringIndex| Value::Text(u64::from(index.raw()));
        if let Some(thread) = sample.thread {
            if thread.tid != 0 {
                found.push(self.attribute(THREAD_ID, Value::Number(u64::from(thread.tid))));
            }
            if thread.name != StringIndex::EMPTY {
                found.push(self.attribute(THREAD_NAME, text(thread.name)));
            }
        }
        if let Some(state) = sample.state {
            found.push(self.text_attribute(THREAD_STATE, state.name()));
        }
        if let Some(span) = profile.span_of(sample) {
            if span.endpoint != StringIndex::EMPTY {
                found.push(self.attribute(ENDPOINT, text(span.endpoint)));
            }
            if span.ids.local_root_span_id != 0 {
                let id = format!("{:016x}", span.ids.local_root_span_id);
                found.push(self.text_attribute(LOCAL_ROOT, &id));
            }
        }
        for label in sample.labels.iter().filter_map(|at| profile.labels.get(at.get())).flatten() {
            let name = name_in_file(profile.text(label.name));
            found.push(self.attribute(&name, text(label.value)));
        }
        found
    }

    /// The link to a span; 0 if its ids are not known.
    fn link(&mut self, span: SpanIndex) -> u64 {
        let ids = self.profile.spans.get(span.get()).map(|span| span.ids);
        let known = ids.filter(|ids| ids.trace_id != [0; 16] && ids.span_id != 0);
        known.map_or(0, |ids| self.links.position((ids.trace_id, ids.span_id)))
    }

    fn resources(&mut self, sender: Sender<'_>) -> Message {
        let mut resource = Message::default();
        let mut add = |key: &str, value: &Message| {
            let mut attribute = Message::default();
            attribute.nested(field::KEY, key.as_bytes());
            attribute.nested(field::KEY_VALUE, value.bytes());
            resource.nested(field::RESOURCE_ATTRIBUTES, attribute.bytes());
        };
        for (key, value) in sender.resource {
            add(key, &text_value(value.as_bytes()));
        }
        if sender.pid != 0 {
            add(PROCESS_ID, &number_value(sender.pid));
        }
        let mut scope = Message::default();
        scope.nested(field::SCOPE_NAME, b"corprof");
        scope.nested(field::SCOPE_VERSION, sender.version.as_bytes());
        let mut scopes = Message::default();
        scopes.nested(field::SCOPE_SCOPE, scope.bytes());
        let own = self.own_numbers();
        for (value_type, id) in VALUE_TYPES.iter().zip(0_u128..) {
            let profile = self.one_profile(value_type, sender.id.wrapping_add(id), &own);
            scopes.nested(field::SCOPE_PROFILES, profile.bytes());
        }
        let mut resources = Message::default();
        resources.nested(field::RESOURCE_RESOURCE, resource.bytes());
        resources.nested(field::RESOURCE_SCOPES, scopes.bytes());
        resources
    }

    /// The profiler's own numbers, as attributes.
    fn own_numbers(&mut self) -> Vec<u64> {
        let Some(report) = &self.profile.report else { return Vec::new() };
        let mut found = Vec::new();
        for (key, value) in report.facts() {
            let value = match value.parse::<u64>() {
                Ok(number) => Value::Number(number.min(i64::MAX as u64)),
                Err(_) => Value::Text(self.string(&value)),
            };
            found.push(self.attribute(&format!("corprof.{key}"), value));
        }
        found
    }

    fn one_profile(&mut self, value_type: &ValueType, id: u128, own: &[u64]) -> Message {
        let (name, unit, value_of) = value_type;
        let mut profile = Message::default();
        let types = self.value_type(name, unit);
        profile.nested(field::PROFILE_TYPE, types.bytes());
        let mut message = Message::default();
        for (sample, referring) in self.profile.samples.iter().zip(&self.samples) {
            let value = value_of(&sample.values).min(i64::MAX as u64);
            if value == 0 {
                continue;
            }
            message.clear();
            message.number(field::SAMPLE_STACK, referring.stack);
            if !referring.attributes.is_empty() {
                message.packed(field::SAMPLE_ATTRIBUTES, referring.attributes.iter().copied());
            }
            message.number(field::SAMPLE_LINK, referring.link);
            message.packed(field::SAMPLE_VALUES, std::iter::once(value));
            profile.nested(field::PROFILE_SAMPLE, message.bytes());
        }
        let period = self.profile.period;
        profile.fixed(field::PROFILE_TIME, period.start_unix_ns);
        profile.number(field::PROFILE_DURATION, period.duration_ns);
        let period_type = self.value_type("cpu", "nanoseconds");
        profile.nested(field::PROFILE_PERIOD_TYPE, period_type.bytes());
        profile.number(field::PROFILE_PERIOD, period.cpu_interval_ns);
        profile.nested(field::PROFILE_ID, &id.to_be_bytes());
        if !own.is_empty() {
            profile.packed(field::PROFILE_ATTRIBUTES, own.iter().copied());
        }
        profile
    }

    fn value_type(&mut self, name: &str, unit: &str) -> Message {
        let mut message = Message::default();
        message.number(field::TYPE_TYPE, self.string(name));
        message.number(field::TYPE_UNIT, self.string(unit));
        message
    }

    /// All tables; last, since what is written before adds to them.
    fn dictionary(&mut self) -> Message {
        let mut tables = Message::default();
        self.mappings(&mut tables);
        self.locations(&mut tables);
        self.functions(&mut tables);
        self.links(&mut tables);
        self.stacks(&mut tables);
        self.attributes(&mut tables);
        for text in self.profile.strings.iter().chain(self.extra.iter().skip(1)) {
            tables.nested(field::DICTIONARY_STRING, text.as_bytes());
        }
        tables
    }

    fn mappings(&mut self, tables: &mut Message) {
        tables.nested(field::DICTIONARY_MAPPING, &[]);
        let mut message = Message::default();
        for module in &self.profile.modules {
            message.clear();
            message.number(field::MAPPING_START, module.start);
            message.number(field::MAPPING_LIMIT, module.limit);
            message.number(field::MAPPING_FILE, u64::from(module.file.raw()));
            // Assemblies have no addresses, and an id of another kind.
            if module.limit != 0 && module.build_id != StringIndex::EMPTY {
                let id = Value::Text(u64::from(module.build_id.raw()));
                let id = self.attribute(BUILD_ID, id);
                message.packed(field::MAPPING_ATTRIBUTES, std::iter::once(id));
            }
            tables.nested(field::DICTIONARY_MAPPING, message.bytes());
        }
    }

    fn locations(&mut self, tables: &mut Message) {
        tables.nested(field::DICTIONARY_LOCATION, &[]);
        let profile = self.profile;
        let (mut message, mut line) = (Message::default(), Message::default());
        for frame in &profile.frames {
            line.clear();
            line.number(field::LINE_FUNCTION, position(frame.function.get()));
            line.number(field::LINE_LINE, u64::from(frame.line));
            message.clear();
            let module = frame.module.map_or(0, |module| position(module.get()));
            message.number(field::LOCATION_MAPPING, module);
            message.number(field::LOCATION_ADDRESS, frame.address);
            message.nested(field::LOCATION_LINES, line.bytes());
            let function = profile.functions.get(frame.function.get());
            if let Some(kind) = function.and_then(|function| frame_type(function.kind?)) {
                let kind = self.text_attribute(FRAME_TYPE, kind);
                message.packed(field::LOCATION_ATTRIBUTES, std::iter::once(kind));
            }
            tables.nested(field::DICTIONARY_LOCATION, message.bytes());
        }
    }

    fn functions(&mut self, tables: &mut Message) {
        tables.nested(field::DICTIONARY_FUNCTION, &[]);
        let mut message = Message::default();
        for function in &self.profile.functions {
            message.clear();
            message.number(field::FUNCTION_NAME, u64::from(function.name.raw()));
            message.number(field::FUNCTION_SYSTEM_NAME, u64::from(function.raw_name.raw()));
            message.number(field::FUNCTION_FILE, u64::from(function.file.raw()));
            tables.nested(field::DICTIONARY_FUNCTION, message.bytes());
        }
    }

    fn links(&self, tables: &mut Message) {
        tables.nested(field::DICTIONARY_LINK, &[]);
        let mut message = Message::default();
        for (trace, span) in &self.links.items {
            message.clear();
            message.nested(field::LINK_TRACE, trace);
            message.nested(field::LINK_SPAN, &span.to_be_bytes());
            tables.nested(field::DICTIONARY_LINK, message.bytes());
        }
    }

    fn stacks(&self, tables: &mut Message) {
        tables.nested(field::DICTIONARY_STACK, &[]);
        let mut message = Message::default();
        let mut locations = Vec::new();
        for leaf in &self.stacks.items {
            locations.clear();
            locations.extend(self.profile.stack(*leaf).map(|frame| position(frame.get())));
            message.clear();
            message.packed(field::STACK_LOCATIONS, locations.iter().copied());
            tables.nested(field::DICTIONARY_STACK, message.bytes());
        }
    }

    fn attributes(&self, tables: &mut Message) {
        tables.nested(field::DICTIONARY_ATTRIBUTE, &[]);
        let mut message = Message::default();
        for (key, value) in &self.attributes.items {
            let value = match value {
                Value::Text(position) => text_value(self.text(*position).as_bytes()),
                Value::Number(number) => number_value(*number),
            };
            message.clear();
            message.number(field::KEY, *key);
            message.nested(field::KEY_VALUE, value.bytes());
            tables.nested(field::DICTIONARY_ATTRIBUTE, message.bytes());
        }
    }

    /// The string at a position of the table that is written.
    fn text(&self, position: u64) -> &str {
        let own = self.profile.strings.len() as u64;
        let index = |position: u64| StringIndex::new(u32::try_from(position).unwrap_or(0));
        match position.checked_sub(own) {
            None => self.profile.strings.get(index(position)),
            Some(further) => self.extra.get(index(further.saturating_add(1))),
        }
    }
}

fn text_value(text: &[u8]) -> Message {
    let mut message = Message::default();
    message.nested(field::ANY_TEXT, text);
    message
}

fn number_value(number: u64) -> Message {
    let mut message = Message::default();
    message.chosen_number(field::ANY_NUMBER, number);
    message
}

/// What OpenTelemetry calls frames of a kind; nothing where there is no word for it.
const fn frame_type(kind: FrameKind) -> Option<&'static str> {
    match kind {
        FrameKind::Managed => Some("dotnet"),
        FrameKind::Native => Some("native"),
        FrameKind::Runtime | FrameKind::Synthetic => None,
    }
}

/// Positions begin with 1: the first of each table is empty.
fn position(index: usize) -> u64 {
    (index as u64).saturating_add(1)
}
