//! `corprof top` of profiles that know requests: endpoints, spans, labels, and filters by them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod support;

use model::{FrameKind, ThreadState};
use profile::{Aggregate, Period, SampleKey, SpanIds, ThreadKey, Values};
use serde_json::Value;
use support::{Dir, MS, Ran, add_samples, frame, profile_bytes, profile_of};

/// A sample: its function, its request and span, its set of labels, its state, and milliseconds of
/// wall time, which are of CPU too if it ran.
type Made<'a> = (&'a str, Option<(u64, u64)>, u64, ThreadState, u64);

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn ids((root, span_id): (u64, u64)) -> SpanIds {
    let mut trace_id = SpanIds::trace_from_text(TRACE).unwrap();
    trace_id[15] = trace_id[15].wrapping_add(root as u8).wrapping_sub(1);
    SpanIds { trace_id, span_id, local_root_span_id: root }
}

fn aggregate(samples: &[Made<'_>]) -> Aggregate {
    let mut aggregate = Aggregate::default();
    assert!(aggregate.labels(1, &[("tenant", "acme"), ("plan", "free")]));
    assert!(aggregate.labels(2, &[("tenant", "big")]));
    assert!(aggregate.labels(3, &[("tenant", "")]));
    for (name, span, labels, state, ms) in samples {
        let frame = frame(&mut aggregate, name, FrameKind::Managed, None);
        let stack = aggregate.stack([frame]);
        let mut values = Values { count: 0, cpu_ns: 0, wall_ns: ms * MS, ..Values::default() };
        if *state == ThreadState::Running {
            (values.count, values.cpu_ns) = (1, ms * MS);
        }
        let thread = ThreadKey { tid: 7, generation: 0 };
        let span = span.map(ids);
        let key = SampleKey { stack, thread, state: Some(*state), span, labels: *labels };
        assert_eq!(aggregate.add(&key, values), profile::Added::Kept);
    }
    aggregate
}

fn bytes(mut aggregate: Aggregate) -> Vec<u8> {
    let profile = aggregate.take(Period::default()).profile;
    profile::pprof::write(&profile, Vec::new()).unwrap()
}

/// Three requests of two endpoints, one without, and what was done besides.
fn shop() -> Vec<u8> {
    use ThreadState::{Io, Lock, Running};
    let mut aggregate = aggregate(&[
        ("Shop.Get()", Some((1, 1)), 1, Running, 30),
        ("Shop.Query()", Some((1, 0x1a)), 1, Io, 50),
        ("Shop.Get()", Some((2, 2)), 2, Running, 10),
        ("Shop.Post()", Some((3, 3)), 3, Running, 5),
        ("Shop.Post()", Some((3, 3)), 3, Lock, 15),
        ("Shop.Health()", Some((4, 4)), 0, Running, 2),
        ("Shop.Clean()", None, 0, Running, 53),
    ]);
    for (root, endpoint) in [(1, "GET /orders/{id}"), (2, "GET /orders/{id}"), (3, "POST /orders")]
    {
        aggregate.endpoint(root, endpoint);
    }
    for (endpoint, ms) in [("GET /orders/{id}", 200), ("GET /orders/{id}", 100), ("GET /idle", 1)] {
        aggregate.request(endpoint, ms * MS);
    }
    bytes(aggregate)
}

/// Fails unless the output has all these lines, however many spaces are in them.
fn check_lines(ran: &Ran, lines: &[&str]) {
    ran.check(0, &[]);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let out: Vec<String> = ran.out.lines().map(words).collect();
    for line in lines {
        assert!(out.iter().any(|other| other == line), "no {line:?} in\n{}", ran.out);
    }
}

#[test]
fn endpoints_have_their_requests_and_what_one_costs() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &shop());
    let ran = dir.run(&["top", "a.pb.gz", "--by", "endpoint"]);
    ran.check(0, &[]);
    let table = "\
requests  cpu/req  elapsed/req  on threads/req      cpu   cpu %  endpoint
       -        -            -               -  53.0 ms  53.0 %  [outside of requests]
       2  20.0 ms       150 ms         45.0 ms  40.0 ms  40.0 %  GET /orders/{id}
       -        -            -               -  5.00 ms   5.0 %  POST /orders
       -        -            -               -  2.00 ms   2.0 %  [no endpoint]
       1        0      1.00 ms               0        0   0.0 %  GET /idle
