//! Who is charged: samples and events in, a profile's sums out.

mod frames;

use std::sync::Arc;

use model::EndReason;
use profile::Limits;

use super::*;
use testing::Random;

use crate::fake::{METHOD_BYTES, METHODS, Table, lost, method, shared, thread};
use crate::gc_waits::InPause;
use crate::publish::Publisher;
use crate::runtime::ModuleKey;

const BOTH: Wanted = Wanted { cpu: true, wall: true, span_ids: true, timeline: false };
const T: ThreadRef = thread(0, 1);

struct Books {
    accounts: Accounts,
    table: Arc<Table>,
}

impl Books {
    fn new(wanted: Wanted) -> Self {
        let shared = shared(1, 2);
        let table = Arc::new(Table::of(8));
        let runtime: Arc<dyn crate::runtime::Runtime> = table.clone();
        #[cfg(feature = "oracle")]
        let oracle = crate::oracle::Oracle::new(
            Arc::clone(&runtime),
            crate::log::Log::new(config::LogLevel::Off, None),
        );
        let symbolizer = Symbolizer::new(runtime, Publisher::new(shared));
        let accounts = Accounts::new(
            shared,
            wanted,
            symbolizer,
            #[cfg(feature = "oracle")]
            oracle,
        );
        Self { accounts, table }
    }

    /// Other bounds, before anything is in the books.
    fn bound(&mut self, limits: Limits) {
        self.accounts.aggregate = Aggregate::new(limits);
        self.accounts.unsampled = self.accounts.aggregate.synthetic_frame(UNSAMPLED);
    }

    fn start(&mut self, thread: ThreadRef) {
        self.accounts.event(Event::Started { thread, tid: 7 });
    }

    fn sample(&mut self, thread: ThreadRef, frames: &[u64], cpu_ns: u64) {
        self.accounts.sample(&sample(thread, frames, cpu_ns));
    }

    fn wait(&mut self, thread: ThreadRef, wall_ns: u64) {
        self.accounts.event(Event::Waited { thread, wall_ns });
    }

    fn block(&mut self, thread: ThreadRef, frames: &[u64]) {
        self.block_for(thread, frames, SpanContext::default());
    }

    fn block_for(&mut self, thread: ThreadRef, frames: &[u64], context: SpanContext) {
        let stack = BlockedStack {
            frames: frames.into(),
            gap: None,
            end: EndReason::Root,
            context,
            call: Some(230),
            in_pause: InPause::default(),
            copy: None,
            #[cfg(feature = "oracle")]
            cpu_clock_ns: 0,
        };
        self.accounts.event(Event::Blocked { thread, stack });
    }

    /// Ends the period. Its rows, sorted: `leaf<caller … state: count cpu wall`.
    fn take(&mut self) -> Vec<String> {
        let (profile, _, _) = self.accounts.take(Period::default());
        let mut rows: Vec<String> = profile
            .samples
            .iter()
            .map(|sample| {
                let name = |frame| {
                    let function = profile.function_of(frame).expect("a function");
                    short(profile.text(function.name))
                };
                let stack: Vec<String> = profile.stack(sample.stack).map(name).collect();
                let state = sample.state.map_or("", ThreadState::name);
                let Values { count, cpu_ns, wall_ns, .. } = sample.values;
                format!("{} {state}: {count} {cpu_ns} {wall_ns}", stack.join("<"))
            })
            .collect();
        rows.sort();
        rows
    }

    fn take_total(&mut self) -> Values {
        self.accounts.take(Period::default()).0.total()
    }
}

/// `M2` for the name of method 2 of the table, `M` for one of elsewhere.
fn short(name: &str) -> String {
    let number = name.strip_prefix('M').and_then(|rest| rest.strip_suffix("()"));
    match number.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
        Some(address) if address >= METHODS => format!("M{}", (address - METHODS) / METHOD_BYTES),
        Some(_) => "M".to_owned(),
        None => name.to_owned(),
    }
}

fn delayed(thread: ThreadRef, wall_ns: u64) -> Event {
    Event::Delayed { thread, wall_ns, context: SpanContext::default() }
}

fn sample(thread: ThreadRef, frames: &[u64], cpu_ns: u64) -> Sample {
    let mut sample = Sample { thread, tid: 7, cpu_ns, ..Sample::default() };
    frames.iter().for_each(|frame| sample.frames.push(*frame));
    sample
}

