//! A diff for a person, and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::compare::{Change, Measure};
use super::{Diff, Row, Whole};
use crate::args::Clock;
use crate::table::{self, Line};
use crate::units::{count, time};

/// Why a run's time is told and not tested.
const UNTESTED: &str = "whether the total differs by more than chance only several runs of each \
                        side can say; --fail-if looks at shares alone";

/// The changes that are more than chance, what became more expensive first.
pub fn text(diff: &Diff, failing: Option<&[&Row]>, limit: usize, width: Option<u16>) -> String {
    let significant: Vec<&Row> = diff.rows.iter().filter(|row| diff.is_significant(row)).collect();
    let mut text = String::new();
    // Of a run's time it is not known whether it differs.
    let is_untested = diff.measure == Measure::Share && diff.per_run.probability.is_none();
    if significant.is_empty() {
        let what = if is_untested { "no share of a function" } else { "nothing" };
        let _ = writeln!(text, "{what} differs by more than chance");
    } else {
        let times = Times::of(diff, &significant);
        let mut headings = times.headings().to_vec();
        headings.extend(["base", "new", "change"]);
        let line = |row: &&Row| Line {
            numbers: numbers(row, times),
            name: row.name.clone(),
            note: row.module.clone(),
        };
        let lines: Vec<Line> = ends(&significant, limit).iter().map(line).collect();
        text.push_str(&table::render(&headings, "function", &lines, width));
        if significant.len() > limit {
            let _ = writeln!(text, "and {} more", count(significant.len() - limit, "row"));
        }
    }
    let others = diff.rows.len() - significant.len();
    let percent = round(diff.confidence * 100.0);
    let [base, new] = &diff.sides;
    let mut lines = vec![
        ("others", format!("{} differ by no more than chance may", count(others, "row"))),
        ("compared", compared(diff)),
        ("base", whole(base)),
        ("new", whole(new)),
        ("total", totals(diff)),
        (
            "change",
            format!(
                "± is the {percent} % interval of one row; of the rows above no more \
                            than {} % are chance, on average",
                round(100.0 - percent)
            ),
        ),
    ];
    if is_untested {
        let name = "total";
        let place = lines.iter().position(|(other, _)| *other == name).map_or(0, |at| at + 1);
        lines.insert(place, ("", UNTESTED.to_owned()));
    }
    text.push('\n');
    for (name, value) in lines {
        let _ = writeln!(text, "{}", table::hanging(&format!("{name:<9} "), &value, width));
    }
    if let Some(failing) = failing {
        let _ = writeln!(text, "{}", verdict(failing, is_untested));
    }
    text
}

/// What a row's numbers are, in words.
fn compared(diff: &Diff) -> String {
    let clock = clock(diff);
    match diff.measure {
        Measure::PerRequest => format!("{clock} time of a request, and shares of all {clock} time"),
        _ if diff.per_run.probability.is_some() => format!(
            "shares of all {clock} time, and as [everything] the {clock} time of a run: no share \
             changes if everything becomes more expensive alike"
        ),
        _ => format!(
            "shares of all {clock} time: none changes if everything becomes more expensive alike"
        ),
    }
}

/// What everything costs.
fn totals(diff: &Diff) -> String {
    let of = |change: &Change, what: &str| {
        let [base, new] = [change.base, change.new].map(|ns| time(ns as u64));
        let part = if change.base > 0.0 { change.difference() / change.base } else { 0.0 };
        let half = change.half_width;
        let half =
            if half.is_finite() { format!(" ±{}", time(half as u64)) } else { String::new() };
        format!("{what} {base} → {new} ({:+.1} %{half})", part * 100.0)
    };
    let run = of(&diff.per_run, "a run");
    let all = match &diff.per_request {
        Some(per_request) => format!("{}, {run}", of(per_request, "a request")),
        None => run,
    };
    format!("{} time of {all}", clock(diff))
}

fn clock(diff: &Diff) -> &'static str {
    match diff.clock {
        Clock::Cpu => "CPU",
        Clock::Wall => "wall",
    }
}

/// Which times stand before the shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    None,
    Run,
    Request,
}

impl Times {
    fn of(diff: &Diff, rows: &[&Row]) -> Self {
        match diff.measure {
            Measure::PerRequest => Self::Request,
            _ if rows.iter().any(|row| row.per_run.is_some()) => Self::Run,
            _ => Self::None,
        }
    }

