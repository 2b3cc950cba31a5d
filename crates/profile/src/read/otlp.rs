//! OpenTelemetry's profiles, as [`crate::otlp`] and others write them (`v1development`, with a
//! dictionary beside the resources): a profile for each resource, of all its types of values.

use std::collections::HashMap;

use model::{FrameKind, ThreadState};

use super::error::DecodeError;
use super::labels::Labels;
use super::tables::{fields, numbers};
use super::threads::Threads;
use crate::aggregate::{Added, Aggregate, Key};
use crate::bounds::Limits;
use crate::index::{FrameIndex, ModuleIndex, StringIndex};
use crate::label_name::name_from_file;
use crate::otlp::{
    BUILD_ID, ENDPOINT, FRAME_TYPE, LOCAL_ROOT, THREAD_ID, THREAD_NAME, THREAD_STATE, field,
};
use crate::profile::{Function, Module, Period, Profile, Values};
use crate::span::{SpanIds, SpanKey};
use crate::wire::Value;

/// Entries of a table, samples and frames of all samples at most.
const ENTRIES: usize = 4 << 20;
const SAMPLES: usize = 4 << 20;
const FRAMES: usize = 1 << 28;

/// What a resource sent.
#[derive(Debug)]
pub struct OtlpProfile {
    /// The attributes of the process that are texts or numbers.
    pub resource: Vec<(String, String)>,
    /// All its profiles as one.
    pub profile: Profile,
}

/// Reads a request (`ExportProfilesServiceRequest`), not compressed.
///
/// # Errors
/// If the bytes are none.
pub fn otlp_request(bytes: &[u8]) -> Result<Vec<OtlpProfile>, DecodeError> {
    let mut resources = Vec::new();
    let mut dictionary = Dictionary::default();
    for field in fields("profiles request", bytes) {
        match field? {
            (field::REQUEST_RESOURCES, Value::Bytes(bytes)) => resources.push(bytes),
            (field::REQUEST_DICTIONARY, Value::Bytes(bytes)) => dictionary.read(bytes)?,
            _ => {}
        }
        if resources.len() > 256 {
            return Err(DecodeError::TooMany { what: "resources" });
        }
    }
    resources.into_iter().map(|resource| Reader::new(&dictionary).resource(resource)).collect()
}

/// Messages of the tables, as they were sent.
#[derive(Debug, Default)]
struct Dictionary<'a> {
    tables: [Vec<&'a [u8]>; 8],
}

impl<'a> Dictionary<'a> {
    fn read(&mut self, bytes: &'a [u8]) -> Result<(), DecodeError> {
        for field in fields("dictionary", bytes) {
            if let (number, Value::Bytes(bytes)) = field?
                && let Some(table) =
                    usize::try_from(number).ok().and_then(|n| self.tables.get_mut(n))
            {
                if table.len() >= ENTRIES {
                    return Err(DecodeError::TooMany { what: "entries of the dictionary" });
                }
                table.push(bytes);
            }
        }
        Ok(())
    }

    fn entry(&self, table: u64, name: &'static str, id: u64) -> Result<&'a [u8], DecodeError> {
        let table = usize::try_from(table).ok().and_then(|at| self.tables.get(at));
        let entry = table.and_then(|table| table.get(usize::try_from(id).ok()?));
        entry.copied().ok_or(DecodeError::NoSuchEntry { table: name, id })
    }

    fn text(&self, id: u64) -> Result<String, DecodeError> {
        let bytes = self.entry(field::DICTIONARY_STRING, "string", id)?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The name of an attribute and its value as a text.
    fn attribute(&self, id: u64) -> Result<(String, String), DecodeError> {
        let (mut key, mut value) = (0, String::new());
        for field in fields("attribute", self.entry(field::DICTIONARY_ATTRIBUTE, "attribute", id)?)
        {
            match field? {
                (field::KEY, Value::Number(number)) => key = number,
                (field::KEY_VALUE, Value::Bytes(bytes)) => value = any_value(bytes)?,
                _ => {}
            }
        }
        Ok((self.text(key)?, value))
    }
}

fn any_value(bytes: &[u8]) -> Result<String, DecodeError> {
    let mut text = String::new();
    for field in fields("value", bytes) {
        match field? {
            (field::ANY_TEXT, Value::Bytes(bytes)) => {
                text = String::from_utf8_lossy(bytes).into_owned();
            }
            (field::ANY_NUMBER, Value::Number(number)) => text = number.cast_signed().to_string(),
            _ => {}
        }
    }
    Ok(text)
}

/// Which of a sample's values a profile has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Cpu(u64),
    Wall(u64),
    Gc(u64),
    Count,
}

/// A profile of one type of values, before its samples are read.
#[derive(Debug, Default)]
struct Head<'a> {
    column: Option<Column>,
    period: Period,
    samples: Vec<&'a [u8]>,
}

