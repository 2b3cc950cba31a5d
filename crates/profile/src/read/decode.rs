//! A profile from bytes.

use std::borrow::Cow;
use std::collections::HashMap;

use model::ThreadState;

use super::error::DecodeError;
use super::inflate::{INFLATED_BYTES, inflate};
use super::labels::Labels;
use super::tables::{LocationEntry, Tables, fields, numbers};
use super::threads::Threads;
use crate::aggregate::{Added, Aggregate, Key};
use crate::bounds::Limits;
use crate::index::{FrameIndex, ModuleIndex, StringIndex};
use crate::kind::split_system_name;
use crate::label_name::name_from_file;
use crate::pprof::{
    LABEL_ENDPOINT, LABEL_LOCAL_ROOT_SPAN_ID, LABEL_PROFILE_ID, LABEL_SERIES_ENDPOINT,
    LABEL_SPAN_ID, LABEL_STATE, LABEL_THREAD_ID, LABEL_THREAD_NAME, LABEL_TRACE_ID, SAMPLE_TYPES,
    field,
};
use crate::profile::{Function, Module, Period, Profile, Values};
use crate::report::{ReportError, SelfReport, endpoint_from_comment};
use crate::span::{SpanIds, SpanKey};
use crate::timeline::Moment;
use crate::wire::{Value, packed};

/// Frames of all samples together at most: bounds the time that a small, hostile file takes.
const FRAMES_OF_SAMPLES: usize = 1 << 30;
/// Labels of one sample at most.
const LABELS_OF_SAMPLE: usize = 1 << 16;

/// What [`decode`] gives.
#[derive(Debug)]
pub struct Decoded {
    /// The profile.
    pub profile: Profile,
    /// Why the profiler's own numbers, or those of endpoints, could not be read, where they are
    /// there; the samples are good.
    pub report_error: Option<ReportError>,
    /// Bytes of it once it was inflated.
    pub plain_bytes: usize,
    /// Whether it is written as for Pyroscope, and not as our files are.
    pub is_series: bool,
}

/// Reads a pprof profile, gzipped or plain. Of sample types that are neither count nor CPU nor wall
/// time nor pauses nothing is kept. Labels that are not ours are the program's; numbers become
/// texts, without their units. In what was written for Pyroscope `endpoint` and `profile_id` are of
/// the request, as its senders have them.
///
/// # Errors
/// If the bytes are no such profile; the error says what is wrong.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    decode_within(bytes, INFLATED_BYTES)
}

/// The same of a profile that has no more than so many bytes once it is inflated.
///
/// # Errors
/// As [`decode`].
pub fn decode_within(bytes: &[u8], bytes_max: usize) -> Result<Decoded, DecodeError> {
    let plain = inflate(bytes, bytes_max)?;
    let tables = Tables::read(&plain)?;
    let mut decoder = Decoder::new(&tables)?;
    for (id, location) in &tables.locations {
        decoder.location(*id, location)?;
    }
    let samples = fields("profile", &plain).filter_map(|field| match field {
        Ok((field::PROFILE_SAMPLE, Value::Bytes(bytes))) => Some(Ok(bytes)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    for (position, sample) in samples.enumerate() {
        decoder.sample(position, sample?)?;
    }
    decoder.finish(plain.len())
}

/// Which value of a sample is which, and how many nanoseconds one is.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    count: Option<usize>,
    cpu: Option<(usize, u64)>,
    wall: Option<(usize, u64)>,
    gc: Option<(usize, u64)>,
}

/// A sample's parts; kept for their memory.
#[derive(Debug, Default)]
struct Parts<'a> {
    frames: Vec<FrameIndex>,
    locations: Vec<u64>,
    values: Vec<u64>,
    thread_id: u32,
    thread_name: String,
    state: Option<ThreadState>,
    has_span: bool,
    ids: SpanIds,
    endpoint: &'a str,
    labels: Vec<(&'a str, Cow<'a, str>)>,
}

struct Decoder<'a> {
    tables: &'a Tables<'a>,
    columns: Columns,
    /// Whether labels have Pyroscope's names.
    is_series: bool,
    aggregate: Aggregate,
    threads: Threads,
    labels: Labels,
    /// A location's frames, the innermost first.
    frames: HashMap<u64, Box<[FrameIndex]>>,
    frames_of_samples: usize,
    /// Where in the aggregate the samples are, if moments refer to them.
    positions: Vec<u32>,
    parts: Parts<'a>,
}

