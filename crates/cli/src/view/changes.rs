//! What two selections differ by, as `corprof diff` tells it.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::columns::Columns;
use super::selection::{Filter, Selection, Weights};
use crate::diff::{self, Part, Runs, Sum};
use crate::value::Value;

/// Repetitions of a side at most: runs that follow each other are one, so that a day of files needs
/// no more memory than an hour.
const PARTS_MAX: usize = 16;
/// Rows that are told, of those that became more expensive and of those that became cheaper.
const ROWS_MAX: usize = 100;

/// A side: what it is, and the weights of its time.
pub struct Side<'a> {
    pub selection: &'a Selection,
    pub weights: &'a Weights,
}

/// Compares the own time of functions, or their time with what they called.
pub fn told(columns: &Columns, sides: [Side<'_>; 2], is_total: bool) -> Json {
    let parts = [&sides[0], &sides[1]].map(|side| parts(columns, side, is_total));
    let names: HashMap<diff::Name, usize> = columns
        .functions
        .iter()
        .enumerate()
        .map(|(at, function)| ((function.name.clone(), columns.module_of(function).to_owned()), at))
        .collect();
    let mut told = diff::compared(&parts, &names, ROWS_MAX);
    // What is measured has no chance of its own: only runs of a side can differ by it.
    let is_measured = sides.iter().any(|side| side.selection.value != Value::Cpu);
    let has_one = parts.iter().any(|parts| parts.len() < 2);
    told["needs_runs"] = (is_measured && has_one).into();
    told
}

fn parts(columns: &Columns, side: &Side<'_>, is_total: bool) -> Vec<Part> {
    let selection = side.selection;
    let (part_of, len) = parts_of(columns, selection);
    let mut parts = vec![Part::default(); len];
    let functions = columns.functions.len();
    parts.iter_mut().for_each(|part| part.functions = vec![Sum::default(); functions]);
    add_requests(columns, side, &part_of, &mut parts);
    let nodes = if selection.fold { &columns.rows.folded } else { &columns.rows.full };
    let mut seen = Vec::new();
    let filter = Filter::new(columns, selection, side.weights);
    filter.each(selection.value, |source, row, ns| {
        if ns < 1.0 {
            return;
        }
        let part = &mut parts[part_of[source]];
        let whole = columns.rows.values[selection.value as usize][row] as f64;
        // Of a row that is in the time partly, as many of its samples.
        let count = (columns.rows.count[row] as f64 * ns / whole).round() as u64;
        let add = |sum: &mut Sum| match selection.value {
            Value::Cpu => sum.add(ns as u64, count),
            _ => sum.add_measured(ns as u64),
        };
        add(&mut part.all);
        if selection.value == Value::Cpu {
            part.samples += count;
        }
        functions_of(columns, nodes[row], is_total, &mut seen);
        seen.iter().filter_map(|at| part.functions.get_mut(*at as usize).map(add)).count();
    });
    parts
}

/// The repetition that each source is in, and how many there are.
fn parts_of(columns: &Columns, selection: &Selection) -> (Vec<usize>, usize) {
    let mut runs = Runs::default();
    let mut part_of = vec![0; columns.sources.len()];
    for (at, source) in columns.sources.iter().enumerate() {
        if selection.has_source(at, source) {
            part_of[at] = runs.of(&source.process);
        }
    }
    let each = runs.len().div_ceil(PARTS_MAX).max(1);
    part_of.iter_mut().for_each(|part| *part /= each);
    (part_of, runs.len().div_ceil(each))
}

/// The function at the top of a stack, or all of it, each once.
fn functions_of(columns: &Columns, node: u32, is_total: bool, seen: &mut Vec<u32>) {
    seen.clear();
    let mut next = node;
    while next > 0 {
        let (parent, function) = columns.tree.nodes[next as usize - 1];
        seen.push(function);
        next = if is_total { parent } else { 0 };
    }
    seen.sort_unstable();
    seen.dedup();
}

fn add_requests(columns: &Columns, side: &Side<'_>, part_of: &[usize], parts: &mut [Part]) {
    let Selection { thread: None, state: None, label: None, request: None, .. } = side.selection
    else {
        return;
    };
    for (at, source) in columns.sources.iter().enumerate() {
        if !side.selection.has_source(at, source) {
            continue;
        }
        let is_wanted = |of: u32| side.selection.endpoint.is_none_or(|endpoint| endpoint == of);
        let ended = source.ended.iter().filter(|(of, ..)| is_wanted(*of));
        let requests: f64 = ended.map(|(_, requests, _)| *requests as f64).sum();
        parts[part_of[at]].requests += requests * side.weights.part(at);
    }
}