#[test]
fn time_belongs_to_the_request_that_its_place_was_seen_in() {
    let span = |id: u64| SpanContext {
        trace_id: [9; 16],
        span_id: id,
        local_root_span_id: 1,
        labels: id * 10,
    };
    let sample_for = |id: u64| Sample { context: span(id), ..sample(T, &[method(1) + 4], 100) };
    let mut books = Books::new(BOTH);
    books.start(T);
    let pairs = |value: &str| Box::from([("k".to_owned(), value.to_owned())]);
    books.accounts.event(Event::Labels { number: 20, pairs: pairs("two") });
    books.accounts.event(Event::Endpoint { number: 1, name: "E".into() });
    books.accounts.told(Told::Request { root: 1, endpoint: 1 });
    books.accounts.sample(&sample_for(2));
    // A delay is charged in its own request: at the next sample if that is of the same, else where
    // the thread was last seen in it. A wait is of the request that it was found in, and a rest is
    // that of the last sample.
    let delayed_in =
        |id: u64, wall_ns: u64| Event::Delayed { thread: T, wall_ns, context: span(id) };
    books.accounts.event(delayed_in(3, 5));
    books.accounts.event(delayed_in(2, 4));
    books.accounts.event(delayed_in(5, 3));
    books.accounts.sample(&Sample { context: span(3), ..sample(T, &[method(3) + 4], 100) });
    books.block_for(T, &[method(2) + 4], span(4));
    books.wait(T, 7);
    books.accounts.event(Event::Late { thread: T, wall_ns: 8 });
    books.accounts.event(Event::CpuRest { thread: T, cpu_ns: 6 });
    books.block(T, &[method(2) + 4]);
    books.wait(T, 9);
    let (profile, _, _) = books.accounts.take(Period::default());
    let mut found: Vec<_> = profile
        .samples
        .iter()
        .map(|sample| {
            let span = sample.span.and_then(|span| profile.spans.get(span.get()));
            let labels = sample.labels.and_then(|labels| profile.labels.get(labels.get()));
            let label = labels.map_or("-", |labels| profile.text(labels[0].value));
            let endpoint = span.map_or("-", |span| profile.text(span.endpoint));
            let id = span.map_or(0, |span| span.ids.span_id);
            (id, endpoint, label, sample.state.expect("known").name(), sample.values.wall_ns)
        })
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            (0, "-", "-", "sleeping", 9),
            (2, "E", "two", "runnable", 4),
            (2, "E", "two", "running", 100),
            (3, "E", "-", "runnable", 5),
            (3, "E", "-", "running", 106),
            (4, "E", "-", "runnable", 8),
            (4, "E", "-", "sleeping", 7),
            (5, "E", "-", "runnable", 3),
        ]
    );
}

#[test]
fn values_of_before_go_to_the_first_sample() {
    let mut books = Books::new(BOTH);
    books.start(T);
    books.accounts.event(Event::CpuRest { thread: T, cpu_ns: 3 });
    books.wait(T, 10);
    books.wait(T, 20);
    books.accounts.event(delayed(T, 5));
    books.sample(T, &[method(1) + 4, method(2) + 4], 100);
    // What comes later goes there too, until it is seen elsewhere.
    books.accounts.event(delayed(T, 1));
    assert_eq!(
        books.take(),
        ["M1<M2 runnable: 0 0 6", "M1<M2 running: 1 103 103", "M1<M2 waiting: 0 0 30"]
    );
    books.accounts.event(Event::CpuRest { thread: T, cpu_ns: 4 });
    assert_eq!(books.take(), ["M1<M2 running: 0 4 4"], "known over the end of a period");
}

#[test]
fn values_without_a_sample_go_where_it_was_blocked_or_nowhere() {
    let mut books = Books::new(BOTH);
    for end in [false, true] {
        books.start(T);
        books.wait(T, 10);
        books.block(T, &[method(1)]);
        books.accounts.event(Event::CpuRest { thread: T, cpu_ns: 3 });
        if end {
            books.accounts.event(Event::Ended { thread: T });
        }
        // The first round's stack is still known in the second.
        let first = if end { "sleeping: 0 0 10" } else { "waiting: 0 0 10" };
        assert_eq!(books.take(), ["M1 running: 0 3 3".to_owned(), format!("M1 {first}")]);
    }
    assert!(books.accounts.threads.is_empty());
    books.start(T);
    books.wait(T, 10);
    books.accounts.event(Event::Ended { thread: T });
    assert_eq!(books.take(), ["[unsampled] waiting: 0 0 10"]);
    // Nobody knows this one.
    books.wait(T, 4);
    books.accounts.event(Event::CpuRest { thread: T, cpu_ns: 5 });
    books.accounts.event(delayed(T, 6));
    books.block(T, &[method(1)]);
    books.accounts.event(Event::Named { thread: T, name: "nobody".to_owned() });
    books.accounts.event(Event::Ended { thread: T });
    assert_eq!(
        books.take(),
        ["[unsampled] runnable: 0 0 6", "[unsampled] running: 0 5 5", "[unsampled] waiting: 0 0 4"]
    );
    assert!(books.accounts.threads.is_empty());
}

