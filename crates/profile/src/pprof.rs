//! Writing a profile as gzipped pprof: what `go tool pprof`, Pyroscope, Datadog and others read.
//!
//! Sample types, in this order: `cpu-samples/count`, `cpu/nanoseconds`, `wall/nanoseconds`,
//! `gc/nanoseconds`.
//! Labels: `thread id` (a number), `thread name` and `state` (texts); of a sample's span `trace id`
//! (32 hex digits), `span id` and `local root span id` (numbers) and `trace endpoint` (text), the
//! last one also empty if there is nothing else to say that there is a span; then the program's own
//! (texts). A module is a mapping, a frame is a location with one line; a function's kind and raw
//! name are in its `system_name` (`[managed] Raw.Name`); the profiler's own numbers and the
//! endpoints' requests are comments. When samples came about is a field of our own.

use std::io::{self, BufWriter, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::index::{StackIndex, StringIndex};
use crate::kind::system_name;
use crate::label_name::name_in_file;
use crate::profile::{Profile, Sample, Values};
use crate::pyroscope::{self, label_name};
use crate::report::endpoint_to_comment;
use crate::span::SpanIds;
use crate::strings::Strings;
use crate::timeline::Moment;
use crate::wire::Message;

/// The sample types with their units, in the order of a sample's values.
pub const SAMPLE_TYPES: [(&str, &str); 4] = [
    ("cpu-samples", "count"),
    ("cpu", "nanoseconds"),
    ("wall", "nanoseconds"),
    ("gc", "nanoseconds"),
];
/// Label: the operating system's thread id, a number.
pub const LABEL_THREAD_ID: &str = "thread id";
/// Label: the thread's name.
pub const LABEL_THREAD_NAME: &str = "thread name";
/// Label: what the thread was doing, see `ThreadState::name`.
pub const LABEL_STATE: &str = "state";
/// Label: the trace's id, 32 hex digits.
pub const LABEL_TRACE_ID: &str = "trace id";
/// Label: the span's id, a number; pprof's are signed, so a large one is negative there.
pub const LABEL_SPAN_ID: &str = "span id";
/// Label: the id of the span that the request began with in this process, a number.
pub const LABEL_LOCAL_ROOT_SPAN_ID: &str = "local root span id";
/// Label: the endpoint of the request, such as `GET /orders/{id}`.
pub const LABEL_ENDPOINT: &str = "trace endpoint";
/// Pyroscope's label of a request's endpoint.
pub(crate) const LABEL_SERIES_ENDPOINT: &str = "endpoint";
/// Pyroscope's label of a request's local root span.
pub(crate) const LABEL_PROFILE_ID: &str = "profile_id";

/// Field numbers of pprof's `profile.proto`.
pub(crate) mod field {
    pub(crate) const PROFILE_SAMPLE_TYPE: u64 = 1;
    pub(crate) const PROFILE_SAMPLE: u64 = 2;
    pub(crate) const PROFILE_MAPPING: u64 = 3;
    pub(crate) const PROFILE_LOCATION: u64 = 4;
    pub(crate) const PROFILE_FUNCTION: u64 = 5;
    pub(crate) const PROFILE_STRING: u64 = 6;
    pub(crate) const PROFILE_TIME: u64 = 9;
    pub(crate) const PROFILE_DURATION: u64 = 10;
    pub(crate) const PROFILE_PERIOD_TYPE: u64 = 11;
    pub(crate) const PROFILE_PERIOD: u64 = 12;
    pub(crate) const PROFILE_COMMENT: u64 = 13;
    pub(crate) const PROFILE_DEFAULT_TYPE: u64 = 14;
    /// Ours: see `moments`. Far from pprof's own, so that no later one of them has it.
    pub(crate) const PROFILE_MOMENTS: u64 = 4_100;
    pub(crate) const TYPE_TYPE: u64 = 1;
    pub(crate) const TYPE_UNIT: u64 = 2;
    pub(crate) const SAMPLE_LOCATION: u64 = 1;
    pub(crate) const SAMPLE_VALUE: u64 = 2;
    pub(crate) const SAMPLE_LABEL: u64 = 3;
    pub(crate) const LABEL_KEY: u64 = 1;
    pub(crate) const LABEL_TEXT: u64 = 2;
    pub(crate) const LABEL_NUMBER: u64 = 3;
    #[cfg(feature = "read")]
    pub(crate) const LABEL_UNIT: u64 = 4;
    pub(crate) const MAPPING_ID: u64 = 1;
    pub(crate) const MAPPING_START: u64 = 2;
    pub(crate) const MAPPING_LIMIT: u64 = 3;
    pub(crate) const MAPPING_FILE: u64 = 5;
    pub(crate) const MAPPING_BUILD_ID: u64 = 6;
    pub(crate) const MAPPING_HAS_FUNCTIONS: u64 = 7;
    pub(crate) const MAPPING_HAS_FILES: u64 = 8;
    pub(crate) const MAPPING_HAS_LINES: u64 = 9;
    pub(crate) const LOCATION_ID: u64 = 1;
    pub(crate) const LOCATION_MAPPING: u64 = 2;
    pub(crate) const LOCATION_ADDRESS: u64 = 3;
    pub(crate) const LOCATION_LINE: u64 = 4;
    pub(crate) const LINE_FUNCTION: u64 = 1;
    pub(crate) const LINE_LINE: u64 = 2;
    pub(crate) const FUNCTION_ID: u64 = 1;
    pub(crate) const FUNCTION_NAME: u64 = 2;
    pub(crate) const FUNCTION_SYSTEM_NAME: u64 = 3;
    pub(crate) const FUNCTION_FILE: u64 = 4;
}

/// For whom a profile is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// For files and `go tool pprof`: all that there is, named as above.
    File,
    /// For Datadog: the same, without when samples came about.
    Full,
    /// For Pyroscope: no `-` in a type's name, which its servers refuse; and of labels, each
    /// distinct set of which is a series of its own there, only the endpoint (`endpoint`), the
    /// program's own, and `profile_id`, which is no part of a series: the local root span's id in
    /// 16 hex digits.
    Pyroscope,
}

