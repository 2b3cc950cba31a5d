//! Tables and plots of what was measured.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::plot::{Line, Plot, Point, grouped};
use super::results::Results;
use super::setting::{self, Setting};
use super::workload::{self, Workload};

/// A table, as a document has it.
pub struct Table {
    /// What it is called where a document has it.
    pub name: &'static str,
    /// A line that says what it is of, and the rows.
    pub text: String,
}

/// All tables of what is there.
pub fn tables(results: &Results) -> Vec<Table> {
    let all = [
        ("peers", ratios(results, "cpu", "Extra CPU time of an operation, in percent")),
        ("operations", ratios(results, "rate", "Operations a second, change in percent")),
        ("own-threads", own(results)),
        ("latency", latency(results)),
        ("depth", curve(results, "depth", "Extra CPU time of an operation, in percent, by frames")),
        ("rate", curve(results, "rate", "The same by samples a second of a thread's CPU time")),
        ("threads", threads(results)),
        ("start", start(results)),
        ("memory", memory(results)),
    ];
    let there = all.into_iter().filter_map(|(name, text)| Some(Table { name, text: text? }));
    there.collect()
}

/// The first lines of a table.
fn head(title: &str, commits: &BTreeSet<&str>, columns: &[impl AsRef<str>]) -> String {
    let at: Vec<&str> = commits.iter().copied().collect();
    let names: Vec<&str> = columns.iter().map(AsRef::as_ref).collect();
    let rule = "---|".repeat(columns.len());
    format!("{title} (at {}):\n\n| | {} |\n|---|{rule}\n", at.join(", "), names.join(" | "))
}

/// The settings that there is something of.
fn columns(results: &Results) -> Vec<Setting> {
    let is_there = |setting: &Setting| {
        let name = setting.name();
        workload::ALL.iter().any(|one| !results.get(&["peers", one.name, name]).is_null())
    };
    setting::ALL.into_iter().filter(is_there).collect()
}

/// What of each workload and setting is told as a ratio to that without a profiler.
fn ratios(results: &Results, what: &str, title: &str) -> Option<String> {
    let settings = columns(results);
    if settings.is_empty() {
        return None;
    }
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let names: Vec<&str> = settings.iter().map(|setting| setting.text()).collect();
    let mut text = head(title, &results.commits(&["peers"]), &names);
    for workload in workload::ALL {
        if results.get(&["peers", workload.name]).is_null() {
            continue;
        }
        let _always = write!(text, "| {} |", workload.text);
        for setting in &settings {
            let value = results.get(&["peers", workload.name, setting.name(), what]);
            let at = |key: &str| value[key].as_f64().map(percent);
            text.push_str(&interval(at("median"), at("low"), at("high")));
        }
        text.push('\n');
    }
    Some(text)
}

/// A cell with a change in percent, and the ends of its interval.
fn interval(median: Option<f64>, low: Option<f64>, high: Option<f64>) -> String {
    match (median, low, high) {
        (Some(median), Some(low), Some(high)) => {
            format!(" {median:+.2} ({low:+.2} to {high:+.2}) |")
        }
        _ => " not measured |".to_owned(),
    }
}

