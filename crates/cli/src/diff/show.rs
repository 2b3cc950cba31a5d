//! A diff for a person, and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::compare::{Change, Measure};
use super::{Diff, Row, Whole};
use crate::table::{self, Line};
use crate::units::{count, time};

/// The changes that are more than chance, what became more expensive first.
pub fn text(diff: &Diff, failing: Option<&[&Row]>, limit: usize, width: Option<u16>) -> String {
    let significant: Vec<&Row> = diff.rows.iter().filter(|row| diff.is_significant(row)).collect();
    let mut text = String::new();
    if significant.is_empty() {
        text.push_str("nothing differs by more than chance\n");
    } else {
        let per_request = diff.measure == Measure::PerRequest;
        let mut headings = vec!["base", "new", "change"];
        if per_request {
            headings.splice(0..0, ["base/req", "new/req", "change/req"]);
        }
        let line = |row: &&Row| Line {
            numbers: numbers(row, per_request),
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
    let lines = [
        ("others", format!("{} differ by no more than chance may", count(others, "row"))),
        ("base", whole(base)),
        ("new", whole(new)),
        (
            "change",
            format!(
                "± is the {percent} % interval of one row; of the rows above no more \
                            than {} % are chance, on average",
                round(100.0 - percent)
            ),
        ),
    ];
    text.push('\n');
    for (name, value) in lines {
        let _ = writeln!(text, "{}", table::hanging(&format!("{name:<9} "), &value, width));
    }
    if let Some(failing) = failing {
        let _ = writeln!(text, "{}", verdict(failing));
    }
    text
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

fn verdict(failing: &[&Row]) -> String {
    if failing.is_empty() {
        return "fail-if   nothing became more expensive by so much".to_owned();
    }
    let names: Vec<&str> = failing.iter().map(|row| row.name.as_str()).collect();
    format!("fail-if   became more expensive by more: {}", names.join(", "))
}

fn numbers(row: &Row, per_request: bool) -> Vec<String> {
    let mut numbers = Vec::new();
    if per_request {
        numbers.extend(texts(row.per_request, |ns| time(ns as u64)));
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
    let files = count(whole.files, "file");
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
            "ns_per_request": change(row.per_request),
            "probability": row.of(diff.measure).and_then(|change| change.probability),
            "adjusted_probability": row.adjusted,
            "is_significant": diff.is_significant(row),
        })
    };
    let side = |whole: &Whole| {
        json!({
            "files": whole.files,
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
        "rows": diff.rows.iter().map(row).collect::<Vec<_>>(),
        "failing":
            failing.map(|rows| rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>()),
    })
}
