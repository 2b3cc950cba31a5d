//! Tables and plots of what was measured.

use std::fmt::Write as _;

use serde_json::Value;

use super::plot::{Line, Plot, Point};
use super::results::Results;
use super::setting::{self, Setting};
use super::workload::{self, Workload};

/// All tables, as a document has them.
pub fn tables(results: &Results) -> String {
    let mut text = String::new();
    let extra = |value: f64| format!("{:+.2}", (value - 1.0) * 100.0);
    table(results, &mut text, "cpu", "Extra CPU time of an operation, in percent", &extra);
    table(results, &mut text, "rate", "Operations a second, change in percent", &extra);
    own(results, &mut text);
    latency(results, &mut text);
    start(results, &mut text);
    memory(results, &mut text);
    text
}

/// The name of a setting's column.
fn columns(results: &Results) -> Vec<Setting> {
    let is_there = |setting: &Setting| {
        let name = setting.name();
        workload::ALL.iter().any(|one| !results.get(&["peers", one.name, name]).is_null())
    };
    setting::ALL.into_iter().filter(is_there).collect()
}

fn head(text: &mut String, title: &str, columns: &[&str]) {
    let _always = writeln!(text, "\n{title}:\n\n| | {} |", columns.join(" | "));
    let _always = writeln!(text, "|---|{}", "---|".repeat(columns.len()));
}

fn table(
    results: &Results,
    text: &mut String,
    what: &str,
    title: &str,
    show: &dyn Fn(f64) -> String,
) {
    let settings = columns(results);
    if settings.is_empty() {
        return;
    }
    let names: Vec<&str> = settings.iter().map(|setting| setting.text()).collect();
    head(text, title, &names);
    for workload in workload::ALL {
        let cells: Vec<String> = settings
            .iter()
            .map(|setting| {
                let value = results.get(&["peers", workload.name, setting.name(), what]);
                let at = |key: &str| value[key].as_f64().map(show);
                match (at("median"), at("low"), at("high")) {
                    (Some(median), Some(low), Some(high)) => format!("{median} ({low} to {high})"),
                    _ => String::new(),
                }
            })
            .collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            let _always = writeln!(text, "| {} | {} |", workload.text, cells.join(" | "));
        }
    }
}

