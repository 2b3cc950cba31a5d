//! Outages of all kinds under a real program: each period that was finished arrives, but for those
//! that are counted as lost. The long form, `cargo xtask outage`, has a target that is down for
//! minutes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::arrivals::{Periods, arrived, decoded, flush, made, periods, waiting};
use e2e::disk::{Disk, Freezer, fill};
use e2e::server::free_port;
use e2e::{Checks, Form, Intake, Manners, Received, Run, Session, built};
use model::Loss;
use profile::{Profile, SelfReport};
use rig::{Net9, RuntimeVersion};

/// The code of a program that SIGTERM ended.
const TERMINATED: i32 = 143;
/// How much longer than the outage the longest run may take: the longest wait between two attempts
/// is five minutes.
const MORE: Duration = Duration::from_secs(900);

/// A program that runs until it is told to end, and takes next to nothing of the machine.
fn session(
    test: &str,
    version: RuntimeVersion,
    port: u16,
    form: Form,
) -> Result<Option<(Session, PathBuf)>> {
    let Some(session) = Session::new(test, "idle", version)? else { return Ok(None) };
    let spool = session.folder.with_extension("spool");
    if spool.exists() {
        fs::remove_dir_all(&spool)?;
    }
    let session = session
        .args(["--threads", "40", "--seconds", "100000"])
        .limit(Duration::from_secs(form.seconds(60)) + MORE)
        .set("CORPROF_UPLOAD_PERIOD", if form.is_long() { "10s" } else { "1s" })
        .set("CORPROF_EXPORT_TIMEOUT", if form.is_long() { "5s" } else { "1s" })
        .set("CORPROF_SERVICE", "shop")
        .set("CORPROF_SPOOL_DIR", &spool)
        .set("CORPROF_EXPORT", "file,pyroscope")
        .set("CORPROF_PYROSCOPE_URL", format!("http://127.0.0.1:{port}"));
    Ok(Some((session, spool)))
}

fn signal(pid: u32, name: &str) -> bool {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    sent.is_ok_and(|status| status.success())
}

/// One kind of trouble after the other, with good times in between.
struct Storm {
    port: u16,
    spool: PathBuf,
    /// What is still to come, the present one first.
    troubles: VecDeque<Trouble>,
    /// How long each of them lasts at least, but for the first.
    least: Duration,
    /// Since when it is as it is now.
    since: Instant,
    /// `None` while nobody listens.
    intake: Option<Intake>,
    /// What the intake had taken when good times began; `None` in bad ones.
    taken: Option<usize>,
    error: Option<anyhow::Error>,
    is_over: bool,
}

/// A kind of trouble, and how long it lasts at least.
struct Trouble {
    name: &'static str,
    /// `None` for nobody there at all.
    manners: Option<Manners>,
    least: Duration,
}

impl Storm {
    fn new(port: u16, spool: PathBuf, down: Duration, least: Duration) -> Self {
        let trouble = |name, manners| Trouble { name, manners: Some(manners), least };
        let troubles = VecDeque::from([
            Trouble { name: "nobody there", manners: None, least: down },
            trouble("a byte a second", Manners::Slow),
            trouble("resets", Manners::Resets),
            trouble("429 and Retry-After", Manners::Status(429, "Retry-After: 1\r\n")),
            trouble("500", Manners::Status(500, "")),
            trouble("413", Manners::Status(413, "")),
        ]);
        let since = Instant::now();
        let (intake, taken, error) = (None, None, None);
        Self { port, spool, troubles, least, since, intake, taken, error, is_over: false }
    }

    /// Looks how it goes, and goes on.
    fn watch(&mut self, pid: u32) {
        if self.is_over {
            return;
        }
        if let Err(error) = self.step() {
            self.error = Some(error);
        }
        if self.error.is_some() || self.troubles.is_empty() {
            self.is_over = signal(pid, "-TERM");
        }
    }

