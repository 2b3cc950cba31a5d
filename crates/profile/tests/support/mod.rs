//! A profile with one of everything, and pprof's messages for an independent reader.
#![allow(dead_code, missing_docs, reason = "each test file uses a part; the messages are pprof's")]

use model::{EndReason, FrameKind, Loss, ThreadState};
use profile::{
    Added, Aggregate, Frame, ModuleInfo, Period, Profile, SampleKey, SelfReport, SpanIds,
    ThreadKey, Values,
};

pub const MS: u64 = 1_000_000;

/// Adds a sample outside of spans.
pub fn add(
    aggregate: &mut Aggregate,
    frames: &[&str],
    thread: (ThreadKey, Option<ThreadState>),
    values: (u64, u64, u64),
) {
    add_for(aggregate, frames, thread, values, (None, 0));
}

/// Adds a sample; the frames leaf first, as `module!function`.
pub fn add_for(
    aggregate: &mut Aggregate,
    frames: &[&str],
    (thread, state): (ThreadKey, Option<ThreadState>),
    (count, cpu_ms, wall_ms): (u64, u64, u64),
    (span, labels): (Option<SpanIds>, u64),
) {
    let ids: Vec<_> = frames
        .iter()
        .map(|text| {
            let (module, name) = text.split_once('!').unwrap_or(("", text));
            let native = module.ends_with(".so");
            let info = ModuleInfo {
                file: module,
                build_id: "c0ffee",
                start: if native { 0x7000 } else { 0 },
                limit: if native { 0x9000 } else { 0 },
            };
            let module = if module.is_empty() { None } else { aggregate.module(&info) };
            let synthetic = name.starts_with('[');
            aggregate.frame(&Frame {
                name,
                raw_name: if native { "_ZN3rawEv" } else { "" },
                module,
                address: if native { 0x7f00 + name.len() as u64 } else { 0 },
                kind: match (synthetic, native) {
                    (true, _) => FrameKind::Synthetic,
                    (_, true) => FrameKind::Native,
                    _ => FrameKind::Managed,
                },
                file: (!native && !synthetic).then_some("Orders.cs"),
                line: (!native && !synthetic).then_some(40 + name.len() as u32),
            })
        })
        .collect();
    let values = Values { count, cpu_ns: cpu_ms * MS, wall_ns: wall_ms * MS, ..Values::default() };
    let key = SampleKey { stack: aggregate.stack(ids), thread, state, span, labels };
    // One after the other, if the aggregate keeps moments.
    let begin_us = 100_000 * count as u32 + 1_000 * wall_ms as u32;
    assert_eq!(aggregate.add_at(&key, values, begin_us), Added::Kept);
}

/// The ids of a span of a request.
pub fn span(request: u64, span: u64) -> SpanIds {
    let mut trace_id = [0xab; 16];
    trace_id[8..].copy_from_slice(&request.to_be_bytes());
    SpanIds { trace_id, span_id: (request << 8) + span, local_root_span_id: request << 8 }
}

/// A profile with one of everything.
pub fn sample_profile() -> Profile {
    let mut aggregate = Aggregate::default().with_moments();
    let main = ThreadKey { tid: 100, generation: 0 };
    let pool = ThreadKey { tid: 101, generation: 3 };
    aggregate.thread_name(main, "main");
    aggregate.thread_name(pool, ".NET TP Worker");
    let root = "Shop.dll!Shop.Program.Main(string[])";
    let hot = ["Shop.dll!Shop.Prices.Sum(int)", "Shop.dll!Shop.Prices.Sum(int)", root];
    add(&mut aggregate, &hot, (main, None), (30, 300, 0));
    let sleep = ["libc.so!nanosleep", "System.Private.CoreLib.dll!Thread.Sleep(int)", root];
    add(&mut aggregate, &sleep, (main, Some(ThreadState::Sleeping)), (0, 0, 700));
    add(&mut aggregate, &hot, (main, Some(ThreadState::Running)), (0, 0, 300));
    add(&mut aggregate, &["libclr.so!gc::mark"], (pool, None), (5, 50, 0));
    add(&mut aggregate, &["[no unwind rule]"], (ThreadKey::NONE, None), (1, 10, 0));
    // An id over `i64::MAX`, two spans of one request, one without endpoint, and labels of all
    // sorts.
    let get = span(0x00fe_dcba_9876_5432, 0);
    let query = SpanIds { span_id: get.span_id + 1, ..get };
    assert!(aggregate.labels(3, &[("tenant", "Größe 7"), ("state", "new"), ("empty", "")]));
    assert!(aggregate.labels(4, &[("tenant", "8")]));
    add_for(&mut aggregate, &hot, (main, None), (2, 20, 0), (Some(get), 3));
    let sockets = ["libc.so!recv", "Shop.dll!Shop.Db.Query()", root];
    let io = (main, Some(ThreadState::Io));
    add_for(&mut aggregate, &sockets, io, (0, 0, 40), (Some(query), 3));
    add_for(&mut aggregate, &sockets, io, (0, 0, 5), (Some(span(2, 0)), 4));
    add_for(&mut aggregate, &sockets, io, (0, 0, 5), (None, 4));
    aggregate.endpoint(get.local_root_span_id, "GET /orders/{id}");
    aggregate.request("GET /orders/{id}", 70 * MS);
    aggregate.request("GET /orders/{id}", 30 * MS);
    aggregate.request("POST /orders", 1);
    let period = Period {
        start_unix_ns: 1_790_000_000_000_000_000,
        duration_ns: 1_000 * MS,
        cpu_interval_ns: 10 * MS,
    };
    let mut profile = aggregate.take(period).profile;
    let mut report = SelfReport {
        agent_version: "0.1.0".into(),
        service: "shop".into(),
        sampler: "timer".into(),
        pid: 99,
        own_cpu_ns: 3 * MS,
        process_cpu_ns: 365 * MS,
        sampled_cpu_ns: 362 * MS,
        ..SelfReport::default()
    };
    report.losses.add(Loss::RingFull, 2);
    report.ends.add(EndReason::Root, 35);
    profile.report = Some(report);
    profile
}

/// The bytes of its file.
pub fn encode(profile: &Profile) -> Vec<u8> {
    profile::pprof::write(profile, Vec::new()).unwrap_or_default()
}

/// pprof's `profile.proto` as prost sees it.
pub mod proto {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub default_sample_type: i64,
    }
    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub r#type: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }
    #[derive(Clone, PartialEq, Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub label: Vec<Label>,
    }
    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct Label {
        #[prost(int64, tag = "1")]
        pub key: i64,
        #[prost(int64, tag = "2")]
        pub str: i64,
        #[prost(int64, tag = "3")]
        pub num: i64,
        #[prost(int64, tag = "4")]
        pub num_unit: i64,
    }
    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub memory_limit: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
        #[prost(int64, tag = "6")]
        pub build_id: i64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
    }
    #[derive(Clone, PartialEq, Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub address: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }
    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }
    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}
