//! What of the columns is looked at, as a page asks for it.

use std::fmt::Write as _;
use std::ops::Range;

use model::ThreadState;

use super::columns::{Columns, MOMENT_US_MAX, Source};
use crate::value::Value;

/// What is asked for; `None` is everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selection {
    pub value: Value,
    pub fold: bool,
    pub thread: Option<u32>,
    /// As in the rows: 0 is unknown.
    pub state: Option<u8>,
    pub endpoint: Option<u32>,
    /// A request's local root span.
    pub request: Option<u64>,
    /// `name=value`.
    pub label: Option<String>,
    /// Microseconds since 1970.
    pub range: Option<(u64, u64)>,
    /// The source's place among all.
    pub source: Option<usize>,
    pub service: Option<String>,
    pub version: Option<String>,
    pub instance: Option<String>,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            value: Value::Cpu,
            fold: true,
            thread: None,
            state: None,
            endpoint: None,
            request: None,
            label: None,
            range: None,
            source: None,
            service: None,
            version: None,
            instance: None,
        }
    }
}

impl Selection {
    /// What the parts of a query say whose names have that beginning; parts that it does not know
    /// are others'.
    ///
    /// # Errors
    /// Which part makes no sense.
    pub fn of<'a>(
        query: impl Iterator<Item = (&'a str, &'a str)>,
        prefix: &str,
    ) -> Result<Self, String> {
        let mut selection = Self::default();
        let (mut from, mut to) = (None, None);
        for (name, text) in query {
            let Some(name) = name.strip_prefix(prefix) else { continue };
            let wrong = |_| format!("{name}={text} is no number that could be meant");
            let words = || (!text.is_empty()).then(|| text.to_owned());
            match name {
                "value" => {
                    selection.value = Value::of_name(text).ok_or("there is no such value")?
                }
                "fold" => selection.fold = text != "0",
                "thread" => selection.thread = Some(text.parse().map_err(wrong)?),
                "state" => selection.state = Some(text.parse().map_err(wrong)?),
                "endpoint" => selection.endpoint = Some(text.parse().map_err(wrong)?),
                "request" => {
                    selection.request = Some(u64::from_str_radix(text, 16).map_err(wrong)?);
                }
                "label" => selection.label = words(),
                "from" => from = Some(text.parse::<u64>().map_err(wrong)?),
                "to" => to = Some(text.parse::<u64>().map_err(wrong)?),
                "source" => selection.source = Some(text.parse().map_err(wrong)?),
                "service" => selection.service = words(),
                "version" => selection.version = words(),
                "instance" => selection.instance = words(),
                _ => {}
            }
        }
        if from.is_some() || to.is_some() {
            let range = (from.unwrap_or(0), to.unwrap_or(u64::MAX));
            if range.0 >= range.1 {
                return Err("the time ends before it begins".to_owned());
            }
            selection.range = Some(range);
        }
        Ok(selection)
    }

    /// Whether a source is looked at, which has that place among all.
    pub fn has_source(&self, at: usize, source: &Source) -> bool {
        let is = |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|w| w == text);
        self.source.is_none_or(|wanted| wanted == at)
            && is(&self.service, &source.service)
            && is(&self.version, &source.version)
            && is(&self.instance, &source.instance)
            && self.range.is_none_or(|(from, to)| source.begin_us < to && source.end_us() > from)
    }
}

/// Decides about rows.
pub struct Filter<'a> {
    columns: &'a Columns,
    selection: &'a Selection,
    weights: &'a Weights,
    labels: Option<Vec<bool>>,
    request: Option<u32>,
}

