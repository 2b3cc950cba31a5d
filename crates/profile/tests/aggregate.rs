//! The aggregate: sums, names, bounds, and ids over periods.
use model::{FrameKind, Loss, ThreadState};
use profile::{
    Added, Aggregate, Frame, FrameId, Ids, Limits, ModuleInfo, Period, Profile, SampleKey, SpanIds,
    StackId, Taken, ThreadKey, Values,
};

const THREAD: ThreadKey = ThreadKey { tid: 77, generation: 1 };
const PERIOD: Period =
    Period { start_unix_ns: 1_700_000_000_000_000_000, duration_ns: 60, cpu_interval_ns: 10 };

fn frame(aggregate: &mut Aggregate, name: &str) -> FrameId {
    aggregate.frame(&Frame {
        name,
        raw_name: "",
        module: None,
        address: 0,
        kind: FrameKind::Managed,
        file: None,
        line: None,
    })
}

fn stack(aggregate: &mut Aggregate, names: &[&str]) -> StackId {
    let frames: Vec<_> = names.iter().map(|name| frame(aggregate, name)).collect();
    aggregate.stack(frames)
}

fn cpu(stack: StackId) -> SampleKey {
    SampleKey { stack, thread: THREAD, state: None, span: None, labels: 0 }
}

fn ns(cpu_ns: u64) -> Values {
    Values { count: 1, cpu_ns, wall_ns: 0, ..Values::default() }
}

/// Stacks with their sums, leaf first: `leaf;root 77 worker running 3/30/0`.
fn lines(profile: &Profile) -> Vec<String> {
    let line = |sample: &profile::Sample| {
        let names: Vec<_> = profile
            .stack(sample.stack)
            .map(|frame| profile.function_of(frame).map_or("?", |f| profile.text(f.name)))
            .collect();
        let thread =
            sample.thread.map_or(String::new(), |t| format!(" {} {}", t.tid, profile.text(t.name)));
        let state = sample.state.map_or("-", ThreadState::name);
        let Values { count, cpu_ns, wall_ns, .. } = sample.values;
        format!("{}{thread} {state} {count}/{cpu_ns}/{wall_ns}", names.join(";"))
    };
    profile.samples.iter().map(line).collect()
}

fn take(aggregate: &mut Aggregate) -> Taken {
    aggregate.take(PERIOD)
}

#[test]
fn samples_add_up_by_stack_thread_and_state() {
    let mut aggregate = Aggregate::default();
    let ab = stack(&mut aggregate, &["a", "b"]);
    let b = stack(&mut aggregate, &["b"]);
    assert_eq!(stack(&mut aggregate, &["a", "b"]), ab);
    assert_eq!(aggregate.add(&cpu(ab), ns(10)), Added::Kept);
    assert_eq!(aggregate.add(&cpu(b), ns(5)), Added::Kept);
    assert_eq!(aggregate.add(&cpu(ab), ns(20)), Added::Kept);
    let wall = Values { count: 0, cpu_ns: 0, wall_ns: 9, ..Values::default() };
    let waiting = SampleKey { state: Some(ThreadState::Lock), ..cpu(ab) };
    assert_eq!(aggregate.add(&waiting, wall), Added::Kept);
    let other = SampleKey { thread: ThreadKey { tid: 78, generation: 0 }, ..cpu(ab) };
    assert_eq!(aggregate.add(&other, ns(1)), Added::Kept);
    aggregate.thread_name(THREAD, "worker");
    let taken = take(&mut aggregate);
    assert_eq!(taken.ids, Ids::Kept);
    assert_eq!(
        lines(&taken.profile),
        [
            "a;b 77 worker - 2/30/0",
            "b 77 worker - 1/5/0",
            "a;b 77 worker lock 0/0/9",
            "a;b 78  - 1/1/0"
        ]
    );
    assert_eq!(
        taken.profile.total(),
        Values { count: 4, cpu_ns: 36, wall_ns: 9, ..Values::default() }
    );
    assert_eq!(taken.profile.period, PERIOD);
}