/// A sample's parts.
#[derive(Debug, Default)]
struct Parts {
    stack: u64,
    attributes: Vec<u64>,
    link: u64,
    value: u64,
}

struct Reader<'d> {
    dictionary: &'d Dictionary<'d>,
    aggregate: Aggregate,
    threads: Threads,
    labels: Labels,
    /// Frames of each location, the innermost first.
    locations: HashMap<u64, Vec<FrameIndex>>,
    frames_of_samples: usize,
    period: Option<Period>,
}

impl<'d> Reader<'d> {
    fn new(dictionary: &'d Dictionary<'d>) -> Self {
        Self {
            dictionary,
            aggregate: Aggregate::new(Limits::READER),
            threads: Threads::default(),
            labels: Labels::default(),
            locations: HashMap::new(),
            frames_of_samples: 0,
            period: None,
        }
    }

    fn resource(mut self, bytes: &[u8]) -> Result<OtlpProfile, DecodeError> {
        let mut resource = Vec::new();
        let mut heads = Vec::new();
        for field in fields("resource profiles", bytes) {
            match field? {
                (field::RESOURCE_RESOURCE, Value::Bytes(bytes)) => {
                    for field in fields("resource", bytes) {
                        if let (field::RESOURCE_ATTRIBUTES, Value::Bytes(bytes)) = field? {
                            resource.push(key_value(bytes)?);
                        }
                    }
                }
                (field::RESOURCE_SCOPES, Value::Bytes(bytes)) => {
                    for field in fields("scope profiles", bytes) {
                        if let (field::SCOPE_PROFILES, Value::Bytes(bytes)) = field? {
                            heads.push(self.head(bytes)?);
                        }
                    }
                }
                _ => {}
            }
        }
        if heads.iter().all(|head| head.column.is_none()) {
            return Err(DecodeError::NotAProfile("it has no CPU or wall time"));
        }
        let has_cpu = heads.iter().any(|head| matches!(head.column, Some(Column::Cpu(_))));
        for head in &heads {
            self.samples(head, has_cpu)?;
        }
        let profile = self.aggregate.take(self.period.unwrap_or_default()).profile;
        Ok(OtlpProfile { resource, profile })
    }