";
    assert!(ran.out.starts_with(table), "{}", ran.out);
    let wall = dir.run(&["top", "a.pb.gz", "--by", "endpoint", "--value", "wall", "--limit", "1"]);
    check_lines(
        &wall,
        &[
            "requests cpu/req elapsed/req on threads/req wall wall % endpoint",
            "2 20.0 ms 150 ms 45.0 ms 90.0 ms 54.5 % GET /orders/{id}",
            "and 4 rows more",
        ],
    );
    // The whole report has them too, that of a run as well, and one without requests does not.
    let whole = dir.run(&["top", "a.pb.gz"]);
    let mut ran = dir.run_sh(&[], "cp a.pb.gz \"$CORPROF_OUTPUT_DIR\"/shop_7_0000.pb.gz");
    std::mem::swap(&mut ran.out, &mut ran.err);
    for report in [&whole, &ran] {
        check_lines(
            report,
            &[
                "requests by endpoint",
                "2 20.0 ms 150 ms 45.0 ms 40.0 ms 40.0 % GET /orders/{id}",
                "40.0 ms 40.0 % 40.0 ms 24.2 % Shop.Get()",
            ],
        );
    }
    dir.write("b.pb.gz", &profile_bytes(1, 0));
    assert!(!dir.run(&["top", "b.pb.gz"]).out.contains("endpoint"));
    let none = dir.run(&["top", "b.pb.gz", "--by", "endpoint"]);
    none.check(
        0,
        &["no sample is of a request: the program ran without the startup hook (attached"],
    );
    assert!(none.out.contains("400 ms  100.0 %  [outside of requests]"), "{}", none.out);
}

/// What the files say of why there are none is no guess.
#[test]
fn why_no_sample_is_of_a_request_is_told_as_far_as_it_is_known() {
    let dir = Dir::new();
    let mut ended = aggregate(&[("A()", None, 0, ThreadState::Running, 5)]);
    ended.request("GET /", MS);
    dir.write("ended.pb.gz", &bytes(ended));
    let by_span = dir.run(&["top", "ended.pb.gz", "--by", "span"]);
    by_span.check(0, &["no sample is of a request: requests ended, and no sample is of one"]);
    let by_endpoint = dir.run(&["top", "ended.pb.gz", "--by", "endpoint"]);
    assert!(by_endpoint.out.contains("GET /") && by_endpoint.err.is_empty(), "{by_endpoint:?}");
    let mut hooked = aggregate(&[("A()", None, 0, ThreadState::Running, 5)]);
    let file = "/opt/corprof/Corprof.Spans.dll";
    let module = hooked.module(&profile::ModuleInfo { file, build_id: "", start: 0, limit: 0 });
    let values = Values { count: 1, cpu_ns: MS, ..Values::default() };
    add_samples(&mut hooked, "StartupHook.Initialize()", module, values);
    dir.write("hooked.pb.gz", &bytes(hooked));
    let mut traced = profile_of(1, 0);
    traced.report.as_mut().unwrap().traced = 1;
    dir.write("traced.pb.gz", &profile::pprof::write(&traced, Vec::new()).unwrap());
    for file in ["hooked.pb.gz", "traced.pb.gz"] {
        let ran = dir.run(&["top", file, "--by", "endpoint"]);
        let why = "no sample is of a request: the startup hook ran and saw no request of ASP";
        ran.check(0, &[why]);
        assert!(!ran.err.contains("without the startup hook"), "{}", ran.err);
    }
}