#[test]
fn a_new_period_begins_empty_and_keeps_ids() {
    let mut aggregate = Aggregate::default();
    let old = stack(&mut aggregate, &["old"]);
    let kept = stack(&mut aggregate, &["leaf", "root"]);
    let ended = ThreadKey { tid: 5, generation: 0 };
    aggregate.thread_name(ended, "short");
    aggregate.thread_name(THREAD, "long");
    aggregate.thread_ended(ended);
    for (stack, thread) in [(old, ended), (kept, THREAD)] {
        assert_eq!(aggregate.add(&SampleKey { thread, ..cpu(stack) }, ns(1)), Added::Kept);
    }
    assert_eq!(
        lines(&take(&mut aggregate).profile),
        ["old 5 short - 1/1/0", "leaf;root 77 long - 1/1/0"]
    );
    assert!(take(&mut aggregate).profile.samples.is_empty());
    assert_eq!(aggregate.add(&cpu(kept), ns(2)), Added::Kept);
    let profile = take(&mut aggregate).profile;
    assert_eq!(lines(&profile), ["leaf;root 77 long - 1/2/0"]);
    // Only what the period used is in its profile.
    assert_eq!((profile.frames.len(), profile.functions.len(), profile.stacks.len()), (2, 2, 2));
    assert!(!profile.strings.iter().any(|text| text == "old"));
}

#[test]
fn over_the_bounds_totals_stay_and_losses_are_said() {
    let limits = Limits { stacks: 60, samples: 20, functions: 30, frames: 40, ..Limits::HOST };
    let mut aggregate = Aggregate::new(limits);
    let (mut sum, mut lost) = (0, 0);
    for n in 0..500_u64 {
        let names = [format!("leaf {n}"), format!("caller {}", n % 7), "root".to_owned()];
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let stack = stack(&mut aggregate, &names);
        let thread = ThreadKey { tid: 1 + (n % 50) as u32, generation: 0 };
        sum += n;
        match aggregate.add(&SampleKey { thread, ..cpu(stack) }, ns(n)) {
            Added::Kept => {}
            Added::Lost(Loss::AggregateFull) => lost += 1,
            Added::Lost(other) => panic!("{other:?}"),
        }
    }
    let taken = take(&mut aggregate);
    assert_eq!(
        taken.profile.total(),
        Values { count: 500, cpu_ns: sum, wall_ns: 0, ..Values::default() }
    );
    assert!(lost > 400, "{lost}");
    assert!(taken.frames_over_limit > 0);
    assert!(taken.profile.samples.len() <= 21);
    assert_eq!(taken.ids, Ids::Reset);
    let all = lines(&taken.profile).join("\n");
    assert!(all.contains("[stacks over the limit]"), "{all}");
    assert!(all.contains("[functions over the limit]"), "{all}");
    // After the reset there is room again.
    let stack = stack(&mut aggregate, &["fresh"]);
    assert_eq!(aggregate.add(&cpu(stack), ns(1)), Added::Kept);
}

