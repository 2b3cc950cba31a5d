//! What is written: read back by ourselves, by prost, and by `go tool pprof`.
mod support;

use std::io::Read as _;
use std::process::Command;

use profile::read::{RequestNames, decode, merge};
use prost::Message as _;
use support::{encode, proto, sample_profile};

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let read = flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain);
    assert!(read.is_ok());
    plain
}

#[test]
fn a_profile_is_read_back_equal() {
    let profile = sample_profile();
    let bytes = encode(&profile);
    assert_eq!(profile.moments.len(), 9);
    let decoded = decode(&bytes).unwrap();
    assert_eq!(decoded.report_error, None);
    assert_eq!(decoded.profile, profile);
    assert_eq!(decode(&gunzip(&bytes)).unwrap().profile, profile);
    // And is the same file again.
    assert_eq!(encode(&decoded.profile), bytes);
}

#[test]
fn an_empty_profile_is_a_profile() {
    let profile = profile::Aggregate::default().take(profile::Period::default()).profile;
    assert_eq!(decode(&encode(&profile)).unwrap().profile, profile);
}

#[test]
fn an_independent_reader_sees_what_was_meant() {
    let bytes = gunzip(&encode(&sample_profile()));
    let seen = proto::Profile::decode(bytes.as_slice()).unwrap();
    let text = |at: i64| seen.string_table[at as usize].as_str();
    let types: Vec<_> =
        seen.sample_type.iter().map(|kind| (text(kind.r#type), text(kind.unit))).collect();
    let [count, time] = ["count", "nanoseconds"];
    assert_eq!(types, [("cpu-samples", count), ("cpu", time), ("wall", time), ("gc", time)]);
    assert_eq!(seen.period_type.map(|kind| text(kind.r#type)), Some("cpu"));
    assert_eq!((seen.period, text(seen.default_sample_type)), (10_000_000, "cpu"));
    assert_eq!((seen.time_nanos, seen.duration_nanos), (1_790_000_000_000_000_000, 1_000_000_000));
    assert_eq!(seen.string_table[0], "");
    let comments: Vec<_> = seen.comment.iter().map(|at| text(*at)).collect();
    assert!(comments.contains(&"corprof.lost.ring_full=2"), "{comments:?}");

    let names = |sample: &proto::Sample| -> Vec<String> {
        let locations = sample.location_id.iter().map(|id| &seen.location[*id as usize - 1]);
        locations
            .map(|location| {
                let function = &seen.function[location.line[0].function_id as usize - 1];
                let file = match location.mapping_id {
                    0 => "",
                    id => text(seen.mapping[id as usize - 1].filename),
                };
                format!("{file}!{}:{}", text(function.name), location.line[0].line)
            })
            .collect()
    };
    let sleep = &seen.sample[1];
    assert_eq!(
        names(sleep),
        [
            "libc.so!nanosleep:0",
            "System.Private.CoreLib.dll!Thread.Sleep(int):57",
            "Shop.dll!Shop.Program.Main(string[]):67"
        ]
    );
    assert_eq!(sleep.value, [0, 0, 700_000_000, 0]);
    let labels: Vec<_> =
        sleep.label.iter().map(|label| (text(label.key), text(label.str), label.num)).collect();
    assert_eq!(
        labels,
        [("thread id", "", 100), ("thread name", "main", 0), ("state", "sleeping", 0)]
    );
    let labels = |sample: usize| -> Vec<_> {
        let labels = seen.sample[sample].label.iter();
        let value = |label: &proto::Label| match text(label.str) {
            "" if label.num != 0 => label.num.to_string(),
            text => text.to_owned(),
        };
        labels.map(|label| (text(label.key), value(label))).collect()
    };
    assert_eq!(
        labels(5)[2..],
        [
            ("trace id", "abababababababab00fedcba98765432".to_owned()),
            ("span id", (-0x0123_4567_89ab_ce00_i64).to_string()),
            ("local root span id", (-0x0123_4567_89ab_ce00_i64).to_string()),
            ("trace endpoint", "GET /orders/{id}".to_owned()),
            ("empty", String::new()),
            ("label.state", "new".to_owned()),
            ("tenant", "Größe 7".to_owned()),
        ]
    );
    assert_eq!(labels(8)[2..], [("state", "io".to_owned()), ("tenant", "8".to_owned())]);
    assert!(comments.contains(&"corprof.endpoint=2 100000000 GET /orders/{id}"), "{comments:?}");
    let system_names: Vec<_> = seen.function.iter().map(|f| text(f.system_name)).collect();
    assert!(system_names.contains(&"[native] _ZN3rawEv"), "{system_names:?}");
    assert!(seen.mapping.iter().all(|mapping| mapping.has_functions));
}

#[test]
fn merging_a_profile_with_itself_doubles_it() {
    let profile = sample_profile();
    let twice = merge([&profile, &profile]);
    assert_eq!(twice.report, None);
    assert_eq!(twice.period, profile.period);
    assert_eq!(
        (&twice.stacks, &twice.frames, &twice.modules, &twice.strings),
        (&profile.stacks, &profile.frames, &profile.modules, &profile.strings)
    );
    for (double, single) in twice.samples.iter().zip(&profile.samples) {
        let mut sum = single.values;
        sum.add(single.values);
        assert_eq!(*double, profile::Sample { values: sum, ..*single });
    }
    assert_eq!(merge([]).samples, []);
}

#[test]
fn merging_adds_endpoints_and_tells_what_only_one_file_knows() {
    let main = (profile::ThreadKey { tid: 7, generation: 0 }, None);
    let part = |is_known: bool, requests: u64| {
        let mut aggregate = profile::Aggregate::default();
        assert!(aggregate.labels(9, &[("b", "2"), ("a", "1")]));
        let root = support::span(1, 0);
        for span in [root, support::span(1, 5), support::span(2, 0)] {
            support::add_for(&mut aggregate, &["A.dll!A.Run()"], main, (1, 10, 0), (Some(span), 9));
        }
        if is_known {
            aggregate.endpoint(root.local_root_span_id, "GET /");
        }
        (0..requests).for_each(|_| aggregate.request("GET /", 5));
        aggregate.request(if is_known { "new" } else { "old" }, 7);
        aggregate.take(profile::Period::default()).profile
    };
    let (before, after) = (part(false, 2), part(true, 3));
    assert!(before.spans.iter().all(|span| before.text(span.endpoint).is_empty()));
    for profile in [merge([&before, &after]), merge([&after, &before])] {
        // The samples of both are the same ones, now that all have the endpoint.
        assert_eq!((profile.samples.len(), profile.spans.len(), profile.labels.len()), (3, 3, 1));
        for sample in &profile.samples {
            let span = profile.span_of(sample).unwrap();
            let known = if span.ids.local_root_span_id == 1 << 8 { "GET /" } else { "" };
            assert_eq!(profile.text(span.endpoint), known);
            assert_eq!(sample.values.count, 2);
            assert!(profile.labels_of(sample).eq([("a", "1"), ("b", "2")]));
        }
        let get = profile.endpoints.iter().find(|e| profile.text(e.name) == "GET /").unwrap();
        assert_eq!((get.requests, get.duration_ns, profile.endpoints.len()), (5, 25, 3));
        assert_eq!(decode(&encode(&profile)).unwrap().profile, profile);
    }
}

/// A request that was not routed yet when a period ended has another name in the next.
#[test]
fn merging_gives_a_request_its_latest_name() {
    let main = (profile::ThreadKey { tid: 7, generation: 0 }, None);
    let part = |begin: u64, name: &str| {
        let mut aggregate = profile::Aggregate::default();
        let span = support::span(1, 0);
        support::add_for(&mut aggregate, &["A.dll!A.Run()"], main, (1, 10, 0), (Some(span), 0));
        aggregate.endpoint(span.local_root_span_id, name);
        let period = profile::Period { start_unix_ns: begin, ..profile::Period::default() };
        aggregate.take(period).profile
    };
    let parts = [part(1, "GET"), part(2, "GET /counts"), part(3, "")];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
        let merged = merge(order.map(|at| &parts[at]));
        assert_eq!(merged.samples.len(), 1, "{order:?}");
        let span = merged.span_of(&merged.samples[0]).unwrap();
        assert_eq!(merged.text(span.endpoint), "GET /counts", "{order:?}");
    }
    // What a command does that looks at one file after the other.
    let mut names = RequestNames::default();
    parts.iter().rev().for_each(|part| names.learn(part));
    for mut part in parts {
        names.rename(&mut part);
        assert_eq!(part.text(part.spans[0].endpoint), "GET /counts");
    }
}

#[test]
fn go_tool_pprof_agrees_and_keeps_what_we_need() {
    let version = Command::new("go").arg("version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: there is no `go` here, so `go tool pprof` was not asked");
        return;
    }
    let folder = std::env::temp_dir().join(format!("corprof-pprof-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, rewritten) = (folder.join("a.pb.gz"), folder.join("b.pb.gz"));
    let profile = sample_profile();
    std::fs::write(&file, encode(&profile)).unwrap();
    let pprof = |arguments: &[&str]| {
        let output = Command::new("go")
            .args(["tool", "pprof"])
            .args(arguments)
            .arg(&file)
            .env("PPROF_TMPDIR", &folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let top = pprof(&["-top"]);
    assert!(top.contains("Type: cpu"), "{top}");
    assert!(top.contains("320ms 84.21% 84.21%      320ms 84.21%  Shop.Prices.Sum(int)"), "{top}");
    let wall = pprof(&["-top", "-sample_index=wall"]);
    assert!(wall.contains("700ms 66.67% 66.67%      700ms 66.67%  nanosleep"), "{wall}");
    let tags = pprof(&["-tags", "-sample_index=wall"]);
    for words in ["sleeping", "thread name", "trace endpoint", "GET /orders/{id}", "Größe 7"] {
        assert!(tags.contains(words), "no {words} in\n{tags}");
    }
    let focused = pprof(&["-top", "-sample_index=wall", "-tagfocus=trace endpoint=GET /orders"]);
    assert!(focused.contains("Showing nodes accounting for 40ms, 3.81% of 1050ms"), "{focused}");
    let comments = pprof(&["-comments"]);
    assert!(comments.contains("corprof.sampled_cpu_ns=362000000"), "{comments}");
    // A file that pprof has rewritten still has kinds, threads, states and the report.
    pprof(&["-proto", &format!("-output={}", rewritten.display())]);
    let again = decode(&std::fs::read(&rewritten).unwrap()).unwrap().profile;
    let kinds = |profile: &profile::Profile| {
        let name = |f: &profile::Function| (profile.text(f.name).to_owned(), f.kind);
        let mut names: Vec<_> = profile.functions.iter().map(name).collect();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        names
    };
    assert_eq!(kinds(&again), kinds(&profile));
    assert_eq!((again.total(), &again.report), (profile.total(), &profile.report));
    assert_eq!(again.samples.len(), profile.samples.len());
    let mut spans = [again.spans.clone(), profile.spans.clone()];
    spans.iter_mut().for_each(|spans| spans.sort_by_key(|span| (span.ids.span_id, span.endpoint)));
    assert_eq!(spans[0].len(), spans[1].len());
    for (one, other) in spans[0].iter().zip(&spans[1]) {
        assert_eq!(one.ids, other.ids);
        assert_eq!(again.text(one.endpoint), profile.text(other.endpoint));
    }
    let endpoint = |profile: &profile::Profile| {
        let endpoint = profile.endpoints[0];
        (profile.text(endpoint.name).to_owned(), endpoint.requests, endpoint.duration_ns)
    };
    assert_eq!(endpoint(&again), endpoint(&profile));
    assert_eq!(again.labels.len(), profile.labels.len());
    let _ = std::fs::remove_dir_all(&folder);
}
