//! What is said about profiles: the tables, the totals against the kernel's, what profiling cost,
//! what was lost. For a person, and as JSON.

use std::fmt::Write as _;

use model::{EndReason, ThreadState};
use profile::{Profile, SelfReport, Values};
use serde_json::{Map, Value, json};

use crate::args::{By, Clock, Sort};
use crate::coverage;
use crate::endpoints;
use crate::focus::{Focus, Scope};
use crate::lines::Lines;
use crate::loaded::{Loaded, Process};
use crate::parts::{self, Part};
use crate::ranking::{self, Row};
use crate::table::{self, Line};
use crate::units::{count, difference, memory, percent, share, time};

/// Processes that are listed; the rest is counted.
const PROCESSES_SHOWN: usize = 20;
/// Endpoints that are listed where they are not what was asked for.
const ENDPOINTS_SHOWN: usize = 10;

/// Rows of a table if nobody says.
const ROWS: usize = 20;

/// How many rows there are to be: a script gets all, unless somebody says how many.
pub fn rows(given: Option<usize>, is_json: bool) -> usize {
    given.unwrap_or(if is_json { usize::MAX } else { ROWS })
}

/// What to show.
#[derive(Clone, Debug)]
pub struct View {
    /// What a row is.
    pub by: By,
    /// One order, or both.
    pub sort: Option<Sort>,
    /// Which time rows are sorted by; by what there is if none is given.
    pub clock: Option<Clock>,
    /// Rows of each table.
    pub limit: usize,
    /// How much is shown.
    pub scope: Scope,
    /// Whether only some samples are looked at, so that nothing can be compared with them.
    pub is_filtered: bool,
    /// The lines that rows of functions are of, as far as they are wanted and known.
    pub lines: Lines,
}

impl View {
    fn clock(&self, total: Values) -> Clock {
        self.clock.unwrap_or(if total.cpu_ns == 0 { Clock::Wall } else { Clock::Cpu })
    }
}

/// The tables, for a terminal of that width or for a pipe.
pub fn tables(loaded: &Loaded, view: &View, width: Option<u16>) -> String {
    let profile = &loaded.profile;
    let total = Sums::of(profile, view.scope).total;
    let requests = |limit| endpoints::table(profile, (view.scope, view.clock(total)), limit, width);
    match view.by {
        By::Endpoint => requests(view.limit),
        By::Function if endpoints::are_known(profile) => {
            let requests = requests(view.limit.min(ENDPOINTS_SHOWN));
            format!("{}\nrequests by endpoint\n{requests}", rankings(loaded, view, total, width))
        }
        _ => rankings(loaded, view, total, width),
    }
}

/// The tables of who used the time, in one order or both.
fn rankings(loaded: &Loaded, view: &View, total: Values, width: Option<u16>) -> String {
    let (by, pids) = (&view.by, loaded.pids());
    let mut rows = ranking::rows(&loaded.profile, by, view.scope, &pids, &view.lines);
    let mut text = String::new();
    let own_is_total = !matches!(view.by, By::Function | By::Module);
    let sorts: &[Sort] = match view.sort {
        _ if own_is_total => &[Sort::Own],
        Some(Sort::Own) => &[Sort::Own],
        Some(Sort::Total) => &[Sort::Total],
        None => &[Sort::Own, Sort::Total],
    };
    for sort in sorts {
        ranking::sort(&mut rows, *sort, view.clock(total));
        let shown = rows.iter().filter(|row| selected(row, *sort) != Values::default());
        let all = shown.clone().count();
        let shown: Vec<_> = shown.take(view.limit).collect();
        let has_states = *sort == Sort::Own
            && view.by != By::State
            && shown.iter().any(|row| row.waits_in().is_some());
        let line = |row: &&Row| line(row, *sort, &view.by, total, has_states);
        let lines: Vec<_> = shown.iter().map(line).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        if !own_is_total {
            let _ = writeln!(text, "{}", title(*sort));
        }
        let mut headings = headings(*sort, own_is_total).to_vec();
        if has_states {
            headings.push("state");
        }
        text.push_str(&table::render(&headings, &name_of_rows(&view.by), &lines, width));
        if all > view.limit {
            let _ = writeln!(text, "and {} more", count(all - view.limit, "row"));
        }
    }
    text
}

