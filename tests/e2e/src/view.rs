//! A profile as rows of names, which is what tests ask about.

use std::collections::BTreeMap;

use model::ThreadState;
use profile::{Profile, SpanIds, Values};

/// Sums by type of value, as what is sent names them, and innermost function; none is 0.
pub type LeafSums = BTreeMap<(String, String), u64>;

/// One sample of a profile, with all its names.
#[derive(Clone, Debug)]
pub struct Row {
    /// Display names of the frames, leaf first.
    pub frames: Vec<String>,
    /// What their compilers call them, where that is another name; empty else.
    pub raw_names: Vec<String>,
    /// The file names of the frames' modules without their folders; empty where there is none.
    pub modules: Vec<String>,
    /// The thread's id; 0 if unknown.
    pub tid: u32,
    /// The thread's name; may be empty.
    pub thread: String,
    /// What the thread was doing.
    pub state: Option<ThreadState>,
    /// The ids of the span it worked for; all 0 if they were left out.
    pub span: Option<SpanIds>,
    /// The endpoint of that span's request; empty if unknown.
    pub endpoint: String,
    /// The program's labels, sorted by name.
    pub labels: Vec<(String, String)>,
    /// The sums.
    pub values: Values,
}

impl Row {
    /// Whether a frame's name holds that text.
    #[must_use]
    pub fn has(&self, part: &str) -> bool {
        self.frames.iter().any(|frame| frame.contains(part))
    }

    /// Whether the thread was in one of these states.
    #[must_use]
    pub fn is_in(&self, states: &[ThreadState]) -> bool {
        self.state.is_some_and(|state| states.contains(&state))
    }
}

/// All rows of a profile.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// In the profile's order.
    pub rows: Vec<Row>,
}

impl View {
    /// The rows of a profile.
    #[must_use]
    pub fn of_profile(profile: &Profile) -> Self {
        let name = |frame| profile.function_of(frame).map_or("?", |f| profile.text(f.name));
        let raw = |frame| profile.function_of(frame).map_or("", |f| profile.text(f.raw_name));
        let file = |frame| profile.module_of(frame).map_or("", |module| profile.text(module.file));
        let module = |frame| file(frame).rsplit('/').next().unwrap_or_default();
        let row = |sample: &profile::Sample| Row {
            frames: profile.stack(sample.stack).map(|frame| name(frame).to_owned()).collect(),
            raw_names: profile.stack(sample.stack).map(|frame| raw(frame).to_owned()).collect(),
            modules: profile.stack(sample.stack).map(|frame| module(frame).to_owned()).collect(),
            tid: sample.thread.map_or(0, |thread| thread.tid),
            thread: sample.thread.map_or("", |thread| profile.text(thread.name)).to_owned(),
            state: sample.state,
            span: profile.span_of(sample).map(|span| span.ids),
            endpoint: profile.span_of(sample).map_or("", |span| profile.text(span.endpoint)).into(),
            labels: profile.labels_of(sample).map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            values: sample.values,
        };
        Self { rows: profile.samples.iter().map(row).collect() }
    }

    /// The sums of the rows that are wanted.
    pub fn of(&self, wanted: impl Fn(&Row) -> bool) -> Values {
        let mut sum = Values::default();
        self.rows.iter().filter(|row| wanted(row)).for_each(|row| sum.add(row.values));
        sum
    }

    /// The sums of the rows of a thread.
    #[must_use]
    pub fn thread(&self, tid: u32) -> Values {
        self.of(|row| row.tid == tid)
    }

    /// The sums of all rows.
    #[must_use]
    pub fn total(&self) -> Values {
        self.of(|_| true)
    }

    /// The sums of each innermost function.
    #[must_use]
    pub fn leaf_sums(&self) -> LeafSums {
        let mut sums = LeafSums::new();
        for row in &self.rows {
            let leaf = row.frames.first().cloned().unwrap_or_default();
            let Values { count, cpu_ns, wall_ns, gc_ns, .. } = row.values;
            for (kind, value) in
                [("samples", count), ("cpu", cpu_ns), ("wall", wall_ns), ("gc", gc_ns)]
            {
                *sums.entry((kind.to_owned(), leaf.clone())).or_default() += value;
            }
        }
        sums.retain(|_, value| *value > 0);
        sums
    }

    /// The rows with the largest values, as text; for a failure's message.
    #[must_use]
    pub fn top(&self, rows: usize) -> String {
        const FRAMES: usize = 12;
        let mut sorted: Vec<&Row> = self.rows.iter().collect();
        sorted.sort_by_key(|row| std::cmp::Reverse((row.values.cpu_ns, row.values.wall_ns)));
        let line = |row: &&Row| {
            let Values { count, cpu_ns, wall_ns, .. } = row.values;
            let [cpu, wall] = [cpu_ns, wall_ns].map(|ns| ns as f64 / 1e6);
            let state = row.state.map_or("-", ThreadState::name);
            let shown = row.frames.len().min(FRAMES);
            let more = if shown < row.frames.len() { " < …" } else { "" };
            let frames = row.frames.get(..shown).unwrap_or_default().join(" < ");
            format!(
                "{count:6} samples {cpu:9.1} ms cpu {wall:9.1} ms wall {state:8} {:?} ({}) \
                 {frames}{more}\n",
                row.thread, row.tid
            )
        };
        sorted.iter().take(rows).map(line).collect()
    }
}
