//! Stops of the runtime, told as it tells them.

use super::*;
use crate::fake::shared_with_tids;

const MS: u64 = 1_000_000;
/// Where the clocks of these tests begin.
const START: u64 = 1_000_000 * MS;

/// A runtime with two managed threads, `A` and `B`, and one that is not tracked.
struct Runtime {
    pauses: Pauses,
    now_ns: u64,
}

const A: u32 = 11;
const B: u32 = 12;
const UNTRACKED: u32 = 13;

impl Runtime {
    fn new() -> Self {
        let shared = shared_with_tids(3, 2);
        for (index, tid) in [(0, A), (1, B)] {
            shared.records[index as usize].open(tid, 0, 0, 0);
            shared.set_record_of(tid, index);
        }
        let stops: Vec<Stop> = (0..3).map(|_| Stop::default()).collect();
        Self { pauses: Pauses::new(shared, stops.leak()), now_ns: START }
    }

    fn pass(&mut self, ms: u64) -> &mut Self {
        self.now_ns += ms * MS;
        self
    }

    fn suspending(&mut self, reason: PauseReason, tid: u32) -> &mut Self {
        self.pauses.suspending_at(reason, self.now_ns, tid);
        self
    }

    /// The thread that stops the others has used so much CPU time.
    fn resuming(&mut self, cpu_ms: u64) -> &mut Self {
        self.pauses.resuming_at(self.now_ns, cpu_ms * MS);
        self
    }

    fn suspended(&mut self, tid: u32, cpu_ms: u64) -> &mut Self {
        self.pauses.thread_suspended_at(tid, self.now_ns, || cpu_ms * MS);
        self
    }

    fn resumed(&mut self, tid: u32) -> &mut Self {
        self.pauses.thread_resumed_at(tid, self.now_ns);
        self
    }

    fn started(&mut self, generation: u8) -> &mut Self {
        self.pauses.collection_started(generation, false);
        self
    }

    fn finished(&mut self) -> &mut Self {
        self.pauses.collection_finished();
        self
    }

    /// Milliseconds that a thread was held up by collections and by all else.
    fn held_up(&self, tid: u32, cpu_ms: u64) -> [u64; 2] {
        let (index, generation) = match tid {
            A => (0, self.pauses.shared.records[0].generation()),
            _ => (1, self.pauses.shared.records[1].generation()),
        };
        let thread = ThreadRef { index, generation };
        self.pauses.held_up(thread, self.now_ns, cpu_ms * MS).ns.map(|ns| ns / MS)
    }

    fn take(&self, all: bool) -> (SelfReport, Vec<(String, u64)>) {
        let mut report = SelfReport::default();
        let paused = self.pauses.take_at(&mut report, all, self.now_ns);
        let sum = report.gc_pause_ns + report.other_pause_ns;
        assert_eq!(paused.iter().map(|paused| paused.ns).sum::<u64>(), sum);
        (report, paused.iter().map(|p| (p.frames.join(" < "), p.ns / MS)).collect())
    }
}

fn pair(frames: &str, ms: u64) -> (String, u64) {
    (frames.to_owned(), ms)
}

#[test]
fn a_counter_follows_the_other_clock_while_it_is_on() {
    let counter = Counter::default();
    assert_eq!((counter.at(500), counter.is_on()), (0, false));
    counter.start(1000);
    assert_eq!((counter.at(1000), counter.at(1250), counter.is_on()), (0, 250, true));
    // A clock that was read before.
    assert_eq!(counter.at(990), 0);
    // Told twice.
    counter.start(1300);
    counter.stop(1400, 0);
    assert_eq!((counter.at(9999), counter.is_on()), (400, false));
    counter.start(5000);
    counter.stop(5100, 30);
    assert_eq!(counter.at(0), 470);
    counter.stop(6000, 1000);
    assert_eq!(counter.at(0), 0);
}