impl<'a> Decoder<'a> {
    fn new(tables: &'a Tables<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            tables,
            columns: columns(tables)?,
            is_series: is_series(tables)?,
            aggregate: if tables.moments.is_empty() {
                Aggregate::new(Limits::READER)
            } else {
                Aggregate::new(Limits::READER).with_moments()
            },
            threads: Threads::default(),
            labels: Labels::default(),
            frames: HashMap::with_capacity(tables.locations.len()),
            frames_of_samples: 0,
            positions: Vec::new(),
            parts: Parts::default(),
        })
    }

    fn string(&mut self, text: &str) -> Result<StringIndex, DecodeError> {
        self.aggregate.strings.intern(text).ok_or(DecodeError::TooMany { what: "strings" })
    }

    fn module(&mut self, id: u64) -> Result<Option<ModuleIndex>, DecodeError> {
        let tables = self.tables;
        let Some(entry) = tables.mapping_of(id)? else { return Ok(None) };
        let module = Module {
            file: self.string(tables.text(entry.file)?)?,
            build_id: self.string(tables.text(entry.build_id)?)?,
            start: entry.start,
            limit: entry.limit,
        };
        let index = self.aggregate.modules.intern(module);
        index
            .map(|index| Some(ModuleIndex::new(index)))
            .ok_or(DecodeError::TooMany { what: "mappings" })
    }

    fn location(&mut self, id: u64, entry: &LocationEntry) -> Result<(), DecodeError> {
        let tables = self.tables;
        let module = self.module(entry.mapping)?;
        let mut frames = Vec::new();
        for line in tables.lines_of(entry) {
            let function = self.function(line.function)?;
            let line = u32::try_from(line.line).unwrap_or_default();
            frames.push(self.aggregate.location(function, module, (entry.address, line)));
        }
        if frames.is_empty() {
            // Without symbols the address is the name.
            let function = Function {
                name: self.string(&format!("{:#x}", entry.address))?,
                raw_name: StringIndex::EMPTY,
                file: StringIndex::EMPTY,
                kind: None,
            };
            frames.push(self.aggregate.location(function, module, (entry.address, 0)));
        }
        if self.aggregate.frames_over_limit() > 0 {
            return Err(DecodeError::TooMany { what: "functions or locations" });
        }
        self.frames.insert(id, frames.into_boxed_slice());
        Ok(())
    }

    fn function(&mut self, id: u64) -> Result<Function, DecodeError> {
        let tables = self.tables;
        let entry = tables.function_of(id)?;
        let (kind, raw_name) = split_system_name(tables.text(entry.system_name)?);
        let name = match tables.text(entry.name)? {
            "" => raw_name,
            name => name,
        };
        Ok(Function {
            name: self.string(name)?,
            raw_name: self.string(if raw_name == name { "" } else { raw_name })?,
            file: self.string(tables.text(entry.file)?)?,
            kind,
        })
    }

    fn sample(&mut self, position: usize, message: &[u8]) -> Result<(), DecodeError> {
        self.parts.clear();
        for field in fields("sample", message) {
            match field? {
                (field::SAMPLE_LOCATION, value) => {
                    numbers("sample", value, |number| self.parts.locations.push(number))?;
                }
                (field::SAMPLE_VALUE, value) => {
                    numbers("sample", value, |number| self.parts.values.push(number))?;
                }
                (field::SAMPLE_LABEL, Value::Bytes(bytes)) => self.label(bytes)?,
                _ => {}
            }
        }
        for id in &self.parts.locations {
            let frames = self.frames.get(id);
            let frames = frames.ok_or(DecodeError::NoSuchEntry { table: "location", id: *id })?;
            self.frames_of_samples = self.frames_of_samples.saturating_add(frames.len());
            if self.frames_of_samples > FRAMES_OF_SAMPLES {
                return Err(DecodeError::TooMany { what: "frames of samples" });
            }
            self.parts.frames.extend_from_slice(frames);
        }
        let values = self.values(position)?;
        let key = self.key()?;
        match self.aggregate.add_key(key, values) {
            (Added::Kept, place) => {
                if self.aggregate.moments.is_some() {
                    self.positions.push(place.unwrap_or(u32::MAX));
                }
                Ok(())
            }
            (Added::Lost(_), _) => Err(DecodeError::TooMany { what: "stacks or samples" }),
        }
    }

    fn key(&mut self) -> Result<Key, DecodeError> {
        let (parts, aggregate) = (&self.parts, &mut self.aggregate);
        let stack = aggregate.stack_index(parts.frames.iter().copied());
        let thread = self.threads.key(parts.thread_id, &parts.thread_name, aggregate);
        let span = if parts.has_span {
            let endpoint = aggregate.strings.intern(parts.endpoint);
            let endpoint = endpoint.ok_or(DecodeError::TooMany { what: "strings" })?;
            let span = aggregate.spans.intern(SpanKey { ids: parts.ids, endpoint });
            Some(span.ok_or(DecodeError::TooMany { what: "spans" })?)
        } else {
            None
        };
        let mut pairs: Vec<_> =
            parts.labels.iter().map(|(name, value)| (*name, value.as_ref())).collect();
        let labels = self.labels.key(&mut pairs, aggregate)?;
        Ok(Key { stack, thread, state: parts.state, span, labels })
    }

    fn label(&mut self, message: &[u8]) -> Result<(), DecodeError> {
        let (mut key, mut text, mut number, mut unit) = (0, 0, 0, 0);
        for field in fields("label", message) {
            match field? {
                (field::LABEL_KEY, Value::Number(value)) => key = value,
                (field::LABEL_TEXT, Value::Number(value)) => text = value,
                (field::LABEL_NUMBER, Value::Number(value)) => number = value,
                (field::LABEL_UNIT, Value::Number(value)) => unit = value,
                _ => {}
            }
        }
        let tables = self.tables;
        let (name, text) = (tables.text(key)?, tables.text(text)?);
        let is_series_label = self.is_series && self.parts.series_label(name, text);
        if name.is_empty() || is_series_label || self.parts.own_label(name, text, number) {
            return Ok(());
        }
        if self.parts.labels.len() >= LABELS_OF_SAMPLE {
            return Err(DecodeError::TooMany { what: "labels" });
        }
        let is_number = text.is_empty() && (number != 0 || unit != 0);
        let value = if is_number { number.cast_signed().to_string().into() } else { text.into() };
        self.parts.labels.push((name_from_file(name), value));
        Ok(())
    }

    fn values(&self, sample: usize) -> Result<Values, DecodeError> {
        let values = &self.parts.values;
        let (found, expected) = (values.len(), self.tables.sample_types.len());
        if found != expected {
            return Err(DecodeError::ValueCount { sample, found, expected });
        }
        let value = |column: Option<(usize, u64)>| {
            let Some((position, scale)) = column else { return Ok(0) };
            match values.get(position).copied().unwrap_or_default() {
                value if value > i64::MAX as u64 => Err(DecodeError::Negative { sample }),
                value => Ok(value.saturating_mul(scale)),
            }
        };
        Ok(Values {
            count: value(self.columns.count.map(|position| (position, 1)))?,
            cpu_ns: value(self.columns.cpu)?,
            wall_ns: value(self.columns.wall)?,
            gc_ns: value(self.columns.gc)?,
        })
    }

    /// What the file says of when samples came about; see `pprof` for how.
    fn moments(&mut self) -> Result<(), DecodeError> {
        let tables = self.tables;
        let wire = |what| DecodeError::Wire { message: "moments", what };
        let (mut begin_us, mut sample) = (0_u64, 0_i64);
        for bytes in &tables.moments {
            let mut numbers = packed(bytes);
            while let Some(step_us) = numbers.next() {
                let (Some(duration_us), Some(zigzag)) = (numbers.next(), numbers.next()) else {
                    return Err(wire("a moment is cut off"));
                };
                let zigzag = zigzag.map_err(wire)?;
                let step = (zigzag >> 1).cast_signed() ^ (zigzag & 1).cast_signed().wrapping_neg();
                begin_us = begin_us.saturating_add(step_us.map_err(wire)?);
                sample = sample.saturating_add(step);
                let position = usize::try_from(sample).ok().and_then(|at| self.positions.get(at));
                let id = sample.cast_unsigned();
                let none = DecodeError::NoSuchEntry { table: "sample", id };
                let sample = *position.ok_or(none)?;
                let number = |number: u64| u32::try_from(number).map_err(|_| wire("too late"));
                let duration_us = number(duration_us.map_err(wire)?)?;
                let begin_us = number(begin_us)?;
                if !self.aggregate.moment(Moment { begin_us, duration_us, sample }) {
                    return Err(DecodeError::TooMany { what: "moments" });
                }
            }
        }
        Ok(())
    }

    fn finish(mut self, plain_bytes: usize) -> Result<Decoded, DecodeError> {
        self.moments()?;
        let tables = self.tables;
        let comments = tables.comments.iter().map(|position| tables.text(*position));
        let comments = comments.collect::<Result<Vec<_>, _>>()?;
        let (report, mut report_error) = match SelfReport::from_comments(comments.clone()) {
            Ok(report) => (report, None),
            Err(error) => (None, Some(error)),
        };
        for endpoint in comments.into_iter().filter_map(endpoint_from_comment) {
            match endpoint {
                Ok((requests, duration_ns, name)) => {
                    let name = self.string(name)?;
                    self.aggregate.endpoints.add(name, requests, duration_ns);
                }
                Err(error) => report_error = Some(error),
            }
        }
        let taken = self.aggregate.take(Period {
            start_unix_ns: tables.time_ns,
            duration_ns: tables.duration_ns,
            cpu_interval_ns: tables.period,
        });
        let profile = Profile { report, ..taken.profile };
        Ok(Decoded { profile, report_error, plain_bytes, is_series: self.is_series })
    }
}