fn selected(row: &Row, sort: Sort) -> Values {
    if sort == Sort::Own { row.own } else { row.total }
}

fn title(sort: Sort) -> &'static str {
    match sort {
        Sort::Own => "time in the code of the row itself",
        Sort::Total => "time in the row and in all that it called",
    }
}

fn headings(sort: Sort, own_is_total: bool) -> [&'static str; 4] {
    match sort {
        _ if own_is_total => ["cpu", "cpu %", "wall", "wall %"],
        Sort::Own => ["cpu self", "cpu %", "wall self", "wall %"],
        Sort::Total => ["cpu total", "cpu %", "wall total", "wall %"],
    }
}

fn name_of_rows(by: &By) -> String {
    match by {
        By::Label(name) => name.clone(),
        by => by.to_string(),
    }
}

fn line(row: &Row, sort: Sort, by: &By, total: Values, has_states: bool) -> Line {
    let values = selected(row, sort);
    let mut numbers = vec![
        time(values.cpu_ns),
        percent(values.cpu_ns, total.cpu_ns),
        time(values.wall_ns),
        percent(values.wall_ns, total.wall_ns),
    ];
    if has_states {
        numbers.push(row.waits_in().map_or("", ThreadState::name).to_owned());
    }
    let note = if *by == By::Function { note(row) } else { String::new() };
    Line { numbers, name: row.name.clone(), note }
}

/// More about a function: its module, or what a module does whose functions have no names.
fn note(row: &Row) -> String {
    let is_module = row.name.strip_prefix('[').and_then(|name| name.strip_suffix(']'))
        == Some(row.module.as_str());
    match row.module.as_str() {
        "[no module]" if row.name == "[stub]" => "code made by the .NET runtime".to_owned(),
        // Synthetic frames have none, and saying so in every row helps nobody.
        "[no module]" => String::new(),
        "libcoreclr.so" if is_module => ".NET runtime".to_owned(),
        "libclrjit.so" if is_module => "just-in-time compiler".to_owned(),
        "libc.so.6" if is_module => "C library".to_owned(),
        "libgcc_s.so.1" | "libstdc++.so.6" if is_module => "exception unwinding".to_owned(),
        "[vdso]" => "the kernel's clock code".to_owned(),
        _ if is_module => String::new(),
        module => module.to_owned(),
    }
}

/// What all samples add up to.
#[derive(Clone, Debug, Default)]
struct Sums {
    /// What is shown.
    total: Values,
    /// Wall time by state, as far as it is shown; in the order of the states.
    states: Vec<(ThreadState, u64)>,
    /// Wall time of threads that waited for work, which is not shown.
    left_out_ns: u64,
}

impl Sums {
    fn of(profile: &Profile, scope: Scope) -> Self {
        let mut focus = Focus::new(profile, scope);
        let mut sums = Self::default();
        sums.states.extend(ThreadState::ALL.map(|state| (state, 0)));
        for sample in &profile.samples {
            let values = focus.see(sample).values;
            sums.total.add(values);
            sums.left_out_ns += sample.values.wall_ns - values.wall_ns;
            let slot = sums.states.iter_mut().find(|(state, _)| Some(*state) == sample.state);
            if let Some((_, sum)) = slot {
                *sum = sum.saturating_add(values.wall_ns);
            }
        }
        sums
    }