    fn step(&mut self) -> Result<()> {
        let Some(trouble) = self.troubles.front() else { return Ok(()) };
        let taken = self.intake.as_ref().map_or(0, |intake| intake.count(|one| one.taken));
        match self.taken {
            None if self.since.elapsed() >= trouble.least && self.has_hurt(trouble) => {
                self.say(&format!("{}: {} wait", trouble.name, waiting(&self.spool)));
                self.taken = Some(taken);
                match &self.intake {
                    Some(intake) => intake.be(Manners::Good),
                    None => self.intake = Some(Intake::start_on(self.port)?),
                }
                self.since = Instant::now();
            }
            Some(before) if taken > before && waiting(&self.spool) == 0 => {
                self.say(&format!("good again: {} arrived", taken - before));
                self.taken = None;
                self.troubles.pop_front();
                if let Some((intake, next)) = self.intake.as_ref().zip(self.troubles.front()) {
                    intake.be(next.manners.clone().unwrap_or(Manners::Good));
                }
                self.since = Instant::now();
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether somebody has felt it: a profile waits, or was refused.
    fn has_hurt(&self, trouble: &Trouble) -> bool {
        waiting(&self.spool) > 0
            || (trouble.name == "413"
                && self.intake.as_ref().is_some_and(|i| i.count(is_refused) > 0))
    }

    /// For whoever watches the long form.
    fn say(&self, what: &str) {
        if self.least > Duration::from_secs(1) {
            println!("    after {:.0} s: {what}", self.since.elapsed().as_secs_f64());
        }
    }
}

fn is_refused(received: &Received) -> bool {
    received.status == 413
}

/// What was counted as lost, as the last profile tells, which is made before it is sent.
fn lost(run: &Run) -> u64 {
    let last = run.profiles.last().and_then(|(_, profile)| profile.report.as_ref());
    last.map_or(0, |report| report.export_lost)
}

#[test]
fn outages_of_all_kinds_lose_nothing() -> Result<()> {
    let form = Form::asked()?;
    form.on(&[Net9], |version| {
        let port = free_port()?;
        let Some((session, spool)) = session("outage", version, port, form)? else { return Ok(()) };
        let least = Duration::from_secs(if form.is_long() { 25 } else { 0 });
        let down = Duration::from_secs(form.seconds(2));
        let mut storm = Storm::new(port, spool.clone(), down, least);
        let run = session.run_watched(|pid| storm.watch(pid))?;
        if let Some(error) = storm.error {
            return Err(error);
        }
        let intake = storm.intake.context("it ended in the first trouble")?;
        ensure!(storm.troubles.is_empty(), "{} was never over", storm.troubles[0].name);
        let refused: Vec<_> = intake.received().into_iter().filter(is_refused).collect();
        let refused = periods(&refused)?;
        let (made, arrived) = (made(&run), arrived(&intake)?);
        let mut checks = run.checks_of_code(TERMINATED);
        let (of, refusals) = (made.len() as u64, refused.len() as u64);
        checks.that(refusals > 0, "413 was never said");
        checks.between("periods refused and counted", lost(&run), refusals, refusals);
        let right = of - refusals;
        checks.between("periods that arrived", arrived.len() as u64, right, right);
        let expected: Periods = made.difference(&refused).copied().collect();
        checks.that(arrived == expected, format!("{arrived:?} and not {expected:?}"));
        checks.between("profiles that wait", waiting(&spool) as u64, 0, 0);
        checks.done()
    })
}

/// The disk of files and spool is full, and then there is room again. Files wait in memory, up to a
/// bound, and so do profiles to be sent; what goes is counted. In the short form there is room in
/// memory for all.
#[test]
fn a_full_disk_loses_what_is_counted() -> Result<()> {
    let form = Form::asked()?;
    form.on(&[Net9], |version| {
        let intake = Intake::start()?;
        intake.be(Manners::Status(503, ""));
        let Some((mut session, _)) = session("outage-disk", version, intake.port, form)? else {
            return Ok(());
        };
        let Some(disk) = Disk::mount(&session.folder.with_extension("disk"), 8 << 20)? else {
            return Ok(());
        };
        let (out, spool) = (disk.folder().join("out"), disk.folder().join("spool"));
        [&out, &spool].into_iter().try_for_each(fs::create_dir)?;
        let (mut full, mut is_told) = (Some(fill(disk.folder())?), false);
        session.folder.clone_from(&out);
        let session = session.set("CORPROF_OUTPUT_DIR", &out).set("CORPROF_SPOOL_DIR", &spool);
        let down = Duration::from_secs(form.seconds(4));
        let begin = Instant::now();
        let run = session.run_watched(|pid| {
            if begin.elapsed() < down {
                return;
            }
            if let Some(full) = full.take() {
                // Should it stay, nothing is ever kept, and the limit ends this.
                let _gone = fs::remove_file(full);
            }
            if waiting(&spool) > 0 {
                intake.be(Manners::Good);
            }
            let is_sent = intake.count(|one| one.taken) > 0 && waiting(&spool) == 0;
            if is_sent && !is_told {
                is_told = signal(pid, "-TERM");
            }
        })?;
        let found = Found::of(&run, &intake)?;
        drop(disk);
        found.check(&run, form)
    })
}

/// What came of the periods of a full disk.
struct Found {
    /// All that there were.
    periods: u64,
    /// Those of which there is a file.
    files: BTreeSet<u64>,
    /// Those that arrived.
    arrived: BTreeSet<u64>,
    /// Files that were counted as given up, in the periods that are known.
    failed: u64,
}

impl Found {
    fn of(run: &Run, intake: &Intake) -> Result<Self> {
        intake.check()?;
        let sent: Vec<_> = intake.taken().iter().map(decoded).collect::<Result<_>>()?;
        let reports = |profiles: &[Profile]| -> BTreeMap<u64, SelfReport> {
            let reports = profiles.iter().filter_map(|profile| profile.report.clone());
            reports.map(|report| (report.seq, report)).collect()
        };
        let written: Vec<_> = run.profiles.iter().map(|(_, profile)| profile.clone()).collect();
        let (written, sent) = (reports(&written), reports(&sent));
        let (files, arrived): (BTreeSet<_>, BTreeSet<_>) =
            (written.keys().copied().collect(), sent.keys().copied().collect());
        let known: BTreeMap<_, _> = written.into_iter().chain(sent).collect();
        let last = known.keys().last().context("no period at all")?;
        let failed = known.values().map(|report| report.losses.get(Loss::WriteFailed)).sum();
        Ok(Self { periods: last + 1, files, arrived, failed })
    }

    fn check(&self, run: &Run, form: Form) -> Result<()> {
        let missing = |there: &BTreeSet<u64>| self.periods - there.len() as u64;
        let (files, sent) = (missing(&self.files), missing(&self.arrived));
        let unknown = self.periods - self.files.union(&self.arrived).count() as u64;
        println!(
            "    {} periods: {files} without a file, {} of them counted in periods that are known; \
             {sent} not sent, {} counted",
            self.periods,
            self.failed,
            lost(run)
        );
        let mut checks = Checks::new(run);
        checks.code(TERMINATED);
        checks.between("profiles dropped and counted", lost(run), sent, sent);
        // A period that is neither here nor there took its counts with it.
        let least = files.saturating_sub(unknown);
        checks.between("files given up and counted", self.failed, least, files);
        checks.that((sent > 0) == form.is_long(), format!("{sent} are missing"));
        checks.that((files > 0) == form.is_long(), format!("{files} files are missing"));
        checks.done()
    }
}

/// How far a test with a disk that hangs has come.
enum Hanging {
    /// Nothing waits there yet.
    Before,
    /// It hangs; so many files were there when it began to.
    Frozen(usize),
    /// It answers again.
    Over,
}

/// The spool's disk doesn't answer any more: the thread that sends waits for it, and nobody else.
/// Periods are made as before, and whoever asks gets an answer; once it answers again, all arrive.
#[test]
fn a_disk_that_hangs_holds_up_nobody() -> Result<()> {
    const PERIODS: usize = 4;
    let form = Form::asked()?;
    form.on(&[Net9], |version| {
        let intake = Intake::start()?;
        intake.be(Manners::Status(503, ""));
        let Some((session, spool)) = session("outage-frozen", version, intake.port, form)? else {
            return Ok(());
        };
        let Some(mut freezer) = Freezer::mount(&spool)? else { return Ok(()) };
        let session = session.set("CORPROF_UPLOAD_PERIOD", "1s");
        let corprof = built()?.corprof.clone();
        let folder = session.folder.clone();
        let files = || fs::read_dir(&folder).into_iter().flatten().count();
        let (mut stage, mut error, mut is_told) = (Hanging::Before, None, false);
        let run = session.run_watched(|pid| match stage {
            Hanging::Before if waiting(&spool) > 1 => {
                error = freezer.freeze().err();
                stage = Hanging::Frozen(files());
            }
            Hanging::Frozen(before) if files() >= before + PERIODS || error.is_some() => {
                let pid = pid.to_string();
                let said = Command::new(&corprof).args(["ctl", &pid, "status"]).output();
                let said = said.is_ok_and(|output| output.status.success());
                freezer.thaw();
                intake.be(Manners::Good);
                if !said {
                    error.get_or_insert(anyhow::anyhow!("nobody answers `corprof ctl status`"));
                }
                stage = Hanging::Over;
            }
            Hanging::Over if waiting(&spool) == 0 && !is_told => {
                is_told = signal(pid, "-TERM");
            }
            _ => {}
        })?;
        if let Some(error) = error {
            return Err(error);
        }
        flush(&spool, &intake)?;
        intake.check()?;
        let mut checks = run.checks_of_code(TERMINATED);
        checks.that(arrived(&intake)? == made(&run), "not all periods arrived");
        checks.between("profiles lost", lost(&run), 0, 0);
        checks.done()
    })
}

/// A name server that says nothing: whoever asks it waits for seconds. The program ends in time all
/// the same, and nothing is lost.
#[test]
fn a_name_server_that_hangs_holds_up_no_end() -> Result<()> {
    let silent = match UdpSocket::bind("127.0.0.53:53") {
        Ok(silent) => silent,
        Err(error) => {
            println!("SKIPPED outage-names: no name server can be played here: {error}");
            return Ok(());
        }
    };
    let form = Form::asked()?;
    form.on(&[Net9], |version| {
        let Some((session, spool)) = session("outage-names", version, 1, form)? else {
            return Ok(());
        };
        let names = session.folder.with_extension("resolv");
        fs::write(&names, "nameserver 127.0.0.53\n")?;
        let script = format!("mount --bind {} /etc/resolv.conf && exec \"$@\"", names.display());
        let mut allowed = Command::new("unshare");
        allowed.args(["--mount", "sh", "-c", &script, "sh", "true"]).stderr(Stdio::null());
        if !allowed.status().is_ok_and(|status| status.success()) {
            println!("SKIPPED outage-names: needs root, to give a program a name server");
            return Ok(());
        }
        let session = session
            .set("CORPROF_PYROSCOPE_URL", "http://nobody.corprof-hangs.example:4040")
            .set("CORPROF_EXIT_FLUSH", "1s")
            .behind("unshare", ["--mount", "sh", "-c", &script, "sh"]);
        let (begin, mut told) = (Instant::now(), None);
        let folder = session.folder.clone();
        let run = session.run_watched(|pid| {
            let files = fs::read_dir(&folder).into_iter().flatten().count();
            if told.is_none() && files >= 2 && signal(pid, "-TERM") {
                told = Some(begin.elapsed());
            }
        })?;
        let took = begin.elapsed().saturating_sub(told.context("it ended by itself")?);
        let (made, waiting) = (made(&run).len() as u64, waiting(&spool) as u64);
        let mut checks = run.checks_of_code(TERMINATED);
        checks.that(took < Duration::from_secs(10), format!("its end took {took:?}"));
        checks.between("profiles that wait", waiting, made, made);
        checks.done()
    })?;
    drop(silent);
    Ok(())
}

/// When a program is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// While it writes its third profile to the spool, or a later one.
    Writing,
    /// So long after its start.
    After(Duration),
}

impl Moment {
    /// That of a round: every other one while it writes, else anywhere in its first seconds.
    fn of(round: u32) -> Self {
        /// By steps of the golden section they come to lie everywhere.
        const SECTION: f64 = 0.618_033_988_749_895;
        if round.is_multiple_of(2) {
            return Self::Writing;
        }
        Self::After(Duration::from_secs_f64(0.3 + 4.0 * (f64::from(round) * SECTION).fract()))
    }
}

/// SIGKILL leaves no time for anything, and comes while a profile is written to the spool, or at
/// any other time: what was finished by then is sent by the next start, or by `corprof flush`. The
/// target is up in one round of four of the long form.
#[test]
fn killed_while_it_writes_it_loses_no_finished_period() -> Result<()> {
    let form = Form::asked()?;
    let rounds = if form.is_long() { 100 } else { 1 };
    form.on(&[Net9], |version| {
        let intake = Intake::start()?;
        let (mut all, mut in_the_middle, mut while_up) = (Periods::new(), 0, 0);
        let (mut first, mut last) = (None, None);
        for round in 0..rounds {
            let is_up = round % 4 == 1;
            intake.be(if is_up { Manners::Good } else { Manners::Resets });
            let name = format!("outage-killed-{round}");
            let Some((session, own)) = session(&name, version, intake.port, form)? else {
                return Ok(());
            };
            let spool = first.get_or_insert(own).clone();
            let session =
                session.set("CORPROF_SPOOL_DIR", &spool).set("CORPROF_UPLOAD_PERIOD", "1s");
            let (run, was_writing) = killed(session, &spool, Moment::of(round))?;
            in_the_middle += usize::from(was_writing);
            while_up += usize::from(is_up);
            all.extend(before_the_kill(&run));
            last = Some(run);
        }
        let (spool, run) = first.zip(last).context("no round")?;
        println!("    {in_the_middle} of {rounds} killed in the middle of a file");
        let by_starts = intake.taken().len();
        intake.be(Manners::Good);
        flush(&spool, &intake)?;
        intake.check()?;
        let (taken, arrived) = (intake.taken().len(), arrived(&intake)?);
        // One that was taken, and whose file was not removed any more.
        let twice = taken - arrived.len();
        let left = fs::read_dir(&spool)?.flatten().map(|entry| entry.file_name());
        let left: Vec<_> = left.collect();
        println!(
            "    {} finished periods of {rounds} processes: {by_starts} requests of starts, {} of \
             the flush; {twice} twice",
            all.len(),
            taken - by_starts
        );
        let mut checks = Checks::new(&run);
        let there = all.intersection(&arrived).count() as u64;
        checks.between("finished periods that arrived", there, all.len() as u64, all.len() as u64);
        checks
            .that(twice <= while_up, format!("{twice} came twice, of {while_up} killed meanwhile"));
        checks.that(left.is_empty(), format!("left behind: {left:?}"));
        checks.done()
    })
}

/// Runs a program and kills it; tells whether a file was being written then.
fn killed(session: Session, spool: &Path, moment: Moment) -> Result<(Run, bool)> {
    let target = Arc::new(AtomicU32::new(0));
    let (is_done, was_writing) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let before = waiting(spool);
    let watcher = {
        let (target, is_done) = (Arc::clone(&target), Arc::clone(&is_done));
        let (was_writing, spool) = (Arc::clone(&was_writing), spool.to_owned());
        thread::spawn(move || {
            let mut begin = None;
            while !is_done.load(Ordering::Relaxed) {
                let pid = target.load(Ordering::Relaxed);
                if pid == 0 {
                    thread::sleep(Duration::from_micros(500));
                    continue;
                }
                let begin = *begin.get_or_insert_with(Instant::now);
                let is_writing = is_writing(&spool);
                let is_time = match moment {
                    Moment::After(time) => begin.elapsed() >= time,
                    // A file that was missed is not waited for: the next one ends it, too.
                    Moment::Writing => {
                        let waiting = waiting(&spool);
                        waiting >= before + 3 || (waiting >= before + 2 && is_writing)
                    }
                };
                if is_time {
                    was_writing.store(is_writing, Ordering::Relaxed);
                    signal(pid, "-KILL");
                    return;
                }
                thread::sleep(Duration::from_micros(500));
            }
        })
    };
    let run = session.run_watched(|pid| target.store(pid, Ordering::Relaxed));
    is_done.store(true, Ordering::Relaxed);
    watcher.join().map_err(|_| anyhow::anyhow!("the watcher panicked"))?;
    let run = run?;
    ensure!(run.outcome.status.code().is_none(), "it ended by itself");
    Ok((run, was_writing.load(Ordering::Relaxed)))
}

/// Whether a file is there that is not whole yet.
fn is_writing(spool: &Path) -> bool {
    let entries = fs::read_dir(spool).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".tmp"))
}

/// The periods that were on disk when it was killed; the last one was on its way there.
fn before_the_kill(run: &Run) -> Periods {
    let mut periods = made(run);
    periods.pop_last();
    periods
}
