//! Processes that run already: attached, profiled as truly as from their start, and left as if
//! nothing had been there; and spoken to while they run.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use e2e::{Run, Session, built, library, on_one};
use rig::{Net8, Net9, Net10, Net31, RuntimeVersion};

/// How far sums may be off.
const FRACTION: f64 = 0.02;
/// SIGPROF's bit in the sets of `/proc/<pid>/status`.
const PROFILING_BIT: u64 = 1 << 26;

/// What `corprof` said to a command.
struct Said {
    code: Option<i32>,
    text: String,
}

fn corprof(arguments: &[&str]) -> Result<Said> {
    let output = Command::new(&built()?.corprof).args(arguments).output()?;
    let Output { status, stdout, stderr } = output;
    let text = [stdout, stderr].concat();
    Ok(Said { code: status.code(), text: String::from_utf8_lossy(&text).into_owned() })
}

impl Said {
    fn good(self) -> Result<String> {
        ensure!(self.code == Some(0), "exit code {:?}: {}", self.code, self.text);
        Ok(self.text)
    }
}

/// What is left of the profiler in a process that it has left.
fn remains(pid: u32) -> Result<Vec<String>> {
    let folder = Path::new("/proc").join(pid.to_string());
    let status = fs::read_to_string(folder.join("status"))?;
    let caught =
        status.lines().find_map(|line| line.strip_prefix("SigCgt:")).context("no SigCgt")?;
    let ignored =
        status.lines().find_map(|line| line.strip_prefix("SigIgn:")).context("no SigIgn")?;
    let mut found = Vec::new();
    for (what, set) in [("handler", caught), ("ignored signal", ignored)] {
        if u64::from_str_radix(set.trim(), 16)? & PROFILING_BIT != 0 {
            found.push(what.to_owned());
        }
    }
    if !fs::read_to_string(folder.join("timers"))?.is_empty() {
        found.push("timers".to_owned());
    }
    for task in fs::read_dir(folder.join("task"))?.flatten() {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.starts_with("corprof") {
            found.push(name.trim_end().to_owned());
        }
    }
    let sockets = fs::read_dir(std::env::temp_dir())?.flatten().map(|entry| entry.file_name());
    let own = format!("corprof-{pid}-");
    found.extend(
        sockets.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(&own)),
    );
    Ok(found)
}

/// Runs a program and does something to it, once, when it can be attached.
fn during(session: Session, act: impl Fn(u32) -> Result<()>) -> Result<Run> {
    let mut result = None;
    let run = session.run_watched(|pid| {
        if result.is_none() && has_socket(pid) {
            result = Some(act(pid));
        }
    })?;
    result.context("the program ended at once")??;
    Ok(run)
}

/// Whether a process's runtime listens to diagnostic tools.
fn has_socket(pid: u32) -> bool {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return false };
    let own = format!("dotnet-diagnostic-{pid}-");
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.into_iter().any(|name| name.starts_with(&own))
}

#[test]
fn an_attached_process_is_profiled_as_truly() -> Result<()> {
    let mut errors = Vec::new();
    let timers = [Net31, Net8, Net9, Net10].map(|version| (version, "timer"));
    // What scans does not depend on the version.
    for (version, sampler) in timers.into_iter().chain([(Net9, "scan")]) {
        let checked = splits(version, sampler);
        errors.extend(checked.err().map(|error| format!("{version}, {sampler}: {error:#}")));
    }
    ensure!(errors.is_empty(), "{}", errors.join("\n\n"));
    Ok(())
}