    fn headings(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Run => &["base/run", "new/run", "change/run"],
            Self::Request => &["base/req", "new/req", "change/req"],
        }
    }
}

/// Of too many rows those at both ends, which have changed most.
fn ends<'a>(rows: &[&'a Row], limit: usize) -> Vec<&'a Row> {
    if rows.len() <= limit {
        return rows.to_vec();
    }
    let first = limit.div_ceil(2);
    let last = rows.len() - (limit - first);
    rows.iter().take(first).chain(rows.iter().skip(last)).copied().collect()
}

/// Without what is only there because numbers are binary.
fn round(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn verdict(failing: &[&Row], is_untested: bool) -> String {
    if failing.is_empty() {
        let what = if is_untested {
            "no share of a function grew"
        } else {
            "nothing became more expensive"
        };
        return format!("fail-if   {what} by so much");
    }
    let names: Vec<&str> = failing.iter().map(|row| row.name.as_str()).collect();
    format!("fail-if   became more expensive by more: {}", names.join(", "))
}

fn numbers(row: &Row, times: Times) -> Vec<String> {
    let mut numbers = Vec::new();
    match times {
        Times::None => {}
        Times::Run => numbers.extend(texts(row.per_run, |ns| time(ns as u64))),
        Times::Request => numbers.extend(texts(row.per_request, |ns| time(ns as u64))),
    }
    numbers.extend(texts(row.share, |share| format!("{:.2} %", share * 100.0)));
    numbers
}

/// Before, after, and the difference with its interval; dashes for none.
fn texts(change: Option<Change>, text: impl Fn(f64) -> String) -> [String; 3] {
    let Some(change) = change else { return ["-"; 3].map(str::to_owned) };
    let difference = change.difference();
    let sign = if difference < 0.0 { "-" } else { "+" };
    let (amount, half) = (text(difference.abs()), text(change.half_width));
    [text(change.base), text(change.new), format!("{sign}{amount} ±{half}")]
}

/// Samples of a side; `None` where time was measured.
fn samples(whole: &Whole) -> Option<u64> {
    whole.all.count.is_finite().then_some(whole.samples)
}

fn whole(whole: &Whole) -> String {
    let mut files = count(whole.files, "file");
    if whole.runs != whole.files {
        let _ = write!(files, " of {}", count(whole.runs, "run"));
    }
    let samples = match samples(whole) {
        Some(samples) => {
            format!("{} of ", count(usize::try_from(samples).unwrap_or(usize::MAX), "sample"))
        }
        None => String::new(),
    };
    let requests = match whole.requests {
        0.0 => String::new(),
        requests => format!(", {}", count(requests as usize, "request")),
    };
    format!("{} in {samples}{files}{requests}", time(whole.all.ns as u64))
}

/// All rows, whatever they are; times in nanoseconds, shares between 0 and 1.
pub fn json(diff: &Diff, failing: Option<&[&Row]>) -> Value {
    let change = |change: Option<Change>| {
        change.map(|change| {
            json!({
                "base": change.base,
                "new": change.new,
                "change": change.difference(),
                "half_width": change.half_width,
            })
        })
    };
    let row = |row: &Row| {
        json!({
            "name": row.name,
            "module": row.module,
            "share": change(row.share),
            "ns_per_run": change(row.per_run),
            "ns_per_request": change(row.per_request),
            "probability": row.of(diff.measure).and_then(|change| change.probability),
            "adjusted_probability": row.adjusted,
            "is_significant": diff.is_significant(row),
        })
    };
    let side = |whole: &Whole| {
        json!({
            "files": whole.files,
            "runs": whole.runs,
            "ns": whole.all.ns,
            "samples": samples(whole),
            "requests": whole.requests,
        })
    };
    let [base, new] = &diff.sides;
    json!({
        "measure": if diff.measure == Measure::Share { "share" } else { "ns_per_request" },
        "confidence": diff.confidence,
        "base": side(base),
        "new": side(new),
        "total": {
            "ns_per_run": change(Some(diff.per_run)),
            "ns_per_request": change(diff.per_request),
        },
        "rows": diff.rows.iter().map(row).collect::<Vec<_>>(),
        "failing":
            failing.map(|rows| rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>()),
    })
}
