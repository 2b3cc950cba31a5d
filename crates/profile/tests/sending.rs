//! What Pyroscope and Datadog get, read by others.
#![allow(clippy::unwrap_used, reason = "tests")]
mod support;

use std::collections::BTreeMap;
use std::io::Read as _;

use profile::Profile;
use profile::pprof::{Dialect, write_for};
use profile::pyroscope::push_request;
use profile::read::decode;
use prost::Message as _;
use support::{proto, sample_profile};

fn series() -> proto::Profile {
    let bytes = write_for(Dialect::Pyroscope, &sample_profile(), Vec::new()).unwrap();
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).unwrap();
    proto::Profile::decode(plain.as_slice()).unwrap()
}

/// The servers refuse a type with a `-`, and make a series of each distinct set of texts.
#[test]
fn pyroscope_gets_types_that_it_takes_and_few_series() {
    let seen = series();
    let text = |at: i64| seen.string_table[at as usize].as_str();
    let types: Vec<_> = seen.sample_type.iter().map(|kind| text(kind.r#type)).collect();
    assert_eq!(types, ["samples", "cpu", "wall", "gc"]);
    let mut labels: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for label in seen.sample.iter().flat_map(|sample| &sample.label) {
        assert_eq!(label.num, 0);
        labels.entry(text(label.key)).or_default().push(text(label.str));
    }
    let names: Vec<_> = labels.keys().copied().collect();
    assert_eq!(names, ["empty", "endpoint", "profile_id", "state", "tenant"]);
    assert!(labels["state"].iter().all(|state| *state == "new"), "the program's, not ours");
    let root = support::span(0x00fe_dcba_9876_5432, 0).local_root_span_id;
    assert!(labels["profile_id"].contains(&format!("{root:016x}").as_str()));
}

/// A server that is sent this has the requests that the file has, and no label of ids.
#[test]
fn requests_are_read_back_from_what_pyroscope_gets() {
    let of = |profile: &Profile| {
        let mut sums: BTreeMap<(u64, String), u64> = BTreeMap::new();
        for sample in &profile.samples {
            let span = profile.span_of(sample);
            let root = span.map_or(0, |span| span.ids.local_root_span_id);
            let name = span.map_or("", |span| profile.text(span.endpoint)).to_owned();
            *sums.entry((root, name)).or_default() += sample.values.cpu_ns;
        }
        sums
    };
    let written = sample_profile();
    let bytes = write_for(Dialect::Pyroscope, &written, Vec::new()).unwrap();
    let read = decode(&bytes).unwrap().profile;
    assert_eq!(of(&read), of(&written));
    assert!(of(&read).keys().any(|(root, name)| *root != 0 && !name.is_empty()));
    let labels = read.labels.iter().flatten().map(|label| read.text(label.name));
    let mut labels: Vec<_> = labels.collect();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels, ["empty", "state", "tenant"]);
}

#[test]
fn pyroscope_gets_the_same_sums() {
    let total = sample_profile().total();
    let sums = (series().sample.iter()).fold([0_u64; 4], |mut sums, sample| {
        for (sum, value) in sums.iter_mut().zip(&sample.value) {
            *sum += value.cast_unsigned();
        }
        sums
    });
    assert_eq!(sums, [total.count, total.cpu_ns, total.wall_ns, total.gc_ns]);
}

/// Threads and their states are left out, and what differs in them alone is one.
#[test]
fn pyroscope_gets_each_stack_once() {
    let mut keys = BTreeMap::new();
    let seen = series();
    for sample in &seen.sample {
        let labels: Vec<_> = sample.label.iter().map(|label| (label.key, label.str)).collect();
        *keys.entry((sample.location_id.clone(), labels)).or_insert(0) += 1;
    }
    assert!(keys.values().all(|n| *n == 1), "{keys:?}");
    assert!(seen.sample.len() < sample_profile().samples.len(), "nothing to merge");
}

#[test]
fn a_push_request_has_labels_and_the_profile() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let bytes = push_request(&[pair("a", "b"), pair("c", "")], &[1, 2, 3], "id");
    // Series 1: labels 1 of name 1 and value 2, sample 2 of profile 1 and id 2.
    let expected = [
        &[0x0a, 25][..],
        &[0x0a, 6, 0x0a, 1, b'a', 0x12, 1, b'b'],
        &[0x0a, 5, 0x0a, 1, b'c', 0x12, 0],
        &[0x12, 9, 0x0a, 3, 1, 2, 3, 0x12, 2, b'i', b'd'],
    ];
    let expected: Vec<u8> = expected.concat();
    assert_eq!(bytes[2..], expected[2..]);
    assert_eq!(bytes[1] as usize, bytes.len() - 2);
}

#[test]
fn datadogs_event_is_json_with_all_its_fields() {
    let tags = [("service".to_owned(), "shop".to_owned())];
    let event = profile::datadog::event(&sample_profile(), &tags);
    let event: serde_json::Value = serde_json::from_str(&event).unwrap();
    let golden = include_str!("../../../tests/golden/datadog-event.json");
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    // Field for field: the same names, each of the same type.
    let object = |value: &serde_json::Value| value.as_object().unwrap().clone();
    for (name, theirs) in object(&golden) {
        let ours = &event[&name];
        assert_eq!(
            std::mem::discriminant(ours),
            std::mem::discriminant(&theirs),
            "{name}: {ours} and {theirs}"
        );
    }
    assert_eq!(object(&event).len(), object(&golden).len());
    for same in ["attachments", "version"] {
        assert_eq!(event[same], golden[same]);
    }
    assert_eq!(event["start"].as_str().unwrap().len(), golden["start"].as_str().unwrap().len());
    assert_eq!(event["start"], "2026-09-21T14:13:20.000000000Z");
    assert_eq!(event["end"], "2026-09-21T14:13:21.000000000Z");
    assert_eq!(event["family"], "dotnet");
    assert_eq!(event["tags_profiler"], "service:shop");
    assert_eq!(event["endpoint_counts"]["GET /orders/{id}"], 2);
    assert_eq!(event["internal"]["corprof"]["lost.ring_full"], 2);
    assert_eq!(event["info"]["profiler"]["version"], "0.1.0");
}

#[test]
fn without_requests_datadog_is_told_of_none() {
    let empty = profile::Aggregate::default().take(profile::Period::default()).profile;
    let event = profile::datadog::event(&empty, &[]);
    let event: serde_json::Value = serde_json::from_str(&event).unwrap();
    assert!(event["endpoint_counts"].is_null());
    assert_eq!(event["internal"], serde_json::json!({}));
}
