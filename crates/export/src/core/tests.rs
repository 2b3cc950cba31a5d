//! Outages, refusals and ends, on a clock that the test sets.

use std::path::PathBuf;
use std::sync::Mutex;

use config::{ExportConfig, Secret};

use super::*;
use crate::address::Address;
use crate::fault::Stage;

const SECOND: u64 = 1_000_000_000;

/// A core with some targets, and all that it said.
struct Rig {
    core: Core,
    said: Arc<Mutex<Vec<String>>>,
    folder: PathBuf,
}

impl Rig {
    fn new(test: &str, targets: &[Target], spool_mib: u32) -> Self {
        let name = format!("corprof-core-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _left = std::fs::remove_dir_all(&folder);
        let destinations = targets.iter().map(|target| destination(*target)).collect();
        let (core, said) = core_in(&folder, destinations, spool_mib);
        Self { core, said, folder }
    }

    /// Another process with the same folder, after this one has ended.
    fn next(&mut self, destinations: Vec<Destination>) {
        let nowhere = self.folder.with_extension("none");
        // Ends the one before, and with it its lock.
        self.core = core_in(&nowhere, Vec::new(), 0).0;
        (self.core, self.said) = core_in(&self.folder, destinations, 256);
    }

    fn offer(&mut self, target: Target, n: u64) {
        self.core.accept(parcel(target, n));
    }

    /// Sends all that is due, with answers by the body's first byte and the target's path.
    fn send(&mut self, now_ns: u64, answer: impl Fn(&str, u8) -> Result<Answer, Fault>) -> Vec<u8> {
        let mut sent = Vec::new();
        self.core.settle(now_ns);
        for _ in 0..1000 {
            let Some(job) = self.core.next(now_ns, false) else { return sent };
            let n = job.request.body[0];
            let result = answer(&job.request.address.host, n);
            if result.as_ref().is_ok_and(|answer| answer.status == 200) {
                sent.push(n);
            }
            self.core.done(&job, result, now_ns);
            self.core.settle(now_ns);
        }
        panic!("no end of jobs");
    }

    fn counts(&self, at: usize) -> Counts {
        self.core.status()[at].counts
    }
}

fn core_in(
    folder: &std::path::Path,
    destinations: Vec<Destination>,
    spool_mib: u32,
) -> (Core, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&said);
    let say: Say = Arc::new(move |_, text| hears.lock().expect("said").push(text.to_owned()));
    let config =
        ExportConfig { spool_dir: Some(folder.to_owned()), spool_mib, ..ExportConfig::default() };
    let place = Place::new(&config, std::env::temp_dir(), crate::identity::random_id());
    (Core::new(destinations, place, say, 7), said)
}

fn destination(target: Target) -> Destination {
    Destination {
        target,
        address: Address::parse(&format!("http://{}", target.name())).expect("an address"),
        headers: vec![("Key".into(), Secret::new("planted-secret".into()))],
        account: String::new(),
    }
}

