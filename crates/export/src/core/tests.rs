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
        secrets: Vec::new(),
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
    Ok(Answer { status, text: b"because of planted-secret".to_vec(), ..Answer::default() })
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
        Ok(Answer { status: 429, retry_after: Some(Duration::from_secs(90)), ..Answer::default() })
    };
    rig.send(0, later);
    assert_eq!(rig.core.due_ns(), Some(90 * SECOND));
    let said = rig.said.lock().expect("said").join("\n");
    assert!(said.contains("are sent in 90 s: it said when (Retry-After)"), "{said}");
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

/// A server that puts a request's number in what it says gives no new reason with each.
#[test]
fn a_refusal_in_other_words_is_the_same_one() {
    let mut rig = Rig::new("words", &[Target::Datadog], 256);
    for n in 1..=6 {
        rig.offer(Target::Datadog, n);
        let status = if n <= 3 { 401 } else { 400 };
        let text = |n: u8| format!("request {n}").into_bytes();
        rig.send(0, |_, n| Ok(Answer { status, text: text(n), ..Answer::default() }));
    }
    assert_eq!(rig.counts(0).refused, 6);
    let said = rig.said.lock().expect("said");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("401") && said[0].contains("request 1"), "{said:?}");
    assert!(said[1].contains("400") && said[1].contains("request 4"), "{said:?}");
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

/// One profile that the target chokes on, while it takes all others.
#[test]
fn one_that_is_never_taken_holds_up_no_other_and_goes_at_last() {
    for mib in [256, 0] {
        let mut rig = Rig::new(&format!("poison{mib}"), &[Target::Pyroscope], mib);
        let (mut now_ns, mut sent) = (0, Vec::new());
        for n in 1..=60 {
            rig.offer(Target::Pyroscope, n);
            now_ns += 60 * SECOND;
            sent.extend(rig.send(now_ns, |_, n| status(if n == 5 { 500 } else { 200 })));
            // It is known after the first failures of it, and then the others wait no longer.
            let waiting = rig.core.status()[0].spooled.0 + rig.core.status()[0].queued.0;
            assert!(waiting <= 2, "{waiting} wait after {n}");
        }
        now_ns += 600 * SECOND;
        sent.extend(rig.send(now_ns, |_, n| status(if n == 5 { 500 } else { 200 })));
        sent.sort_unstable();
        assert_eq!(sent, (1..=60).filter(|n| *n != 5).collect::<Vec<u8>>());
        assert_eq!((rig.counts(0).refused, rig.counts(0).lost()), (1, 1));
        let said = rig.said.lock().expect("said").join("\n");
        assert!(said.contains("500") && said.contains("while others were taken"), "{said}");
    }
}

/// However long it lasts and whatever they say, as long as they take nothing.
#[test]
fn an_outage_of_answers_gives_nothing_up() {
    let mut rig = Rig::new("answers", &[Target::Pyroscope], 256);
    let mut now_ns = 0;
    for n in 1..=200 {
        rig.offer(Target::Pyroscope, n);
        now_ns += 60 * SECOND;
        let sent = rig.send(now_ns, |_, n| match n % 3 {
            0 => status(500),
            1 => Err(Fault::Time(Stage::Answer)),
            _ => status(429),
        });
        assert_eq!(sent, [0; 0]);
    }
    now_ns += 600 * SECOND;
    let mut sent = rig.send(now_ns, |_, _| status(200));
    sent.sort_unstable();
    assert_eq!(sent, (1..=200).collect::<Vec<u8>>());
    assert_eq!((rig.counts(0).sent, rig.counts(0).lost()), (200, 0));
}

