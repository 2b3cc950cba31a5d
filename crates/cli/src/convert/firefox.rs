//! The processed profile format of the Firefox Profiler.
//!
//! Version 61, the oldest in which threads share all tables of frames: newer readers bring it up to
//! date by themselves. The format's own crate has whole numbers of 32 bits for weights; here they
//! are milliseconds with six digits, so that no nanosecond is lost.
//!
//! Profiles know sums and no moments, so samples lie one after the other, each as long as its
//! value: the timeline is no history, and all the rest is right.
//!
//! <https://github.com/firefox-devtools/profiler/blob/main/docs-developer/CHANGELOG-formats.md>

use std::collections::HashMap;

use profile::{Profile, Sample};
use serde_json::{Value as Json, json};

use super::threads;
use crate::functions::Functions;
use crate::loaded::Loaded;
use crate::origin::Origin;
use crate::ranking;
use crate::value::Value;

const PROCESSED_VERSION: u32 = 61;
/// Of the browser's own format; only its readers ask for it.
const GECKO_VERSION: u32 = 34;
/// `type` of a resource: a library.
const RESOURCE_LIBRARY: u32 = 1;
const NS_PER_MS: f64 = 1e6;

/// The strings of all tables.
#[derive(Debug, Default)]
struct StringTable<'a> {
    list: Vec<&'a str>,
    positions: HashMap<&'a str, usize>,
}

impl<'a> StringTable<'a> {
    fn position(&mut self, text: &'a str) -> usize {
        *self.positions.entry(text).or_insert_with(|| {
            self.list.push(text);
            self.list.len() - 1
        })
    }
}

/// The file, with that value as the samples' weights.
pub fn bytes(loaded: &Loaded, value: Value) -> serde_json::Result<Vec<u8>> {
    let profile = &loaded.profile;
    let functions = Functions::of(profile);
    let mut strings = StringTable::default();
    let (func_table, resource_table) = functions_and_resources(&functions, &mut strings);
    let frame_table = frame_table(profile, &functions);
    let threads = threads::of(profile, value);
    let threads: Vec<Json> = threads.iter().map(|samples| thread(loaded, samples, value)).collect();
    serde_json::to_vec(&json!({
        "meta": meta(loaded, value),
        "libs": [],
        "shared": {
            "stackTable": stack_table(profile),
            "frameTable": frame_table,
            "funcTable": func_table,
            "resourceTable": resource_table,
            "nativeSymbols":
                { "length": 0, "libIndex": [], "address": [], "name": [], "functionSize": [] },
            "sources": { "length": 0, "id": [], "filename": [], "startLine": [],
                "startColumn": [], "sourceMapURL": [] },
            "stringArray": strings.list,
        },
        "threads": threads,
    }))
}

fn meta(loaded: &Loaded, value: Value) -> Json {
    let period = loaded.profile.period;
    let categories = Origin::ALL.map(|origin| {
        json!({ "name": origin.name(), "color": colour(origin), "subcategories": ["Other"] })
    });
    json!({
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": PROCESSED_VERSION,
        "interval": ms(period.cpu_interval_ns),
        "startTime": ms(period.start_unix_ns),
        "processType": 0,
        "product": format!("{} ({} time)", loaded.name(), value.name()),
        "importedFrom": "corprof",
        "stackwalk": 1,
        "debug": false,
        "symbolicated": true,
        "symbolicationNotSupported": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "keepProfileThreadOrder": true,
        "categories": categories,
        "markerSchema": [],
    })
}

/// A colour of the format's; the one that is grey is what has no category of its own.
fn colour(origin: Origin) -> &'static str {
    match origin {
        Origin::Program => "green",
        Origin::Framework => "blue",
        Origin::Runtime => "purple",
        Origin::Native => "orange",
        Origin::GarbageCollector => "red",
        Origin::Other => "grey",
    }
}

