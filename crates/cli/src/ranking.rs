//! Who used the time: rows by function, thread, state, module, endpoint, span or label.

use std::collections::HashMap;
use std::path::Path;

use model::ThreadState;
use profile::{FrameIndex, Profile, Sample, SpanIds, StringIndex, Thread, Values};

use crate::args::{By, Clock, Sort};
use crate::endpoints;
use crate::focus::{Focus, Scope};
use crate::lines::Lines;

/// A row: a function, a thread, a state, and whatever else rows can be of.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// What it is.
    pub name: String,
    /// Where it comes from: the file of a function's module; empty for others.
    pub module: String,
    /// Its own time.
    pub own: Values,
    /// Its time with what it called.
    pub total: Values,
    /// Its own wall time by state, in the order of `ThreadState::ALL`.
    pub states: States,
}

/// Wall time by state.
pub type States = [u64; ThreadState::ALL.len()];

impl Row {
    fn add_own(&mut self, state: Option<ThreadState>, values: Values) {
        self.own.add(values);
        let position = ThreadState::ALL.iter().position(|other| Some(*other) == state);
        if let Some(sum) = position.and_then(|position| self.states.get_mut(position)) {
            *sum = sum.saturating_add(values.wall_ns);
        }
    }

    /// The state that its own wall time is mostly spent in, if that is another than running.
    pub fn waits_in(&self) -> Option<ThreadState> {
        let pairs = ThreadState::ALL.into_iter().zip(self.states);
        let (mut running, mut others) = (0, 0);
        let mut most = (0, None);
        for (state, ns) in pairs {
            if state == ThreadState::Running {
                running = ns;
                continue;
            }
            others += ns;
            if ns > most.0 {
                most = (ns, Some(state));
            }
        }
        most.1.filter(|_| others > running)
    }
}

/// All rows of a profile that have any time, in no order; a thread with the number of one of the
/// processes is its main one. Functions are rows of lines where those are known.
pub fn rows(profile: &Profile, by: &By, scope: Scope, pids: &[u64], lines: &Lines) -> Vec<Row> {
    let mut rows = all_rows(profile, by, scope, pids, lines);
    rows.retain(|row| row.own != Values::default() || row.total != Values::default());
    rows
}

fn all_rows(profile: &Profile, by: &By, scope: Scope, pids: &[u64], lines: &Lines) -> Vec<Row> {
    let focus = Focus::new(profile, scope);
    match by {
        By::Function => by_frame(profile, focus, |frame| {
            let name = || profile.function_of(frame).map_or("?", |f| profile.text(f.name));
            (lines.name(frame).unwrap_or_else(name), module_name(profile, frame))
        }),
        By::Module => by_frame(profile, focus, |frame| (module_name(profile, frame), "")),
        By::Thread => by_sample(profile, focus, |sample| thread_name(profile, sample.thread, pids)),
        By::State => by_sample(profile, focus, |sample| {
            sample.state.map_or("[CPU samples]", ThreadState::name).to_owned()
        }),
        By::Endpoint => {
            by_sample(profile, focus, |sample| endpoints::name_of(profile, sample).to_owned())
        }
        By::Span => by_sample(profile, focus, |sample| span_name(profile, sample)),
        By::Label(name) => by_sample(profile, focus, |sample| {
            let value = profile.labels_of(sample).find(|(other, _)| other == name);
            match value {
                Some((_, "")) => "[empty]".to_owned(),
                Some((_, value)) => value.to_owned(),
                None => format!("[no {name}]"),
            }
        }),
    }
}

/// A thread's name and number; that with the number of one of the processes is its main one.
pub fn thread_name(profile: &Profile, thread: Option<Thread>, pids: &[u64]) -> String {
    let Some(thread) = thread else { return "[no thread]".to_owned() };
    match (profile.text(thread.name), thread.tid) {
        (name, 0) => name.to_owned(),
        ("", tid) if pids.contains(&u64::from(tid)) => format!("main ({tid})"),
        ("", tid) => format!("[unnamed] ({tid})"),
        (name, tid) => format!("{name} ({tid})"),
    }
}

/// A span's id and its request's endpoint.
fn span_name(profile: &Profile, sample: &Sample) -> String {
    let endpoint = endpoints::name_of(profile, sample);
    match profile.span_of(sample) {
        Some(span) if span.ids == SpanIds::NONE => format!("[no id]  {endpoint}"),
        Some(span) => format!("{:016x}  {endpoint}", span.ids.span_id),
        None => endpoint.to_owned(),
    }
}

/// Sorts by one of the times; equal ones by name, so that the order is always the same.
pub fn sort(rows: &mut [Row], sort: Sort, clock: Clock) {
    let key = |row: &Row| {
        let values = if sort == Sort::Own { row.own } else { row.total };
        match clock {
            Clock::Cpu => (values.cpu_ns, values.wall_ns),
            Clock::Wall => (values.wall_ns, values.cpu_ns),
        }
    };
    rows.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
}

fn by_sample(
    profile: &Profile,
    mut focus: Focus<'_>,
    name: impl Fn(&Sample) -> String,
) -> Vec<Row> {
    let mut rows: HashMap<String, Row> = HashMap::new();
    for sample in &profile.samples {
        let values = focus.see(sample).values;
        let row = rows.entry(name(sample)).or_default();
        row.add_own(sample.state, values);
        row.total.add(values);
    }
    let named = |(name, row)| Row { name, ..row };
    rows.into_iter().map(named).collect()
}

fn by_frame<'a>(
    profile: &'a Profile,
    mut focus: Focus<'_>,
    name: impl Fn(FrameIndex) -> (&'a str, &'a str),
) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut positions: HashMap<(&str, &str), usize> = HashMap::new();
    // The row of each frame, found once a frame and not once a sample.
    let mut row_of: Vec<Option<usize>> = vec![None; profile.frames.len()];
    // The sample that a row was last part of, so that recursion counts once.
    let mut seen: Vec<usize> = Vec::new();
    let mut row = |frame: FrameIndex, rows: &mut Vec<Row>, seen: &mut Vec<usize>| {
        if let Some(Some(position)) = row_of.get(frame.get()) {
            return *position;
        }
        let (name, module) = name(frame);
        let position = *positions.entry((name, module)).or_insert_with(|| {
            seen.push(usize::MAX);
            rows.push(Row { name: name.into(), module: module.into(), ..Row::default() });
            rows.len() - 1
        });
        if let Some(slot) = row_of.get_mut(frame.get()) {
            *slot = Some(position);
        }
        position
    };
    for (number, sample) in profile.samples.iter().enumerate() {
        let view = focus.see(sample);
        if let Some(own) = view.own {
            let position = row(own, &mut rows, &mut seen);
            if let Some(row) = rows.get_mut(position) {
                row.add_own(sample.state, view.values);
            }
        }
        for frame in view.frames {
            let position = row(*frame, &mut rows, &mut seen);
            let (Some(row), Some(last)) = (rows.get_mut(position), seen.get_mut(position)) else {
                continue;
            };
            if *last != number {
                row.total.add(view.values);
                *last = number;
            }
        }
    }
    rows
}

/// The last part of the path of a frame's module.
fn module_name(profile: &Profile, frame: FrameIndex) -> &str {
    let file = profile.module_of(frame).map_or(StringIndex::EMPTY, |module| module.file);
    match file_name(profile.text(file)) {
        "" => "[no module]",
        name => name,
    }
}

/// The last part of a path; all of it if it has none.
pub fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}
