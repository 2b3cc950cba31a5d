//! The collector's loop: what comes when, and that it ends.

use std::fs;

use config::LogLevel;
use profile::Values;

use super::*;
use crate::accounts::Wanted;
use crate::fake::{Table, lost, method, shared, thread};
use crate::publish::Publisher;
use crate::runtime::Runtime;
use crate::symbolizer::Symbolizer;

/// A collector with nobody around it, and the folder that it writes to.
fn collector(name: &str) -> (Collector, PathBuf) {
    let folder =
        std::env::temp_dir().join(format!("corprof-collector-{name}-{}", std::process::id()));
    let shared = shared(1, 8);
    let runtime: Arc<dyn Runtime> = Arc::new(Table::of(4));
    let log = Log::new(LogLevel::Off, None);
    #[cfg(feature = "oracle")]
    let oracle = crate::oracle::Oracle::new(Arc::clone(&runtime), log.clone());
    let accounts = Accounts::new(
        shared,
        Wanted { cpu: true, wall: true, span_ids: true, timeline: false },
        Symbolizer::new(runtime, Publisher::new(shared)),
        #[cfg(feature = "oracle")]
        oracle,
    );
    let collector = Collector::new(
        Parts {
            shared,
            inbox: Arc::default(),
            spans: Arc::new(crate::spans::Spans::fake(shared, true)),
            pauses: Arc::new(Pauses::new(shared, &[])),
            ticker: Arc::default(),
            state: Arc::default(),
            config: Config::defaults("service"),
            log,
            runtime_version: String::new(),
            instance: String::new(),
            accounts,
            folder: folder.clone(),
            exporter: None,
            signal: None,
            profiles: Arc::default(),
        },
        sys::clock::process_cpu_ns(),
    );
    (collector, folder)
}

fn sample(collector: &Collector, frame: u64, cpu_ns: u64) {
    let mut claim = collector.shared.ring.claim().map_err(drop).expect("room");
    let sample = claim.value();
    (sample.thread, sample.tid, sample.cpu_ns) = (thread(0, 1), 7, cpu_ns);
    sample.frames.clear();
    sample.frames.push(frame);
}

fn total(collector: &mut Collector) -> (Values, usize) {
    let (profile, _, _) = collector.accounts.take(Period::default());
    (profile.total(), profile.samples.len())
}

#[test]
fn a_short_threads_end_comes_after_its_samples() {
    let (mut collector, _) = collector("short");
    let thread = thread(0, 1);
    sample(&collector, method(1), 10);
    for event in [
        Event::Started { thread, tid: 7 },
        Event::CpuRest { thread, cpu_ns: 5 },
        Event::Ended { thread },
        Event::Unloaded { module: crate::runtime::ModuleKey(1) },
    ] {
        collector.inbox.post(event);
    }
    collector.collect(Duration::ZERO);
    // One row: the rest is where its sample is, and not under `[unsampled]`.
    let values = Values { count: 1, cpu_ns: 15, wall_ns: 15, ..Values::default() };
    assert_eq!(total(&mut collector), (values, 1));
}

#[test]
fn samples_that_are_taken_at_once_touch_one_slot() {
    let (mut collector, _) = collector("slots");
    for _ in 0..20 {
        sample(&collector, method(1), 10);
        collector.collect(Duration::ZERO);
    }
    let one = size_of::<signal::ring::Slot<signal::sample::Sample>>();
    assert_eq!(collector.shared.ring.bytes_touched(), one);
    assert_eq!(total(&mut collector).0.count, 20);
}

#[test]
fn a_settlement_is_not_waited_for_for_ever() {
    let (mut collector, _) = collector("settle");
    // Nobody answers; then an answer that comes too late, and one that is in time.
    collector.settle();
    let late = collector.settled;
    collector.inbox.post(Event::Settled { request: late });
    collector.inbox.post(Event::Settled { request: late + 1 });
    collector.inbox.hurry();
    collector.settle();
    assert_eq!(collector.settled, late + 1);
    let asked = collector.ticker.asked_to_settle();
    assert_eq!(asked, late + 1);
}

#[test]
fn it_ends_with_a_profile_though_the_ticker_is_dead() {
    let (collector, folder) = collector("dead");
    let (shared, state) = (collector.shared, Arc::clone(&collector.state));
    sample(&collector, method(1), 10);
    state.stop.store(true, Ordering::Release);
    collector.run();
    assert!(shared.ring.read(|_| ()).is_none(), "all samples were taken");
    let files: Vec<_> = fs::read_dir(&folder).expect("folder").flatten().collect();
    assert_eq!(files.len(), 1);
    assert_eq!(lost(shared, Loss::WriteFailed), 0);
    fs::remove_dir_all(&folder).expect("cleaned up");
}