/// What left the program before its end was attached to it.
#[test]
fn attach_knows_of_no_requests_and_that_is_said() {
    let dir = Dir::new();
    let mut profile = profile_of(1, 0);
    if let Some(report) = &mut profile.report {
        report.after = profile::After::Leave.word().to_owned();
    }
    dir.write("a.pb.gz", &profile::pprof::write(&profile, Vec::new()).unwrap());
    let why = "`corprof attach` has it, which knows of no requests; start the program with";
    dir.run(&["top", "a.pb.gz", "--by", "endpoint"]).check(0, &[why]);
    dir.run(&["top", "a.pb.gz", "--endpoint", "GET /"]).check(1, &[why]);
}

#[test]
fn next_to_nothing_without_an_endpoint_is_no_row() {
    use ThreadState::{Io, Running};
    let dir = Dir::new();
    for (state, ms, is_shown, is_shown_of_wall) in
        [(Io, 3, false, false), (Io, 5, false, true), (Running, 3, true, true)]
    {
        let mut aggregate = aggregate(&[
            ("Shop.Get()", Some((1, 1)), 0, Running, 4_000),
            ("Shop.Begin()", Some((2, 2)), 0, state, ms),
        ]);
        aggregate.endpoint(1, "GET /");
        dir.write("a.pb.gz", &bytes(aggregate));
        let ran = dir.run(&["top", "a.pb.gz", "--by", "endpoint"]);
        ran.check(0, &[]);
        assert_eq!(ran.out.contains("[no endpoint]"), is_shown, "{ms}\n{}", ran.out);
        let ran = dir.run(&["top", "a.pb.gz", "--by", "endpoint", "--value", "wall"]);
        assert_eq!(ran.out.contains("[no endpoint]"), is_shown_of_wall, "{ms}\n{}", ran.out);
        let json = dir.run(&["top", "a.pb.gz", "--by", "endpoint", "--json"]).out;
        assert!(json.contains("[no endpoint]"), "{json}");
        let alone = dir.run(&["top", "a.pb.gz", "--by", "endpoint", "--endpoint", "[no endpoint]"]);
        assert!(alone.out.contains("100.0 %  [no endpoint]"), "{}", alone.out);
    }
}

#[test]
fn rows_can_be_spans_and_values_of_labels() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &shop());
    check_lines(
        &dir.run(&["top", "a.pb.gz", "--by", "span"]),
        &[
            "cpu cpu % wall wall % state span",
            "53.0 ms 53.0 % 53.0 ms 32.1 % [outside of requests]",
            "30.0 ms 30.0 % 30.0 ms 18.2 % 0000000000000001 GET /orders/{id}",
            "0 0.0 % 50.0 ms 30.3 % io 000000000000001a GET /orders/{id}",
            "2.00 ms 2.0 % 2.00 ms 1.2 % 0000000000000004 [no endpoint]",
        ],
    );
    check_lines(
        &dir.run(&["top", "a.pb.gz", "--by", "label:tenant"]),
        &[
            "cpu cpu % wall wall % state tenant",
            "55.0 ms 55.0 % 55.0 ms 33.3 % [no tenant]",
            "30.0 ms 30.0 % 80.0 ms 48.5 % io acme",
            "10.0 ms 10.0 % 10.0 ms 6.1 % big",
            "5.00 ms 5.0 % 20.0 ms 12.1 % lock [empty]",
        ],
    );
    let none = dir.run(&["top", "a.pb.gz", "--by", "label:user"]);
    none.check(0, &["no sample has a label user; labels there are: plan, tenant"]);
    for by in ["labels", "label", "label:", "Endpoint"] {
        let words = "none of function, thread, state, module, endpoint, span, label:NAME";
        dir.run(&["top", "a.pb.gz", "--by", by]).check(2, &[words]);
    }
    // Where ids were left out, endpoints are what is left of spans.
    let mut private = Aggregate::default().without_span_ids();
    let stack = private.stack([]);
    for root in [1, 2] {
        let (thread, span) = (ThreadKey::NONE, Some(ids((root, root))));
        let key = SampleKey { stack, thread, state: None, span, labels: 0 };
        let _ = private
            .add(&key, Values { count: 1, cpu_ns: root * MS, wall_ns: 0, ..Values::default() });
    }
    private.endpoint(1, "GET /");
    dir.write("private.pb.gz", &bytes(private));
    check_lines(
        &dir.run(&["top", "private.pb.gz", "--by", "span"]),
        &["2.00 ms 66.7 % 0 [no id] [no endpoint]", "1.00 ms 33.3 % 0 [no id] GET /"],
    );
    dir.run(&["top", "private.pb.gz", "--span", TRACE])
        .check(1, &["the files have no span ids: they were made with --span-ids false"]);
}

