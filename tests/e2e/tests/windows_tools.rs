//! The command line for Windows beside a program that runs, or afterwards, in Wine: `ps`, `attach`,
//! `ctl`, `view`, `serve`; and profiles on their way.
//!
//! Made by `cargo xtask windows`; skipped, and said so, by everybody else.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::arrivals::{arrived, made, waiting};
use e2e::server::free_port;
use e2e::{Checks, Form, Intake, Run, Session, WindowsTools, measured};
use rig::{Net8, Net10, RuntimeVersion};

/// Longer than anything here takes, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a program and does something to it, once, when its runtime listens. It goes on until that
/// is done.
fn during(session: Session, tools: &WindowsTools, act: impl Fn(&str) -> Result<()>) -> Result<Run> {
    let until = session.folder.with_extension("until");
    remove(&until)?;
    let session = session.args(["--until", &tools.inside(&until)?]);
    let done = RefCell::new(None);
    let run = session.run_watched(|_| {
        if done.borrow().is_some() {
            return;
        }
        let acted = match tools.processes() {
            Ok(processes) => match processes.as_slice() {
                [] => return,
                [one] => act(&one.pid),
                more => Err(anyhow::anyhow!("more than one process: {more:?}")),
            },
            Err(error) => Err(error),
        };
        let told = fs::write(&until, "").map_err(Into::into);
        *done.borrow_mut() = Some(acted.and(told));
    })?;
    remove(&until)?;
    done.into_inner().with_context(|| format!("it was never seen: {:?}", run.outcome))??;
    Ok(run)
}

/// Takes away a file, or a folder with all that is in it, if it is there.
fn remove(path: &Path) -> Result<()> {
    let is_folder = path.is_dir();
    match if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) } {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Waits until a process is in that state.
fn until_it_is(tools: &WindowsTools, state: &str) -> Result<()> {
    let begin = Instant::now();
    loop {
        let processes = tools.processes()?;
        if processes.first().is_some_and(|process| process.state == state) {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "never {state}: {processes:?}");
    }
}

#[test]
fn attached_and_left_twice_a_process_goes_on() -> Result<()> {
    Form::asked()?.on(&[Net8, Net10], |version| measured(|| attached_twice(version), attached))
}

fn attached_twice(version: RuntimeVersion) -> Result<Option<Run>> {
    let Some(session) = Session::on_windows("attach", "split", version)? else { return Ok(None) };
    let tools = WindowsTools::asked()?;
    let folder = tools.inside(&session.folder)?;
    let run = during(session.args(["--share", "80"]).without_agent(), &tools, |pid| {
        for _ in 0..2 {
            let words = ["attach", pid, "--for", "3s", "--out", &folder];
            let said = tools.good(&[&words[..], &["--upload-period", "1s"]].concat())?;
            ensure!(said.contains("profiled process"), "{said}");
            until_it_is(&tools, "yes")?;
        }
        Ok(())
    })?;
    Ok(Some(run))
}

fn attached(run: &Run) -> Result<Checks<'_>> {
    let mut checks = run.checks_of_attached();
    let part = |name: &str| run.view.of(|row| row.has(&format!("Split.{name}(")));
    let (a, b) = (part("MethodA"), part("MethodB"));
    let share = a.cpu_ns as f64 / (a.cpu_ns + b.cpu_ns).max(1) as f64;
    let (true_a, true_b) = (run.number("cpu_a_ns")?, run.number("cpu_b_ns")?);
    let truth = true_a as f64 / (true_a + true_b).max(1) as f64;
    checks.share_of_uneven("MethodA", share, truth, a.count + b.count);
    // Two at least of each time: a second that comes late has two in one.
    checks.at_least("periods", run.profiles.len() as u64, 4);
    checks.roots(0.99);
    Ok(checks)
}

