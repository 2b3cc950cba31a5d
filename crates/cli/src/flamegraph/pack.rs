//! A profile as the page reads it: a header in JSON, then columns of numbers.
//!
//! ```text
//! length of the header (4 bytes, the lowest first)  header  columns
//! ```
//!
//! A number is 7 bits a byte, the lowest first, and all bytes but its last have the highest bit set
//! (as in pprof). The columns, one after the other:
//!
//! - of each node of the tree: how far its parent lies before it (node 0, which is in no column, is
//!   the root of all); its function
//! - of each row: what it has of `ROW`
//!
//! A row is what samples of the same stacks, thread, state, endpoint and labels add up to. It has
//! two stacks, both in the one tree: all frames, and those that `corprof top` shows. So the page
//! can fold the runtime's plumbing without a list of its own of what that is. `ui/src/profile.ts`
//! reads this.

use std::collections::{BTreeMap, HashMap};

use model::ThreadState;
use profile::{Label, Profile, Sample, Thread, Values};
use serde_json::{Value as Json, json};

use crate::endpoints;
use crate::filters::Filters;
use crate::functions::Functions;
use crate::loaded::Loaded;
use crate::origin::Origin;
use crate::ranking;
use crate::stacks::{Numbered, Planter, Stacks, Tree, number};
use crate::value::Value;
use crate::varint::put;

/// Changes with the format.
const VERSION: u32 = 1;

/// The columns of rows. Nodes are told as the difference to the row before, doubled, and one more
/// if it is negative; `idle` is 1 if folding leaves its wall time out; `state` is 0 if unknown.
const ROW: [&str; 10] =
    ["full", "folded", "idle", "thread", "state", "endpoint", "labels", "cpu", "wall", "gc"];

/// What the samples of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    full: u32,
    folded: u32,
    is_idle: bool,
    thread: u32,
    state: u32,
    endpoint: u32,
    labels: u32,
}

/// All rows, and what their numbers mean.
struct Rows<'a> {
    tree: Tree,
    sums: BTreeMap<Key, Values>,
    threads: Numbered<String>,
    endpoints: Numbered<&'a str>,
    labels: Numbered<&'a [Label]>,
}

/// The profile, as these filters have left it; the page shows that value first.
pub fn bytes(loaded: &Loaded, value: Value, filters: &Filters) -> serde_json::Result<Vec<u8>> {
    let functions = Functions::of(&loaded.profile);
    let rows = rows(loaded, &functions);
    let mut header = header(loaded, &functions, &rows, value);
    header["filter"] = filter(filters);
    let header = serde_json::to_vec(&header)?;
    let mut bytes = number(header.len()).to_le_bytes().to_vec();
    bytes.extend(header);
    let nodes = (1_u32..).zip(&rows.tree.nodes);
    nodes.clone().for_each(|(node, (parent, _))| put(&mut bytes, u64::from(node - parent)));
    nodes.for_each(|(_, (_, function))| put(&mut bytes, u64::from(*function)));
    put_rows(&mut bytes, &rows.sums);
    Ok(bytes)
}

fn rows<'a>(loaded: &'a Loaded, functions: &Functions<'_>) -> Rows<'a> {
    let profile = &loaded.profile;
    let mut rows = Rows {
        tree: Tree::default(),
        sums: BTreeMap::new(),
        threads: Numbered::default(),
        endpoints: Numbered::default(),
        labels: Numbered::default(),
    };
    let pids = loaded.pids();
    let positions = functions.positions().map(number).collect();
    let mut planter = Planter::new(profile, positions, &mut rows.tree);
    let mut names: HashMap<Option<Thread>, u32> = HashMap::new();
    for sample in &profile.samples {
        let thread = *names.entry(sample.thread).or_insert_with(|| {
            rows.threads.number(ranking::thread_name(profile, sample.thread, &pids))
        });
        let key = key(&mut rows, &mut planter, profile, sample, thread);
        rows.sums.entry(key).or_default().add(sample.values);
    }
    rows
}

fn key<'a>(
    rows: &mut Rows<'a>,
    planter: &mut Planter<'_>,
    profile: &'a Profile,
    sample: &Sample,
    thread: u32,
) -> Key {
    let Stacks { full, folded, is_idle, .. } = planter.stacks(sample, &mut rows.tree);
    let labels = sample.labels.and_then(|labels| profile.labels.get(labels.get()));
    let state = ThreadState::ALL.iter().position(|state| Some(*state) == sample.state);
    Key {
        full,
        folded,
        is_idle,
        thread,
        state: state.map_or(0, |state| number(state + 1)),
        endpoint: rows.endpoints.number(endpoints::name_of(profile, sample)),
        labels: rows.labels.number(labels.map(Vec::as_slice).unwrap_or_default()),
    }
}