    fn head<'b>(&mut self, bytes: &'b [u8]) -> Result<Head<'b>, DecodeError> {
        let mut head = Head::default();
        for field in fields("profile", bytes) {
            match field? {
                (field::PROFILE_TYPE, Value::Bytes(bytes)) => head.column = self.column(bytes)?,
                (field::PROFILE_SAMPLE, Value::Bytes(bytes)) => head.samples.push(bytes),
                (field::PROFILE_TIME, Value::Fixed(time)) => head.period.start_unix_ns = time,
                (field::PROFILE_DURATION, Value::Number(ns)) => head.period.duration_ns = ns,
                (field::PROFILE_PERIOD, Value::Number(ns)) => head.period.cpu_interval_ns = ns,
                _ => {}
            }
            if head.samples.len() > SAMPLES {
                return Err(DecodeError::TooMany { what: "samples" });
            }
        }
        Ok(head)
    }

    fn column(&self, bytes: &[u8]) -> Result<Option<Column>, DecodeError> {
        let (mut name, mut unit) = (0, 0);
        for field in fields("value type", bytes) {
            match field? {
                (field::TYPE_TYPE, Value::Number(number)) => name = number,
                (field::TYPE_UNIT, Value::Number(number)) => unit = number,
                _ => {}
            }
        }
        let scale = match self.dictionary.text(unit)?.as_str() {
            "nanoseconds" | "ns" => Some(1),
            "microseconds" | "us" => Some(1_000),
            "milliseconds" | "ms" => Some(1_000_000),
            "seconds" | "s" => Some(1_000_000_000),
            _ => None,
        };
        Ok(match (self.dictionary.text(name)?.as_str(), scale) {
            ("cpu" | "on_cpu", Some(scale)) => Some(Column::Cpu(scale)),
            ("wall", Some(scale)) => Some(Column::Wall(scale)),
            ("gc", Some(scale)) => Some(Column::Gc(scale)),
            ("samples" | "cpu-samples", _) => Some(Column::Count),
            _ => None,
        })
    }

    fn samples(&mut self, head: &Head<'_>, has_cpu: bool) -> Result<(), DecodeError> {
        let Some(column) = head.column else { return Ok(()) };
        self.period.get_or_insert(head.period);
        for bytes in &head.samples {
            let parts = parts(bytes)?;
            let times = |scale| parts.value.saturating_mul(scale);
            let mut values = Values::default();
            match column {
                Column::Cpu(scale) => values.cpu_ns = times(scale),
                Column::Wall(scale) => values.wall_ns = times(scale),
                Column::Gc(scale) => values.gc_ns = times(scale),
                Column::Count => {
                    values.count = parts.value;
                    // Who only counts tells what a sample stands for.
                    if !has_cpu {
                        values.cpu_ns = times(head.period.cpu_interval_ns);
                    }
                }
            }
            let key = self.key(&parts)?;
            if let (Added::Lost(_), _) = self.aggregate.add_key(key, values) {
                return Err(DecodeError::TooMany { what: "stacks or samples" });
            }
        }
        Ok(())
    }

    fn key(&mut self, parts: &Parts) -> Result<Key, DecodeError> {
        let mut frames = Vec::new();
        let stack = self.dictionary.entry(field::DICTIONARY_STACK, "stack", parts.stack)?;
        for field in fields("stack", stack) {
            if let (field::STACK_LOCATIONS, value) = field? {
                let mut locations = Vec::new();
                numbers("stack", value, |number| locations.push(number))?;
                for location in locations {
                    frames.extend_from_slice(self.location(location)?);
                }
            }
        }
        self.frames_of_samples = self.frames_of_samples.saturating_add(frames.len());
        if self.frames_of_samples > FRAMES {
            return Err(DecodeError::TooMany { what: "frames of samples" });
        }
        let stack = self.aggregate.stack_index(frames.into_iter());
        let mut known = Known::default();
        for id in &parts.attributes {
            known.take(self.dictionary.attribute(*id)?);
        }
        known.ids.span_id = self.link(parts.link, &mut known.ids.trace_id)?;
        let span = self.span(&known)?;
        let thread = self.threads.key(known.thread_id, &known.thread_name, &mut self.aggregate);
        let mut pairs: Vec<_> =
            known.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let labels = self.labels.key(&mut pairs, &mut self.aggregate)?;
        Ok(Key { stack, thread, state: known.state, span, labels })
    }

    /// The span of a link, and its trace; 0 for none.
    fn link(&self, id: u64, trace: &mut [u8; 16]) -> Result<u64, DecodeError> {
        let mut span = 0;
        if id == 0 {
            return Ok(span);
        }
        for field in fields("link", self.dictionary.entry(field::DICTIONARY_LINK, "link", id)?) {
            match field? {
                (field::LINK_TRACE, Value::Bytes(bytes)) => {
                    *trace = bytes.try_into().unwrap_or_default();
                }
                (field::LINK_SPAN, Value::Bytes(bytes)) => {
                    span = bytes.try_into().map_or(0, u64::from_be_bytes);
                }
                _ => {}
            }
        }
        Ok(span)
    }

    fn span(&mut self, known: &Known) -> Result<Option<crate::span::SpanNumber>, DecodeError> {
        if known.ids == SpanIds::NONE && known.endpoint.is_empty() {
            return Ok(None);
        }
        let endpoint = self.string(&known.endpoint)?;
        let span = self.aggregate.spans.intern(SpanKey { ids: known.ids, endpoint });
        span.map(Some).ok_or(DecodeError::TooMany { what: "spans" })
    }

    fn string(&mut self, text: &str) -> Result<StringIndex, DecodeError> {
        self.aggregate.strings.intern(text).ok_or(DecodeError::TooMany { what: "strings" })
    }

    fn location(&mut self, id: u64) -> Result<&[FrameIndex], DecodeError> {
        if !self.locations.contains_key(&id) {
            let frames = self.frames(id)?;
            self.locations.insert(id, frames);
        }
        Ok(self.locations.get(&id).map(Vec::as_slice).unwrap_or_default())
    }

    fn frames(&mut self, id: u64) -> Result<Vec<FrameIndex>, DecodeError> {
        let (mut mapping, mut address, mut lines, mut kind) = (0, 0, Vec::new(), None);
        let entry = self.dictionary.entry(field::DICTIONARY_LOCATION, "location", id)?;
        for field in fields("location", entry) {
            match field? {
                (field::LOCATION_MAPPING, Value::Number(number)) => mapping = number,
                (field::LOCATION_ADDRESS, Value::Number(number)) => address = number,
                (field::LOCATION_LINES, Value::Bytes(bytes)) => lines.push(line(bytes)?),
                (field::LOCATION_ATTRIBUTES, value) => {
                    let mut ids = Vec::new();
                    numbers("location", value, |number| ids.push(number))?;
                    for id in ids {
                        let (name, value) = self.dictionary.attribute(id)?;
                        if name == FRAME_TYPE {
                            kind = kind_of(&value);
                        }
                    }
                }
                _ => {}
            }
        }
        let module = self.module(mapping)?;
        let mut frames = Vec::new();
        for (function, line) in lines {
            let function = self.function(function, kind)?;
            frames.push(self.aggregate.location(function, module, (address, line)));
        }
        if frames.is_empty() {
            // Without symbols the address is the name.
            let name = self.string(&format!("{address:#x}"))?;
            let (raw_name, file) = (StringIndex::EMPTY, StringIndex::EMPTY);
            let function = Function { name, raw_name, file, kind };
            frames.push(self.aggregate.location(function, module, (address, 0)));
        }
        if self.aggregate.frames_over_limit() > 0 {
            return Err(DecodeError::TooMany { what: "functions or locations" });
        }
        Ok(frames)
    }

    fn function(&mut self, id: u64, kind: Option<FrameKind>) -> Result<Function, DecodeError> {
        let (mut name, mut raw, mut file) = (0, 0, 0);
        let entry = self.dictionary.entry(field::DICTIONARY_FUNCTION, "function", id)?;
        for field in fields("function", entry) {
            match field? {
                (field::FUNCTION_NAME, Value::Number(number)) => name = number,
                (field::FUNCTION_SYSTEM_NAME, Value::Number(number)) => raw = number,
                (field::FUNCTION_FILE, Value::Number(number)) => file = number,
                _ => {}
            }
        }
        let [name, raw, file] = [name, raw, file].map(|id| self.dictionary.text(id));
        let (name, raw, file) = (name?, raw?, file?);
        let raw_name = if raw == name { "" } else { &raw };
        let shown = if name.is_empty() { &raw } else { &name };
        Ok(Function {
            name: self.string(shown)?,
            raw_name: self.string(raw_name)?,
            file: self.string(&file)?,
            kind,
        })
    }

    fn module(&mut self, id: u64) -> Result<Option<ModuleIndex>, DecodeError> {
        if id == 0 {
            return Ok(None);
        }
        let (mut start, mut limit, mut file, mut build_id) = (0, 0, 0, String::new());
        let entry = self.dictionary.entry(field::DICTIONARY_MAPPING, "mapping", id)?;
        for field in fields("mapping", entry) {
            match field? {
                (field::MAPPING_START, Value::Number(number)) => start = number,
                (field::MAPPING_LIMIT, Value::Number(number)) => limit = number,
                (field::MAPPING_FILE, Value::Number(number)) => file = number,
                (field::MAPPING_ATTRIBUTES, value) => {
                    let mut ids = Vec::new();
                    numbers("mapping", value, |number| ids.push(number))?;
                    for id in ids {
                        let (name, value) = self.dictionary.attribute(id)?;
                        if name == BUILD_ID {
                            build_id = value;
                        }
                    }
                }
                _ => {}
            }
        }
        let file = self.dictionary.text(file)?;
        let module =
            Module { file: self.string(&file)?, build_id: self.string(&build_id)?, start, limit };
        let index = self.aggregate.modules.intern(module).map(ModuleIndex::new);
        index.map(Some).ok_or(DecodeError::TooMany { what: "mappings" })
    }
}

