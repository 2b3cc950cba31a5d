//! speedscope's own format: of each thread a profile for each value that it has.
//!
//! <https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources>

use profile::Sample;
use serde_json::{Value as Json, json};

use super::threads;
use crate::functions::{Functions, Named};
use crate::loaded::Loaded;
use crate::ranking;
use crate::value::Value;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// The file, with all values or that one.
pub fn bytes(loaded: &Loaded, value: Option<Value>) -> serde_json::Result<Vec<u8>> {
    let functions = Functions::of(&loaded.profile);
    let frame = |function: &Named<'_>| {
        let file = if function.file.is_empty() { function.module } else { function.file };
        match file {
            "" => json!({ "name": function.name }),
            file => json!({ "name": function.name, "file": file }),
        }
    };
    let frames: Vec<Json> = functions.list.iter().map(frame).collect();
    let values: Vec<Value> = value.map_or_else(|| Value::ALL.to_vec(), |value| vec![value]);
    let profiles: Vec<Json> =
        values.into_iter().flat_map(|value| profiles(loaded, &functions, value)).collect();
    serde_json::to_vec(&json!({
        "$schema": SCHEMA,
        "exporter": concat!("corprof ", env!("CARGO_PKG_VERSION")),
        "name": loaded.name(),
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": profiles,
    }))
}

/// The threads' profiles of a value, that of the largest first.
fn profiles(loaded: &Loaded, functions: &Functions<'_>, value: Value) -> Vec<Json> {
    let threads = threads::of(&loaded.profile, value);
    threads.iter().map(|samples| thread(loaded, functions, samples, value)).collect()
}

fn thread(loaded: &Loaded, functions: &Functions<'_>, samples: &[&Sample], value: Value) -> Json {
    let profile = &loaded.profile;
    let stack = |sample: &&Sample| {
        let frames = profile.stack(sample.stack);
        let mut stack: Vec<usize> = frames.map(|frame| functions.position(frame)).collect();
        stack.reverse();
        stack
    };
    let stacks: Vec<Vec<usize>> = samples.iter().map(stack).collect();
    let weights: Vec<u64> = samples.iter().map(|sample| value.of(&sample.values)).collect();
    let thread = samples.first().and_then(|sample| sample.thread);
    let thread = ranking::thread_name(profile, thread, &loaded.pids());
    json!({
        "type": "sampled",
        "name": format!("{} · {thread}", value.name()),
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": threads::sum(samples, value),
        "samples": stacks,
        "weights": weights,
    })
}