#[test]
fn lateness_goes_to_the_wait_and_to_no_work() {
    let late = |wall_ns| Event::Late { thread: T, wall_ns };
    let rows = |blocks: &[u64], works: bool| {
        let mut books = Books::new(BOTH);
        books.start(T);
        books.accounts.event(late(3));
        if works {
            books.sample(T, &[method(0)], 1);
        }
        books.accounts.event(late(4));
        blocks.iter().for_each(|at| books.block(T, &[*at]));
        books.accounts.event(Event::Ended { thread: T });
        books.take()
    };
    let ran = "M0 running: 1 1 1";
    assert_eq!(rows(&[], true), [ran, "[unsampled] runnable: 0 0 7"]);
    assert_eq!(rows(&[method(1)], true), [ran, "M1 runnable: 0 0 7"]);
    assert_eq!(rows(&[], false), ["[unsampled] runnable: 0 0 7"]);
}

#[test]
fn waits_go_to_the_place_of_then() {
    let mut books = Books::new(BOTH);
    books.start(T);
    books.sample(T, &[method(0)], 1);
    books.wait(T, 10);
    books.block(T, &[method(1)]);
    books.wait(T, 20);
    books.sample(T, &[method(2)], 1);
    books.wait(T, 40);
    books.block(T, &[method(3)]);
    books.wait(T, 80);
    assert_eq!(
        books.take(),
        [
            "M0 running: 1 1 1",
            "M0 waiting: 0 0 10",
            "M1 sleeping: 0 0 60",
            "M2 running: 1 1 1",
            "M3 sleeping: 0 0 80"
        ]
    );
}

#[test]
fn only_what_is_wanted_is_kept() {
    for (wanted, expected) in [
        (BOTH, vec!["M1 running: 1 100 100", "M1 waiting: 0 0 10"]),
        (
            Wanted { cpu: true, wall: false, span_ids: true, timeline: false },
            vec!["M1 running: 1 100 0"],
        ),
        (
            Wanted { cpu: false, wall: true, span_ids: true, timeline: false },
            vec!["M1 running: 0 0 100", "M1 waiting: 0 0 10"],
        ),
        (Wanted { cpu: false, wall: false, span_ids: true, timeline: false }, vec![]),
    ] {
        let mut books = Books::new(wanted);
        books.start(T);
        books.sample(T, &[method(1)], 100);
        books.wait(T, 10);
        assert_eq!(books.take(), expected, "{wanted:?}");
    }
}

#[test]
fn a_sample_after_its_threads_end_leaves_no_account() {
    let mut books = Books::new(BOTH);
    books.start(T);
    books.accounts.event(Event::Ended { thread: T });
    books.sample(T, &[method(1)], 5);
    assert_eq!(books.take(), ["M1 running: 1 5 5"]);
    assert!(books.accounts.threads.is_empty(), "nobody would ever end it");
    // One that comes before its thread is told of stays.
    books.sample(T, &[method(1)], 5);
    books.start(T);
    books.wait(T, 3);
    assert_eq!(books.take(), ["M1 running: 1 5 5", "M1 waiting: 0 0 3"]);
    assert_eq!(books.accounts.threads.len(), 1);
}

#[test]
fn threads_with_one_number_are_told_apart() {
    let mut books = Books::new(BOTH);
    let lives = [thread(3, 1), thread(4, 1), thread(3, 2)];
    for (n, life) in lives.into_iter().enumerate() {
        books.start(life);
        books.accounts.event(Event::Named { thread: life, name: format!("life {n}") });
        books.sample(life, &[method(1)], 5);
        books.accounts.event(Event::Ended { thread: life });
    }
    let (profile, _, _) = books.accounts.take(Period::default());
    let threads = profile.samples.iter().map(|sample| sample.thread.expect("a thread"));
    let mut names: Vec<&str> = threads.map(|thread| profile.text(thread.name)).collect();
    names.sort_unstable();
    assert_eq!(names, ["life 0", "life 1", "life 2"]);
}

/// What a sequence of events is worth.
fn add(sum: &mut Values, count: u64, cpu_ns: u64, wall_ns: u64) {
    sum.add(Values { count, cpu_ns, wall_ns, ..Values::default() });
}

/// Bounds that are half used after a few stacks, so that each period ends with empty tables.
const TIGHT: Limits = Limits { stacks: 12, ..Limits::HOST };

