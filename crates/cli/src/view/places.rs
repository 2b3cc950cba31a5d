//! The lines of a function, by its own time.

use std::collections::HashMap;
use std::path::PathBuf;

use model::FrameKind;
use profile::{Aggregate, Frame, Limits, ModuleInfo, Period, SampleKey, ThreadKey, Values};
use serde_json::{Value as Json, json};

use super::columns::{Columns, Place};
use super::selection::{Filter, Selection, Weights};
use crate::lines::Lines;

/// Lines that are listed.
const LINES_MAX: usize = 30;

/// Where in a function its own time is, the most first: by source line where one is known.
pub fn told(
    columns: &Columns,
    selection: &Selection,
    weights: &Weights,
    function: u32,
    symbols: &[PathBuf],
) -> Json {
    let mut times: HashMap<u32, f64> = HashMap::new();
    let filter = Filter::new(columns, selection, weights);
    filter.each(selection.value, |_, row, ns| {
        let place = columns.rows.place[row];
        let of = columns.places.list.get(place as usize).map(|place| place.function);
        if of == Some(function) {
            *times.entry(place).or_default() += ns;
        }
    });
    let places: Vec<(&Place, f64)> = times
        .iter()
        .filter_map(|(place, ns)| Some((columns.places.list.get(*place as usize)?, *ns)))
        .collect();
    let mut lines: HashMap<Option<String>, f64> = HashMap::new();
    for ((_, ns), line) in places.iter().zip(lines_of(&places, symbols)) {
        *lines.entry(line).or_default() += ns;
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let line = |(line, ns): &(Option<String>, f64)| json!({ "line": line, "ns": ns });
    json!({ "lines": lines.iter().take(LINES_MAX).map(line).collect::<Vec<_>>() })
}

/// The line of each place, as `file:line`. They are looked for as those of a profile are: one is
/// made that has these frames and nothing else, each in a sample of its own.
fn lines_of(places: &[(&Place, f64)], symbols: &[PathBuf]) -> Vec<Option<String>> {
    let mut aggregate = Aggregate::new(Limits::READER);
    for (at, (place, _)) in (1..).zip(places) {
        let module =
            ModuleInfo { file: &place.module, build_id: &place.build_id, start: 0, limit: 0 };
        let module = aggregate.module(&module).filter(|_| !place.module.is_empty());
        let frame = aggregate.frame(&Frame {
            // Told apart by their numbers, or equal addresses of two builds would be one.
            name: &at.to_string(),
            raw_name: &place.raw_name,
            module,
            address: place.address,
            kind: place.kind.unwrap_or(FrameKind::Managed),
            file: Some(&place.file),
            line: Some(place.line),
        });
        let stack = aggregate.stack([frame]);
        let key = SampleKey { stack, thread: ThreadKey::NONE, state: None, span: None, labels: 0 };
        let _ = aggregate.add(&key, Values { count: 1, ..Values::default() });
    }
    let profile = aggregate.take(Period::default()).profile;
    let found = Lines::find(&profile, symbols);
    let mut lines = vec![None; places.len()];
    for sample in &profile.samples {
        let Some(frame) = profile.stack(sample.stack).next() else { continue };
        let number = profile.function_of(frame).map_or("", |of| profile.text(of.name));
        let Some(at) = number.parse::<usize>().ok().and_then(|at| at.checked_sub(1)) else {
            continue;
        };
        let found = found.name(frame).and_then(|name| name.split_once(' ')).map(|(_, line)| line);
        if let (Some(line), Some((place, _))) = (lines.get_mut(at), places.get(at)) {
            *line = found.map(str::to_owned).or_else(|| told_by_file(place));
        }
    }
    lines
}

/// What the profile itself says, as those of other tools do.
fn told_by_file(place: &Place) -> Option<String> {
    (place.line > 0 && !place.file.is_empty()).then(|| format!("{}:{}", place.file, place.line))
}
