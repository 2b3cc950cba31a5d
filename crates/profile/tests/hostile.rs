//! Files of others, damaged files, and files made to hurt.
mod support;

use std::io::Read as _;

use profile::read::{DecodeError, decode, merge};
use prost::Message as _;
use support::{encode, proto, sample_profile};

/// A profile as other tools write it: inlined lines, other units, no symbols, unpacked ids far
/// apart.
fn foreign() -> proto::Profile {
    let strings =
        ["", "samples", "count", "cpu", "microseconds", "inner", "outer", "thread id", "t"];
    let value_type = |kind, unit| proto::ValueType { r#type: kind, unit };
    let function = |id, name| proto::Function { id, name, system_name: name, filename: 0 };
    let line = |function_id| proto::Line { function_id, line: 0 };
    let location = |id, line| proto::Location { id, mapping_id: 0, address: 0xabc, line };
    proto::Profile {
        sample_type: vec![value_type(1, 2), value_type(3, 4)],
        sample: vec![proto::Sample {
            location_id: vec![900, 5],
            value: vec![3, 70],
            label: vec![
                proto::Label { key: 7, num: 12, ..proto::Label::default() },
                proto::Label { key: 8, str: 5, ..proto::Label::default() },
            ],
        }],
        location: vec![location(5, vec![]), location(900, vec![line(70), line(1)])],
        function: vec![function(1, 6), function(70, 5)],
        string_table: strings.map(str::to_owned).to_vec(),
        ..proto::Profile::default()
    }
}

fn names(profile: &profile::Profile) -> Vec<&str> {
    let sample = profile.samples.first();
    let frames = sample.into_iter().flat_map(|sample| profile.stack(sample.stack));
    frames
        .filter_map(|frame| profile.function_of(frame))
        .map(|function| profile.text(function.name))
        .collect()
}

#[test]
fn profiles_of_others_are_read() {
    let profile = decode(&foreign().encode_to_vec()).unwrap().profile;
    assert_eq!(names(&profile), ["inner", "outer", "0xabc"]);
    let sample = profile.samples[0];
    assert_eq!(
        sample.values,
        profile::Values { count: 3, cpu_ns: 70_000, wall_ns: 0, ..profile::Values::default() }
    );
    assert_eq!(sample.thread.map(|thread| thread.tid), Some(12));
    assert_eq!(profile.report, None);
    assert!(profile.functions.iter().all(|function| function.kind.is_none()));
    // Written by us it is the same profile.
    assert_eq!(decode(&encode(&profile)).unwrap().profile, profile);
}

#[test]
fn labels_of_others_are_kept() {
    let mut profile = foreign();
    let mut strings = std::mem::take(&mut profile.string_table);
    let mut label = |key: &str, text: &str, num: i64, num_unit: &str| {
        let mut at = |text: &str| {
            strings.push(text.to_owned());
            strings.len() as i64 - 1
        };
        let (key, str) = (at(key), if text.is_empty() { 0 } else { at(text) });
        let num_unit = if num_unit.is_empty() { 0 } else { at(num_unit) };
        proto::Label { key, str, num, num_unit }
    };
    profile.sample[0].label = vec![
        label("tenant", "seven", 0, ""),
        label("bytes", "", -5, ""),
        label("none", "", 0, "bytes"),
        label("empty", "", 0, ""),
        label("", "no name", 0, ""),
        label("tenant", "seven", 0, ""),
        // Ours, and not as we write them.
        label("state", "blocked", 0, ""),
        label("trace id", "17", 0, ""),
        label("label.span id", "3", 0, ""),
        label("span id", "12345678901234567890", 0, ""),
        label("local root span id", "", -1, ""),
        label("trace endpoint", "GET /", 0, ""),
    ];
    profile.string_table = strings;
    let profile = decode(&profile.encode_to_vec()).unwrap().profile;
    let sample = profile.samples[0];
    let labels: Vec<_> = profile.labels_of(&sample).collect();
    assert_eq!(
        labels,
        [
            ("bytes", "-5"),
            ("empty", ""),
            ("none", "0"),
            ("span id", "3"),
            ("state", "blocked"),
            ("tenant", "seven"),
            ("trace id", "17")
        ]
    );
    let span = profile.span_of(&sample).unwrap();
    let ids = profile::SpanIds {
        span_id: 12_345_678_901_234_567_890,
        local_root_span_id: u64::MAX,
        ..profile::SpanIds::NONE
    };
    assert_eq!((span.ids, profile.text(span.endpoint)), (ids, "GET /"));
    assert_eq!(decode(&encode(&profile)).unwrap().profile, profile);
}

#[test]
fn endpoints_that_make_no_sense_leave_the_others() {
    let mut profile = foreign();
    let comments =
        ["corprof.endpoint=2 30 a", "corprof.endpoint=x", "corprof.endpoint=1 3 a", "other"];
    profile.comment =
        (0..comments.len()).map(|n| (profile.string_table.len() + n) as i64).collect();
    profile.string_table.extend(comments.map(str::to_owned));
    let decoded = decode(&profile.encode_to_vec()).unwrap();
    assert!(decoded.report_error.unwrap().to_string().contains("endpoint=x: not a number"));
    let [endpoint] = decoded.profile.endpoints[..] else { panic!("not one endpoint") };
    assert_eq!((endpoint.requests, endpoint.duration_ns), (3, 33));
}

#[test]
fn each_thing_that_can_be_wrong_has_its_words() {
    type Change = fn(&mut proto::Profile);
    let cases: [(Change, &str); 13] = [
        (|p| p.string_table.clear(), "it has no strings"),
        (|p| p.string_table[0] = "x".into(), "its first string is not the empty one"),
        (|p| p.sample_type.clear(), "it has no sample types"),
        (|p| p.sample_type.truncate(1), "it has neither CPU nor wall time, but samples/count"),
        (|p| p.sample[0].location_id[0] = 4, "location 4 is used and isn't there"),
        (|p| p.location[1].line[0].function_id = 9, "function 9 is used and isn't there"),
        (|p| p.location[1].mapping_id = 9, "mapping 9 is used and isn't there"),
        (|p| p.function[0].name = 99, "string 99 is used and isn't there"),
        (|p| p.function[1].id = 1, "function 1 is there twice"),
        (|p| p.sample[0].value[1] = -1, "sample 0 has a negative value"),
        (|p| p.sample[0].value.push(1), "sample 0 has 3 values instead of 2"),
        (|p| p.sample[0].label[0].key = -5, "string 18446744073709551611 is used"),
        (|p| p.comment.push(44), "string 44 is used"),
    ];
    for (change, words) in cases {
        let mut profile = foreign();
        change(&mut profile);
        let error = decode(&profile.encode_to_vec()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_is_no_profile_is_refused() {
    assert_eq!(decode(b"").unwrap_err(), DecodeError::Empty);
    for bytes in [&b"hello, this is text\n"[..], b"{\"json\": 1}", b"\x7fELF\x02\x01\x01", &[0; 64]]
    {
        let error = decode(bytes).unwrap_err().to_string();
        assert!(error.contains("not a pprof profile"), "{error}");
    }
}

#[test]
fn a_report_that_makes_no_sense_leaves_the_samples() {
    let mut profile = foreign();
    profile.string_table.extend(["corprof.format=1", "corprof.pid=x"].map(str::to_owned));
    profile.comment = vec![9, 10];
    let decoded = decode(&profile.encode_to_vec()).unwrap();
    assert_eq!(decoded.profile.samples.len(), 1);
    assert!(decoded.report_error.unwrap().to_string().contains("not a number"));
}

/// A small generator of numbers (xorshift), so that a failure can be had again.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Whatever was read must hold together: go through all of it, write it, merge it.
fn use_it(bytes: &[u8]) -> bool {
    let Ok(decoded) = decode(bytes) else { return false };
    let profile = decoded.profile;
    for sample in &profile.samples {
        assert!(profile.stack(sample.stack).count() > 0);
    }
    let again = decode(&encode(&profile));
    assert!(again.is_ok_and(|again| again.profile == profile));
    assert_eq!(merge([&profile]).samples.len(), profile.samples.len());
    true
}

#[test]
fn cut_and_damaged_files_never_break_the_reader() {
    let packed = encode(&sample_profile());
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut plain).unwrap();
    for whole in [&packed, &plain] {
        assert!(use_it(whole));
        for len in 0..whole.len() {
            use_it(&whole[..len]);
        }
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            use_it(&damaged);
        }
    }
    for len in 2..packed.len() {
        assert!(decode(&packed[..len]).is_err(), "cut at {len}");
    }
    let mut state = 0x5eed;
    for _ in 0..5_000 {
        let mut damaged = plain.clone();
        for _ in 0..=random(&mut state) % 8 {
            let at = random(&mut state) as usize % damaged.len();
            damaged[at] = random(&mut state) as u8;
        }
        use_it(&damaged);
    }
    for _ in 0..5_000 {
        let noise: Vec<u8> =
            (0..random(&mut state) % 200).map(|_| random(&mut state) as u8).collect();
        use_it(&noise);
    }
}

#[test]
fn a_small_file_cannot_take_all_time() {
    // One location with many lines, used many times by each of many samples.
    let mut profile = foreign();
    profile.location[1].line = vec![proto::Line { function_id: 1, line: 0 }; 60_000];
    profile.sample[0].location_id = vec![900; 2000];
    profile.sample = vec![profile.sample[0].clone(); 200];
    let error = decode(&profile.encode_to_vec()).unwrap_err();
    assert_eq!(error, DecodeError::TooMany { what: "frames of samples" });
}

/// A field of the message, as bytes.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut varint = |mut value: u64| {
        while value >= 0x80 {
            all.push(value as u8 | 0x80);
            value >>= 7;
        }
        all.push(value as u8);
    };
    varint(number << 3 | 2);
    varint(bytes.len() as u64);
    all.extend_from_slice(bytes);
    all
}

#[test]
fn moments_of_nothing_are_refused() {
    let with = |numbers: &[u8]| {
        let bytes = [foreign().encode_to_vec(), field(4_100, numbers)].concat();
        decode(&bytes).map(|decoded| decoded.profile.moments)
    };
    let moment = profile::Moment { begin_us: 5, duration_us: 7, sample: 0 };
    assert_eq!(with(&[5, 7, 0]), Ok(vec![moment]));
    // The sample after the last, the one before the first; cut off; later than there is a time.
    assert!(matches!(with(&[5, 7, 2]), Err(DecodeError::NoSuchEntry { table: "sample", id: 1 })));
    assert!(matches!(with(&[5, 7, 1]), Err(DecodeError::NoSuchEntry { .. })));
    for cut in [&[5][..], &[5, 7], &[5, 7, 0x80], &[0xff, 0xff, 0xff, 0xff, 0x7f, 7, 0]] {
        assert!(matches!(with(cut), Err(DecodeError::Wire { .. })), "{cut:?}");
    }
}
