//! Outages of all kinds under a real program: each period that was finished arrives, but for those
//! that are counted as lost. The long form, `cargo xtask outage`, has a target that is down for
//! minutes.

use std::collections::VecDeque;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::arrivals::{Periods, arrived, flush, made, periods, waiting};
use e2e::server::free_port;
use e2e::{Form, Intake, Manners, Received, Run, Session};
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

/// A small disk of its own; unmounted at the end.
struct Disk(PathBuf);

impl Disk {
    /// `None`, and said, if this user may not mount one.
    fn mount(folder: &Path, bytes: u64) -> Result<Option<Self>> {
        fs::create_dir_all(folder)?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=0700"), "tmpfs"])
            .arg(folder)
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Ok(Some(Self(folder.to_owned())));
        }
        println!("SKIPPED outage-disk: needs root, to mount a disk that is small");
        Ok(None)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        let _gone = fs::remove_dir(&self.0);
    }
}

/// The spool's disk is full: what it has no room for waits in memory, and what that has no room for
/// is lost and counted. In the short form there is room in memory for all.
#[test]
fn a_full_disk_loses_what_is_counted() -> Result<()> {
    let form = Form::asked()?;
    form.on(&[Net9], |version| {
        let intake = Intake::start()?;
        intake.be(Manners::Status(503, ""));
        let (session, spool) = match session("outage-disk", version, intake.port, form)? {
            Some(found) => found,
            None => return Ok(()),
        };
        let size = if form.is_long() { 100_000 } else { 4096 };
        let Some(disk) = Disk::mount(&spool, size)? else { return Ok(()) };
        let down = Duration::from_secs(form.seconds(4));
        let (begin, mut is_over, mut on_disk) = (Instant::now(), false, 0);
        let run = session.run_watched(|pid| {
            if begin.elapsed() < down {
                on_disk = on_disk.max(waiting(&spool));
                return;
            }
            intake.be(Manners::Good);
            if !is_over && intake.count(|one| one.taken) > 0 && waiting(&spool) == 0 {
                is_over = signal(pid, "-TERM");
            }
        })?;
        drop(disk);
        let (made, arrived) = (made(&run), arrived(&intake)?);
        let mut checks = run.checks_of_code(TERMINATED);
        println!("    on the disk at most {on_disk}, of {} periods", made.len());
        let missing = (made.len() - arrived.len()) as u64;
        checks.between("periods dropped and counted", lost(&run), missing, missing);
        checks.that((missing > 0) == form.is_long(), format!("{missing} are missing"));
        checks.that(arrived.is_subset(&made), "what arrived was never made");
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

/// SIGKILL leaves no time for anything, and comes while a profile is written to the spool: what was
/// finished by then is sent by the next start.
#[test]
fn killed_while_it_writes_it_loses_no_finished_period() -> Result<()> {
    let form = Form::asked()?;
    let rounds = if form.is_long() { 20 } else { 1 };
    form.on(&[Net9], |version| {
        let intake = Intake::start()?;
        intake.be(Manners::Resets);
        let (mut all, mut in_the_middle) = (Periods::new(), 0);
        let mut first = None;
        for round in 0..rounds {
            let name = format!("outage-killed-{round}");
            let Some((session, own)) = session(&name, version, intake.port, form)? else {
                return Ok(());
            };
            let spool = first.get_or_insert(own).clone();
            let session =
                session.set("CORPROF_SPOOL_DIR", &spool).set("CORPROF_UPLOAD_PERIOD", "1s");
            let (run, was_writing) = killed(session, &spool)?;
            ensure!(run.profiles.len() >= 2, "{} periods", run.profiles.len());
            in_the_middle += usize::from(was_writing);
            all.extend(before_the_kill(&run));
        }
        let spool = first.context("no round")?;
        println!("    {in_the_middle} of {rounds} killed in the middle of a file");
        intake.be(Manners::Good);
        flush(&spool, &intake)?;
        intake.check()?;
        let arrived = arrived(&intake)?;
        let missing: Vec<_> = all.difference(&arrived).collect();
        ensure!(missing.is_empty(), "{missing:?} of {} are missing", all.len());
        let left = fs::read_dir(&spool)?.flatten().map(|entry| entry.file_name());
        let left: Vec<_> = left.collect();
        ensure!(left.is_empty(), "left behind: {left:?}");
        println!("    {} periods of {rounds} processes, all arrived", all.len());
        Ok(())
    })
}

/// Runs a program and kills it as soon as it is seen to write a third profile to the spool; tells
/// whether it was killed then.
fn killed(session: Session, spool: &Path) -> Result<(Run, bool)> {
    let target = Arc::new(AtomicU32::new(0));
    let (is_done, was_writing) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let before = waiting(spool);
    let watcher = {
        let (target, is_done) = (Arc::clone(&target), Arc::clone(&is_done));
        let (was_writing, spool) = (Arc::clone(&was_writing), spool.to_owned());
        thread::spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                let pid = target.load(Ordering::Relaxed);
                let waiting = waiting(&spool);
                let is_writing = is_writing(&spool);
                // A file that was missed is not waited for: the next one ends it, too.
                if pid != 0 && (waiting >= before + 3 || (waiting >= before + 2 && is_writing)) {
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