/// Writes the profile, gzipped. Memory use doesn't grow with the file.
///
/// # Errors
/// If `out` fails.
pub fn write<W: Write>(profile: &Profile, out: W) -> io::Result<W> {
    write_for(Dialect::File, profile, out)
}

/// The same, for somebody.
///
/// # Errors
/// If `out` fails.
pub fn write_for<W: Write>(dialect: Dialect, profile: &Profile, out: W) -> io::Result<W> {
    let mut encoder = Encoder {
        dialect,
        profile,
        out: BufWriter::with_capacity(CHUNK_BYTES, GzEncoder::new(out, PRESSED)),
        message: Message::default(),
        head: Message::default(),
        nested: Message::default(),
        extra: Strings::new(usize::MAX),
        fixed: Vec::new(),
        traces: Vec::new(),
        stacks: Default::default(),
        path: Vec::new(),
    };
    encoder.types()?;
    encoder.samples()?;
    encoder.modules()?;
    encoder.frames()?;
    encoder.functions()?;
    encoder.header()?;
    encoder.strings()?;
    encoder.moments()?;
    encoder.out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
}

/// Bytes that are pressed at a time: fields are small, and each call has its price.
const CHUNK_BYTES: usize = 32 << 10;

/// How hard to press. A tenth of a file's size is not worth half of what making it costs.
const PRESSED: Compression = Compression::fast();

/// Stacks that are kept as they were written.
const STACKS_KEPT: usize = 16;

struct Encoder<'a, W: Write> {
    dialect: Dialect,
    profile: &'a Profile,
    out: BufWriter<GzEncoder<W>>,
    /// The message at hand, its key and length, and a message inside it; kept for their memory.
    message: Message,
    head: Message,
    nested: Message,
    /// Strings that are not in the profile's table; their positions follow its own.
    extra: Strings,
    /// The positions of this module's own strings, which each sample has several of.
    fixed: Vec<(&'static str, u64)>,
    /// The string of each span's trace id.
    traces: Vec<u64>,
    /// Some stacks as they were written: threads that wait do so at the same few places.
    stacks: [(Option<StackIndex>, Message); STACKS_KEPT],
    /// Frames of the stack at hand; kept for its memory.
    path: Vec<u64>,
}