/// What the profiler's threads use, which the kernel counts exactly.
fn own(results: &Results) -> Option<String> {
    let settings = [Setting::Timer, Setting::Spans];
    let of = |workload: &Workload, setting: Setting, key: &str| {
        results.get(&["peers", workload.name, setting.name(), key]).as_f64()
    };
    let operation = |workload: &Workload| {
        settings.iter().find_map(|setting| of(workload, *setting, "bare_cpu_ns"))
    };
    let rows: Vec<(Workload, f64)> = workload::ALL
        .into_iter()
        .filter_map(|workload| operation(&workload).map(|nanos| (workload, nanos)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let title = "CPU time of the profiler's threads, in percent of an operation's";
    let columns = ["an operation", settings[0].text(), settings[1].text()];
    let mut text = head(title, &results.commits(&["peers"]), &columns);
    for (workload, nanos) in rows {
        let _always = write!(text, "| {} | {:.1} µs |", workload.text, nanos / 1e3);
        for setting in settings {
            let share = of(&workload, setting, "own_threads");
            text.push_str(
                &share.map_or(" not measured |".to_owned(), |share| {
                    format!(" {:.2} |", share * 100.0)
                }),
            );
        }
        text.push('\n');
    }
    Some(text)
}

fn latency(results: &Results) -> Option<String> {
    let latency = results.get(&["latency"]);
    let rate = latency["answers_a_second"].as_f64()?;
    let title =
        format!("How long answers take, at {} a second, and ratios of rounds", grouped(rate));
    let settings = [Setting::Bare, Setting::Timer, Setting::Spans];
    let mut text = head(&title, &results.commits(&["latency"]), &settings.map(Setting::text));
    for name in ["p50", "p99", "p99.9"] {
        let _always = write!(text, "| {name} |");
        for setting in settings {
            let at = |key: &str| latency[name][setting.name()][key].as_f64().unwrap_or(f64::NAN);
            let _always = write!(text, " {} µs", grouped(at("us").round()));
            if setting != Setting::Bare {
                let [ratio, low, high] = ["ratio", "low", "high"].map(at);
                let _always = write!(text, ", {ratio:.3} ({low:.3} to {high:.3})");
            }
            text.push_str(" |");
        }
        text.push('\n');
    }
    Some(text)
}

/// A curve's points as rows, each line as a column.
fn curve(results: &Results, name: &str, title: &str) -> Option<String> {
    let lines = lines(results.get(&["curves", name]));
    let first = lines.first()?;
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut text = head(title, &results.commits(&["curves", name]), &names);
    for Point { x, .. } in &first.points {
        let _always = write!(text, "| {} |", grouped(*x));
        for line in &lines {
            let point = line.points.iter().find(|point| point.x == *x);
            text.push_str(&interval(
                point.map(|point| point.y),
                point.map(|point| point.low),
                point.map(|point| point.high),
            ));
        }
        text.push('\n');
    }
    Some(text)
}

fn threads(results: &Results) -> Option<String> {
    let lines = lines(results.get(&["curves", "threads"]));
    let [agent, event_pipe] = lines.as_slice() else { return None };
    let title = "CPU time of programs whose threads wait, in percent of a processor";
    let commits = results.commits(&["curves", "threads"]);
    let mut text = head(title, &commits, &["the agent's threads", "EventPipe", "ratio"]);
    for (agent, event_pipe) in agent.points.iter().zip(&event_pipe.points) {
        let (ours, theirs) = (agent.y, event_pipe.y);
        let count = grouped(agent.x);
        let _always =
            writeln!(text, "| {count} | {ours:.3} | {theirs:.2} | {:.0} |", theirs / ours);
    }
    Some(text)
}

fn start(results: &Results) -> Option<String> {
    let start = results.get(&["start"]);
    if start.is_null() {
        return None;
    }
    let title = "A program that does nothing, from its start to its end";
    let columns = ["CPU time", "more than without", "the runtime waits for the agent"];
    let mut text = head(title, &results.commits(&["start"]), &columns);
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
    Some(text)
}

/// What is told of memory, and under which name.
const MEMORY: [(&str, &str); 9] = [
    ("bare_mib", "no profiler"),
    ("agent_mib", "corprof, without spans"),
    ("arenas_more_mib", "the program's arenas, more"),
    ("library_mib", "the agent's library"),
    ("mapped_mib", "what it has mapped"),
    ("own_arenas_mib", "its threads' arenas"),
    ("shared_more_mib", "first heap and other memory, more"),
    ("sum_mib", "these four"),
    ("own_mib", "its own count"),
];

fn memory(results: &Results) -> Option<String> {
    let memory = results.get(&["memory"]);
    let parts = |key: &str| -> Vec<f64> {
        memory[key].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let columns = MEMORY.map(|(key, _)| parts(key));
    let rows = columns.iter().map(Vec::len).min().filter(|rows| *rows > 0)?;
    let seconds = memory["seconds"].as_u64().unwrap_or_default();
    let title = format!("Memory of a program that compiles for {seconds} s, medians of parts, MiB");
    let mut text = head(&title, &results.commits(&["memory"]), &MEMORY.map(|(_, name)| name));
    for row in 0..rows {
        let _always = write!(text, "| part {} |", row + 1);
        for value in columns.iter().filter_map(|column| column.get(row)) {
            let _always = write!(text, " {value:.1} |");
        }
        text.push('\n');
    }
    Some(text)
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
        assert!(tables(&results).is_empty());
        assert!(plots(&results).is_empty());
        let estimate = |median| json!({ "median": median, "low": 0.99, "high": 1.5 });
        let cost = json!({ "cpu": estimate(1.25), "rate": estimate(0.75), "own_threads": 0.001,
                           "bare_cpu_ns": 50_000.0 });
        results.put(&["peers", "web", "spans"], cost, "a1").unwrap();
        let line = |name| json!({ "setting": name, "points": [[1000, 0.1, 0.05, 0.2]] });
        results.put(&["curves", "depth"], json!([line("timer"), line("perf")]), "b2").unwrap();
        let tables = tables(&results);
        let text: String = tables.iter().map(|table| table.text.as_str()).collect();
        for part in [
            "in percent (at a1):\n\n| | corprof |\n|---|---|\n",
            "+25.00 (-1.00 to +50.00)",
            "-25.00 (-1.00",
            "| 50.0 µs | not measured | 0.10 |",
            "by frames (at b2):",
            "| 1,000 | +0.10 (+0.05 to +0.20) | +0.10 (+0.05 to +0.20) |\n",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
        assert_eq!(names, ["peers", "operations", "own-threads", "depth"]);
        let plots = plots(&results);
        assert_eq!(plots.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["peers", "depth"]);
        assert!(plots[1].1.contains("corprof, without spans"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_table_of_idle_threads_has_ratios() {
        let path = std::env::temp_dir().join(format!("threads-{}.json", std::process::id()));
        let mut results = Results::load(&path).unwrap();
        let line = |cost| json!({ "setting": "timer", "points": [[10_000, cost, cost, cost]] });
        results.put(&["curves", "threads"], json!([line(0.1), line(98.5)]), "a1").unwrap();
        let text = &tables(&results)[0].text;
        assert!(text.contains("| 10,000 | 0.100 | 98.50 | 985 |"), "{text}");
        std::fs::remove_file(path).unwrap();
    }
}