fn functions_and_resources<'a>(
    functions: &Functions<'a>,
    strings: &mut StringTable<'a>,
) -> (Json, Json) {
    let mut modules: Vec<usize> = Vec::new();
    let mut positions: HashMap<&str, i64> = HashMap::new();
    let (mut names, mut resources) = (Vec::new(), Vec::new());
    for function in &functions.list {
        names.push(strings.position(function.name));
        resources.push(match function.module {
            "" => -1,
            module => *positions.entry(module).or_insert_with(|| {
                modules.push(strings.position(module));
                i64::try_from(modules.len() - 1).unwrap_or(-1)
            }),
        });
    }
    let (length, count) = (names.len(), modules.len());
    let func_table = json!({
        "length": length,
        "name": names,
        "isJS": vec![false; length],
        "relevantForJS": vec![false; length],
        "resource": resources,
        "source": nulls(length),
        "lineNumber": nulls(length),
        "columnNumber": nulls(length),
    });
    let resource_table = json!({
        "length": count,
        "name": modules,
        "host": nulls(count),
        "lib": nulls(count),
        "type": vec![RESOURCE_LIBRARY; count],
    });
    (func_table, resource_table)
}

fn frame_table(profile: &Profile, functions: &Functions<'_>) -> Json {
    let length = profile.frames.len();
    let (mut funcs, mut categories, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for (position, frame) in functions.positions().zip(&profile.frames) {
        funcs.push(position);
        categories.push(functions.list.get(position).map(|function| function.origin as usize));
        lines.push((frame.line > 0).then_some(frame.line));
    }
    json!({
        "length": length,
        "address": vec![-1; length],
        "inlineDepth": vec![0; length],
        "category": categories,
        "subcategory": vec![0; length],
        "func": funcs,
        "nativeSymbol": nulls(length),
        "innerWindowID": vec![0; length],
        "line": lines,
        "column": nulls(length),
    })
}

fn stack_table(profile: &Profile) -> Json {
    let frames: Vec<usize> = profile.stacks.iter().map(|node| node.frame.get()).collect();
    let prefixes: Vec<Option<usize>> =
        profile.stacks.iter().map(|node| node.parent.map(|parent| parent.get())).collect();
    json!({ "length": frames.len(), "frame": frames, "prefix": prefixes })
}

fn thread(loaded: &Loaded, samples: &[&Sample], value: Value) -> Json {
    let thread = samples.first().and_then(|sample| sample.thread);
    let pids = loaded.pids();
    let pid = pids.first().copied().unwrap_or_default();
    let mut time_ns = 0_u64;
    let begins = samples.iter().map(|sample| {
        let begin = time_ns;
        time_ns = time_ns.saturating_add(value.of(&sample.values));
        ms(begin)
    });
    let times: Vec<f64> = begins.collect();
    let weights: Vec<f64> = samples.iter().map(|sample| ms(value.of(&sample.values))).collect();
    let stacks: Vec<usize> = samples.iter().map(|sample| sample.stack.get()).collect();
    json!({
        "processType": "default",
        "processName": loaded.name(),
        "processStartupTime": 0,
        "processShutdownTime": null,
        "registerTime": 0,
        "unregisterTime": null,
        "pausedRanges": [],
        "name": ranking::thread_name(&loaded.profile, thread, &pids),
        "isMainThread": thread.is_some_and(|thread| pids.contains(&u64::from(thread.tid))),
        "pid": pid.to_string(),
        "tid": thread.map_or(0, |thread| thread.tid),
        "samples": {
            "length": samples.len(),
            "stack": stacks,
            "time": times,
            "weight": weights,
            "weightType": "tracing-ms",
        },
        "markers": { "length": 0, "data": [], "name": [], "startTime": [], "endTime": [],
            "phase": [], "category": [] },
    })
}

fn nulls(length: usize) -> Vec<Json> {
    vec![Json::Null; length]
}

fn ms(ns: u64) -> f64 {
    ns as f64 / NS_PER_MS
}
