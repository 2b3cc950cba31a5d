//! The messages of OpenTelemetry, read by its own definitions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod support;

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::profiles::v1development::{Profile, ProfilesDictionary, Sample};
use profile::otlp::{Sender, request};
use prost::Message as _;
use support::sample_profile;

fn sent() -> ExportProfilesServiceRequest {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let resource = [pair("service.name", "shop"), pair("region", "eu")];
    let sender = Sender { resource: &resource, pid: 99, version: "0.1.0", id: 1 << 100 };
    let bytes = request(&sample_profile(), sender);
    ExportProfilesServiceRequest::decode(bytes.as_slice()).unwrap()
}

fn shown(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => format!("#{number}"),
        other => panic!("{other:?}"),
    }
}

/// What a sample has: leaf first its functions, and its attributes.
fn stack(dictionary: &ProfilesDictionary, sample: &Sample) -> Vec<String> {
    let stack = &dictionary.stack_table[sample.stack_index as usize];
    let name = |at: &i32| {
        let location = &dictionary.location_table[*at as usize];
        let function = &dictionary.function_table[location.lines[0].function_index as usize];
        dictionary.string_table[function.name_strindex as usize].clone()
    };
    stack.location_indices.iter().map(name).collect()
}

fn attributes(dictionary: &ProfilesDictionary, at: &[i32]) -> BTreeMap<String, String> {
    let pair = |at: &i32| {
        let attribute = &dictionary.attribute_table[*at as usize];
        let key = dictionary.string_table[attribute.key_strindex as usize].clone();
        (key, shown(attribute.value.as_ref()))
    };
    let map: BTreeMap<_, _> = at.iter().map(pair).collect();
    assert_eq!(map.len(), at.len(), "each key once");
    map
}

fn profiles(sent: &ExportProfilesServiceRequest) -> &[Profile] {
    let [resource] = &sent.resource_profiles[..] else { panic!("one resource") };
    let [scope] = &resource.scope_profiles[..] else { panic!("one scope") };
    &scope.profiles
}

#[test]
fn sums_are_those_of_the_profile_by_type() {
    let sent = sent();
    let dictionary = sent.dictionary.as_ref().unwrap();
    let total = sample_profile().total();
    let expected = [
        ("cpu", "nanoseconds", total.cpu_ns),
        ("wall", "nanoseconds", total.wall_ns),
        ("samples", "count", total.count),
        ("gc", "nanoseconds", total.gc_ns),
    ];
    let text = |at: i32| dictionary.string_table[at as usize].as_str();
    let found: Vec<_> = (profiles(&sent).iter())
        .map(|profile| {
            let kind = profile.sample_type.as_ref().unwrap();
            let sum: i64 = profile.samples.iter().flat_map(|sample| &sample.values).sum();
            (text(kind.type_strindex), text(kind.unit_strindex), sum.cast_unsigned())
        })
        .collect();
    assert_eq!(found, expected);
    for profile in profiles(&sent) {
        assert!(profile.samples.iter().all(|sample| sample.values.len() == 1));
        assert_eq!(profile.time_unix_nano, 1_790_000_000_000_000_000);
        assert_eq!((profile.duration_nano, profile.period), (1_000_000_000, 10_000_000));
    }
    let ids: BTreeSet<_> = profiles(&sent).iter().map(|p| p.profile_id.clone()).collect();
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| id.len() == 16));
}

#[test]
fn tables_begin_with_nothing_and_all_that_is_referred_to_is_there() {
    let sent = sent();
    let dictionary = sent.dictionary.as_ref().unwrap();
    assert_eq!(dictionary.string_table[0], "");
    assert_eq!(dictionary.mapping_table[0], Default::default());
    assert_eq!(dictionary.location_table[0], Default::default());
    assert_eq!(dictionary.function_table[0], Default::default());
    assert_eq!(dictionary.link_table[0], Default::default());
    assert_eq!(dictionary.attribute_table[0], Default::default());
    assert_eq!(dictionary.stack_table[0], Default::default());
    for profile in profiles(&sent) {
        for sample in &profile.samples {
            assert!(!stack(dictionary, sample).is_empty());
            attributes(dictionary, &sample.attribute_indices);
            assert!((sample.link_index as usize) < dictionary.link_table.len());
        }
    }
}