fn splits(version: RuntimeVersion, sampler: &str) -> Result<()> {
    let name = format!("attach-{sampler}");
    let Some(session) = Session::new(&name, "split", version)? else { return Ok(()) };
    let folder = session.folder.to_string_lossy().into_owned();
    let session = session.args(["--share", "90", "--seconds", "6"]).without_agent();
    let run = during(session, |pid| {
        let pid_text = pid.to_string();
        let options = ["--cpu-interval", "5ms", "--sampler", sampler, "--upload-period", "1s"];
        let words = ["attach", &pid_text, "--for", "3s", "--out", &folder];
        let said = corprof(&[&words[..], &options].concat())?.good()?;
        ensure!(said.contains("it runs on without the profiler"), "{said}");
        let remains = remains(pid)?;
        ensure!(remains.is_empty(), "what remains: {remains:?}");
        Ok(())
    })?;
    let mut checks = run.checks_of_attached();
    let (a, b) = (
        run.view.of(|row| row.has("Split.MethodA(")),
        run.view.of(|row| row.has("Split.MethodB(")),
    );
    let cpu_ns = a.cpu_ns + b.cpu_ns;
    let found = a.cpu_ns as f64 / cpu_ns.max(1) as f64;
    checks.share("MethodA's share", found, 0.9, a.count + b.count);
    let expected = run.report.process_cpu_ns.saturating_sub(run.report.own_cpu_ns);
    checks.within("CPU of the process", run.view.total().cpu_ns, expected, FRACTION);
    let work = run.view.of(|row| row.has("Split.Alternate("));
    checks.within("CPU of the work", work.cpu_ns, expected, 0.1);
    checks.roots(0.995);
    checks.that(run.profiles.len() > 1, "one profile only");
    checks.done()
}

/// A service under load is attached and left a hundred times: no request fails, nothing remains,
/// and no memory is lost.
#[test]
fn a_service_is_attached_a_hundred_times() -> Result<()> {
    const TIMES: usize = 100;
    /// After so many, all is allocated that is kept for the next time.
    const SETTLED: usize = 40;
    /// The memory of the same process may sway by so much: its garbage is collected when it likes.
    const SWAY_BYTES: u64 = 24 << 20;
    let Some(session) = Session::new("attach-web", "web", Net9)? else { return Ok(()) };
    let folder = session.folder.to_string_lossy().into_owned();
    let port = free_port()?;
    let session = session.args(["--port", &port.to_string()]).without_agent();
    // A small heap, so that what the program itself keeps doesn't hide what we lose.
    let session = session.set("DOTNET_GCgen0size", "400000").limit(Duration::from_secs(600));
    let answered = AtomicU64::new(0);
    let sizes = RefCell::new(Vec::new());
    during(session, |pid| {
        wait_for(port)?;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let clients: Vec<_> =
                (0..2).map(|_| scope.spawn(|| client(port, &over, &answered))).collect();
            let cycles = (0..TIMES).try_for_each(|_| {
                let pid_text = pid.to_string();
                let words = ["attach", &pid_text, "--for", "50ms", "--out", &folder, "--json=-"];
                corprof(&words)?.good()?;
                let remains = remains(pid)?;
                ensure!(remains.is_empty(), "what remains: {remains:?}");
                sizes.borrow_mut().push(resident_bytes(pid)?);
                Ok(())
            });
            over.store(true, Ordering::Relaxed);
            for client in clients {
                client.join().map_err(|_| anyhow!("a client panicked"))??;
            }
            cycles
        })?;
        ask(port, "POST", "/quit").map(drop)
    })?;
    let sizes = sizes.into_inner();
    let (early, late) = (&sizes[SETTLED..TIMES - 30], &sizes[TIMES - 30..]);
    let least = |sizes: &[u64]| sizes.iter().copied().min().unwrap_or(0);
    println!("resident after each of {TIMES} times: {sizes:?}");
    ensure!(least(late) <= least(early) + SWAY_BYTES, "memory grows: {sizes:?}");
    ensure!(answered.into_inner() > TIMES as u64, "hardly any request was answered");
    Ok(())
}

/// Attached and left all the time while everything else happens.
#[test]
fn attached_amid_everything() -> Result<()> {
    on_one(Net9, |version| {
        let Some(session) = Session::new("attach-stress", "stress", version)? else {
            return Ok(());
        };
        let folder = session.folder.to_string_lossy().into_owned();
        let session = session.args(["--threads", "50", "--seconds", "20"]).without_agent();
        let times = Cell::new(0);
        let run = session.run_watched(|pid| {
            let pid_text = pid.to_string();
            let options = ["--cpu-interval", "1ms", "--wall-interval", "1ms", "--json=-"];
            let words = ["attach", &pid_text, "--for", "300ms", "--out", &folder];
            // Before its runtime is up and after its end it can't be attached.
            if corprof(&[&words[..], &options].concat()).is_ok_and(|said| said.code == Some(0)) {
                times.set(times.get() + 1);
            }
        })?;
        let mut checks = run.checks_of_attached();
        checks.that(times.get() >= 5, format!("attached only {} times", times.get()));
        checks.that(run.number("hung")? == 0, "threads hang");
        checks.roots(0.98);
        checks.done()
    })
}