/// What the profiler's threads use, which the kernel counts exactly.
fn own(results: &Results, text: &mut String) {
    let rows: Vec<(Workload, f64, f64, f64)> = workload::ALL
        .into_iter()
        .filter_map(|workload| {
            let of = |setting: Setting, key: &str| {
                results.get(&["peers", workload.name, setting.name(), key]).as_f64()
            };
            let cpu_us = of(Setting::Timer, "bare_cpu_ns")? / 1e3;
            let timer = of(Setting::Timer, "own_threads")? * 100.0;
            let spans = of(Setting::Spans, "own_threads").unwrap_or(f64::NAN) * 100.0;
            Some((workload, cpu_us, timer, spans))
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let title = "CPU time of the profiler's threads, in percent of an operation's";
    head(text, title, &["an operation", "corprof, without spans", "corprof"]);
    for (workload, cpu_us, timer, spans) in rows {
        let name = workload.text;
        let _always = writeln!(text, "| {name} | {cpu_us:.1} µs | {timer:.2} | {spans:.2} |");
    }
}

fn latency(results: &Results, text: &mut String) {
    let latency = results.get(&["latency"]);
    let Some(rate) = latency["answers_a_second"].as_f64() else { return };
    let title = format!("How long answers take, at {rate:.0} a second, and ratios of rounds");
    let settings = [Setting::Bare, Setting::Timer, Setting::Spans];
    head(text, &title, &settings.map(Setting::text));
    for name in ["p50", "p99", "p99.9"] {
        let _always = write!(text, "| {name} |");
        for setting in settings {
            let at = |key: &str| latency[name][setting.name()][key].as_f64().unwrap_or(f64::NAN);
            let _always = write!(text, " {:.0} µs", at("us"));
            if setting != Setting::Bare {
                let [ratio, low, high] = ["ratio", "low", "high"].map(at);
                let _always = write!(text, ", {ratio:.3} ({low:.3} to {high:.3})");
            }
            text.push_str(" |");
        }
        text.push('\n');
    }
}

fn start(results: &Results, text: &mut String) {
    let start = results.get(&["start"]);
    if start.is_null() {
        return;
    }
    let title = "A program that does nothing, from its start to its end";
    head(text, title, &["CPU time", "more than without", "the runtime waits for the agent"]);
    for setting in [Setting::Bare, Setting::Timer, Setting::Spans] {
        let of = &start[setting.name()];
        let at = |key: &str| of[key].as_f64();
        let median = at("cpu_ms").unwrap_or(f64::NAN);
        let _always = write!(text, "| {} | {median:.1} ms |", setting.text());
        match (at("extra_ms"), at("low"), at("high")) {
            (Some(extra), Some(low), Some(high)) => {
                let _always = write!(text, " {extra:.1} ms ({low:.1} to {high:.1}) |");
            }
            _ => text.push_str(" |"),
        }
        let _always = writeln!(text, " {} |", of["ready"].as_str().unwrap_or_default());
    }
}

/// What is told of memory, and under which name.
const MEMORY: [(&str, &str); 9] = [
    ("bare_mib", "no profiler"),
    ("agent_mib", "corprof, without spans"),
    ("arenas_more_mib", "of this the program's arenas"),
    ("library_mib", "the agent's library"),
    ("mapped_mib", "what it has mapped"),
    ("own_arenas_mib", "its threads' arenas"),
    ("shared_more_mib", "first heap and other memory, more"),
    ("sum_mib", "these four"),
    ("own_mib", "the agent by its own count"),
];

fn memory(results: &Results, text: &mut String) {
    let memory = results.get(&["memory"]);
    let parts = |key: &str| -> Vec<f64> {
        memory[key].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let columns = MEMORY.map(|(key, _)| parts(key));
    let rows = columns.iter().map(Vec::len).min().unwrap_or_default();
    if rows == 0 {
        return;
    }
    let seconds = memory["seconds"].as_u64().unwrap_or_default();
    let title = format!("Memory of a program that compiles for {seconds} s, medians of parts, MiB");
    head(text, &title, &MEMORY.map(|(_, name)| name));
    for row in 0..rows {
        let _always = write!(text, "| part {} |", row + 1);
        for value in columns.iter().filter_map(|column| column.get(row)) {
            let _always = write!(text, " {value:.1} |");
        }
        text.push('\n');
    }
}

/// All plots, with their names.
pub fn plots(results: &Results) -> Vec<(&'static str, String)> {
    const EXTRA: &str = "extra CPU time of an operation, %";
    let curve = |name: &'static str, title: &str, x: &str, y: &str| {
        let lines = lines(results.get(&["curves", name]));
        (name, Plot { title: title.into(), x: x.into(), y: y.into(), lines, names: Vec::new() })
    };
    let deep = "What samples cost by the depth of the stack (100 Hz)";
    let fast = "What samples cost by their rate (stacks of 30 frames)";
    let idle = "What idle threads cost";
    let all = [
        peers(results),
        curve("threads", idle, "idle threads", "CPU time, % of a processor"),
        curve("depth", deep, "frames", EXTRA),
        curve("rate", fast, "samples a second and thread", EXTRA),
    ];
    let there = all.into_iter().filter(|(_, plot)| !plot.lines.is_empty());
    there.map(|(name, plot)| (name, plot.svg())).collect()
}

fn text_of(name: &str) -> String {
    let setting = Setting::named(name);
    setting.map_or_else(|| name.to_owned(), |setting| setting.text().to_owned())
}

fn lines(curve: &Value) -> Vec<Line> {
    let of = |line: &Value| {
        let points = line["points"].as_array().into_iter().flatten();
        let points = points.filter_map(|point| {
            let at = |index: usize| point[index].as_f64();
            Some(Point { x: at(0)?, y: at(1)?, low: at(2)?, high: at(3)? })
        });
        let name = text_of(line["setting"].as_str().unwrap_or_default());
        Line { name, points: points.collect() }
    };
    curve.as_array().into_iter().flatten().map(of).collect()
}

fn peers(results: &Results) -> (&'static str, Plot) {
    let mut names = Vec::new();
    let settings = columns(results);
    let mut lines: Vec<Line> = settings
        .iter()
        .map(|setting| Line { name: setting.text().to_owned(), points: Vec::new() })
        .collect();
    for workload in workload::ALL {
        if results.get(&["peers", workload.name]).is_null() {
            continue;
        }
        for (setting, line) in settings.iter().zip(&mut lines) {
            let cpu = results.get(&["peers", workload.name, setting.name(), "cpu"]);
            let at = |key: &str| Some((cpu[key].as_f64()? - 1.0) * 100.0);
            if let (Some(y), Some(low), Some(high)) = (at("median"), at("low"), at("high")) {
                line.points.push(Point { x: names.len() as f64, y, low, high });
            }
        }
        names.push(workload.name.to_owned());
    }
    let title = "Extra CPU time of an operation".to_owned();
    ("peers", Plot { title, x: String::new(), y: "%".to_owned(), lines, names })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_measured_is_shown_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("report-{}.json", std::process::id()));
        let mut results = Results::load(&path).unwrap();
        assert_eq!(tables(&results), "");
        assert!(plots(&results).is_empty());
        let estimate = |median| json!({ "median": median, "low": 0.99, "high": 1.5 });
        let cost = json!({ "cpu": estimate(1.25), "rate": estimate(0.75), "own_threads": 0.001,
                           "bare_cpu_ns": 50_000.0 });
        results.put(&["peers", "web", "timer"], cost).unwrap();
        let line = json!([{ "setting": "timer", "points": [[10, 0.1, 0.05, 0.2]] }]);
        results.put(&["curves", "depth"], line).unwrap();
        let text = tables(&results);
        for part in ["+25.00 (-1.00 to +50.00)", "-25.00 (-1.00", "| 50.0 µs | 0.10 | NaN |"] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        let plots = plots(&results);
        assert_eq!(plots.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["peers", "depth"]);
        assert!(plots[1].1.contains("corprof, without spans"));
        std::fs::remove_file(path).unwrap();
    }
}