impl<'a> Parts<'a> {
    fn clear(&mut self) {
        self.frames.clear();
        self.locations.clear();
        self.values.clear();
        self.thread_id = 0;
        self.thread_name.clear();
        self.state = None;
        self.has_span = false;
        self.ids = SpanIds::NONE;
        self.endpoint = "";
        self.labels.clear();
    }

    /// Takes a label that has a meaning of Pyroscope's; whether it was one.
    fn series_label(&mut self, name: &str, text: &'a str) -> bool {
        match name {
            // A program's own of that name is behind it.
            LABEL_SERIES_ENDPOINT if self.endpoint.is_empty() => {
                self.endpoint = text;
                self.has_span = true;
            }
            LABEL_PROFILE_ID => {
                // What is no span's id is one of something else, and as a label as long a list.
                if let Some(root) = SpanIds::span_from_text(text) {
                    self.ids.local_root_span_id = root;
                    self.has_span = true;
                }
            }
            _ => return false,
        }
        true
    }

    /// Takes a label that has a meaning of ours; whether it was one.
    fn own_label(&mut self, name: &str, text: &'a str, number: u64) -> bool {
        match name {
            // Other profilers write it as text.
            LABEL_THREAD_ID => {
                let number = if text.is_empty() { number } else { text.parse().unwrap_or(0) };
                self.thread_id = u32::try_from(number).unwrap_or_default();
                return true;
            }
            LABEL_THREAD_NAME => {
                text.clone_into(&mut self.thread_name);
                return true;
            }
            LABEL_STATE => {
                self.state = ThreadState::ALL.into_iter().find(|state| state.name() == text);
                return self.state.is_some();
            }
            LABEL_TRACE_ID => {
                let Some(id) = SpanIds::trace_from_text(text) else { return false };
                self.ids.trace_id = id;
            }
            LABEL_SPAN_ID | LABEL_LOCAL_ROOT_SPAN_ID => {
                // Other profilers write it as text: a decimal number.
                let number = if text.is_empty() { Some(number) } else { text.parse().ok() };
                let Some(id) = number else { return false };
                if name == LABEL_SPAN_ID {
                    self.ids.span_id = id;
                } else {
                    self.ids.local_root_span_id = id;
                }
            }
            LABEL_ENDPOINT => self.endpoint = text,
            _ => return false,
        }
        self.has_span = true;
        true
    }
}

