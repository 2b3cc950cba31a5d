//! Who waits for what, at a disk and a network that don't answer.

use std::sync::mpsc;

use super::*;

/// Longer than any end may take, and short enough for a test that fails.
const HANGS: Duration = Duration::from_secs(60);

struct Rig {
    exporter: Exporter,
    said: Arc<Mutex<Vec<String>>>,
    spool: PathBuf,
}

impl Rig {
    /// Sends to a port at which nobody is.
    fn new(test: &str) -> Self {
        let name = format!("corprof-exporter-{test}-{}", std::process::id());
        let spool = std::env::temp_dir().join(name);
        let _left = std::fs::remove_dir_all(&spool);
        let vars = [
            ("CORPROF_PYROSCOPE_URL", "http://127.0.0.1:1".to_owned()),
            ("CORPROF_SPOOL_DIR", spool.to_string_lossy().into_owned()),
            ("CORPROF_EXIT_FLUSH", "100ms".to_owned()),
        ];
        let vars = vars.map(|(name, value)| (name.to_owned(), value));
        let (config, warnings) = Config::from_vars(vars, "app");
        assert!(warnings.is_empty(), "{warnings:?}");
        let said = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&said);
        let say: Say = Arc::new(move |_, text| hears.lock().expect("said").push(text.to_owned()));
        let identity = Identity::new(&config, "CoreCLR 9", [7; 16]);
        let started = Exporter::start(&config, identity, std::env::temp_dir(), say);
        let exporter = started.expect("a thread").expect("a target");
        Self { exporter, said, spool }
    }

    fn kept(&self) -> usize {
        let entries = std::fs::read_dir(&self.spool).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "parcel")).count()
    }

    fn said(&self) -> String {
        self.said.lock().expect("said").join("\n")
    }
}

/// A profile in which nothing happened.
fn empty() -> Profile {
    let mut aggregate = profile::Aggregate::new(profile::Limits::READER);
    aggregate.take(profile::Period::default()).profile
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.spool);
    }
}

/// A disk that hangs: its thread holds the core for as long as the disk wants. The thread that
/// collects, whoever asks how it goes, and the end of the program go on.
#[test]
fn nobody_else_waits_for_a_disk() {
    let rig = Arc::new(Rig::new("disk"));
    let hung = rig.exporter.shared.core();
    let (done, is_done) = mpsc::channel();
    let others = Arc::clone(&rig);
    std::thread::spawn(move || {
        let exporter = &others.exporter;
        exporter.offer(&empty());
        let (mut report, status) = (SelfReport::default(), exporter.status());
        exporter.report(&mut report);
        assert_eq!(exporter.folder(), others.spool);
        exporter.stop();
        done.send((status[0].queued, report.export_queue_bytes)).expect("the test waits");
    });
    let ((profiles, bytes), reported) = is_done.recv_timeout(HANGS).expect("all of it returns");
    assert_eq!(profiles, 1);
    assert!(bytes > 0 && reported == bytes, "{bytes} and {reported}");
    assert!(rig.said().contains("does not answer"), "{}", rig.said());
    assert!(!rig.exporter.has_ended());
    drop(hung);
    // Now the disk answers.
    assert!(rig.exporter.wait_until(HANGS, |desk| desk.has_ended && desk.is_kept));
    assert_eq!(rig.kept(), 1, "what was handed over meanwhile is kept");
}

/// As from a thread that collects for longer than the end could wait.
#[test]
fn what_comes_after_the_end_is_kept() {
    let rig = Rig::new("late");
    rig.exporter.stop();
    assert!(rig.exporter.wait_until(HANGS, |desk| desk.has_ended));
    rig.exporter.offer(&empty());
    rig.exporter.stop();
    assert!(rig.exporter.wait_until(HANGS, |desk| desk.is_kept && desk.inbox.is_empty()));
    assert_eq!(rig.kept(), 1);
}