#[test]
fn filters_leave_what_was_done_for_a_request() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &shop());
    let trace = &[TRACE][..];
    for (flags, total, row) in [
        (&["--endpoint", "GET /orders/{id}"][..], "40.0 ms CPU in 2 samples, 90.0 ms wall", "Get"),
        (&["--endpoint", "POST*"], "5.00 ms CPU in 1 sample, 20.0 ms wall", "Post"),
        (&["--endpoint", "*"], "45.0 ms CPU in 3 samples, 110 ms wall", "Post"),
        (&["--endpoint", "[no endpoint]"], "2.00 ms CPU in 1 sample, 2.00 ms wall", "Health"),
        (&["--endpoint", "[outside of requests]"], "53.0 ms CPU in 1 sample", "Clean"),
        (&["--span", "000000000000001A"], "0 CPU in 0 samples, 50.0 ms wall", "Query"),
        (&["--span", "0000000000000001"], "30.0 ms CPU in 1 sample, 80.0 ms wall", "Query"),
        (&["--span", trace[0]], "30.0 ms CPU in 1 sample, 80.0 ms wall", "Query"),
        (&["--label", "tenant=acme"], "30.0 ms CPU in 1 sample, 80.0 ms wall", "Query"),
        (&["--label", "tenant="], "5.00 ms CPU in 1 sample, 20.0 ms wall", "Post"),
        (&["--label", "tenant=acme", "--label", "plan=free"], "30.0 ms CPU", "Query"),
        (&["--endpoint", "GET*", "--state", "io"], "0 CPU in 0 samples, 50.0 ms wall", "Query"),
        (&["--state", "lock,io", "--label", "tenant="], "15.0 ms wall", "Post"),
    ] {
        let ran = dir.run(&[&["top", "a.pb.gz"], flags].concat());
        ran.check(0, &[]);
        assert!(ran.out.contains(total) && ran.out.contains(row), "{flags:?}\n{}", ran.out);
        let has_rest = flags[1] != "[outside of requests]" && ran.out.contains("Clean");
        assert!(!has_rest, "{flags:?}\n{}", ran.out);
    }
    let by_endpoint = |flags: &[&str]| {
        let ran = dir.run(&[&["top", "a.pb.gz", "--by", "endpoint"], flags].concat());
        ran.check(0, &[]);
        ran.out.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let idle = "1 0 1.00 ms 0 0 GET /idle";
    assert_eq!(by_endpoint(&["--endpoint", "GET /idle"]), idle);
    // Time in one state alone can still be divided by the requests.
    let read = "2 0 150 ms 25.0 ms 50.0 ms 100.0 % GET /orders/{id}";
    assert_eq!(by_endpoint(&["--state", "io", "--endpoint", "GET*"]), read);
    let locked = "- - - - 15.0 ms 100.0 % POST /orders";
    assert_eq!(by_endpoint(&["--state", "lock", "--endpoint", "POST*"]), locked);
    // How many of the requests had the label is not known.
    let labelled = "- - - - 30.0 ms 100.0 % GET /orders/{id}";
    assert_eq!(by_endpoint(&["--label", "tenant=acme"]), labelled);
}