#[test]
fn a_sample_has_its_stack_thread_request_and_labels() {
    let sent = sent();
    let dictionary = sent.dictionary.as_ref().unwrap();
    let wall = &profiles(&sent)[1];
    let found = wall.samples.iter().find(|sample| {
        let attributes = attributes(dictionary, &sample.attribute_indices);
        attributes.get("tenant").is_some_and(|tenant| tenant == "Größe 7")
    });
    let sample = found.unwrap();
    let stack = stack(dictionary, sample);
    assert_eq!(stack, ["recv", "Shop.Db.Query()", "Shop.Program.Main(string[])"]);
    let attributes = attributes(dictionary, &sample.attribute_indices);
    for (key, value) in [
        ("thread.id", "#100"),
        ("thread.name", "main"),
        ("corprof.thread.state", "io"),
        ("corprof.endpoint", "GET /orders/{id}"),
        ("label.state", "new"),
    ] {
        assert_eq!(attributes.get(key).map(String::as_str), Some(value), "{attributes:?}");
    }
    let link = &dictionary.link_table[sample.link_index as usize];
    let query = support::span(0x00fe_dcba_9876_5432, 1);
    assert_eq!(link.trace_id, query.trace_id);
    assert_eq!(link.span_id, query.span_id.to_be_bytes());
}

#[test]
fn frames_say_what_they_are() {
    let sent = sent();
    let dictionary = sent.dictionary.as_ref().unwrap();
    let mut kinds = BTreeMap::new();
    for location in &dictionary.location_table[1..] {
        let function = &dictionary.function_table[location.lines[0].function_index as usize];
        let name = dictionary.string_table[function.name_strindex as usize].as_str();
        let kind = attributes(dictionary, &location.attribute_indices);
        kinds.insert(name, kind.get("profile.frame.type").cloned().unwrap_or_default());
        let mapping = &dictionary.mapping_table[location.mapping_index as usize];
        let has_id = !attributes(dictionary, &mapping.attribute_indices).is_empty();
        assert_eq!(has_id, mapping.memory_limit != 0, "{name}");
    }
    for (name, kind) in
        [("Shop.Prices.Sum(int)", "dotnet"), ("nanosleep", "native"), ("[no unwind rule]", "")]
    {
        assert_eq!(kinds.get(name).map(String::as_str), Some(kind), "{kinds:?}");
    }
}

#[test]
fn who_sends_and_the_profilers_own_numbers_are_there() {
    let sent = sent();
    let resource = sent.resource_profiles[0].resource.as_ref().unwrap();
    let found: BTreeMap<_, _> = (resource.attributes.iter())
        .map(|attribute| (attribute.key.as_str(), shown(attribute.value.as_ref())))
        .collect();
    assert_eq!(found["service.name"], "shop");
    assert_eq!((found["region"].as_str(), found["process.pid"].as_str()), ("eu", "#99"));
    let scope = sent.resource_profiles[0].scope_profiles[0].scope.as_ref().unwrap();
    assert_eq!((scope.name.as_str(), scope.version.as_str()), ("corprof", "0.1.0"));
    let dictionary = sent.dictionary.as_ref().unwrap();
    for profile in profiles(&sent) {
        let own = attributes(dictionary, &profile.attribute_indices);
        assert_eq!(own["corprof.lost.ring_full"], "#2");
        assert_eq!(own["corprof.own_cpu_ns"], "#3000000");
    }
}

#[test]
fn an_empty_profile_can_be_sent() {
    let empty = profile::Aggregate::default().take(profile::Period::default()).profile;
    let sender = Sender { resource: &[], pid: 1, version: "", id: 0 };
    let bytes = request(&empty, sender);
    let sent = ExportProfilesServiceRequest::decode(bytes.as_slice()).unwrap();
    assert_eq!(profiles(&sent).len(), 4);
}

/// Samples as a person would tell them apart.
fn told(profile: &profile::Profile) -> BTreeSet<String> {
    let mut told = BTreeSet::new();
    for sample in &profile.samples {
        let name = |frame| profile.function_of(frame).map_or("?", |of| profile.text(of.name));
        let stack: Vec<_> = profile.stack(sample.stack).map(name).collect();
        let thread = sample.thread.map(|thread| (thread.tid, profile.text(thread.name)));
        let labels: Vec<_> = profile.labels_of(sample).collect();
        let span = profile.span_of(sample);
        let span = span.map(|span| (span.ids, profile.text(span.endpoint)));
        let (state, values) = (sample.state, sample.values);
        told.insert(format!("{stack:?} {thread:?} {state:?} {labels:?} {span:?} {values:?}"));
    }
    told
}

#[test]
fn what_is_written_is_read_back() {
    let profile = sample_profile();
    let resource = [("service.name".to_owned(), "shop".to_owned())];
    let sender = Sender { resource: &resource, pid: 99, version: "0.1.0", id: 1 };
    let bytes = request(&profile, sender);
    let read = profile::read::otlp_request(&bytes).unwrap();
    let [one] = &read[..] else { panic!("one resource") };
    let pid = ("process.pid".to_owned(), "99".to_owned());
    assert_eq!(one.resource, [resource[0].clone(), pid]);
    assert_eq!(one.profile.total(), profile.total());
    assert_eq!(one.profile.period, profile.period);
    assert_eq!(told(&one.profile), told(&profile));
    for length in (0..bytes.len()).step_by(7) {
        // Cut off it is an error or a part, and no panic.
        let _ = profile::read::otlp_request(&bytes[..length]);
    }
}