#[test]
fn a_thread_is_held_up_from_where_it_stopped_to_where_all_may_run() {
    let mut runtime = Runtime::new();
    // B stops 2 ms later than A asks for it, and needs 4 ms until it has a processor again.
    runtime.suspending(PauseReason::Gc, A).suspended(A, 100).pass(2).suspended(B, 7);
    runtime.pass(5);
    assert_eq!((runtime.held_up(B, 7), runtime.pauses.is_stopped()), ([5, 0], true));
    // A computes 4 of the 7 ms until now.
    assert_eq!(runtime.held_up(A, 104), [3, 0]);
    runtime.started(0).pass(3).finished().resuming(106);
    // It has no processor for 6 ms before it wakes those that wait, and then C runs first.
    runtime.pass(6).resumed(UNTRACKED);
    assert!(!runtime.pauses.is_stopped());
    runtime.pass(4).resumed(B).resumed(A).pass(100);
    assert_eq!((runtime.held_up(A, 106), runtime.held_up(B, 7)), ([4, 0], [14, 0]));
    let (report, paused) = runtime.take(false);
    assert_eq!(paused, [pair("automatic < generation 0 < Garbage Collector", 10)]);
    assert_eq!((report.gc_pauses, report.gc_pause_max_ns), (1, 10 * MS));
    assert_eq!(report.gc_collections, [1, 0, 0]);
    assert_eq!(runtime.take(false), (SelfReport::default(), vec![]));
}

#[test]
fn a_thread_that_sleeps_through_two_stops_in_one_wait_is_held_up_by_both() {
    let mut runtime = Runtime::new();
    runtime.suspending(PauseReason::Gc, A).suspended(B, 0).pass(2).started(1).finished();
    runtime.resuming(0).pass(10);
    // B has not had a processor yet.
    runtime.suspending(PauseReason::ReJit, A).pass(3).resuming(0);
    runtime.pauses.released_at(runtime.now_ns);
    runtime.pass(10).resumed(B);
    assert_eq!(runtime.held_up(B, 0), [2, 3]);
    let (report, paused) = runtime.take(false);
    assert_eq!(
        paused,
        [
            pair("automatic < generation 1 < Garbage Collector", 2),
            pair("code changed by ReJIT < .NET runtime", 3)
        ]
    );
    assert_eq!((report.other_pauses, report.other_pause_ns), (1, 3 * MS));
    assert_eq!(report.gc_pause_max_ns, 2 * MS);
}

#[test]
fn who_comes_out_of_native_code_is_held_up_from_then_on() {
    let mut runtime = Runtime::new();
    runtime.suspending(PauseReason::Gc, UNTRACKED).suspended(UNTRACKED, 0).pass(6);
    runtime.suspended(B, 0).pass(3).resuming(0).resumed(B).resumed(UNTRACKED);
    assert_eq!((runtime.held_up(A, 0), runtime.held_up(B, 0)), ([0, 0], [3, 0]));
    // Where nobody waits, the runtime says when it has let all go.
    runtime.suspending(PauseReason::Gc, UNTRACKED).pass(1).resuming(0);
    assert!(runtime.pauses.is_stopped());
    runtime.pauses.resumed();
    assert!(!runtime.pauses.is_stopped());
}

#[test]
fn a_record_that_is_used_again_begins_anew() {
    let mut runtime = Runtime::new();
    runtime.suspending(PauseReason::Gc, A).suspended(B, 0).pass(5).resuming(0).resumed(B);
    assert_eq!(runtime.held_up(B, 0), [5, 0]);
    runtime.pauses.shared.records[1].close();
    runtime.pauses.shared.records[1].open(B, 0, 0, 0);
    assert_eq!(runtime.held_up(B, 0), [0, 0]);
    runtime.suspending(PauseReason::Gc, A).suspended(B, 0).pass(1).resuming(0).resumed(B);
    assert_eq!(runtime.held_up(B, 0), [1, 0]);
}

#[test]
fn the_collectors_own_thread_is_held_up_by_nobody() {
    let mut runtime = Runtime::new();
    runtime.suspending(PauseReason::GcPreparation, B).suspended(B, 0).pass(5).resuming(1);
    runtime.resumed(B);
    assert_eq!(runtime.held_up(B, 1), [0, 0]);
    assert_eq!(runtime.take(false).1, [pair("preparation < Garbage Collector", 5)]);
}