#[test]
fn what_matches_nothing_is_said_with_what_there_is() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &shop());
    for (flags, words) in [
        (
            &["--endpoint", "GET /order"][..],
            "nothing matches --endpoint 'GET /order'; endpoints there are: GET /orders/{id}, POST \
             /orders, GET /idle",
        ),
        (
            &["--state", "io", "--label", "tenant=big", "--json"],
            "nothing matches --state io --label 'tenant=big'; there are samples for each of them, \
             but none for all",
        ),
        (
            &["--label", "tenant=smal"],
            "no sample has tenant=smal; values of tenant are: [empty], acme, big",
        ),
        (&["--label", "user=1"], "no sample has a label user; labels there are: plan, tenant"),
        (
            &["--span", "00000000000000ff", "--by", "endpoint"],
            "--span 00000000000000ff; no sample has this span",
        ),
        (
            &["--endpoint", "GET /idle"],
            "'GET /idle'; its requests were too short for a sample; --by endpoint shows them",
        ),
        (
            &["--state", "waiting", "--label", "tenant=acme"],
            "; there is no wall time in that state",
        ),
        (&["--endpoint", "\x1b[7m"], "nothing matches --endpoint '\u{fffd}[7m'"),
    ] {
        let ran = dir.run(&[&["top", "a.pb.gz"], flags].concat());
        ran.check(1, &[words]);
        assert_eq!(ran.out, "");
    }
    let many: Vec<_> =
        (1..=13).map(|n| ("A()", Some((n, n)), 0, ThreadState::Running, n)).collect();
    let mut many = aggregate(&many);
    (1..=13).for_each(|n| many.endpoint(n, &format!("GET /{n}")));
    dir.write("many.pb.gz", &bytes(many));
    let ran = dir.run(&["top", "many.pb.gz", "--endpoint", "GET"]);
    ran.check(1, &["endpoints there are: GET /13, GET /12, ", "GET /5, GET /4, and 3 more"]);
    dir.write("none.pb.gz", &profile_bytes(1, 0));
    let ran = dir.run(&["top", "none.pb.gz", "--label", "a=b"]);
    ran.check(1, &["nothing matches --label 'a=b'; no sample has a label a; there are no labels"]);
    let without = "the program ran without the startup hook (attached to, --spans false, or";
    for (filter, words) in [
        (["--span", TRACE], "; the files have no span ids: "),
        (["--endpoint", "GET /"], "; the files know of no endpoints: "),
    ] {
        let ran = dir.run(&[&["top", "none.pb.gz"], &filter[..]].concat());
        ran.check(1, &[&format!("{words}{without}")]);
    }
    for (flags, words) in [
        (&["--span", "17"][..], "neither a span's id, which is 16 hex digits, nor a trace's"),
        (&["--label", "tenant"], "not of the form NAME=VALUE"),
    ] {
        dir.run(&[&["top", "a.pb.gz"], flags].concat()).check(2, &[words]);
    }
}

#[test]
fn a_filter_sees_what_only_another_file_knows() {
    let dir = Dir::new();
    let sample = ("Shop.Get()", Some((1, 1)), 1, ThreadState::Running, 30);
    let other = ("Shop.Post()", Some((2, 2)), 2, ThreadState::Running, 7);
    // A request goes on over the end of a period, and its endpoint is told after that.
    dir.write("shop_7_0000.pb.gz", &bytes(aggregate(&[sample, other])));
    let mut second = aggregate(&[sample]);
    second.endpoint(1, "GET /");
    second.request("GET /", 90 * MS);
    dir.write("shop_7_0001.pb.gz", &bytes(second));
    check_lines(
        &dir.run(&["top", ".", "--endpoint", "GET /", "--by", "endpoint"]),
        &["1 60.0 ms 90.0 ms 60.0 ms 60.0 ms 100.0 % GET /"],
    );
    check_lines(
        &dir.run(&["top", ".", "--label", "tenant=acme", "--label", "plan=free"]),
        &["60.0 ms 100.0 % 60.0 ms 100.0 % Shop.Get()"],
    );
    check_lines(
        &dir.run(&["top", ".", "--endpoint", "[no endpoint]"]),
        &["7.00 ms 100.0 % 7.00 ms 100.0 % Shop.Post()"],
    );
}