fn header(loaded: &Loaded, functions: &Functions<'_>, rows: &Rows<'_>, value: Value) -> Json {
    let profile = &loaded.profile;
    let mut modules = Numbered::default();
    let (mut names, mut of_modules, mut origins) = (Vec::new(), Vec::new(), Vec::new());
    for function in &functions.list {
        names.push(function.name);
        of_modules.push(modules.number(function.module));
        origins.push(function.origin as u32);
    }
    let label = |label: &Label| [profile.text(label.name), profile.text(label.value)];
    let labels = |set: &&[Label]| set.iter().map(label).collect::<Vec<_>>();
    let states: Vec<&str> = ThreadState::ALL.iter().map(|state| state.name()).collect();
    json!({
        "version": VERSION,
        "corprof": env!("CARGO_PKG_VERSION"),
        "name": loaded.name(),
        "files": loaded.files.len(),
        "start_unix_ms": profile.period.start_unix_ns / 1_000_000,
        "duration_ns": profile.period.duration_ns,
        "value": value.name(),
        "functions": { "names": names, "modules": of_modules, "origins": origins },
        "modules": modules.list,
        "origins": Origin::ALL.map(Origin::name),
        "threads": rows.threads.list,
        "states": states,
        "endpoints": rows.endpoints.list,
        "labels": rows.labels.list.iter().map(labels).collect::<Vec<_>>(),
        "nodes": rows.tree.nodes.len(),
        "rows": rows.sums.len(),
        "columns": ROW,
    })
}

/// What the page has only a part of: all filters in words, and those that it has a field for.
fn filter(filters: &Filters) -> Json {
    let Filters { state, endpoint, labels, .. } = filters;
    let list = |texts: Vec<String>| (!texts.is_empty()).then(|| texts.join(", "));
    json!({
        "text": filters.to_string(),
        "state": list(state.iter().map(|state| state.name().to_owned()).collect()),
        "endpoint": endpoint,
        "label": list(labels.iter().map(|(name, value)| format!("{name}={value}")).collect()),
    })
}

/// The columns, in the order of `ROW`.
fn put_rows(bytes: &mut Vec<u8>, sums: &BTreeMap<Key, Values>) {
    put_nodes(bytes, sums.keys().map(|key| key.full));
    put_nodes(bytes, sums.keys().map(|key| key.folded));
    let columns: [fn(&Key) -> u32; 5] = [
        |key| u32::from(key.is_idle),
        |key| key.thread,
        |key| key.state,
        |key| key.endpoint,
        |key| key.labels,
    ];
    for column in columns {
        sums.keys().for_each(|key| put(bytes, u64::from(column(key))));
    }
    for value in Value::ALL {
        sums.values().for_each(|values| put(bytes, value.of(values)));
    }
}

