//! Profiles at random, as large as is wanted, the same in each run.

use model::{FrameKind, ThreadState};
use profile::{
    Added, Aggregate, Frame, FrameId, Limits, ModuleInfo, Period, Profile, SampleKey, SpanIds,
    ThreadKey, Values,
};
use testing::Random;

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

const FUNCTIONS: usize = 2500;
const THREADS: u32 = 24;
const DEPTH_MAX: usize = 90;
const MODULES: [(&str, FrameKind); 8] = [
    ("/app/Shop.dll", FrameKind::Managed),
    ("/app/Shop.Orders.dll", FrameKind::Managed),
    ("/app/Newtonsoft.Json.dll", FrameKind::Managed),
    ("/usr/share/dotnet/System.Private.CoreLib.dll", FrameKind::Managed),
    ("/usr/share/dotnet/System.Linq.dll", FrameKind::Managed),
    ("/usr/share/dotnet/Microsoft.AspNetCore.Http.dll", FrameKind::Managed),
    ("/usr/share/dotnet/libcoreclr.so", FrameKind::Native),
    ("/usr/lib/x86_64-linux-gnu/libc.so.6", FrameKind::Native),
];
const NOUNS: [&str; 12] = [
    "Order", "Price", "Stock", "Customer", "Invoice", "Basket", "Payment", "Report", "Session",
    "Cache", "Query", "Parser",
];
const VERBS: [&str; 8] =
    ["Load", "Save", "Compute", "Render", "Validate", "MoveNext", "Invoke", "Dispatch"];

/// A profile with so many distinct stacks that have time, of threads, states, requests and labels.
pub fn made(seed: u64, stacks: usize) -> Profile {
    made_with_moments(seed, stacks, 0)
}

/// The same, with so many moments besides, evenly over an hour.
#[allow(dead_code, reason = "not every test looks at times")]
pub fn made_with_moments(seed: u64, stacks: usize, moments: usize) -> Profile {
    let mut random = Random(seed);
    let mut aggregate = Aggregate::new(Limits::READER);
    if moments > 0 {
        aggregate = aggregate.with_moments();
    }
    let frames = frames(&mut aggregate, &mut random);
    let tenants = ["acme", "big", "small"];
    for (number, tenant) in (1_u64..).zip(tenants) {
        assert!(aggregate.labels(number, &[("tenant", tenant)]));
    }
    for root in 1..=10 {
        aggregate.request(&format!("GET /things/{}", root % 5), 3 * MS);
    }
    for tid in 0..THREADS {
        let name = if tid == 0 { "main".to_owned() } else { format!("worker <{tid}>") };
        aggregate.thread_name(ThreadKey { tid: 100 + tid, generation: 0 }, &name);
    }
    // Stacks with the root first; most are another with one more frame, as those of programs are.
    let mut grown: Vec<Vec<FrameId>> = vec![vec![frames[0]]];
    while grown.len() < stacks {
        let mut stack = grown[random.index(grown.len())].clone();
        if stack.len() < DEPTH_MAX {
            let more = 1 + random.index(4);
            stack.extend((0..more).map(|_| frames[random.index(frames.len())]));
            grown.push(stack);
        }
    }
    let keys: Vec<_> = grown.iter().map(|stack| add(&mut aggregate, stack, &mut random)).collect();
    // Only once there are samples with that root.
    for root in 1..=10 {
        aggregate.endpoint(root, &format!("GET /things/{}", root % 5));
    }
    for moment in 0..moments {
        let key = keys[random.index(keys.len())];
        let us = 1 + random.below(20_000);
        let is_running = key.state == Some(ThreadState::Running);
        let cpu_ns = if is_running { us * 1_000 } else { 0 };
        let count = u64::from(is_running);
        let values = Values { count, cpu_ns, wall_ns: us * 1_000, ..Values::default() };
        let begin_us = moment as u64 * 3_600_000_000 / moments as u64;
        assert_eq!(aggregate.add_at(&key, values, begin_us as u32), Added::Kept);
    }
    let gc = ["automatic", "generation 1", "Garbage Collector"];
    let gc: Vec<_> = gc.iter().map(|name| aggregate.synthetic_frame(name)).collect();
    let stack = aggregate.stack(gc);
    let key = SampleKey { stack, thread: ThreadKey::NONE, state: None, span: None, labels: 0 };
    let values = Values { gc_ns: 12_345_678, ..Values::default() };
    assert_eq!(aggregate.add(&key, values), Added::Kept);
    let period = Period {
        start_unix_ns: 1_790_000_000 * 1000 * MS,
        duration_ns: if moments > 0 { 3_600_000 * MS } else { 60_000 * MS },
        cpu_interval_ns: 10 * MS,
    };
    aggregate.take(period).profile
}

fn frames(aggregate: &mut Aggregate, random: &mut Random) -> Vec<FrameId> {
    let info = |file| ModuleInfo { file, build_id: "", start: 0, limit: 0 };
    let modules = MODULES.map(|(file, kind)| (aggregate.module(&info(file)), file, kind));
    let mut frame = |number: usize| {
        let (module, file, kind) = modules[random.index(modules.len())];
        let (noun, verb) = (NOUNS[random.index(12)], VERBS[random.index(8)]);
        let assembly = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".dll");
        let name = match kind {
            FrameKind::Managed => format!("{assembly}.{noun}{number}<TKey>.{verb}(int, string)"),
            _ => format!("{}_{number}", noun.to_lowercase()),
        };
        aggregate.frame(&Frame {
            name: &name,
            raw_name: "",
            module,
            address: number as u64,
            kind,
            file: None,
            line: None,
        })
    };
    (0..FUNCTIONS).map(&mut frame).collect()
}

fn add(aggregate: &mut Aggregate, stack: &[FrameId], random: &mut Random) -> SampleKey {
    let stack = aggregate.stack(stack.iter().rev().copied());
    let thread = ThreadKey { tid: 100 + random.below(u64::from(THREADS)) as u32, generation: 0 };
    let ns = 1 + random.below(50 * MS);
    let state = ThreadState::ALL[random.index(ThreadState::ALL.len())];
    let (state, values) = match random.below(3) {
        0 => (None, Values { count: 1, cpu_ns: ns, ..Values::default() }),
        1 => (Some(state), Values { wall_ns: ns, ..Values::default() }),
        _ => {
            let values = Values { count: 2, cpu_ns: ns, wall_ns: ns, ..Values::default() };
            (Some(ThreadState::Running), values)
        }
    };
    let root = random.below(20);
    let ids = SpanIds { trace_id: [1; 16], span_id: root + 1000, local_root_span_id: root };
    let span = (root > 0).then_some(ids);
    let key = SampleKey { stack, thread, state, span, labels: random.below(4) };
    assert_eq!(aggregate.add(&key, values), Added::Kept);
    key
}