impl<W: Write> Encoder<'_, W> {
    /// The position of a further string.
    fn string(&mut self, text: &str) -> u64 {
        let position = self.extra.intern(text).unwrap_or(StringIndex::EMPTY).raw();
        match position.checked_sub(1) {
            Some(position) => (self.profile.strings.len() as u64).saturating_add(position.into()),
            // The empty string is the profile's first too.
            None => 0,
        }
    }

    /// The same for a string of this module's own, told by where it is.
    fn fixed(&mut self, text: &'static str) -> u64 {
        let known = self.fixed.iter().find(|(known, _)| std::ptr::eq(*known, text));
        if let Some((_, position)) = known {
            return *position;
        }
        let position = self.string(text);
        self.fixed.push((text, position));
        position
    }

    /// Writes the message at hand as a field of the profile.
    fn finish(&mut self, field: u64) -> io::Result<()> {
        self.head.clear();
        self.head.nested(field, self.message.bytes());
        self.message.clear();
        self.out.write_all(self.head.bytes())
    }

    fn value_type(&mut self, (kind, unit): (&str, &str)) {
        let (kind, unit) = (self.string(kind), self.string(unit));
        self.message.number(field::TYPE_TYPE, kind);
        self.message.number(field::TYPE_UNIT, unit);
    }

    fn types(&mut self) -> io::Result<()> {
        for (name, unit) in SAMPLE_TYPES {
            let name = match self.dialect {
                Dialect::File | Dialect::Full => name,
                Dialect::Pyroscope => name.trim_start_matches("cpu-"),
            };
            self.value_type((name, unit));
            self.finish(field::PROFILE_SAMPLE_TYPE)?;
        }
        Ok(())
    }

    fn samples(&mut self) -> io::Result<()> {
        let profile = self.profile;
        let spans = if self.dialect == Dialect::Pyroscope { &[] } else { &*profile.spans };
        for span in spans {
            let is_known = span.ids.trace_id != SpanIds::NONE.trace_id;
            let trace = if is_known { self.string(&span.ids.trace_text()) } else { 0 };
            self.traces.push(trace);
        }
        let merged;
        let samples = match self.dialect {
            Dialect::File | Dialect::Full => profile.samples.as_slice(),
            Dialect::Pyroscope => {
                merged = pyroscope::samples(profile);
                &merged
            }
        };
        for sample in samples {
            self.locations(sample.stack);
            self.message.packed(field::SAMPLE_VALUE, signed(sample.values).into_iter());
            self.labels(sample);
            self.finish(field::PROFILE_SAMPLE)?;
        }
        Ok(())
    }

    fn locations(&mut self, stack: StackIndex) {
        let place = stack.get() % STACKS_KEPT;
        let Some((kept, message)) = self.stacks.get_mut(place) else { return };
        if *kept != Some(stack) {
            self.path.clear();
            self.path.extend(self.profile.stack(stack).map(|frame| id(frame.get())));
            message.clear();
            message.packed(field::SAMPLE_LOCATION, self.path.iter().copied());
            *kept = Some(stack);
        }
        self.message.append(message);
    }

    fn labels(&mut self, sample: &Sample) {
        match self.dialect {
            Dialect::File | Dialect::Full => {
                self.thread_labels(sample);
                self.span_labels(sample);
            }
            Dialect::Pyroscope => self.series_labels(sample),
        }
        let profile = self.profile;
        for label in sample.labels.iter().filter_map(|at| profile.labels.get(at.get())).flatten() {
            let name = match self.dialect {
                Dialect::File | Dialect::Full => name_in_file(profile.text(label.name)),
                Dialect::Pyroscope => label_name(profile.text(label.name)).into(),
            };
            let name = self.string(&name);
            self.label(name, field::LABEL_TEXT, u64::from(label.value.raw()));
        }
    }

    fn series_labels(&mut self, sample: &Sample) {
        let Some(span) = self.profile.span_of(sample) else { return };
        if span.endpoint != StringIndex::EMPTY {
            let key = self.fixed(LABEL_SERIES_ENDPOINT);
            self.label(key, field::LABEL_TEXT, u64::from(span.endpoint.raw()));
        }
        let root = span.ids.local_root_span_id;
        if root != 0 {
            let root = self.string(&format!("{root:016x}"));
            let key = self.fixed(LABEL_PROFILE_ID);
            self.label(key, field::LABEL_TEXT, root);
        }
    }

    fn thread_labels(&mut self, sample: &Sample) {
        if let Some(thread) = sample.thread {
            if thread.tid != 0 {
                let key = self.fixed(LABEL_THREAD_ID);
                self.label(key, field::LABEL_NUMBER, u64::from(thread.tid));
            }
            if thread.name != StringIndex::EMPTY {
                let key = self.fixed(LABEL_THREAD_NAME);
                self.label(key, field::LABEL_TEXT, u64::from(thread.name.raw()));
            }
        }
        if let Some(state) = sample.state {
            // In this order: files of the same are the same.
            let state = self.fixed(state.name());
            let key = self.fixed(LABEL_STATE);
            self.label(key, field::LABEL_TEXT, state);
        }
    }

    fn span_labels(&mut self, sample: &Sample) {
        let Some(span) = self.profile.span_of(sample) else { return };
        let trace = sample.span.and_then(|span| self.traces.get(span.get()).copied());
        for (name, value_field, value) in [
            (LABEL_TRACE_ID, field::LABEL_TEXT, trace.unwrap_or_default()),
            (LABEL_SPAN_ID, field::LABEL_NUMBER, span.ids.span_id),
            (LABEL_LOCAL_ROOT_SPAN_ID, field::LABEL_NUMBER, span.ids.local_root_span_id),
        ] {
            if value != 0 {
                let key = self.fixed(name);
                self.label(key, value_field, value);
            }
        }
        if span.endpoint != StringIndex::EMPTY || span.ids == SpanIds::NONE {
            let key = self.fixed(LABEL_ENDPOINT);
            self.label(key, field::LABEL_TEXT, u64::from(span.endpoint.raw()));
        }
    }

    fn label(&mut self, key: u64, value_field: u64, value: u64) {
        self.nested.clear();
        self.nested.number(field::LABEL_KEY, key);
        self.nested.number(value_field, value);
        self.message.nested(field::SAMPLE_LABEL, self.nested.bytes());
    }

    fn modules(&mut self) -> io::Result<()> {
        for (position, module) in self.profile.modules.iter().enumerate() {
            let message = &mut self.message;
            message.number(field::MAPPING_ID, id(position));
            message.number(field::MAPPING_START, module.start);
            message.number(field::MAPPING_LIMIT, module.limit);
            message.number(field::MAPPING_FILE, u64::from(module.file.raw()));
            message.number(field::MAPPING_BUILD_ID, u64::from(module.build_id.raw()));
            // The names are here: without these flags pprof would look for binaries to ask.
            message.number(field::MAPPING_HAS_FUNCTIONS, 1);
            message.number(field::MAPPING_HAS_FILES, 1);
            message.number(field::MAPPING_HAS_LINES, 1);
            self.finish(field::PROFILE_MAPPING)?;
        }
        Ok(())
    }

    fn frames(&mut self) -> io::Result<()> {
        for (position, frame) in self.profile.frames.iter().enumerate() {
            self.nested.clear();
            self.nested.number(field::LINE_FUNCTION, id(frame.function.get()));
            self.nested.number(field::LINE_LINE, u64::from(frame.line));
            let module = frame.module.map_or(0, |module| id(module.get()));
            self.message.number(field::LOCATION_ID, id(position));
            self.message.number(field::LOCATION_MAPPING, module);
            self.message.number(field::LOCATION_ADDRESS, frame.address);
            self.message.nested(field::LOCATION_LINE, self.nested.bytes());
            self.finish(field::PROFILE_LOCATION)?;
        }
        Ok(())
    }

    fn functions(&mut self) -> io::Result<()> {
        let profile = self.profile;
        for (position, function) in profile.functions.iter().enumerate() {
            let system_name = match function.kind {
                Some(_) => {
                    self.string(&system_name(function.kind, profile.text(function.raw_name)))
                }
                None => u64::from(function.raw_name.raw()),
            };
            self.message.number(field::FUNCTION_ID, id(position));
            self.message.number(field::FUNCTION_NAME, u64::from(function.name.raw()));
            self.message.number(field::FUNCTION_SYSTEM_NAME, system_name);
            self.message.number(field::FUNCTION_FILE, u64::from(function.file.raw()));
            self.finish(field::PROFILE_FUNCTION)?;
        }
        Ok(())
    }

    fn header(&mut self) -> io::Result<()> {
        let [_, cpu, ..] = SAMPLE_TYPES;
        self.value_type(cpu);
        self.finish(field::PROFILE_PERIOD_TYPE)?;
        let profile = self.profile;
        let endpoints = profile.endpoints.iter().map(|endpoint| {
            let name = profile.text(endpoint.name);
            endpoint_to_comment(endpoint.requests, endpoint.duration_ns, name)
        });
        let report = profile.report.iter().flat_map(|report| report.to_comments());
        let comments: Vec<_> =
            report.chain(endpoints).map(|comment| self.string(&comment)).collect();
        let default_type = self.string(cpu.0);
        let period = self.profile.period;
        let header = &mut self.head;
        header.clear();
        header.number(field::PROFILE_TIME, period.start_unix_ns);
        header.number(field::PROFILE_DURATION, period.duration_ns);
        header.number(field::PROFILE_PERIOD, period.cpu_interval_ns);
        header.number(field::PROFILE_DEFAULT_TYPE, default_type);
        if !comments.is_empty() {
            header.packed(field::PROFILE_COMMENT, comments.iter().copied());
        }
        self.out.write_all(header.bytes())
    }

    /// When samples came about: for each moment three numbers, its beginning since that of the one
    /// before and its length, in microseconds, and by how much the sample's position differs from
    /// the one before (zigzag). Readers pass over a field that they don't know.
    fn moments(&mut self) -> io::Result<()> {
        let moments = &self.profile.moments;
        if moments.is_empty() || self.dialect != Dialect::File {
            return Ok(());
        }
        let before = std::iter::once(Moment { begin_us: 0, duration_us: 0, sample: 0 });
        let pairs = moments.iter().zip(before.chain(moments.iter().copied()));
        let numbers = pairs.flat_map(|(moment, before)| {
            let step = i64::from(moment.sample).saturating_sub(i64::from(before.sample));
            let begin_us = moment.begin_us.saturating_sub(before.begin_us);
            let zigzag = (step << 1 ^ step >> 63).cast_unsigned();
            [u64::from(begin_us), u64::from(moment.duration_us), zigzag]
        });
        self.head.clear();
        self.head.packed(field::PROFILE_MOMENTS, numbers);
        self.out.write_all(self.head.bytes())
    }

    fn strings(&mut self) -> io::Result<()> {
        for text in self.profile.strings.iter().chain(self.extra.iter().skip(1)) {
            self.head.clear();
            self.head.nested(field::PROFILE_STRING, text.as_bytes());
            self.out.write_all(self.head.bytes())?;
        }
        Ok(())
    }
}

/// pprof's ids begin with 1.
fn id(position: usize) -> u64 {
    (position as u64).saturating_add(1)
}

/// The values as pprof stores them: signed, so no larger than an `i64`.
fn signed(values: Values) -> [u64; 4] {
    let Values { count, cpu_ns, wall_ns, gc_ns } = values;
    [count, cpu_ns, wall_ns, gc_ns].map(|value| value.min(i64::MAX as u64))
}
