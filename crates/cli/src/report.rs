//! What is said about profiles: the tables, the totals against the kernel's, what profiling cost,
//! what was lost. For a person, and as JSON.

use std::fmt::Write as _;

use profile::{SelfReport, Values};
use serde_json::{Map, Value, json};

use crate::args::{By, Clock, Sort};
use crate::loaded::{Loaded, Process};
use crate::ranking::{self, Row};
use crate::table::{self, Column};
use crate::units::{count, difference, memory, percent, share, time};

/// Processes that are listed; the rest is counted.
const PROCESSES_SHOWN: usize = 20;

/// What to show.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// What a row is.
    pub by: By,
    /// One order, or both.
    pub sort: Option<Sort>,
    /// Which time rows are sorted by; by what there is if none is given.
    pub clock: Option<Clock>,
    /// Rows of each table.
    pub limit: usize,
}

impl View {
    fn clock(&self, total: Values) -> Clock {
        self.clock.unwrap_or(if total.cpu_ns == 0 { Clock::Wall } else { Clock::Cpu })
    }
}

/// The tables, for a terminal of that width or for a pipe.
pub fn tables(loaded: &Loaded, view: View, width: Option<u16>) -> String {
    let total = loaded.profile.total();
    let mut rows = ranking::rows(&loaded.profile, view.by);
    let mut text = String::new();
    let own_is_total = matches!(view.by, By::Thread | By::State);
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
        let lines = shown.take(view.limit).map(|row| line(row, *sort, view.by, total));
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&table::render(&columns(*sort, view.by, own_is_total), lines, width));
        if all > view.limit {
            let _ = writeln!(text, "and {} more", count(all - view.limit, "row"));
        }
    }
    text
}

fn selected(row: &Row, sort: Sort) -> Values {
    if sort == Sort::Own { row.own } else { row.total }
}

fn columns(sort: Sort, by: By, own_is_total: bool) -> Vec<Column> {
    let (cpu, wall) = match sort {
        _ if own_is_total => ("cpu", "wall"),
        Sort::Own => ("cpu self", "wall self"),
        Sort::Total => ("cpu total", "wall total"),
    };
    let mut columns = vec![
        Column::Right(cpu),
        Column::Right("cpu %"),
        Column::Right(wall),
        Column::Right("wall %"),
    ];
    match by {
        By::Function => columns.extend([Column::Left("function"), Column::Left("module")]),
        By::Thread => columns.push(Column::Left("thread")),
        By::State => columns.push(Column::Left("state")),
        By::Module => columns.push(Column::Left("module")),
    }
    columns
}

fn line(row: &Row, sort: Sort, by: By, total: Values) -> Vec<String> {
    let values = selected(row, sort);
    let mut cells = vec![
        time(values.cpu_ns),
        percent(values.cpu_ns, total.cpu_ns),
        time(values.wall_ns),
        percent(values.wall_ns, total.wall_ns),
        row.name.clone(),
    ];
    if by == By::Function {
        // Synthetic frames have none, and saying so in every row helps nobody.
        cells.push(if row.module == "[no module]" { String::new() } else { row.module.clone() });
    }
    cells
}

/// Totals, cost, losses and processes, a line each.
pub fn numbers(loaded: &Loaded) -> String {
    let total = loaded.profile.total();
    let mut lines = vec![(
        "total",
        format!(
            "{} CPU in {} samples, {} wall",
            time(total.cpu_ns),
            total.count,
            time(total.wall_ns)
        ),
    )];
    match loaded.report() {
        Some(report) => report_lines(&report, total, &mut lines),
        None => lines.push(("profiler", "the files don't hold the profiler's numbers".to_owned())),
    }
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{name:<9} {value}");
    }
    if loaded.processes.len() > 1 {
        text.push_str(&processes(&loaded.processes));
    }
    text
}

