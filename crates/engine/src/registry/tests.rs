//! The thread list under callbacks in any order.

use std::time::{Duration, Instant};

use config::{LogLevel, Sampler};

use model::limits::THREADS_MAX;

use super::*;
use crate::fake::{events, lost, shared};
use crate::log::Log;

/// Beyond the largest thread id that the kernel gives: nobody has it.
const NOBODY: u32 = 5_000_000;
/// Longer than anything takes, however busy the machine.
const LIMIT: Duration = Duration::from_secs(60);

fn sampler() -> CpuSampler {
    let log = Log::new(LogLevel::Off, None);
    CpuSampler::new(Some(Sampler::Scan), Duration::from_millis(10), 0, log)
}

fn registry(records: usize) -> Registry {
    Registry::new(shared(records, 2), Arc::default(), sampler())
}

/// Calls on threads: by number of the runtime's thread, of the system's.
#[derive(Clone, Copy, Debug)]
enum Call {
    Created(usize),
    Assigned(usize, u32),
    Named(usize, &'static str),
    Destroyed(usize),
    Stop,
}
use Call::{Assigned, Created, Destroyed, Named, Stop};

fn call(registry: &Registry, call: Call) {
    match call {
        Created(id) => registry.created(ManagedId(id)),
        Assigned(id, tid) => registry.assigned(ManagedId(id), NOBODY + tid),
        Named(id, name) => registry.named(ManagedId(id), name.to_owned()),
        Destroyed(id) => registry.destroyed(ManagedId(id)),
        Stop => {
            registry.stop();
        }
    }
}

/// What the collector and the ticker hear, in a word each: `index.generation`.
fn heard(registry: &Registry) -> (Vec<String>, Vec<String>) {
    let name = |thread: &ThreadRef| format!("{}.{}", thread.index, thread.generation);
    let event = |event: &Event| match event {
        Event::Started { thread, tid } => format!("{} is {}", name(thread), tid - NOBODY),
        Event::Named { thread, name: text } => format!("{} named {text}", name(thread)),
        Event::CpuRest { thread, cpu_ns } => format!("{} rest {cpu_ns}", name(thread)),
        other => panic!("{other:?}"),
    };
    let change = |change: &Change| match change {
        Change::Started { thread, tid, scanned: true, .. } => {
            format!("{} is {}", name(thread), tid - NOBODY)
        }
        Change::Ended { thread, .. } => format!("{} ended", name(thread)),
        other => panic!("{other:?}"),
    };
    let events = events(&registry.inbox);
    let changes = registry.take_changes();
    (events.iter().map(event).collect(), changes.iter().map(change).collect())
}

/// Calls, and expects what the collector hears, and the ticker.
#[track_caller]
fn check(calls: &[Call], events: &[&str], changes: &[&str]) {
    let registry = registry(4);
    calls.iter().for_each(|one| call(&registry, *one));
    let (heard_events, heard_changes) = heard(&registry);
    assert_eq!(heard_events, events, "{calls:?}");
    assert_eq!(heard_changes, changes, "{calls:?}");
}

#[test]
fn callbacks_come_in_any_order() {
    check(&[Created(1)], &[], &[]);
    check(&[Created(1), Assigned(1, 7)], &["0.1 is 7"], &["0.1 is 7"]);
    check(&[Assigned(1, 7), Created(1)], &["0.1 is 7"], &["0.1 is 7"]);
    check(&[Assigned(1, 7), Assigned(1, 7)], &["0.1 is 7"], &["0.1 is 7"]);
    let named = ["0.1 is 7", "0.1 named a"];
    check(&[Named(1, "a"), Created(1), Assigned(1, 7)], &named, &["0.1 is 7"]);
    check(&[Created(1), Named(1, "a"), Assigned(1, 7)], &named, &["0.1 is 7"]);
    check(&[Created(1), Assigned(1, 7), Named(1, "a")], &named, &["0.1 is 7"]);
    check(&[Named(1, "a"), Named(1, "b"), Destroyed(1)], &[], &[]);
}

#[test]
fn threads_end_once() {
    let ended = ["0.1 is 7", "0.1 rest 0"];
    check(&[Assigned(1, 7), Destroyed(1)], &ended, &["0.1 is 7", "0.1 ended"]);
    check(&[Assigned(1, 7), Destroyed(1), Destroyed(1)], &ended, &["0.1 is 7", "0.1 ended"]);
    check(&[Assigned(1, 7), Destroyed(2)], &ended[..1], &["0.1 is 7"]);
    check(&[Destroyed(1)], &[], &[]);
    // The name goes with the thread.
    check(
        &[Named(1, "a"), Destroyed(1), Assigned(1, 7), Destroyed(1)],
        &ended,
        &["0.1 is 7", "0.1 ended"],
    );
    // Another system thread for the same one: the name stays, the record has another life.
    check(
        &[Named(1, "a"), Assigned(1, 7), Assigned(1, 8)],
        &["0.1 is 7", "0.1 named a", "0.1 rest 0", "0.2 is 8", "0.2 named a"],
        &["0.1 is 7", "0.1 ended", "0.2 is 8"],
    );
    // A number that the system uses again.
    check(
        &[Assigned(1, 7), Assigned(2, 8), Destroyed(1), Assigned(3, 7)],
        &["0.1 is 7", "1.1 is 8", "0.1 rest 0", "0.2 is 7"],
        &["0.1 is 7", "1.1 is 8", "0.1 ended", "0.2 is 7"],
    );
}

#[test]
fn nothing_is_tracked_after_the_stop() {
    let registry = registry(4);
    for one in [Assigned(1, 7), Assigned(2, 8), Created(3), Stop] {
        call(&registry, one);
    }
    let (events, changes) = heard(&registry);
    assert_eq!((events.len(), changes.len()), (4, 4));
    assert!(registry.shared.records.iter().all(|record| record.tid() == 0));
    for one in [Assigned(3, 9), Named(1, "a"), Created(4), Named(5, "b"), Destroyed(1), Stop] {
        call(&registry, one);
    }
    assert_eq!(heard(&registry), (vec![], vec![]));
    // Names are told only once, so they are noted for when it goes on.
    assert_eq!(registry.lock().entries.len(), 3, "2 and 3 were there before, 5 has a name");
    registry.resume(sampler());
    call(&registry, Assigned(5, 9));
    assert_eq!(heard(&registry).0, ["0.2 is 9", "0.2 named b"]);
    call(&registry, Stop);
    registry.forget();
    assert_eq!(registry.lock().entries.len(), 0);
}

#[test]
fn more_threads_than_records_are_counted() {
    const TOO_MANY: usize = 4_464;
    let registry = registry(THREADS_MAX);
    for id in 0..THREADS_MAX + TOO_MANY {
        call(&registry, Assigned(id, u32::try_from(id).expect("small")));
    }
    assert_eq!(lost(registry.shared, Loss::TooManyThreads), TOO_MANY as u64);
    let (events, changes) = heard(&registry);
    assert_eq!((events.len(), changes.len()), (THREADS_MAX, THREADS_MAX));
    // Those that had no record end without a word; one that ends gives its own to the next.
    call(&registry, Destroyed(THREADS_MAX + 1));
    call(&registry, Destroyed(5));
    call(&registry, Assigned(THREADS_MAX + 2, 3));
    assert_eq!(heard(&registry).0, ["5.1 rest 0", "5.2 is 3"]);
    assert_eq!(lost(registry.shared, Loss::TooManyThreads), TOO_MANY as u64);
}

#[test]
fn a_long_name_is_cut_between_characters() {
    let registry = registry(1);
    call(&registry, Assigned(1, 7));
    registry.named(ManagedId(1), "ä".repeat(THREAD_NAME_BYTES_MAX));
    let (events, _) = heard(&registry);
    assert_eq!(events[1], format!("0.1 named {}", "ä".repeat(THREAD_NAME_BYTES_MAX / 2)));
}

#[test]
fn a_threads_own_word_brings_its_stack() {
    let registry = &registry(4);
    let own = thread::own_id();
    let record = |index: usize| &registry.shared.records[index];
    // Told of by another thread, which can't know the stack; then by itself, once and again.
    std::thread::scope(|scope| {
        scope.spawn(|| registry.assigned(ManagedId(1), own));
    });
    assert_eq!(record(0).stack(), (0, 0));
    registry.assigned(ManagedId(1), own);
    let stack = thread::own_stack().expect("own stack");
    assert_eq!(record(0).stack(), (stack.start, stack.end));
    assert_eq!(record(0).tid(), own);
    let count = registry.take_changes().len();
    registry.assigned(ManagedId(1), own);
    std::thread::scope(|scope| {
        scope.spawn(|| registry.assigned(ManagedId(1), own));
    });
    assert_eq!((count, registry.take_changes().len()), (3, 0));
    assert_eq!(record(0).stack(), (stack.start, stack.end));
}

/// Tracks the calling thread for a moment; returns what it was charged with as its own work and as
/// work of unknown kind, and bounds of its CPU clock when it was told of and when it ended.
fn charged(registry: &Registry) -> (u64, u64, u64, u64) {
    let own = thread::own_id();
    let before_ns = clock::own_cpu_ns();
    registry.assigned(ManagedId(1), own);
    registry.destroyed(ManagedId(1));
    let after_ns = clock::own_cpu_ns();
    let (mut rest_ns, mut unsampled_ns) = (0, 0);
    for event in events(&registry.inbox) {
        match event {
            Event::CpuRest { cpu_ns, .. } => rest_ns += cpu_ns,
            Event::Unsampled { thread: Some(_), cpu_ns } => unsampled_ns += cpu_ns,
            _ => {}
        }
    }
    (rest_ns, unsampled_ns, before_ns, after_ns)
}

fn work(cpu_ns: u64) {
    while clock::own_cpu_ns() < cpu_ns {}
}

#[test]
fn cpu_time_of_before_is_the_threads_work_if_it_was_its_start() {
    let on_a_new_thread = |test: fn()| std::thread::spawn(test).join().expect("no panic");
    on_a_new_thread(|| {
        let (rest, unsampled, before, after) = charged(&registry(4));
        if after <= THREAD_START_CPU_NS_MAX {
            assert_eq!(unsampled, 0);
            assert!((before..=after).contains(&rest), "all of it");
        }
    });
    on_a_new_thread(|| {
        work(THREAD_START_CPU_NS_MAX + 1);
        let registry = registry(4);
        let (rest, unsampled, before, after) = charged(&registry);
        assert!(unsampled >= before && rest <= after - before);
        assert!((before..=after).contains(&(rest + unsampled)), "all of it");
        // Told of again, it is not charged with the same time again.
        let (again, unsampled_again, before, end) = charged(&registry);
        let all = rest + unsampled + again + unsampled_again;
        assert!((before..=end).contains(&all), "{all} of {before} to {end}");
    });
    on_a_new_thread(|| {
        work(2 * THREAD_START_CPU_NS_MAX);
        let registry = registry(4);
        let begun = clock::own_cpu_ns();
        registry.begin(false);
        let (rest, unsampled, _, after) = charged(&registry);
        assert!(rest + unsampled <= after - begun, "nothing from before the profiler began");
    });
}

/// A thread that sleeps until told otherwise.
fn sleeper() -> (u32, std::sync::mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let handle = std::thread::spawn(move || {
        tell.send(thread::own_id()).expect("somebody listens");
        let _closed = ended.recv();
    });
    (told.recv().expect("an id"), end, handle)
}

fn native(tid: u32, class: ThreadClass) -> Native {
    let start_ticks = Stat::read(tid).map_or(0, |stat| stat.start_ticks);
    Native { tid, name: "n".to_owned(), class, stack: None, start_ticks }
}

/// A registry that knows which threads have records.
fn native_registry() -> Registry {
    Registry::new(crate::fake::shared_with_tids(4, 2), Arc::default(), sampler())
}

#[test]
fn natives_are_tracked_while_they_live() {
    let registry = native_registry();
    let (tid, end, handle) = sleeper();
    registry.adopt(native(tid, ThreadClass::ServerGc));
    registry.adopt(native(tid, ThreadClass::ServerGc));
    assert!(registry.is_tracked(tid));
    assert_eq!(registry.tracked_count(), 1);
    let heard = events(&registry.inbox);
    let class = |event: &Event| match event {
        Event::Classed { class, .. } => Some(*class),
        _ => None,
    };
    assert_eq!(heard.iter().find_map(class), Some(ThreadClass::ServerGc));
    assert!(heard.iter().any(|event| matches!(event, Event::Unsampled { cpu_ns: 1.., .. })));
    registry.end_gone_natives();
    assert!(registry.is_tracked(tid), "it lives");
    drop(end);
    handle.join().expect("no panic");
    // The kernel takes it off its lists a moment after it is joined.
    while clock::thread_cpu_ns(tid).is_some() {
        std::thread::yield_now();
    }
    registry.end_gone_natives();
    assert!(!registry.is_tracked(tid));
    let changes = registry.take_changes();
    assert!(matches!(changes[..], [Change::Started { .. }, Change::Ended { .. }]), "{changes:?}");
    assert_eq!(registry.lock().entries.len(), 0);
}

#[test]
fn a_native_thread_that_the_runtime_tells_of_is_the_runtimes() {
    let registry = native_registry();
    let (tid, _end, _handle) = sleeper();
    registry.adopt(native(tid, ThreadClass::Native));
    registry.assigned(ManagedId(1), tid);
    registry.adopt(native(tid, ThreadClass::Native));
    assert_eq!(registry.lock().entries[&Id::Managed(ManagedId(1))].name.as_deref(), Some("n"));
    let changes = registry.take_changes();
    assert_eq!(changes.len(), 3, "started, ended, started: {changes:?}");
    assert_eq!(registry.tracked_count(), 1);
    // The same time is not charged twice.
    let heard = events(&registry.inbox);
    let names = heard.iter().filter(|event| matches!(event, Event::Named { .. })).count();
    assert_eq!(names, 2, "it keeps its name: {heard:?}");
    let charged = heard.into_iter().map(|event| match event {
        Event::Unsampled { cpu_ns, .. } | Event::CpuRest { cpu_ns, .. } => cpu_ns,
        _ => 0,
    });
    assert!(charged.sum::<u64>() <= clock::thread_cpu_ns(tid).expect("it lives"));
    registry.destroyed(ManagedId(1));
    assert!(!registry.is_tracked(tid));
    registry.end_gone_natives();
    assert_eq!(registry.take_changes().len(), 1);
}

#[test]
fn another_thread_of_the_same_id_is_not_the_same() {
    let tid = thread::own_id();
    let now_ns = clock::own_cpu_ns();
    let start_ticks = Stat::read(tid).expect("own stat").start_ticks;
    let check = |life: Life, lives: bool, why: &str| {
        let mut life = life;
        assert_eq!(life.goes_on(tid), lives, "{why}");
    };
    check(Life { start_ticks, cpu_ns: now_ns }, true, "it has run since");
    check(Life { start_ticks: start_ticks + 1, cpu_ns: now_ns }, false, "it began later");
    check(Life { start_ticks, cpu_ns: u64::MAX }, false, "its clock lies behind");
    let mut life = Life { start_ticks, cpu_ns: 0 };
    assert!(!life.goes_on(NOBODY), "nobody has that id");
}

#[test]
fn what_a_thread_used_without_a_sample_is_charged() {
    let registry = native_registry();
    registry.begin(true);
    let (tid, end, handle) = worker(2 * NATIVE_LAG_NS_MAX);
    registry.adopt(native(tid, ThreadClass::Native));
    let tracked = registry.tracked_count();
    assert_eq!(tracked, 1);
    let before = unsampled(&registry, Some(()));
    while clock::thread_cpu_ns(tid).is_some_and(|now| now < 2 * NATIVE_LAG_NS_MAX) {
        std::thread::yield_now();
    }
    let _settled = registry.settle(true);
    let lagging = unsampled(&registry, Some(()));
    assert!(before + lagging >= 2 * NATIVE_LAG_NS_MAX, "{before} and {lagging}");
    assert!(before + lagging <= clock::thread_cpu_ns(tid).expect("it lives"));
    let _settled = registry.settle(true);
    assert_eq!(unsampled(&registry, Some(())), 0, "once");
    drop(end);
    handle.join().expect("no panic");
}

#[test]
fn threads_that_nobody_saw_are_charged_to_nobody() {
    const WORK_NS: u64 = 100_000_000;
    let registry = native_registry();
    registry.begin(true);
    let (tid, end, handle) = worker(WORK_NS);
    drop(end);
    handle.join().expect("no panic");
    while clock::thread_cpu_ns(tid).is_some() {
        std::thread::yield_now();
    }
    // What is missing comes a little later: while other tests' threads run between the readings of
    // two clocks, or one of the profiler's is just being made.
    let (start, mut charged_ns) = (Instant::now(), 0);
    while charged_ns < WORK_NS {
        assert!(start.elapsed() < LIMIT, "only {charged_ns} ns");
        let _settled = registry.settle(true);
        charged_ns += unsampled(&registry, None);
    }
}

#[test]
fn what_comes_after_the_end_is_charged_to_nobody_and_no_thread() {
    const WORK_NS: u64 = 100_000_000;
    let registry = native_registry();
    registry.begin(true);
    assert!(registry.stop().is_some());
    drop(events(&registry.inbox));
    work(WORK_NS);
    // The ticker goes on until the last profile is written.
    let _settled = registry.settle(true);
    let late = events(&registry.inbox);
    let is_charge =
        |event: &Event| matches!(event, Event::Unsampled { .. } | Event::CpuRest { .. });
    assert!(!late.iter().any(is_charge), "{late:?}");
}

/// A thread that computes for so long, and then sleeps until told otherwise.
fn worker(cpu_ns: u64) -> (u32, std::sync::mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let handle = std::thread::spawn(move || {
        tell.send(thread::own_id()).expect("somebody listens");
        work(cpu_ns);
        let _closed = ended.recv();
    });
    (told.recv().expect("an id"), end, handle)
}

/// What was charged without a sample, to a thread or to nobody.
fn unsampled(registry: &Registry, whose: Option<()>) -> u64 {
    let charged = events(&registry.inbox).into_iter().map(|event| match event {
        Event::Unsampled { thread, cpu_ns } if thread.map(|_| ()) == whose => cpu_ns,
        _ => 0,
    });
    charged.sum()
}

/// It has no room that anybody has seen, and can't be asked: it is sampled after a moment, and then
/// costs less and less.
#[test]
fn a_thread_that_waits_elsewhere_is_not_looked_at_for_ever() {
    let registry = native_registry();
    registry.begin(true);
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        tell.send(thread::own_id()).expect("somebody listens");
        std::io::Read::read(&mut &theirs, &mut [0]).expect("the end")
    });
    let tid = told.recv().expect("an id");
    let arrival =
        Arrival { tid, stack: None, signals: Signals::Later, class: ThreadClass::Managed };
    registry.track(Id::Managed(ManagedId(1)), &arrival);
    let start = Instant::now();
    while registry.look_for_room() {
        assert!(start.elapsed() < LIMIT);
        std::thread::yield_now();
    }
    let changes = registry.take_changes();
    assert!(
        matches!(changes[..], [Change::Started { scanned: false, .. }, Change::Scanned { .. }]),
        "{changes:?}"
    );
    let next_ns = |registry: &Registry| registry.lock().rooms.next_look_ns();
    for _ in 0..3 {
        let age_ns = start.elapsed().as_nanos() as u64;
        registry.lock().rooms.look_now();
        assert!(!registry.look_for_room());
        assert!(next_ns(&registry) >= clock::monotonic_ns().saturating_add(age_ns / 2));
    }
    drop(ours);
    reader.join().expect("no panic");
    registry.destroyed(ManagedId(1));
    registry.lock().rooms.look_now();
    assert!(!registry.look_for_room());
    assert_eq!(registry.lock().rooms.len(), 0, "it has ended");
}

#[test]
fn larger_stacks_leave_mappings_to_the_program() {
    let max = sys::stacks::mappings_max().expect("the kernel says");
    let count = |mappings: usize| {
        let mut rooms = Rooms::default();
        rooms.allow_spares(mappings);
        rooms.spares()
    };
    assert_eq!(count(max), 0);
    assert_eq!(count(max + 1), 0);
    // Half of what is left, and two mappings each.
    assert_eq!(count(max - 40), 10);
}
