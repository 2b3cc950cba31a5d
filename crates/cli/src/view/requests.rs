//! What requests cost: endpoints, and the requests that took most.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::columns::Columns;
use super::selection::{Filter, Selection, Weights, hex};
use crate::value::Value;

/// Requests that are listed.
const REQUESTS_MAX: usize = 50;

/// Nanoseconds of CPU and wall time.
type Times = [f64; 2];

/// The endpoints of a selection, whichever of them is chosen, and the requests with the most of
/// its value.
pub fn told(columns: &Columns, selection: &Selection, weights: &Weights) -> Json {
    let of_any = Selection { endpoint: None, request: None, ..selection.clone() };
    let of_endpoint = Selection { request: None, ..selection.clone() };
    json!({
        "endpoints": endpoints(columns, &of_any, weights),
        "requests": requests(columns, &of_endpoint, weights),
    })
}

fn endpoints(columns: &Columns, selection: &Selection, weights: &Weights) -> Vec<Json> {
    let count = columns.endpoints.list.len();
    let mut times: Vec<Times> = vec![[0.0; 2]; count];
    let filter = Filter::new(columns, selection, weights);
    for (at, value) in [Value::Cpu, Value::Wall].into_iter().enumerate() {
        filter.each(value, |_, row, ns| times[columns.endpoint_of(row) as usize][at] += ns);
    }
    // With a thread, a state or a label it is not known whose requests these are.
    let are_all =
        selection.thread.is_none() && selection.state.is_none() && selection.label.is_none();
    let mut ended = vec![(0.0, 0.0); count];
    // Requests of which samples could have told.
    let mut is_known = vec![false; count];
    for (at, source) in columns.sources.iter().enumerate() {
        if !are_all || !selection.has_source(at, source) {
            continue;
        }
        for (endpoint, requests, ns) in &source.ended {
            let sum = &mut ended[*endpoint as usize];
            sum.0 += *requests as f64 * weights.part(at);
            sum.1 += *ns as f64 * weights.part(at);
            is_known[*endpoint as usize] |= source.knows_requests;
        }
    }
    let mut rows: Vec<usize> =
        (0..count).filter(|at| times[*at] != [0.0; 2] || ended[*at].0 > 0.0).collect();
    let key = |at: &usize| times[*at][usize::from(selection.value != Value::Cpu)];
    rows.sort_by(|a, b| key(b).total_cmp(&key(a)).then(a.cmp(b)));
    let row = |at: usize| {
        let ([cpu, wall], (requests, elapsed)) = (times[at], ended[at]);
        let name = &columns.endpoints.list[at];
        // Not nothing, but unknown: how long they took is counted apart from samples.
        let is_told = is_known[at] || requests == 0.0 || times[at] != [0.0; 2];
        let [cpu, wall] = [cpu, wall].map(|ns| is_told.then_some(ns));
        json!({ "endpoint": at, "name": name, "cpu_ns": cpu, "wall_ns": wall,
                "requests": requests, "elapsed_ns": elapsed })
    };
    rows.into_iter().map(row).collect()
}

fn requests(columns: &Columns, selection: &Selection, weights: &Weights) -> Vec<Json> {
    let mut times: HashMap<u32, Times> = HashMap::new();
    let filter = Filter::new(columns, selection, weights);
    for (at, value) in [Value::Cpu, Value::Wall].into_iter().enumerate() {
        filter.each(value, |_, row, ns| {
            if let Some(request) = columns.rows.request[row].checked_sub(1) {
                times.entry(request).or_default()[at] += ns;
            }
        });
    }
    let mut rows: Vec<(u32, Times)> = times.into_iter().collect();
    let key = |times: &Times| times[usize::from(selection.value != Value::Cpu)];
    rows.sort_by(|a, b| key(&b.1).total_cmp(&key(&a.1)).then(a.0.cmp(&b.0)));
    rows.truncate(REQUESTS_MAX);
    let row = |(at, [cpu, wall]): (u32, Times)| {
        let request = columns.requests.get(at as usize)?;
        let endpoint = columns.endpoints.list.get(request.endpoint as usize)?;
        Some(json!({
            "request": format!("{:016x}", request.root),
            "trace": hex(&request.trace_id),
            "endpoint": request.endpoint,
            "name": endpoint,
            "cpu_ns": cpu,
            "wall_ns": wall,
        }))
    };
    rows.into_iter().filter_map(row).collect()
}
