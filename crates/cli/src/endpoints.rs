//! Requests by endpoint: how many there were, and what one of them costs.

use std::collections::HashMap;
use std::fmt::Write as _;

use profile::{Profile, Sample, Values};
use serde_json::{Value, json};

use crate::args::Clock;
use crate::focus::{Focus, Scope};
use crate::table::{self, Line};
use crate::units::{count, percent, share, time};

/// The row of requests whose endpoint nobody told.
pub const NO_ENDPOINT: &str = "[no endpoint]";
/// The row of what was not done for a request.
pub const NO_REQUEST: &str = "[outside of requests]";

/// Whether the name is that of a row which is no endpoint.
pub fn is_none(name: &str) -> bool {
    [NO_ENDPOINT, NO_REQUEST].contains(&name)
}

/// The endpoint of a sample, or the row that stands for none.
pub fn name_of<'a>(profile: &'a Profile, sample: &Sample) -> &'a str {
    profile.span_of(sample).map_or(NO_REQUEST, |span| or_none(profile.text(span.endpoint)))
}

/// The name in tables of an endpoint.
pub fn or_none(name: &str) -> &str {
    if name.is_empty() { NO_ENDPOINT } else { name }
}

/// Whether there is anything to say about endpoints.
pub fn are_known(profile: &Profile) -> bool {
    let mut spans = profile.spans.iter();
    !profile.endpoints.is_empty() || spans.any(|span| !profile.text(span.endpoint).is_empty())
}

/// Whether samples say which request they are of.
fn are_told(profile: &Profile) -> bool {
    !profile.spans.is_empty()
}

/// An endpoint's requests.
#[derive(Clone, Debug, Default)]
struct Row<'a> {
    name: &'a str,
    /// Requests that ended in the time of the profiles.
    requests: u64,
    /// Their time from begin to end, all together.
    duration_ns: u64,
    /// What threads used for them, also for those that had not ended.
    values: Values,
}

impl Row<'_> {
    fn key(&self, clock: Clock) -> (u64, u64) {
        let Values { cpu_ns, wall_ns, .. } = self.values;
        match clock {
            Clock::Cpu => (cpu_ns, wall_ns),
            Clock::Wall => (wall_ns, cpu_ns),
        }
    }

    /// Whether it is too little to be told: of requests, say, that began as the profile ended.
    fn is_nothing(&self, total: Values) -> bool {
        let Values { cpu_ns, wall_ns, .. } = self.values;
        (self.requests, cpu_ns) == (0, 0) && wall_ns < total.wall_ns / 1000
    }

    /// The numbers of one request, if any ended: CPU time, elapsed, on threads. Where no sample
    /// `is_told` its request, only elapsed time is known.
    fn each(&self, is_told: bool) -> [Option<u64>; 3] {
        let Values { cpu_ns, wall_ns, .. } = self.values;
        let times = [is_told.then_some(cpu_ns), Some(self.duration_ns), is_told.then_some(wall_ns)];
        times.map(|ns| ns?.checked_div(self.requests))
    }
}

/// The rows, the most expensive first; equal ones by name.
fn rows(profile: &Profile, scope: Scope, clock: Clock) -> Vec<Row<'_>> {
    let mut rows: HashMap<&str, Row<'_>> = HashMap::new();
    let mut focus = Focus::new(profile, scope);
    for sample in &profile.samples {
        let values = focus.see(sample).values;
        rows.entry(name_of(profile, sample)).or_default().values.add(values);
    }
    for endpoint in &profile.endpoints {
        let row = rows.entry(or_none(profile.text(endpoint.name))).or_default();
        row.requests = row.requests.saturating_add(endpoint.requests);
        row.duration_ns = row.duration_ns.saturating_add(endpoint.duration_ns);
    }
    let mut rows: Vec<_> = rows.into_iter().map(|(name, row)| Row { name, ..row }).collect();
    rows.sort_by(|a, b| b.key(clock).cmp(&a.key(clock)).then_with(|| a.name.cmp(b.name)));
    rows
}

/// The endpoints' names, the most expensive first.
pub fn names(profile: &Profile) -> Vec<&str> {
    let rows = rows(profile, Scope::Work, Clock::Cpu);
    rows.into_iter().map(|row| row.name).filter(|name| !is_none(name)).collect()
}

/// The table, for a terminal of that width or for a pipe.
pub fn table(
    profile: &Profile,
    (scope, clock): (Scope, Clock),
    limit: usize,
    width: Option<u16>,
) -> String {
    let mut rows = rows(profile, scope, clock);
    // What was not done for requests and has no time, as threads that waited, is no row.
    rows.retain(|row| row.requests > 0 || row.values != Values::default());
    let mut total = Values::default();
    rows.iter().for_each(|row| total.add(row.values));
    rows.retain(|row| row.name != NO_ENDPOINT || !row.is_nothing(total));
    // It has nothing of what the table is of.
    rows.retain(|row| !is_none(row.name) || row.requests > 0 || row.key(clock).0 > 0);
    let total = Row { values: total, ..Row::default() }.key(clock).0;
    let is_told = are_told(profile);
    let line = |row: &Row<'_>| {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let requests = (row.requests > 0).then(|| row.requests.to_string());
        let mut numbers = vec![or_none(requests)];
        numbers.extend(row.each(is_told).map(|ns| or_none(ns.map(time))));
        let ns = row.key(clock).0;
        numbers.extend([time(ns), percent(ns, total)]);
        Line { numbers, name: row.name.to_owned(), note: String::new() }
    };
    let lines: Vec<_> = rows.iter().take(limit).map(line).collect();
    let [all, part] = match clock {
        Clock::Cpu => ["cpu", "cpu %"],
        Clock::Wall => ["wall", "wall %"],
    };
    let headings = ["requests", "cpu/req", "elapsed/req", "on threads/req", all, part];
    let mut text = table::render(&headings, "endpoint", &lines, width);
    if rows.len() > limit {
        let _ = writeln!(text, "and {} more", count(rows.len() - limit, "row"));
    }
    text
}

/// All of them, whatever a table leaves out; times in nanoseconds.
pub fn json(profile: &Profile, clock: Clock) -> Value {
    if !are_known(profile) {
        return json!([]);
    }
    let total = profile.total();
    let is_told = are_told(profile);
    let row = |row: &Row<'_>| {
        let [cpu, elapsed, on_threads] = row.each(is_told);
        json!({
            "name": row.name,
            "requests": row.requests,
            "duration_ns": row.duration_ns,
            "samples": row.values.count,
            "cpu_ns": row.values.cpu_ns,
            "wall_ns": row.values.wall_ns,
            "cpu_share": share(row.values.cpu_ns, total.cpu_ns),
            "cpu_ns_per_request": cpu,
            "elapsed_ns_per_request": elapsed,
            "on_threads_ns_per_request": on_threads,
        })
    };
    rows(profile, Scope::All, clock).iter().map(row).collect()
}