/// What attributes say of a sample.
#[derive(Debug, Default)]
struct Known {
    thread_id: u32,
    thread_name: String,
    state: Option<ThreadState>,
    endpoint: String,
    ids: SpanIds,
    labels: Vec<(String, String)>,
}

impl Known {
    fn take(&mut self, (name, value): (String, String)) {
        match name.as_str() {
            THREAD_ID => self.thread_id = value.parse().unwrap_or_default(),
            THREAD_NAME => self.thread_name = value,
            THREAD_STATE => {
                self.state = ThreadState::ALL.into_iter().find(|state| state.name() == value);
            }
            ENDPOINT => self.endpoint = value,
            LOCAL_ROOT => {
                self.ids.local_root_span_id = u64::from_str_radix(&value, 16).unwrap_or_default();
            }
            _ => self.labels.push((name_from_file(&name).to_owned(), value)),
        }
    }
}

fn parts(bytes: &[u8]) -> Result<Parts, DecodeError> {
    let mut parts = Parts::default();
    for field in fields("sample", bytes) {
        match field? {
            (field::SAMPLE_STACK, Value::Number(number)) => parts.stack = number,
            (field::SAMPLE_ATTRIBUTES, value) => {
                numbers("sample", value, |number| parts.attributes.push(number))?;
            }
            (field::SAMPLE_LINK, Value::Number(number)) => parts.link = number,
            (field::SAMPLE_VALUES, value) => {
                // With timestamps there is a value for each.
                let mut sum = 0_u64;
                numbers("sample", value, |number| sum = sum.saturating_add(number))?;
                parts.value = parts.value.saturating_add(sum);
            }
            _ => {}
        }
    }
    if parts.value > i64::MAX as u64 {
        return Err(DecodeError::NotAProfile("a value is negative"));
    }
    Ok(parts)
}

fn key_value(bytes: &[u8]) -> Result<(String, String), DecodeError> {
    let (mut key, mut value) = (String::new(), String::new());
    for field in fields("attribute", bytes) {
        match field? {
            (field::KEY, Value::Bytes(bytes)) => key = String::from_utf8_lossy(bytes).into_owned(),
            (field::KEY_VALUE, Value::Bytes(bytes)) => value = any_value(bytes)?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// The function and the line of a location's line.
fn line(bytes: &[u8]) -> Result<(u64, u32), DecodeError> {
    let (mut function, mut line) = (0, 0);
    for field in fields("line", bytes) {
        match field? {
            (field::LINE_FUNCTION, Value::Number(number)) => function = number,
            (field::LINE_LINE, Value::Number(number)) => line = number,
            _ => {}
        }
    }
    Ok((function, u32::try_from(line).unwrap_or_default()))
}

/// What kind a frame is, by OpenTelemetry's word for it.
fn kind_of(frame_type: &str) -> Option<FrameKind> {
    match frame_type {
        "dotnet" => Some(FrameKind::Managed),
        "native" | "kernel" => Some(FrameKind::Native),
        _ => None,
    }
}