/// A request that was not routed yet when a period ended: its name is that of its end, in whatever
/// order the files are named.
#[test]
fn a_request_has_its_latest_name_in_all_files() {
    const FILES: [&str; 2] = ["shop_7_0000.pb.gz", "shop_7_0001.pb.gz"];
    let dir = Dir::new();
    for (file, begin, name, ms) in [(FILES[0], 1, "GET", 30), (FILES[1], 2, "GET /counts", 10)] {
        let mut aggregate = aggregate(&[("Shop.Get()", Some((1, 1)), 0, ThreadState::Running, ms)]);
        aggregate.endpoint(1, name);
        let period = Period { start_unix_ns: begin, ..Period::default() };
        let profile = aggregate.take(period).profile;
        dir.write(file, &profile::pprof::write(&profile, Vec::new()).unwrap());
    }
    for files in [FILES, [FILES[1], FILES[0]]] {
        for filter in [&[][..], &["--endpoint", "GET /counts"]] {
            let flags = [&["top", "--by", "endpoint", "--json"], &files[..], filter].concat();
            let ran = dir.run(&flags);
            ran.check(0, &[]);
            let told: Value = serde_json::from_str(&ran.out).unwrap();
            let endpoints = told["endpoints"].as_array().unwrap();
            let rows = endpoints.iter().map(|row| (row["name"].clone(), row["cpu_ns"].clone()));
            let rows: Vec<_> = rows.collect();
            assert_eq!(rows, [("GET /counts".into(), (40 * MS).into())], "{files:?}");
            // What a filter leaves of each process is of these names, too.
            assert_eq!(told["processes"][0]["total"]["cpu_ns"], 40 * MS, "{told:#}");
        }
    }
}

#[test]
fn json_has_all_of_it() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &shop());
    let json = |flags: &[&str]| -> Value {
        let ran = dir.run(&[&["top", "a.pb.gz", "--json"], flags].concat());
        ran.check(0, &[]);
        serde_json::from_str(&ran.out).unwrap()
    };
    let whole = json(&["--limit", "1"]);
    let endpoints = whole["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 5);
    let get = &endpoints[1];
    for (key, number) in [
        ("requests", 2),
        ("duration_ns", 300 * MS),
        ("samples", 2),
        ("cpu_ns", 40 * MS),
        ("wall_ns", 90 * MS),
        ("cpu_ns_per_request", 20 * MS),
        ("elapsed_ns_per_request", 150 * MS),
        ("on_threads_ns_per_request", 45 * MS),
    ] {
        assert_eq!(get[key], number, "{key}");
    }
    assert_eq!((&get["name"], &get["cpu_share"]), (&"GET /orders/{id}".into(), &0.4.into()));
    assert_eq!(endpoints[0]["cpu_ns_per_request"], Value::Null);
    for (by, name) in [
        ("endpoint", "[outside of requests]"),
        ("span", "[outside of requests]"),
        ("label:plan", "[no plan]"),
    ] {
        let json = json(&["--by", by]);
        assert_eq!((&json["by"], &json["rows"][0]["name"]), (&by.into(), &name.into()));
    }
    let filtered = json(&["--endpoint", "POST /orders"]);
    assert_eq!(filtered["total"]["cpu_ns"], 5 * MS);
    assert_eq!(filtered["processes"][0]["total"]["wall_ns"], 20 * MS);
    assert_eq!(filtered["endpoints"].as_array().unwrap().len(), 1);
}