#[test]
fn an_agent_does_what_it_is_told() -> Result<()> {
    Form::asked()?.on(&[Net8, Net10], |version| {
        let Some(session) = Session::on_windows("ctl", "split", version)? else { return Ok(()) };
        let tools = WindowsTools::asked()?;
        let session = session.set("CORPROF_UPLOAD_PERIOD", "1h");
        let run = during(session, &tools, |pid| {
            until_it_is(&tools, "profiled")?;
            let ctl = |words: &[&str]| tools.good(&[&["ctl", pid], words].concat());
            let said = ctl(&["status"])?;
            ensure!(said.contains("running") && said.contains("10ms"), "{said}");
            let said = ctl(&["set", "--cpu-interval", "20ms"])?;
            ensure!(said.contains("running") && said.contains("20ms"), "{said}");
            let said = ctl(&["stop"])?;
            ensure!(said.contains("stopped"), "{said}");
            let said = ctl(&["start", "--cpu-interval", "5ms"])?;
            ensure!(said.contains("running") && said.contains("5ms"), "{said}");
            // Another is not let in, and whoever wants it is told what there is.
            let refused = tools.run(&["attach", pid, "--for", "1s"])?;
            let why = "an agent is in it already";
            ensure!(refused.status.code() == Some(1), "{refused:?}");
            ensure!(refused.stderr.contains(why), "{refused:?}");
            Ok(())
        })?;
        let mut checks = run.checks_of_attached();
        let reports = run.profiles.iter().filter_map(|(_, profile)| profile.report.as_ref());
        let intervals: Vec<u64> = reports.map(|report| report.cpu_interval_ns).collect();
        checks.that(
            intervals == [10_000_000, 20_000_000, 5_000_000],
            format!("intervals of {intervals:?} ns"),
        );
        checks.done()
    })
}

#[test]
fn every_period_arrives() -> Result<()> {
    let intake = RefCell::new(Intake::start()?);
    let run = || {
        let Some(session) = Session::on_windows("export", "split", Net8)? else { return Ok(None) };
        let spool = spool_of(&session.folder)?;
        intake.replace(Intake::start()?);
        let session = session
            .args(["--share", "80", "--seconds", "6"])
            .set("CORPROF_UPLOAD_PERIOD", "1s")
            .set("CORPROF_SERVICE", "shop")
            .set("CORPROF_SPOOL_DIR", WindowsTools::asked()?.inside(&spool)?)
            .set("CORPROF_EXPORT", "file,pyroscope")
            .set("CORPROF_PYROSCOPE_URL", intake.borrow().url());
        session.run().map(Some)
    };
    measured(run, |run| {
        let intake = intake.borrow();
        intake.check()?;
        let mut checks = run.checks_of_attached();
        checks.at_least("periods", run.profiles.len() as u64, 5);
        let waits = waiting(&run.folder.with_extension("spool"));
        checks.between("periods that wait", waits as u64, 0, 0);
        let is_all_there = waits > 0 || arrived(&intake)? == made(run);
        checks.that(is_all_there, "not all periods arrived");
        let came = intake.taken().len();
        let counts = format!("{came} of {} periods arrived, {waits} wait", run.profiles.len());
        checks.that(came + waits == run.profiles.len(), counts);
        Ok(checks)
    })
}

/// The folder in which a test's profiles wait, without what an earlier run could not send.
fn spool_of(folder: &Path) -> Result<PathBuf> {
    let spool = folder.with_extension("spool");
    remove(&spool)?;
    Ok(spool)
}

/// A program that listens at a pipe in the place of Datadog's agent; ends when it is dropped.
struct Relay(Child);

impl Relay {
    fn start(tools: &WindowsTools, pipe: &str, options: &[&str]) -> Result<Self> {
        let mut command = tools.app("relay", Net8)?;
        command.args(["--pipe", pipe]).args(options);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let relay = Self(child);
        let listens = lines.any(|line| line.is_ok_and(|line| line.contains("LISTENING")));
        ensure!(listens, "the relay does not listen");
        Ok(relay)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        if until_it_ends(&mut self.0).is_err() {
            eprintln!("the relay did not end by itself");
        }
    }
}

/// A program whose profiles go to Datadog's agent at that pipe.
fn to_datadog(test: &str, pipe: &str) -> Result<Option<Session>> {
    let Some(session) = Session::on_windows(test, "split", Net8)? else { return Ok(None) };
    let spool = spool_of(&session.folder)?;
    let session = session
        .args(["--share", "80", "--seconds", "6"])
        .set("CORPROF_UPLOAD_PERIOD", "1s")
        .set("CORPROF_SERVICE", "shop")
        .set("CORPROF_SPOOL_DIR", WindowsTools::asked()?.inside(&spool)?)
        .set("CORPROF_EXPORT", "file,datadog")
        .set("CORPROF_DATADOG_URL", format!("unix:////./pipe/{pipe}"));
    Ok(Some(session))
}