fn report_lines(report: &SelfReport, total: Values, lines: &mut Vec<(&'static str, String)>) {
    let mut kernel = Vec::new();
    if report.managed_cpu_ns > 0 {
        kernel.push(format!(
            "{} for the sampled threads (the profile has {})",
            time(report.managed_cpu_ns),
            difference(total.cpu_ns, report.managed_cpu_ns)
        ));
    }
    if report.process_cpu_ns > 0 {
        kernel.push(format!("{} for the whole process", time(report.process_cpu_ns)));
    }
    if !kernel.is_empty() {
        lines.push(("kernel", format!("counted {}", kernel.join(", "))));
    }
    let part = match report.process_cpu_ns {
        0 => String::new(),
        all => format!(" ({} of the program's)", percent(report.own_cpu_ns, all)),
    };
    let own = (time(report.own_cpu_ns), memory(report.own_memory_bytes));
    lines.push(("profiler", format!("used {} CPU{part} and {} of memory", own.0, own.1)));
    let lost: Vec<_> =
        report.losses.iter().map(|(loss, n)| format!("{} {n}", loss.name())).collect();
    let lost = if lost.is_empty() { "nothing".to_owned() } else { lost.join(", ") };
    lines.push(("lost", lost));
    let walks = report.ends.total();
    let ends: Vec<_> = report
        .ends
        .iter()
        .map(|(end, n)| format!("{} {n} ({})", end.frame(), percent(n, walks)))
        .collect();
    if !ends.is_empty() {
        lines.push(("walks", format!("ended at {}", ends.join(", "))));
    }
}

fn processes(processes: &[Process]) -> String {
    let columns = [
        Column::Right("cpu"),
        Column::Right("wall"),
        Column::Right("files"),
        Column::Right("pid"),
        Column::Left("process"),
    ];
    let rows = processes.iter().take(PROCESSES_SHOWN).map(|process| {
        let pid = if process.pid == 0 { "?".to_owned() } else { process.pid.to_string() };
        let (cpu, wall) = (time(process.values.cpu_ns), time(process.values.wall_ns));
        vec![cpu, wall, process.files.to_string(), pid, process.service.clone()]
    });
    let mut text = format!("\n{}", table::render(&columns, rows, None));
    let more = processes.len().saturating_sub(PROCESSES_SHOWN);
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    text
}

/// Everything as JSON; times in nanoseconds.
pub fn json(loaded: &Loaded, view: View) -> Map<String, Value> {
    let total = loaded.profile.total();
    let mut rows = ranking::rows(&loaded.profile, view.by);
    ranking::sort(&mut rows, view.sort.unwrap_or(Sort::Own), view.clock(total));
    let rows: Vec<_> = rows.iter().take(view.limit).map(json_row).collect();
    let processes: Vec<_> = loaded.processes.iter().map(json_process).collect();
    let files: Vec<_> = loaded.files.iter().map(|file| file.to_string_lossy()).collect();
    let period = loaded.profile.period;
    let mut map = Map::new();
    map.insert("by".into(), json!(format!("{:?}", view.by).to_lowercase()));
    map.insert("total".into(), json_values(total));
    map.insert("start_unix_ns".into(), json!(period.start_unix_ns));
    map.insert("duration_ns".into(), json!(period.duration_ns));
    map.insert("rows".into(), json!(rows));
    map.insert(
        "profiler".into(),
        loaded.report().map_or(Value::Null, |report| json_report(&report)),
    );
    map.insert("processes".into(), json!(processes));
    map.insert("files".into(), json!(files));
    map
}

fn json_values(values: Values) -> Value {
    json!({ "samples": values.count, "cpu_ns": values.cpu_ns, "wall_ns": values.wall_ns })
}

fn json_row(row: &Row) -> Value {
    json!({
        "name": row.name,
        "module": row.module,
        "self": json_values(row.own),
        "total": json_values(row.total),
    })
}

fn json_process(process: &Process) -> Value {
    json!({
        "service": process.service,
        "pid": process.pid,
        "files": process.files,
        "total": json_values(process.values),
        "profiler": process.report.as_ref().map(json_report),
    })
}

fn json_report(report: &SelfReport) -> Value {
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
        "own_memory_bytes": report.own_memory_bytes,
        "process_cpu_ns": report.process_cpu_ns,
        "managed_cpu_ns": report.managed_cpu_ns,
        "lost": losses,
        "walks_ended": ends,
    })
}
