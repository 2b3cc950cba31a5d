//! Numbers as the page reads them: a header in JSON, then columns, as in the page of
//! `corprof flamegraph` (see `flamegraph::pack`).

use serde_json::Value as Json;

use super::sums::Branch;
use crate::stacks::number;
use crate::varint::put;

/// A header and what follows it.
pub fn packed(header: &Json, columns: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let header = header.to_string().into_bytes();
    let mut bytes = number(header.len()).to_le_bytes().to_vec();
    bytes.extend(header);
    columns(&mut bytes);
    bytes
}

/// Adds a tree: of each node but the root how far its parent lies before it, its function, its own
/// and all nanoseconds, and its number, if they have some; then the root's nanoseconds.
pub fn put_branch(bytes: &mut Vec<u8>, branch: &Branch) {
    let nodes = 1..branch.parents.len();
    nodes.clone().for_each(|node| {
        put(bytes, (node as u64).saturating_sub(branch.parents[node].into()));
    });
    nodes.clone().for_each(|node| put(bytes, branch.functions[node].into()));
    nodes.clone().for_each(|node| put(bytes, ns(branch.own[node])));
    nodes.for_each(|node| put(bytes, ns(branch.total[node])));
    branch.ids.iter().for_each(|id| put(bytes, (*id).into()));
    put(bytes, ns(branch.own[0]));
    put(bytes, ns(branch.total[0]));
}

/// Whole nanoseconds.
pub fn ns(value: f64) -> u64 {
    value.round() as u64
}