fn parcel(target: Target, n: u64) -> Parcel {
    let mut body = vec![0; 100];
    body[0] = u8::try_from(n).expect("a byte");
    Parcel {
        target,
        start_unix_ns: n,
        content_type: "x".into(),
        is_gzipped: false,
        body: body.into(),
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

fn status(status: u16) -> Result<Answer, Fault> {
    Ok(Answer { status, retry_after: None, text: b"because of planted-secret".to_vec() })
}

fn down() -> Result<Answer, Fault> {
    Err(Fault::Time(Stage::Connecting))
}

#[test]
fn an_outage_loses_nothing_and_the_oldest_goes_first() {
    let mut rig = Rig::new("outage", &[Target::Pyroscope], 256);
    let mut now_ns = 0;
    for n in 1..=20 {
        rig.offer(Target::Pyroscope, n);
        rig.send(now_ns, |_, _| down());
        now_ns += 60 * SECOND;
    }
    let status_then = &rig.core.status()[0];
    assert_eq!((status_then.spooled.0, status_then.queued.0), (20, 0), "all on disk");
    let said = rig.said.lock().expect("said").join("\n");
    assert_eq!(said.matches("can't be sent").count(), 1, "once, not each minute: {said}");
    now_ns += 300 * SECOND;
    rig.offer(Target::Pyroscope, 21);
    let sent = rig.send(now_ns, |_, _| status(200));
    assert_eq!(sent, (1..=21).collect::<Vec<u8>>());
    assert_eq!((rig.counts(0).sent, rig.counts(0).lost()), (21, 0));
    assert_eq!(rig.core.due_ns(), None);
}

#[test]
fn a_target_that_is_down_holds_up_no_other() {
    let mut rig = Rig::new("other", &[Target::Otlp, Target::Pyroscope], 256);
    for n in 1..=30 {
        rig.offer(Target::Otlp, n);
        rig.offer(Target::Pyroscope, n);
        let up = |host: &str, _: u8| if host == "otlp" { down() } else { status(200) };
        let sent = rig.send(n * SECOND / 10, up);
        assert_eq!(sent, [u8::try_from(n).expect("a byte")]);
    }
    assert_eq!(rig.counts(1).sent, 30);
    assert_eq!(rig.core.status()[0].spooled.0, 30);
}

#[test]
fn who_wants_to_be_left_alone_is() {
    let mut rig = Rig::new("alone", &[Target::Otlp], 256);
    rig.offer(Target::Otlp, 1);
    let later = |_: &str, _: u8| {
        Ok(Answer { status: 429, retry_after: Some(Duration::from_secs(90)), text: vec![] })
    };
    rig.send(0, later);
    assert_eq!(rig.core.due_ns(), Some(90 * SECOND));
    assert!(rig.core.next(89 * SECOND, false).is_none());
    assert_eq!(rig.send(90 * SECOND, |_, _| status(200)), [1]);
}

#[test]
fn what_is_refused_for_good_goes_and_is_said_once_without_secrets() {
    let mut rig = Rig::new("refused", &[Target::Datadog], 256);
    for n in 1..=5 {
        rig.offer(Target::Datadog, n);
        let sent = rig.send(0, |_, n| if n == 3 { status(200) } else { status(403) });
        assert_eq!(sent, if n == 3 { vec![3] } else { vec![] });
    }
    let counts = rig.counts(0);
    assert_eq!((counts.sent, counts.refused, counts.failed), (1, 4, 0));
    let said = rig.said.lock().expect("said");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("403") && said[0].contains("because of [secret]"), "{said:?}");
    let shown = format!("{:?} {said:?}", rig.core.status());
    assert!(!shown.contains("planted"), "{shown}");
}

#[test]
fn without_a_disk_memory_holds_some_and_the_rest_is_counted() {
    for (mib, blocked) in [(0, false), (256, true)] {
        let mut rig = Rig::new(&format!("nodisk{mib}"), &[Target::Otlp], mib);
        if blocked {
            std::fs::write(&rig.folder, "in the way").expect("a file where the folder should be");
        }
        let many = EXPORT_QUEUE_MAX as u64 + 10;
        for n in 1..=many {
            rig.offer(Target::Otlp, n);
            rig.send(n, |_, _| down());
        }
        let state = rig.core.status().remove(0);
        assert_eq!((state.queued.0, state.counts.dropped), (EXPORT_QUEUE_MAX as u64, 10));
        let sent = rig.send(400 * SECOND, |_, _| status(200));
        assert_eq!(sent.len(), EXPORT_QUEUE_MAX);
        assert_eq!(sent.last().copied().map(u64::from), Some(many));
        let _gone = std::fs::remove_file(&rig.folder);
    }
}

#[test]
fn the_next_process_sends_what_this_one_left() {
    let mut rig = Rig::new("next", &[Target::Otlp], 256);
    rig.offer(Target::Otlp, 1);
    rig.send(0, |_, _| down());
    rig.offer(Target::Otlp, 2);
    rig.core.spool_all();
    rig.next(vec![destination(Target::Pyroscope), destination(Target::Otlp)]);
    rig.core.adopt();
    assert_eq!(rig.send(0, |_, _| status(200)), [1, 2]);
}

#[test]
fn what_was_for_another_address_waits_until_somebody_says_so() {
    let mut rig = Rig::new("address", &[Target::Otlp], 256);
    rig.offer(Target::Otlp, 1);
    rig.core.spool_all();
    let elsewhere = Destination {
        address: Address::parse("http://elsewhere").expect("an address"),
        ..destination(Target::Otlp)
    };
    rig.next(vec![elsewhere]);
    rig.core.adopt();
    assert_eq!(rig.send(0, |_, _| status(200)), [0; 0]);
    rig.core.adopt_all();
    assert_eq!(rig.send(0, |host, _| status(if host == "elsewhere" { 200 } else { 400 })), [1]);
}

#[test]
fn a_clock_that_jumps_loses_nothing() {
    let mut rig = Rig::new("clock", &[Target::Otlp], 256);
    for (n, now_ns) in [(200, 5), (3, 5), (100, 6), (3, 6)] {
        rig.offer(Target::Otlp, n);
        rig.send(now_ns, |_, _| down());
    }
    let mut sent = rig.send(600 * SECOND, |_, _| status(200));
    sent.sort_unstable();
    assert_eq!(sent, [3, 3, 100, 200]);
}

#[test]
fn at_the_end_the_spool_is_left_for_later() {
    let mut rig = Rig::new("end", &[Target::Otlp], 256);
    rig.offer(Target::Otlp, 1);
    rig.core.spool_all();
    rig.offer(Target::Otlp, 2);
    let job = rig.core.next(0, true).expect("the one in memory");
    assert_eq!(job.request.body[0], 2);
    rig.core.done(&job, status(200), 0);
    assert!(rig.core.next(0, true).is_none());
    assert_eq!(rig.core.status()[0].spooled.0, 1);
}