impl<'a> Filter<'a> {
    /// Of rows whose weights are those of the selection's time.
    pub fn new(columns: &'a Columns, selection: &'a Selection, weights: &'a Weights) -> Self {
        let label = selection.label.as_deref();
        let labels = label.map(|wanted| {
            let is = |(name, value): &(String, String)| {
                wanted.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('='))
                    == Some(value)
            };
            columns.labels.list.iter().map(|set| set.iter().any(is)).collect()
        });
        let request = selection.request.map(|root| columns.request_of(root).unwrap_or(u32::MAX));
        Self { columns, selection, weights, labels, request }
    }

    /// Whether a row of a source that is looked at is, too.
    pub fn keeps(&self, row: usize) -> bool {
        let (rows, selection) = (&self.columns.rows, self.selection);
        selection.thread.is_none_or(|thread| rows.thread[row] == thread)
            && selection.state.is_none_or(|state| rows.state[row] == state)
            && self.request.is_none_or(|request| rows.request[row] == request)
            && self.labels.as_ref().is_none_or(|labels| labels[rows.labels[row] as usize])
            && selection.endpoint.is_none_or(|wanted| self.columns.endpoint_of(row) == wanted)
    }

    /// Calls with each row that is looked at and its source's number.
    fn each_row(&self, mut with: impl FnMut(usize, usize)) {
        for (at, source) in self.columns.sources.iter().enumerate() {
            if self.selection.has_source(at, source) {
                source.rows.clone().filter(|row| self.keeps(*row)).for_each(|row| with(at, row));
            }
        }
    }

    /// Calls with each row that is looked at, its source's number, and the row's nanoseconds of
    /// `value`, as far as they are of the time that is.
    pub fn each(&self, value: Value, mut with: impl FnMut(usize, usize, f64)) {
        let rows = &self.columns.rows;
        let leaves_out = self.selection.fold && value == Value::Wall;
        let values = &rows.values[value as usize];
        self.each_row(|source, row| {
            let ns = values[row];
            if ns > 0 && !(leaves_out && rows.idle[row]) {
                with(source, row, self.weights.of(value, source, row, ns));
            }
        });
    }
}

/// How much of each row is of a time: found once, whatever is asked of that time.
#[derive(Debug, Default)]
pub struct Weights {
    /// By source: the part of its time.
    parts: Vec<f64>,
    /// By row: microseconds, of sources that say when and are in the time partly; without any
    /// such source empty.
    us: Vec<u64>,
    /// By source: whether that is known.
    has_us: Vec<bool>,
}

impl Weights {
    /// Of all sources in a time; without one it is all time.
    pub fn new(columns: &Columns, range: Option<(u64, u64)>) -> Self {
        let Some((from, to)) = range else { return Self::default() };
        let mut weights = Self::default();
        for source in &columns.sources {
            let part = part_of(source, (from, to));
            let has_us = part > 0.0 && part < 1.0 && !source.moments.is_empty();
            weights.parts.push(part);
            weights.has_us.push(has_us);
            if has_us {
                if weights.us.is_empty() {
                    weights.us = vec![0; columns.rows.len()];
                }
                weights.add(columns, source, (from, to));
            }
        }
        weights
    }

    fn add(&mut self, columns: &Columns, source: &Source, (from, to): (u64, u64)) {
        let moments = &columns.moments;
        let all = within(columns, source, (from, to));
        // All but those at both ends are inside with their whole length.
        let begins = &moments.begin_us[all.clone()];
        let first = all.start + begins.partition_point(|begin| *begin < from);
        let latest = to.saturating_sub(MOMENT_US_MAX.into());
        let last = all.start + begins.partition_point(|begin| *begin <= latest);
        let inner = first..last.max(first).min(all.end);
        let pairs = moments.row[inner.clone()].iter().zip(&moments.duration_us[inner.clone()]);
        pairs.for_each(|(row, us)| self.us[*row as usize] += u64::from(*us));
        for at in (all.start..inner.start).chain(inner.end..all.end) {
            let begin = moments.begin_us[at];
            let end = begin.saturating_add(moments.duration_us[at].into());
            self.us[moments.row[at] as usize] += end.min(to).saturating_sub(begin.max(from));
        }
    }

    /// The nanoseconds of a row that has `ns` in all.
    fn of(&self, value: Value, source: usize, row: usize, ns: u64) -> f64 {
        match self.has_us.get(source) {
            // Pauses have no moments.
            Some(true) if value != Value::Gc => self.us[row] as f64 * 1_000.0,
            Some(_) => ns as f64 * self.part(source),
            None => ns as f64,
        }
    }

    /// The part of a source's time that is looked at: 1 is all of it.
    pub fn part(&self, source: usize) -> f64 {
        self.parts.get(source).copied().unwrap_or(1.0)
    }
}

fn part_of(source: &Source, (from, to): (u64, u64)) -> f64 {
    let (begin, end) = (source.begin_us.max(from), source.end_us().min(to));
    (end.saturating_sub(begin) as f64 / source.duration_us.max(1) as f64).min(1.0)
}

/// The moments of a source that may be in a time.
pub fn within(columns: &Columns, source: &Source, (from, to): (u64, u64)) -> Range<usize> {
    let begins = &columns.moments.begin_us[source.moments.clone()];
    let first = begins.partition_point(|b| b.saturating_add(MOMENT_US_MAX.into()) <= from);
    let last = begins.partition_point(|begin| *begin < to);
    source.moments.start + first..source.moments.start + last.max(first)
}

/// The names of states as rows have them.
pub fn state_names() -> Vec<&'static str> {
    ThreadState::ALL.iter().map(|state| state.name()).collect()
}

/// A trace's id, as people write it.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