fn put_nodes(bytes: &mut Vec<u8>, nodes: impl Iterator<Item = u32>) {
    let mut before = 0;
    for node in nodes {
        let difference = i64::from(node) - before;
        put(bytes, difference.unsigned_abs() << 1 | u64::from(difference < 0));
        before = i64::from(node);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use model::FrameKind;
    use profile::read::Decoded;
    use profile::{Aggregate, Frame, Period, SampleKey, ThreadKey};

    use super::*;
    use crate::args::By;
    use crate::filters::Filters;
    use crate::focus::Scope;
    use crate::lines::Lines;
    use crate::loaded::Loader;

    const MS: u64 = 1_000_000;
    const DISPATCH: &str = "System.Threading.ThreadPoolWorkQueue.Dispatch()";
    const IDLE: &str = "System.Threading.LowLevelLifoSemaphore.WaitForSignal(int)";

    /// Of samples with the leaf first: `m:` is managed, `n:` native.
    fn loaded(samples: &[(&[&str], Option<ThreadState>, u64)]) -> Loaded {
        let mut aggregate = Aggregate::default();
        let thread = ThreadKey { tid: 7, generation: 0 };
        for (names, state, ms) in samples {
            let mut frame = |name: &&str| {
                let (kind, name) = name.split_at(2);
                let kind = if kind == "m:" { FrameKind::Managed } else { FrameKind::Native };
                aggregate.frame(&Frame {
                    name,
                    raw_name: "",
                    module: None,
                    address: 0,
                    kind,
                    file: None,
                    line: None,
                })
            };
            let frames: Vec<_> = names.iter().map(&mut frame).collect();
            let stack = aggregate.stack(frames);
            let mut values = Values::default();
            match state {
                None => (values.count, values.cpu_ns) = (1, ms * MS),
                Some(_) => values.wall_ns = ms * MS,
            }
            let key = SampleKey { stack, thread, state: *state, span: None, labels: 0 };
            let _ = aggregate.add(&key, values);
        }
        let profile = aggregate.take(Period::default()).profile;
        let bytes = profile::pprof::write(&profile, Vec::new()).unwrap();
        let decoded: Decoded = profile::read::decode(&bytes).unwrap();
        let mut loader = Loader::new(Filters::default());
        loader.add(Path::new("a.pb.gz"), &decoded);
        loader.finish()
    }

    /// What a page shows of each function: its own and all, CPU and wall time.
    fn shown(loaded: &Loaded, is_folded: bool) -> BTreeMap<String, [u64; 4]> {
        let functions = Functions::of(&loaded.profile);
        let rows = rows(loaded, &functions);
        let mut sums: BTreeMap<String, [u64; 4]> = BTreeMap::new();
        for (key, values) in &rows.sums {
            let wall = if is_folded && key.is_idle { 0 } else { values.wall_ns };
            let mut node = if is_folded { key.folded } else { key.full };
            let mut seen = Vec::new();
            while node > 0 {
                let (parent, function) = rows.tree.nodes[node as usize - 1];
                let name = functions.list[function as usize].name.to_owned();
                let sum = sums.entry(name.clone()).or_default();
                if seen.is_empty() {
                    sum[0] += values.cpu_ns;
                    sum[1] += wall;
                }
                if !seen.contains(&name) {
                    sum[2] += values.cpu_ns;
                    sum[3] += wall;
                }
                seen.push(name);
                node = parent;
            }
        }
        sums.retain(|_, sum| *sum != [0; 4]);
        sums
    }

    #[test]
    fn both_stacks_of_a_row_say_what_top_says() {
        use ThreadState::{Lock, Running, Waiting};
        let (dispatch, idle) = (format!("m:{DISPATCH}"), format!("m:{IDLE}"));
        let (dispatch, idle) = (dispatch.as_str(), idle.as_str());
        let loaded = loaded(&[
            (&["n:send", "m:Shop.Load()", dispatch, "n:[libc.so.6]"], None, 50),
            (&["n:futex", "m:Shop.Load()", "m:Shop.Load()", dispatch], Some(Lock), 70),
            (&["n:futex", idle, "n:[libc.so.6]"], Some(Waiting), 7_000),
            (&["n:sched_yield", idle, "n:[libc.so.6]"], Some(Running), 800),
            // Plumbing that computes itself.
            (&[dispatch, "n:[libc.so.6]"], None, 3),
            (&["n:futex", "n:[libcoreclr.so]", "n:[libc.so.6]"], Some(Waiting), 9_000),
        ]);
        for (scope, is_folded) in [(Scope::All, false), (Scope::Work, true)] {
            let rows = ranking::rows(&loaded.profile, &By::Function, scope, &[], &Lines::default());
            let mut expected: BTreeMap<String, [u64; 4]> = BTreeMap::new();
            for row in rows {
                let (own, total) = (row.own, row.total);
                // Its own time counts in its total here.
                let cpu = total.cpu_ns.max(own.cpu_ns);
                let wall = total.wall_ns.max(own.wall_ns);
                expected.insert(row.name, [own.cpu_ns, own.wall_ns, cpu, wall]);
            }
            assert_eq!(shown(&loaded, is_folded), expected, "{scope:?}");
        }
    }

    #[test]
    fn a_page_says_what_filters_have_left() {
        let loaded = loaded(&[(&["m:Shop.Load()"], None, 50)]);
        let told = |filters: &Filters| -> Json {
            let bytes = bytes(&loaded, Value::Cpu, filters).unwrap();
            let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
            let header: Json = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
            header["filter"].clone()
        };
        assert_eq!(told(&Filters::default())["text"], "");
        let filters = Filters {
            state: vec![ThreadState::Lock, ThreadState::GcPause],
            endpoint: Some("GET /".to_owned()),
            ..Filters::default()
        };
        let text = filters.to_string();
        let expected = json!({
            "text": text, "state": "lock, gc pause", "endpoint": "GET /", "label": null,
        });
        assert_eq!(told(&filters), expected);
    }

    #[test]
    fn numbers_are_seven_bits_a_byte() {
        let mut bytes = Vec::new();
        [0, 127, 128, 300].into_iter().for_each(|number| put(&mut bytes, number));
        assert_eq!(bytes, [0, 127, 0x80, 1, 0xac, 2]);
        let mut bytes = Vec::new();
        put_nodes(&mut bytes, [3, 1, 1].into_iter());
        assert_eq!(bytes, [6, 5, 0]);
    }
}