#[test]
fn a_collection_in_the_background_is_known_by_its_end() {
    const BACKGROUND: &str = "automatic < generation 2, background < Garbage Collector";
    const BLOCKING: &str = "automatic < generation 2, blocking < Garbage Collector";
    let blocking = |runtime: &mut Runtime, ms| {
        runtime.suspending(PauseReason::Gc, A).started(2).pass(ms).finished().resuming(0).pass(1);
    };
    let mut runtime = Runtime::new();
    // One that blocks, and the next shows that it did.
    blocking(&mut runtime, 10);
    assert_eq!(runtime.take(false).1, []);
    // This one is followed by a step, another collection, and an end outside of stops.
    blocking(&mut runtime, 20);
    assert_eq!(runtime.take(false).1, [pair(BLOCKING, 10)]);
    runtime.suspending(PauseReason::Gc, A).started(0).pass(1).finished().resuming(0).pass(1);
    runtime.suspending(PauseReason::GcPreparation, UNTRACKED).pass(3).resuming(0).pass(1);
    let (report, paused) = runtime.take(false);
    assert_eq!(paused, [pair("automatic < generation 0 < Garbage Collector", 1)]);
    assert_eq!((report.gc_collections, report.gc_background), ([1, 0, 0], 0));
    runtime.finished();
    let (report, paused) = runtime.take(false);
    assert_eq!(paused, [pair(BACKGROUND, 23)]);
    assert_eq!((report.gc_pauses, report.gc_background, report.gc_before_background), (2, 1, 1));
    // One without a collection before it is seen to go on at once.
    runtime.suspending(PauseReason::Gc, A).started(2).pass(5).resuming(0).pass(1);
    runtime.suspending(PauseReason::GcPreparation, UNTRACKED).pass(2).resuming(0).finished();
    let (report, paused) = runtime.take(false);
    assert_eq!(paused, [pair(BACKGROUND, 7)]);
    assert_eq!((report.gc_pauses, report.gc_background, report.gc_before_background), (2, 1, 0));
    // A step after one that blocks.
    blocking(&mut runtime, 4);
    runtime.suspending(PauseReason::GcPreparation, UNTRACKED).pass(2).resuming(0);
    assert_eq!(
        runtime.take(true).1,
        [pair(BLOCKING, 4), pair("preparation < Garbage Collector", 2)]
    );
    // What is never decided is not kept for ever.
    blocking(&mut runtime, 4);
    assert_eq!(runtime.take(false).1, []);
    runtime.pass(100_000);
    assert_eq!(runtime.take(false).1, [pair(BLOCKING, 4)]);
    runtime.finished();
    assert_eq!(runtime.take(true), (SelfReport::default(), vec![]));
}

#[test]
fn what_was_before_a_start_or_after_an_end_is_nobodys() {
    let mut runtime = Runtime::new();
    runtime.suspending(PauseReason::Gc, A).started(2).pass(9).finished().resuming(0);
    runtime.pauses.begin();
    assert_eq!(runtime.take(true), (SelfReport::default(), vec![]));
    runtime.suspending(PauseReason::Gc, A).suspended(B, 0).pass(5);
    runtime.pauses.forget();
    assert!(!runtime.pauses.is_stopped());
    runtime.pass(500).resuming(0).resumed(B);
    assert_eq!(runtime.take(true), (SelfReport::default(), vec![]));
    runtime.suspending(PauseReason::Gc, A).started(0).pass(2).finished().resuming(0);
    assert_eq!(runtime.take(true).1, [pair("automatic < generation 0 < Garbage Collector", 2)]);
}

#[test]
fn the_part_of_the_time_that_is_paused_is_known() {
    let mut runtime = Runtime::new();
    runtime.pauses.begin_ns.store(START, Ordering::Relaxed);
    runtime.pass(60).suspending(PauseReason::Gc, A).pass(20);
    assert_eq!(runtime.pauses.in_pause(runtime.now_ns), InPause { now: true, percent: 25 });
    runtime.resuming(0).resumed(A).pass(20);
    assert_eq!(runtime.pauses.in_pause(runtime.now_ns), InPause { now: false, percent: 20 });
}

#[test]
fn every_reason_has_its_frames() {
    let mut runtime = Runtime::new();
    for (reason, frames) in [
        (PauseReason::Other, "stopped < .NET runtime"),
        (PauseReason::Profiler, "stopped by a profiler < .NET runtime"),
        (PauseReason::Debugger, "stopped by a debugger < .NET runtime"),
        (PauseReason::Shutdown, "shutdown < .NET runtime"),
        (PauseReason::ReJit, "code changed by ReJIT < .NET runtime"),
        (PauseReason::Gc, "preparation < Garbage Collector"),
    ] {
        runtime.suspending(reason, A).pass(1).resuming(0);
        assert_eq!(runtime.take(false).1, [pair(frames, 1)], "{reason:?}");
    }
    runtime.pauses.collection_started(9, true);
    runtime.suspending(PauseReason::Gc, A);
    runtime.pauses.collection_started(1, true);
    runtime.finished().pass(1).resuming(0);
    assert_eq!(runtime.take(true).1, [pair("induced < generation 1 < Garbage Collector", 1)]);
    // An end that nobody has begun.
    runtime.pass(1).resuming(0).resumed(A);
    assert_eq!(runtime.take(true), (SelfReport::default(), vec![]));
}