    fn states(&self) -> String {
        let text = |(state, ns): &(ThreadState, u64)| {
            let why = if *state == ThreadState::Runnable { " (no processor was free)" } else { "" };
            format!("{} {}{why}", state.name(), time(*ns))
        };
        let mut states = self.states.clone();
        states.retain(|(_, ns)| *ns > 0);
        states.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        states.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

/// Totals, cost, losses and processes, a line each.
pub fn numbers(loaded: &Loaded, view: &View, width: Option<u16>) -> String {
    let sums = Sums::of(&loaded.profile, view.scope);
    let total = sums.total;
    let (cpu, wall) = (time(total.cpu_ns), time(total.wall_ns));
    let samples = count(usize::try_from(total.count).unwrap_or(usize::MAX), "sample");
    let mut lines = vec![("total", format!("{cpu} CPU in {samples}, {wall} wall"))];
    if total.cpu_ns > 0 {
        lines.push(("cpu", cpu_parts(&loaded.profile, total.cpu_ns)));
    }
    let states = sums.states();
    if !states.is_empty() {
        lines.push(("wall", states));
    }
    if sums.left_out_ns > 0 {
        let idle = time(sums.left_out_ns);
        let how = "of wall time, in threads that waited for work (corprof top --all has it)";
        lines.push(("left out", format!("{idle} {how}")));
    }
    let missing = coverage::told(loaded).map(|(_, texts)| texts);
    match loaded.report() {
        Some(_) if view.is_filtered => {}
        Some(report) => {
            lines.extend(collections(&report, loaded).map(|text| ("gc", text)));
            let is_part = missing.is_some() || !coverage::ends_are_told(loaded);
            kernel_line(&report, total, is_part, &mut lines);
            let own = (own(&report, loaded), memory(report.own_memory_bytes));
            let slowed = slowed(&report);
            lines.push(("profiler", format!("used {} and {} of memory{slowed}", own.0, own.1)));
            lines.extend(quality(&report));
        }
        None => lines.push(("profiler", "the files don't hold the profiler's numbers".to_owned())),
    }
    lines.extend(missing.into_iter().flatten().map(|text| ("missing", text)));
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{}", table::hanging(&format!("{name:<9} "), &value, width));
    }
    if loaded.processes.len() > 1 {
        text.push_str(&processes(&loaded.processes, view.scope));
    }
    text
}

/// What the CPU time was for, the largest part first.
fn cpu_parts(profile: &Profile, total_ns: u64) -> String {
    let mut parts: Vec<_> = Part::ALL.into_iter().zip(parts::sums(profile)).collect();
    parts.retain(|(_, ns)| *ns > 0);
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let text = |(part, ns): &(Part, u64)| {
        format!("{} {} ({})", part.name(), time(*ns), percent(*ns, total_ns))
    };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn json_parts(profile: &Profile) -> Value {
    let parts = Part::ALL.into_iter().zip(parts::sums(profile));
    Value::Object(parts.map(|(part, ns)| (part.key().to_owned(), json!(ns))).collect())
}

/// The garbage collections, and the pauses of all managed threads: `5 collections: 2 of generation
/// 0, 3 of generation 2 (1 in the background); 6 pauses, 120 ms (1.2 % of the time), the longest
/// 40 ms`.
fn collections(report: &SelfReport, loaded: &Loaded) -> Option<String> {
    let of_generation = |(generation, n): (usize, &u64)| {
        let background = if generation == 2 { report.gc_background } else { 0 };
        let background = match background {
            0 => String::new(),
            n => format!(" ({n} in the background)"),
        };
        (*n > 0).then(|| format!("{n} of generation {generation}{background}"))
    };
    let mut parts: Vec<_> =
        report.gc_collections.iter().enumerate().filter_map(of_generation).collect();
    if report.gc_before_background > 0 {
        parts.push(format!("{} of generation 0 or 1", report.gc_before_background));
    }
    let all = report.gc_collections.iter().sum::<u64>().saturating_add(report.gc_before_background);
    let number = |n: u64, what| count(usize::try_from(n).unwrap_or(usize::MAX), what);
    let mut texts = Vec::new();
    if all > 0 {
        texts.push(format!("{}: {}", number(all, "collection"), parts.join(", ")));
    }
    if report.gc_pauses > 0 {
        let share = percent(report.gc_pause_ns, loaded.reported_ns());
        let (pauses, sum) = (number(report.gc_pauses, "pause"), time(report.gc_pause_ns));
        let longest = time(report.gc_pause_max_ns);
        texts.push(format!("{pauses}, {sum} ({share} of the time), the longest {longest}"));
    }
    if report.other_pauses > 0 {
        let (n, sum) = (number(report.other_pauses, "stop"), time(report.other_pause_ns));
        texts.push(format!("{n} of all threads for other reasons, {sum}"));
    }
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// What the kernel counted, of the whole process's time or of a part.
fn kernel_line(
    report: &SelfReport,
    total: Values,
    is_part: bool,
    lines: &mut Vec<(&'static str, String)>,
) {
    if report.process_cpu_ns > 0 {
        let (all, made) = (report.process_cpu_ns, total.cpu_ns.saturating_add(report.own_cpu_ns));
        let process = time(all);
        let (made, off) = (time(made), difference(made, all));
        let how = "the profile and the profiler's own threads make";
        let of = if is_part { "while it was profiled" } else { "for the process" };
        lines.push(("kernel", format!("counted {process} {of}; {how} {made} ({off})")));
    }
}

/// The CPU time that the profiler itself used: `121 ms CPU (24.8 % of the program's, 1.2 % of a
/// processor)`. The second share is of one process's time, the mean if there are several.
fn own(report: &SelfReport, loaded: &Loaded) -> String {
    let own_ns = report.own_cpu_ns;
    let mut parts = Vec::new();
    if report.process_cpu_ns > 0 {
        parts.push(format!("{} of the program's", percent(own_ns, report.process_cpu_ns)));
    }
    let reported_ns = loaded.reported_ns();
    if reported_ns > 0 {
        let processes = loaded.processes.iter().filter(|process| process.report.is_some()).count();
        let each = if processes > 1 { " in each process" } else { "" };
        parts.push(format!("{} of a processor{each}", percent(own_ns, reported_ns)));
    }
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{} CPU{parts}", time(own_ns))
}

/// Whether samples were taken less often than was asked for.
fn slowed(report: &SelfReport) -> String {
    match report.slowdown {
        0 | 1 => String::new(),
        n => format!("; sampled down to 1/{n} as often as asked for, to stay within its budget"),
    }
}

/// What was lost, and how many stacks are whole.
fn quality(report: &SelfReport) -> Vec<(&'static str, String)> {
    let lost = report.losses.iter().map(|(loss, n)| format!("{} {n}", loss.name()));
    let profiles = usize::try_from(report.export_lost).unwrap_or(usize::MAX);
    let refused = (profiles > 0).then(|| {
        format!("{} that targets refused or that had no room to wait", count(profiles, "profile"))
    });
    let lost: Vec<_> = lost.chain(refused).collect();
    let lost = if lost.is_empty() { "nothing".to_owned() } else { lost.join(", ") };
    [("lost", lost)].into_iter().chain(stacks(report)).collect()
}

/// How many stacks are whole, and why others are not.
fn stacks(report: &SelfReport) -> Option<(&'static str, String)> {
    let all = report.ends.total();
    let whole = report.ends.get(EndReason::Root);
    let cut = report.ends.iter().filter(|(end, _)| *end != EndReason::Root);
    let cut: Vec<_> = cut.map(|(end, n)| format!("{} {n}", end.frame())).collect();
    if all == 0 {
        return None;
    }
    let mut text = format!("{} of {} whole", percent(whole, all), all);
    if !cut.is_empty() {
        let _ = write!(text, "; cut off: {}", cut.join(", "));
    }
    Some(("stacks", text))
}

fn processes(processes: &[Process], scope: Scope) -> String {
    let lines = processes.iter().take(PROCESSES_SHOWN).map(|process| {
        let pid = if process.pid == 0 { "?".to_owned() } else { process.pid.to_string() };
        let left_out_ns = if scope == Scope::Work { process.left_out_ns } else { 0 };
        let wall_ns = process.values.wall_ns.saturating_sub(left_out_ns);
        let (cpu, wall) = (time(process.values.cpu_ns), time(wall_ns));
        let numbers = vec![cpu, wall, process.files.to_string(), pid];
        Line { numbers, name: process.service.clone(), note: String::new() }
    });
    let lines: Vec<_> = lines.collect();
    let headings = ["cpu", "wall", "files", "pid"];
    let mut text = format!("\n{}", table::render(&headings, "process", &lines, None));
    let more = processes.len().saturating_sub(PROCESSES_SHOWN);
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    text
}

/// Everything as JSON, whatever the view leaves out; times in nanoseconds.
pub fn json(loaded: &Loaded, view: &View) -> Map<String, Value> {
    let total = loaded.profile.total();
    let (by, pids) = (&view.by, loaded.pids());
    let mut rows = ranking::rows(&loaded.profile, by, Scope::All, &pids, &view.lines);
    ranking::sort(&mut rows, view.sort.unwrap_or(Sort::Own), view.clock(total));
    let rows: Vec<_> = rows.iter().take(view.limit).map(json_row).collect();
    let processes: Vec<_> = loaded.processes.iter().map(json_process).collect();
    let files: Vec<_> = loaded.files.iter().map(|file| file.to_string_lossy()).collect();
    let period = loaded.profile.period;
    let mut map = Map::new();
    map.insert("by".into(), json!(view.by.to_string()));
    map.insert("total".into(), json_values(total));
    map.insert("cpu_by_part".into(), json_parts(&loaded.profile));
    map.insert("wall_by_state".into(), json_states(&loaded.profile));
    map.insert("start_unix_ns".into(), json!(period.start_unix_ns));
    map.insert("duration_ns".into(), json!(period.duration_ns));
    map.insert("rows".into(), json!(rows));
    map.insert("endpoints".into(), endpoints::json(&loaded.profile, view.clock(total)));
    map.insert(
        "profiler".into(),
        loaded.report().map_or(Value::Null, |report| json_report(&report, loaded.reported_ns())),
    );
    map.insert("missing".into(), coverage::json(loaded));
    map.insert("processes".into(), json!(processes));
    map.insert("files".into(), json!(files));
    map
}

/// Wall time by state, and that of threads which wait for work, out of the states that they have.
fn json_states(profile: &Profile) -> Value {
    let sums = Sums::of(profile, Scope::Work);
    let pair = |(state, ns): &(ThreadState, u64)| (json_state(*state), json!(ns));
    let mut map: Map<_, _> = sums.states.iter().map(pair).collect();
    map.insert("waiting_for_work_ns".into(), json!(sums.left_out_ns));
    Value::Object(map)
}

fn json_state(state: ThreadState) -> String {
    format!("{}_ns", state.name().replace(' ', "_"))
}

fn json_values(values: Values) -> Value {
    json!({ "samples": values.count, "cpu_ns": values.cpu_ns, "wall_ns": values.wall_ns })
}

fn json_row(row: &Row) -> Value {
    let states = ThreadState::ALL.into_iter().zip(row.states);
    let states = states.filter(|(_, ns)| *ns > 0);
    let states: Map<_, _> = states.map(|(state, ns)| (json_state(state), json!(ns))).collect();
    json!({
        "name": row.name,
        "module": row.module,
        "self": json_values(row.own),
        "total": json_values(row.total),
        "self_wall_by_state": states,
    })
}

fn json_process(process: &Process) -> Value {
    json!({
        "service": process.service,
        "pid": process.pid,
        "files": process.files,
        "total": json_values(process.values),
        "waiting_for_work_ns": process.left_out_ns,
        "profiler": process.report.as_ref().map(|report| json_report(report, process.reported_ns)),
    })
}

fn json_collections(report: &SelfReport, reported_ns: u64) -> Value {
    json!({
        "collections_by_generation": report.gc_collections,
        "collections_in_background": report.gc_background,
        "collections_before_background": report.gc_before_background,
        "pauses": report.gc_pauses,
        "pause_ns": report.gc_pause_ns,
        "longest_pause_ns": report.gc_pause_max_ns,
        "pause_share": share(report.gc_pause_ns, reported_ns),
        "other_pauses": report.other_pauses,
        "other_pause_ns": report.other_pause_ns,
    })
}

fn json_report(report: &SelfReport, reported_ns: u64) -> Value {
    let losses: Map<_, _> =
        report.losses.iter().map(|(loss, n)| (loss.name().to_owned(), json!(n))).collect();
    let ends: Map<_, _> =
        report.ends.iter().map(|(e, n)| (e.frame().to_owned(), json!(n))).collect();
    json!({
        "agent_version": report.agent_version,
        "runtime_version": report.runtime_version,
        "sampler": report.sampler,
        "cpu_interval_ns": report.cpu_interval_ns,
        "wall_interval_ns": report.wall_interval_ns,
        "wall_threads": report.wall_threads,
        "cpu_samples": report.cpu_samples,
        "wall_samples": report.wall_samples,
        "own_cpu_ns": report.own_cpu_ns,
        "own_cpu_share": share(report.own_cpu_ns, report.process_cpu_ns),
        "own_processor_share": share(report.own_cpu_ns, reported_ns),
        "own_memory_bytes": report.own_memory_bytes,
        "slowdown": report.slowdown,
        "process_cpu_ns": report.process_cpu_ns,
        "sampled_cpu_ns": report.sampled_cpu_ns,
        "gc": json_collections(report, reported_ns),
        "lost": losses,
        "lost_profiles": report.export_lost,
        "walks_ended": ends,
    })
}