#[test]
fn places_are_known_again_after_the_tables_were_emptied() {
    let mut books = Books::new(BOTH);
    books.bound(TIGHT);
    books.start(T);
    books.sample(T, &[method(1), method(2), method(3), method(4)], 1);
    books.block(T, &[method(5), method(6), method(7)]);
    books.wait(T, 1);
    for _ in 0..3 {
        let rows = books.take();
        assert!(rows.contains(&"M5<M6<M7 sleeping: 0 0 1".to_owned()), "{rows:?}");
        books.wait(T, 1);
        books.accounts.event(delayed(T, 2));
    }
    assert_eq!(
        books.take(),
        ["M1<M2<M3<M4 runnable: 0 0 2", "M5<M6<M7 sleeping: 0 0 1"],
        "under their own names"
    );
}

#[test]
fn all_that_comes_in_goes_out_whatever_the_order() {
    for limits in [Limits::HOST, TIGHT, Limits { samples: 3, ..Limits::HOST }] {
        check_sums(limits);
    }
}

fn check_sums(limits: Limits) {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut books = Books::new(BOTH);
    books.bound(limits);
    let (mut given, mut found) = (Values::default(), Values::default());
    for _ in 0..20_000 {
        let thread = thread(random.below(6) as u32, 1 + random.below(2) as u32);
        let ns = random.below(1000);
        let frames: Vec<u64> = (0..random.below(4)).map(|_| method(random.below(9))).collect();
        match random.below(20) {
            0 => books.start(thread),
            1 => books.accounts.event(Event::Ended { thread }),
            2 => books.accounts.event(Event::Named { thread, name: ns.to_string() }),
            3..=6 => {
                add(&mut given, 1, ns, ns);
                books.sample(thread, &frames, ns);
            }
            7 => {
                add(&mut given, 0, ns, ns);
                books.accounts.event(Event::CpuRest { thread, cpu_ns: ns });
            }
            8..=10 => books.block(thread, &frames),
            11..=14 => {
                add(&mut given, 0, 0, ns);
                books.wait(thread, ns);
            }
            15 => {
                add(&mut given, 0, 0, ns);
                books.accounts.event(delayed(thread, ns));
            }
            16 => {
                let module = ModuleKey(random.below(3) as usize);
                books.accounts.event(Event::Unloaded { module });
            }
            17 | 18 if random.below(10) == 0 => found.add(books.take_total()),
            _ => books.accounts.refresh(),
        }
    }
    found.add(books.take_total());
    assert_eq!(found, given);
    let full = lost(books.accounts.shared, Loss::AggregateFull) > 0;
    assert_eq!(full, limits != Limits::HOST, "{limits:?}");
}

#[test]
fn moments_say_when_time_was_spent() {
    const MS: u64 = 1_000_000;
    let mut books = Books::new(Wanted { timeline: true, ..BOTH });
    let at = |ms: u64| 5_000 * MS + ms * MS;
    books.accounts.begin(at(0));
    books.start(T);
    // A delay that is charged to a later sample came about when it was told.
    books.accounts.pass(Within::before(at(30)));
    books.accounts.event(delayed(T, 3 * MS));
    let sample = |ms| Sample { time_ns: at(ms), ..sample(T, &[method(1)], 10 * MS) };
    books.accounts.sample(&sample(60));
    books.block(T, &[method(2)]);
    books.accounts.pass(Within::before(at(260)));
    books.wait(T, 200 * MS);
    let period = Period { duration_ns: 300 * MS, ..Period::default() };
    let moments = |profile: &Profile| {
        let moments = profile.moments.iter();
        let state = |moment: &profile::Moment| profile.samples[moment.sample as usize].state;
        let seen = moments.map(|m| (state(m), m.begin_us / 1_000, m.duration_us / 1_000));
        seen.map(|(state, begin, ms)| (state.map_or("", ThreadState::name), begin, ms)).collect()
    };
    let seen: Vec<_> = moments(&books.accounts.take(period).0);
    assert_eq!(seen, [("runnable", 27, 3), ("running", 50, 10), ("sleeping", 60, 200)]);
    // The next period has its own beginning.
    books.accounts.pass(Within::before(at(400)));
    books.wait(T, 50 * MS);
    let seen: Vec<_> = moments(&books.accounts.take(period).0);
    assert_eq!(seen, [("sleeping", 50, 50)]);
    // A wait of before is told once the thread has computed; delays of two times are one, which
    // lies where there is room for it.
    let within = |since, until| Within { since_ns: at(since), until_ns: at(until) };
    books.accounts.pass(within(605, 625));
    books.accounts.event(delayed(T, 4 * MS));
    books.accounts.pass(within(655, 675));
    books.accounts.event(delayed(T, 6 * MS));
    books.accounts.sample(&sample(690));
    books.accounts.pass(within(630, 660));
    books.wait(T, 30 * MS);
    let seen: Vec<_> = moments(&books.accounts.take(period).0);
    let expected = [("sleeping", 30, 30), ("runnable", 65, 10), ("running", 80, 10)];
    assert_eq!(seen, expected);
}