/// Stopped, nothing of it runs; started again, it goes on with the settings that it is given.
#[test]
fn an_agent_does_what_it_is_told() -> Result<()> {
    let Some(session) = Session::new("attach-ctl", "split", Net9)? else { return Ok(()) };
    let session = session.args(["--seconds", "6"]).set("CORPROF_UPLOAD_PERIOD", "1h");
    let run = during(session, |pid| {
        let pid = pid.to_string();
        let ctl = |words: &[&str]| corprof(&[&["ctl", &pid], words].concat());
        until(|| ctl(&["status"]).is_ok_and(|said| said.code == Some(0)))?;
        let said = ctl(&["status"])?.good()?;
        ensure!(said.contains("running") && said.contains("10ms"), "{said}");
        // Another is not let in, and whoever wants it is told what there is.
        let said = corprof(&["attach", &pid, "--for", "1s"])?;
        let why = "an agent is in it already";
        let next = format!("corprof ctl {pid} start");
        ensure!(said.code == Some(1) && said.text.contains(why), "{}", said.text);
        ensure!(said.text.contains(&next), "{}", said.text);
        // What it says is what it does, also if it runs already.
        let said = ctl(&["start", "--cpu-interval", "5ms"])?.good()?;
        ensure!(said.contains("running") && said.contains("5ms"), "{said}");
        ctl(&["start"])?.good()?;
        let said = ctl(&["set", "--cpu-interval", "2ms"])?.good()?;
        ensure!(said.contains("running") && said.contains("2ms"), "{said}");
        // What can't be done is not taken in.
        let said = ctl(&["set", "--out", "/proc/nowhere"])?;
        let why = "profiles can't be written to /proc/nowhere";
        ensure!(said.code == Some(1) && said.text.contains(why), "{}", said.text);
        ensure!(!ctl(&["status"])?.good()?.contains("nowhere"), "it was taken in all the same");
        let said = ctl(&["stop"])?.good()?;
        ensure!(said.contains("stopped"), "{said}");
        let status = fs::read_to_string(format!("/proc/{pid}/timers"))?;
        ensure!(status.is_empty(), "timers of a stopped profiler: {status}");
        let said = ctl(&["start", "--sampler", "scan"])?.good()?;
        ensure!(said.contains("running") && said.contains("scan"), "{said}");
        for (words, why) in [
            (&["set"][..], "set what?"),
            (&["stop", "--cpu-interval", "5ms"], "go with `start` and `set` only"),
        ] {
            let said = ctl(words)?;
            ensure!(said.code == Some(2) && said.text.contains(why), "{}", said.text);
        }
        Ok(())
    })?;
    let mut checks = run.checks();
    let sampled: Vec<_> = run
        .profiles
        .iter()
        .filter_map(|(_, profile)| profile.report.as_ref())
        .map(|report| (report.sampler.as_str(), report.cpu_interval_ns))
        .collect();
    let expected =
        [("timer", 10_000_000), ("timer", 5_000_000), ("timer", 2_000_000), ("scan", 2_000_000)];
    checks.that(sampled == expected, format!("sampled {sampled:?}"));
    checks.done()
}