/// A service that takes one in three at random gets all at last.
#[test]
fn a_target_that_is_moody_gets_all() {
    let mut rig = Rig::new("moody", &[Target::Pyroscope], 256);
    let (mut now_ns, draws) = (0, std::cell::Cell::new(7_u64));
    let mut sent = Vec::new();
    for n in 1..=300 {
        if n <= 200 {
            rig.offer(Target::Pyroscope, n);
        }
        now_ns += 60 * SECOND;
        sent.extend(rig.send(now_ns, |_, _| {
            draws.set(draws.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            status(if draws.get() >> 33 & 1 == 0 { 200 } else { 503 })
        }));
    }
    sent.extend(rig.send(now_ns + 600 * SECOND, |_, _| status(200)));
    sent.sort_unstable();
    assert_eq!(sent, (1..=200).collect::<Vec<u8>>());
    assert_eq!(rig.counts(0).lost(), 0);
}

#[test]
fn a_clock_that_is_set_back_does_not_make_the_newest_the_first() {
    let mut rig = Rig::new("back", &[Target::Pyroscope], 256);
    let start_ns = 1_790_000_000 * SECOND;
    for n in 1..=8 {
        // By a minute, after four profiles of five seconds.
        let start_unix_ns = start_ns + n * 5 * SECOND - if n > 4 { 60 * SECOND } else { 0 };
        rig.core.accept(Parcel { start_unix_ns, ..parcel(Target::Pyroscope, n) });
        if n % 2 == 0 {
            rig.send(n * SECOND, |_, _| down());
            rig.core.settle(n * SECOND);
        }
    }
    let sent = rig.send(600 * SECOND, |_, _| status(200));
    assert_eq!(sent, (1..=8).collect::<Vec<u8>>());
}

/// The wall clock says when profiles began and nothing else: no wait hangs on it, and none is lost
/// or sent twice, whether it goes back to 1970 or far ahead.
#[test]
fn the_wall_clock_may_be_anything() {
    let mut rig = Rig::new("wall", &[Target::Pyroscope], 256);
    let times = [1_790_000_000 * SECOND, 0, u64::MAX, 1_790_000_060 * SECOND, 1, u64::MAX - 1];
    for (n, start_unix_ns) in (1..).zip(times) {
        let parcel = Parcel { start_unix_ns, ..parcel(Target::Pyroscope, n) };
        rig.core.accept(parcel);
        rig.send(n * SECOND / 10, |_, _| down());
    }
    assert_eq!(rig.core.status()[0].spooled.0, 6);
    assert!(rig.core.due_ns().is_some_and(|due| due <= 10 * SECOND), "{:?}", rig.core.due_ns());
    // Also after another process has read them from their names.
    rig.core.spool_all();
    rig.next(vec![destination(Target::Pyroscope)]);
    rig.core.adopt();
    let sent = rig.send(11 * SECOND, |_, _| status(200));
    assert_eq!(sent, [2, 5, 1, 4, 6, 3]);
    assert_eq!(rig.core.due_ns(), None);
}

/// What others may put in the place of the user's own folder after it was opened.
#[test]
fn a_folder_that_is_swapped_for_a_link_is_not_written_to() {
    let name = format!("corprof-core-swapped-{}", std::process::id());
    let temporary = std::env::temp_dir().join(name);
    let _left = std::fs::remove_dir_all(&temporary);
    std::fs::create_dir_all(temporary.join("elsewhere")).expect("a folder");
    let config = ExportConfig { spool_mib: 256, ..ExportConfig::default() };
    let place = Place::new(&config, temporary.clone(), crate::identity::random_id());
    let folder = place.folder();
    let say: Say = Arc::new(|_, _| {});
    let mut core = Core::new(vec![destination(Target::Otlp)], place, say, 7);
    core.accept(parcel(Target::Otlp, 1));
    let job = core.next(0, false).expect("the one");
    core.done(&job, down(), 0);
    core.settle(0);
    assert_eq!(core.status()[0].spooled.0, 1);
    std::fs::rename(&folder, temporary.join("away")).expect("moved away");
    std::os::unix::fs::symlink(temporary.join("elsewhere"), &folder).expect("a link");
    core.accept(parcel(Target::Otlp, 2));
    core.settle(0);
    assert_eq!(core.status()[0].queued.0, 1, "waits in memory");
    let elsewhere = std::fs::read_dir(temporary.join("elsewhere")).expect("a folder").count();
    assert_eq!(elsewhere, 0, "written through a link");
    let _gone = std::fs::remove_dir_all(&temporary);
}

/// Who is killed after an outage, while what waited is sent, loses nothing that was handed over.
#[test]
fn what_has_to_wait_for_older_ones_waits_on_disk() {
    let mut rig = Rig::new("behind", &[Target::Pyroscope], 256);
    for n in 1..=3 {
        rig.offer(Target::Pyroscope, n);
        rig.send(0, |_, _| down());
    }
    assert_eq!(rig.core.status()[0].spooled.0, 3);
    let now_ns = 600 * SECOND;
    let job = rig.core.next(now_ns, false).expect("the oldest");
    rig.offer(Target::Pyroscope, 4);
    rig.core.done(&job, status(200), now_ns);
    rig.core.settle(now_ns);
    assert_eq!(rig.core.status()[0].queued.0, 1);
    rig.core.line_up();
    assert_eq!((rig.core.status()[0].queued.0, rig.core.status()[0].spooled.0), (0, 3));
    assert_eq!(rig.send(now_ns, |_, _| status(200)), [2, 3, 4]);
    // The next one has nothing to wait for, and is not written.
    rig.offer(Target::Pyroscope, 5);
    rig.core.line_up();
    assert_eq!(rig.core.status()[0].queued.0, 1);
    assert_eq!(rig.send(now_ns, |_, _| status(200)), [5]);
}

const FEW: &str = "CORPROF_TEST_FEW_DESCRIPTORS";

/// No test: what the next one starts, with few descriptors.
#[test]
fn reads_without_a_descriptor() {
    if std::env::var_os(FEW).is_none() {
        return;
    }
    let mut rig = Rig::new("unreadable", &[Target::Otlp], 256);
    for n in 1..=2 {
        rig.offer(Target::Otlp, n);
        rig.send(0, |_, _| down());
    }
    let now_ns = 600 * SECOND;
    let mut all = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        all.push(file);
    }
    assert!(rig.core.next(now_ns, false).is_none());
    let before = rig.core.status().remove(0);
    assert!(rig.core.due_ns().is_some_and(|due| due > now_ns), "tried again and again");
    drop(all);
    assert_eq!((before.counts.lost(), before.spooled.0), (0, 2));
    let error = before.error.expect("it is said");
    assert!(error.contains("can't be read"), "{error}");
    let mut sent = rig.send(2 * now_ns, |_, _| status(200));
    sent.sort_unstable();
    assert_eq!(sent, [1, 2]);
}

/// A program that has no descriptor left: what can't be read now is not damaged.
#[test]
fn what_cannot_be_read_now_stays_and_is_sent_later() {
    let run = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 40 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "core::tests::reads_without_a_descriptor", "--test-threads=1"])
        .env(FEW, "1")
        .output()
        .expect("a child");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}