#[test]
fn an_id_from_before_a_reset_is_never_another_functions_time() {
    let mut aggregate = Aggregate::new(Limits { stacks: 10, ..Limits::HOST });
    let old_frame = frame(&mut aggregate, "old");
    let old_stack = stack(&mut aggregate, &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(take(&mut aggregate).ids, Ids::Reset);
    let new = stack(&mut aggregate, &["new"]);
    assert_eq!(aggregate.add(&cpu(new), ns(1)), Added::Kept);
    let _ = aggregate.add(&cpu(old_stack), ns(2));
    let mixed = aggregate.stack([old_frame]);
    let _ = aggregate.add(&cpu(mixed), ns(4));
    let lines = lines(&take(&mut aggregate).profile);
    assert_eq!(lines, ["new 77  - 1/1/0", "[forgotten frame] 77  - 2/6/0"]);
}

#[test]
fn tiny_bounds_do_not_break() {
    for n in 0..8 {
        let limits = Limits {
            stacks: n,
            samples: n,
            functions: n,
            frames: n,
            string_bytes: n,
            depth: n,
            threads: n,
            spans: n,
            label_sets: n,
            labels: n,
            label_bytes: n,
            moments: 100,
            endpoints: n,
        };
        let mut aggregate = Aggregate::new(limits);
        for _ in 0..3 {
            let _ = aggregate.module(&ModuleInfo { file: "m", build_id: "", start: 0, limit: 0 });
            let stack = stack(&mut aggregate, &["a", "b"]);
            let _ = aggregate.add(&cpu(stack), ns(3));
            aggregate.thread_name(THREAD, "t");
            let profile = take(&mut aggregate).profile;
            assert!(n < 1 || profile.total().cpu_ns == 3, "bounds of {n}");
        }
    }
}

#[test]
fn long_names_and_deep_stacks_are_cut() {
    let mut aggregate = Aggregate::default();
    let long = "é".repeat(2000);
    let deep: Vec<_> = (0..2000).map(|n| frame(&mut aggregate, &format!("f{n}"))).collect();
    let deep = aggregate.stack(deep);
    let named = stack(&mut aggregate, &[&long]);
    let empty = aggregate.stack([]);
    for stack in [deep, named, empty] {
        assert_eq!(aggregate.add(&cpu(stack), ns(1)), Added::Kept);
    }
    aggregate.thread_name(THREAD, &long);
    let profile = take(&mut aggregate).profile;
    assert_eq!(profile.stack(profile.samples[0].stack).count(), model::limits::FRAMES_MAX + 1);
    assert!(lines(&profile)[2].starts_with("[no frames] 77"));
    let name = profile.text(profile.samples[0].thread.unwrap().name);
    assert_eq!(name.len(), model::limits::THREAD_NAME_BYTES_MAX);
}

/// A span of a request, by numbers.
fn span(root: u64, span_id: u64) -> Option<SpanIds> {
    Some(SpanIds { trace_id: [root as u8; 16], span_id, local_root_span_id: root })
}

/// Samples with what they belong to: `7.8 GET / tenant=9 10`.
fn spans(profile: &Profile) -> Vec<String> {
    let line = |sample: &profile::Sample| {
        let span = profile.span_of(sample).map(|span| {
            let SpanIds { span_id, local_root_span_id, .. } = span.ids;
            format!("{local_root_span_id}.{span_id} {} ", profile.text(span.endpoint))
        });
        let labels = profile.labels_of(sample).map(|(name, value)| format!("{name}={value} "));
        format!(
            "{}{}{}",
            span.unwrap_or_default(),
            labels.collect::<String>(),
            sample.values.cpu_ns
        )
    };
    profile.samples.iter().map(line).collect()
}

fn endpoints(profile: &Profile) -> Vec<(&str, u64, u64)> {
    let endpoints = profile.endpoints.iter();
    endpoints.map(|e| (profile.text(e.name), e.requests, e.duration_ns)).collect()
}

#[test]
fn a_root_names_all_its_samples_and_sets_are_kept() {
    let mut aggregate = Aggregate::default();
    let key = cpu(stack(&mut aggregate, &["a"]));
    let add = |aggregate: &mut Aggregate, span, labels| {
        assert_eq!(aggregate.add(&SampleKey { span, labels, ..key }, ns(1)), Added::Kept);
    };
    assert!(!aggregate.has_root(7));
    add(&mut aggregate, span(7, 7), 0);
    add(&mut aggregate, span(7, 8), 2);
    assert!(aggregate.has_root(7) && !aggregate.has_root(8));
    aggregate.endpoint(7, "first guess");
    aggregate.endpoint(7, "GET /");
    aggregate.endpoint(8, "not there");
    add(&mut aggregate, span(7, 8), 2);
    add(&mut aggregate, span(7, 9), 3);
    add(&mut aggregate, span(0, 5), 0);
    add(&mut aggregate, None, 0);
    // A set may be learned after its first sample; number 3 never is.
    assert!(
        aggregate.labels(2, &[("tenant", "9"), ("", "no name"), ("tenant", "9"), ("plan", "")])
    );
    aggregate.request("GET /", 50);
    aggregate.request("GET /", 70);
    aggregate.request("", 1);
    let profile = take(&mut aggregate).profile;
    assert_eq!(
        spans(&profile),
        ["7.7 GET / 1", "7.8 GET / plan= tenant=9 2", "7.9 GET / 1", "0.5  1", "1"]
    );
    assert_eq!(endpoints(&profile), [("GET /", 2, 120), ("", 1, 1)]);
    // The next period knows nothing of these but the set.
    assert!(!aggregate.has_root(7));
    add(&mut aggregate, span(7, 8), 2);
    assert!(aggregate.labels(2, &[("tenant", "another")]));
    let profile = take(&mut aggregate).profile;
    assert_eq!(spans(&profile), ["7.8  plan= tenant=9 1"]);
    assert_eq!(endpoints(&profile), []);
    assert!(!profile.strings.iter().any(|text| text == "GET /"));
}

#[test]
fn without_ids_spans_of_one_endpoint_are_one() {
    let mut aggregate = Aggregate::default().without_span_ids();
    let key = cpu(stack(&mut aggregate, &["a"]));
    for (root, span_id, labels) in
        [(1, 1, 0), (2, 2, 0), (1, 9, 0), (3, 3, 0), (2, 2, 5), (4, 4, 0)]
    {
        let key = SampleKey { span: span(root, span_id), labels, ..key };
        assert_eq!(aggregate.add(&key, ns(1)), Added::Kept);
    }
    assert_eq!(aggregate.add(&key, ns(1)), Added::Kept);
    assert!(aggregate.labels(5, &[("tenant", "9")]));
    for (root, endpoint) in [(1, "GET /"), (2, "GET /"), (3, "POST /")] {
        assert!(aggregate.has_root(root));
        aggregate.endpoint(root, endpoint);
    }
    let profile = take(&mut aggregate).profile;
    assert_eq!(
        spans(&profile),
        ["0.0 GET / 3", "0.0 POST / 1", "0.0 GET / tenant=9 1", "0.0  1", "1"]
    );
    assert_eq!(profile.spans.len(), 3);
    assert!(profile.spans.iter().all(|span| span.ids == SpanIds::NONE));
}

#[test]
fn over_the_bounds_of_spans_stacks_and_values_stay() {
    let limits = Limits { spans: 10, label_sets: 4, labels: 6, endpoints: 2, ..Limits::HOST };
    let mut aggregate = Aggregate::new(limits);
    let key = cpu(stack(&mut aggregate, &["a"]));
    let mut lost = 0;
    for round in 0..2 {
        for n in 1..=100 {
            let key = SampleKey { span: span(n, n), labels: 1, ..key };
            match aggregate.add(&key, ns(1)) {
                Added::Kept => assert!(n <= 10, "{n}"),
                Added::Lost(loss) => {
                    assert_eq!(loss, Loss::SpansFull);
                    lost += 1;
                }
            }
        }
        assert!(aggregate.has_root(10) && !aggregate.has_root(11));
        for n in 0..9 {
            // Number 0 stands for no labels.
            assert_eq!(aggregate.labels(n, &[("a", "1"), ("b", "2")]), n <= 3);
            let _ = aggregate.add(&SampleKey { labels: n, ..key }, ns(1));
            aggregate.request(&format!("endpoint {n}"), 2);
        }
        let profile = take(&mut aggregate).profile;
        assert_eq!(profile.total().cpu_ns, 109);
        assert!(lines(&profile).iter().all(|line| line.starts_with("a 77")));
        assert_eq!((profile.spans.len(), lost), (10, 90 * (round + 1)));
        // Sets 1 to 3 had room, and are equal.
        assert_eq!(spans(&profile)[10], "a=1 b=2 93");
        assert_eq!(profile.labels.len(), 1);
        assert_eq!(
            endpoints(&profile),
            [("[other endpoints]", 7, 14), ("endpoint 0", 1, 2), ("endpoint 1", 1, 2)]
        );
    }
}

#[test]
fn a_reset_keeps_sets_of_labels() {
    let mut aggregate = Aggregate::new(Limits { stacks: 10, ..Limits::HOST });
    let before = aggregate.bytes();
    assert!(aggregate.labels(1, &[("a", "1")]));
    assert!(aggregate.bytes() > before);
    let _ = stack(&mut aggregate, &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(take(&mut aggregate).ids, Ids::Reset);
    let key = cpu(stack(&mut aggregate, &["new"]));
    assert_eq!(
        aggregate.add(&SampleKey { labels: 1, span: span(3, 3), ..key }, ns(1)),
        Added::Kept
    );
    aggregate.endpoint(3, "GET /");
    aggregate.request("GET /", 1);
    let profile = take(&mut aggregate).profile;
    assert_eq!(spans(&profile), ["3.3 GET / a=1 1"]);
    assert_eq!(endpoints(&profile), [("GET /", 1, 1)]);
}

#[test]
fn large_tables_that_are_mostly_out_of_use_begin_anew() {
    let mut aggregate = Aggregate::default();
    let use_all = |aggregate: &mut Aggregate, count: u64| {
        for n in 0..count {
            let key = cpu(stack(aggregate, &[&format!("{n:0>100}")]));
            assert_eq!(aggregate.add(&key, ns(1)), Added::Kept);
        }
        take(aggregate).ids
    };
    // Small ones stay, used or not.
    assert_eq!(use_all(&mut aggregate, 100), Ids::Kept);
    assert_eq!(use_all(&mut aggregate, 1), Ids::Kept);
    // Large ones stay while there is use for them.
    for count in [40_000, 40_000, 20_000] {
        assert_eq!(use_all(&mut aggregate, count), Ids::Kept, "{count}");
    }
    let before = aggregate.bytes();
    assert_eq!(use_all(&mut aggregate, 1_000), Ids::Reset);
    assert!(aggregate.bytes() < before / 10, "{} of {before}", aggregate.bytes());
    assert_eq!(use_all(&mut aggregate, 1_000), Ids::Kept);
}