/// Whether it is as Pyroscope's senders write it, and not as our files are: those count CPU samples
/// by a name of their own.
fn is_series(tables: &Tables<'_>) -> Result<bool, DecodeError> {
    for (kind, _) in &tables.sample_types {
        if tables.text(*kind)? == SAMPLE_TYPES[0].0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Finds the values that mean something to us.
fn columns(tables: &Tables<'_>) -> Result<Columns, DecodeError> {
    let mut columns = Columns::default();
    let mut types = Vec::new();
    for (position, (kind, unit)) in tables.sample_types.iter().enumerate() {
        let (kind, unit) = (tables.text(*kind)?, tables.text(*unit)?);
        let scale = match unit {
            "nanoseconds" => Some(1),
            "microseconds" => Some(1_000),
            "milliseconds" => Some(1_000_000),
            "seconds" => Some(1_000_000_000),
            _ => None,
        };
        let time = scale.map(|scale| (position, scale));
        match kind {
            "cpu-samples" | "samples" => columns.count = columns.count.or(Some(position)),
            "cpu" => columns.cpu = columns.cpu.or(time),
            "wall" => columns.wall = columns.wall.or(time),
            "gc" => columns.gc = columns.gc.or(time),
            _ => {}
        }
        types.push(format!("{kind}/{unit}"));
    }
    if columns.cpu.is_none() && columns.wall.is_none() {
        return Err(DecodeError::NoTimes { types: types.join(", ") });
    }
    Ok(columns)
}