/// Another profiler has the main place: ours works beside it, from the start and attached.
#[test]
fn another_profiler_keeps_its_place() -> Result<()> {
    let other = library("other_profiler")?;
    let other = other.to_string_lossy();
    for version in [Net8, Net9, Net10] {
        for attached in [false, true] {
            let name = if attached { "attach-beside" } else { "start-beside" };
            let Some(session) = Session::new(name, "split", version)? else { continue };
            let folder = session.folder.to_string_lossy().into_owned();
            let session = session
                .args(["--share", "90", "--seconds", "4"])
                .without_agent()
                .set("CORECLR_ENABLE_PROFILING", "1")
                .set("CORECLR_PROFILER", "{11111111-2222-3333-4444-555555555555}")
                .set("CORECLR_PROFILER_PATH", &*other);
            let run = if attached {
                during(session, |pid| {
                    corprof(&["attach", &pid.to_string(), "--for", "2s", "--out", &folder])?
                        .good()
                        .map(drop)
                })?
            } else {
                let agent = built()?.agent.to_string_lossy();
                let beside = config::beside_variables(&agent, None);
                let set = |session: Session, (name, value): (_, String)| session.set(name, value);
                beside.into_iter().fold(session, set).run()?
            };
            let said = &run.outcome.stderr;
            let mut checks = run.checks_of_attached();
            checks.that(said.contains("the other profiler saw"), format!("{version}: {said}"));
            let a = run.view.of(|row| row.has("Split.MethodA("));
            let b = run.view.of(|row| row.has("Split.MethodB("));
            let share = a.cpu_ns as f64 / (a.cpu_ns + b.cpu_ns).max(1) as f64;
            checks.share("MethodA's share", share, 0.9, a.count + b.count);
            checks.done()?;
        }
    }
    Ok(())
}

/// Who can't be attached is told why, and what to do.
#[test]
fn what_cannot_be_attached_is_said() -> Result<()> {
    let own = std::process::id().to_string();
    for (words, why) in [
        (&["attach", "4194305"][..], "there is no such process"),
        (&["attach", &own], "no .NET process"),
        (&["ctl", &own, "status"], "no agent that listens"),
        (&["ctl", "4194305", "status"], "there is no process"),
    ] {
        let said = corprof(words)?;
        ensure!(said.code == Some(1) && said.text.contains(why), "{words:?}: {}", said.text);
    }
    let Some(session) = Session::new("attach-off", "split", Net9)? else { return Ok(()) };
    let session = session.args(["--seconds", "2"]).without_agent();
    during(session.set("DOTNET_EnableDiagnostics_Profiler", "0"), |pid| {
        let said = corprof(&["attach", &pid.to_string(), "--for", "1s"])?;
        let why = "DOTNET_EnableDiagnostics_Profiler";
        ensure!(said.code == Some(1) && said.text.contains(why), "{}", said.text);
        Ok(())
    })?;
    Ok(())
}

fn resident_bytes(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages = text.split_whitespace().nth(1).context("no resident pages")?;
    Ok(pages.parse::<u64>()? * 4096)
}

/// The page that is shown after an attach ends as the attach would have: by a signal.
#[test]
fn the_page_after_an_attach_can_be_ended() -> Result<()> {
    let Some(session) = Session::new("attach-view", "split", Net9)? else { return Ok(()) };
    let folder = session.folder.to_string_lossy().into_owned();
    let session = session.args(["--seconds", "4"]).without_agent();
    during(session, |pid| {
        // A shell has what it starts in the background ignore Ctrl-C, and that is passed on.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(&built()?.corprof);
        command.args(["attach", &pid.to_string(), "--for", "200ms", "--out", &folder, "--view"]);
        let mut page = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(page.stderr.take().context("no output")?).lines();
        let is_link =
            |line: std::io::Result<String>| line.is_ok_and(|line| line.contains("token="));
        ensure!(said.any(is_link), "no page was shown");
        ensure!(Command::new("kill").args(["-INT", &page.id().to_string()]).status()?.success());
        let status = page.wait()?;
        ensure!(status.signal() == Some(2), "it ended with {status}");
        Ok(())
    })?;
    Ok(())
}

fn until(mut holds: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !holds() {
        ensure!(start.elapsed() < Duration::from_secs(60), "it never holds");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn wait_for(port: u16) -> Result<()> {
    until(|| ask(port, "GET", "/").is_ok())
}

/// One request on a connection of its own; the answer's first line.
fn ask(port: u16, method: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n");
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    text.lines().next().map(str::to_owned).context("no answer")
}

fn client(port: u16, over: &AtomicBool, answered: &AtomicU64) -> Result<()> {
    while !over.load(Ordering::Relaxed) {
        let answer = ask(port, "GET", "/cpu/100")?;
        ensure!(answer.contains("200"), "{answer}");
        answered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