#[test]
fn datadogs_agent_takes_what_comes_by_its_pipe() -> Result<()> {
    const PIPE: &str = "corprof-test-datadog";
    let intake = RefCell::new(Intake::start()?);
    let run = || {
        let Some(session) = to_datadog("datadog", PIPE)? else { return Ok(None) };
        intake.replace(Intake::start()?);
        let port = intake.borrow().url().rsplit_once(':').context("no port")?.1.to_owned();
        let relay = Relay::start(&WindowsTools::asked()?, PIPE, &["--port", &port])?;
        let run = session.run()?;
        drop(relay);
        Ok(Some(run))
    };
    measured(run, |run| {
        let intake = intake.borrow();
        intake.check()?;
        let mut checks = run.checks_of_attached();
        let taken = intake.taken();
        let is_profile = |path: &str| path.ends_with("/profiling/v1/input");
        checks.that(taken.iter().all(|taken| is_profile(&taken.path)), "another path");
        checks.at_least("periods", run.profiles.len() as u64, 5);
        checks.at_least("periods that arrived", taken.len() as u64, 1);
        // On a machine that is busy the last may have to wait for the program's next start.
        let (came, waits) = (taken.len(), waiting(&run.folder.with_extension("spool")));
        let counts = format!("{came} of {} periods arrived, {waits} wait", run.profiles.len());
        checks.that(came + waits == run.profiles.len(), counts);
        Ok(checks)
    })
}

#[test]
fn an_agent_that_never_answers_holds_nobody_up() -> Result<()> {
    const PIPE: &str = "corprof-test-silent";
    let run = || {
        let Some(session) = to_datadog("silent", PIPE)? else { return Ok(None) };
        let relay = Relay::start(&WindowsTools::asked()?, PIPE, &["--silent"])?;
        let run = session.limit(PATIENCE).run()?;
        drop(relay);
        Ok(Some(run))
    };
    measured(run, |run| {
        let mut checks = run.checks_of_attached();
        checks.at_least("periods", run.profiles.len() as u64, 5);
        let waits = waiting(&run.folder.with_extension("spool"));
        checks.that(waits == run.profiles.len(), format!("{waits} wait"));
        Ok(checks)
    })
}

/// One request on a connection of its own; the answer.
fn ask(port: u16, target: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Ends a program as Ctrl-C does: Wine makes that of the signal.
fn interrupt(mut child: Child) -> Result<()> {
    ensure!(Command::new("kill").args(["-INT", &child.id().to_string()]).status()?.success());
    until_it_ends(&mut child).context("by Ctrl-C")
}

/// Waits for the end of a program, and ends it if that does not come.
fn until_it_ends(child: &mut Child) -> Result<()> {
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("it does not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Starts `corprof.exe`, and gives the first line that it says with that text.
fn started(tools: &WindowsTools, words: &[&str], text: &str) -> Result<(Child, String)> {
    let mut command = tools.command(words)?;
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stderr.take().context("no output")?).lines();
    let line = lines.find_map(|line| line.ok().filter(|line| line.contains(text)));
    // Whoever writes to a pipe that nobody reads is ended, or waits.
    thread::spawn(move || lines.for_each(drop));
    match line {
        Some(line) => Ok((child, line)),
        None => {
            child.wait()?;
            anyhow::bail!("corprof {} never says {text}", words.join(" "))
        }
    }
}

#[test]
fn pages_are_shown_until_ctrl_c() -> Result<()> {
    let Some(session) = Session::on_windows("pages", "split", Net8)? else { return Ok(()) };
    let tools = WindowsTools::asked()?;
    let run = session.args(["--seconds", "2"]).run()?;
    let port = free_port()?;
    let folder = tools.inside(&run.folder)?;
    let port_text = port.to_string();
    let (view, line) = started(&tools, &["view", &folder, "--port", &port_text], "token=")?;
    let target = line.split_once(&format!(":{port}")).context("no link")?.1;
    let target = target.split(' ').next().unwrap_or_default();
    let answer = ask(port, target)?;
    interrupt(view)?;
    ensure!(answer.starts_with("HTTP/1.1 ") && !answer.starts_with("HTTP/1.1 4"), "{answer}");

    let port = free_port()?;
    let data = tools.inside(&run.folder.with_extension("data"))?;
    let listen = format!("127.0.0.1:{port}");
    let words = ["serve", "--listen", &listen, "--data", &data];
    let (serve, _) = started(&tools, &words, "takes profiles")?;
    let answer = ask(port, "/")?;
    interrupt(serve)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    run.checks_of_attached().done()
}
