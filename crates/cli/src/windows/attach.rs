//! `corprof attach`: a process that runs already, from now until told otherwise.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use config::PROFILER_GUID;
use config::control::{Command, Request, Stay};
use diagnostics::{Guid, Socket, listening};
use serde_json::json;

use super::control;
use crate::args::{AttachArgs, RUN_PERIOD};
use crate::coverage::{self, Until};
use crate::failure::{FAILED, Failure};
use crate::files::Before;
use crate::outcome::{self, Outcome};
use crate::units::time;
use crate::{agent, agent_log, folder, note, warn};

/// How much longer than we the agent waits to leave, should we be gone.
const ORPHANED: Duration = Duration::from_secs(5);
/// How long attaching may take.
const ATTACH_PATIENCE: Duration = Duration::from_secs(20);
/// How long the agent may take to leave.
const LEAVE_PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// The agent's log, in the folder.
const LOG: &str = "corprof-agent.log";

/// Attaches, waits, has the agent leave, and shows what it wrote.
pub fn attach(args: &AttachArgs) -> Result<u8, Failure> {
    let pid = args.pid;
    let agent = agent::find(args.agent.as_deref())?;
    let socket = Socket::of(pid).map_err(|error| {
        let (why, remedy) = (error.reason(), error.remedy());
        Failure::new(FAILED, format!("can't attach to process {pid}: {why}; {remedy}"))
    })?;
    if let Some(target) = &args.report.json {
        outcome::check_report(Path::new(target))?;
    }
    if control::pipe_of(pid).is_ok() {
        let what = format!(
            "can't attach to process {pid}: an agent is in it already; `corprof ctl {pid} status` \
             says what it does, `corprof ctl {pid} start` has it profile"
        );
        return Err(Failure::new(FAILED, what));
    }
    let (folder, is_fresh) = match args.options.get("CORPROF_OUTPUT_DIR") {
        Some(path) => (folder::given(Path::new(path))?, false),
        None => (folder::fresh(&pid.to_string(), SystemTime::now())?, true),
    };
    let result = attached(args, &socket, &agent, &folder);
    if is_fresh {
        folder::remove_empty(&folder);
    }
    result
}

fn attached(
    args: &AttachArgs,
    socket: &Socket,
    agent: &Path,
    folder: &Path,
) -> Result<u8, Failure> {
    let pid = args.pid;
    let before = Before::of(folder);
    let stopped = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&stopped);
    ctrlc::set_handler(move || tell.store(true, Ordering::Release))
        .context("can't be ended by Ctrl-C")?;
    let class = Guid::parse(PROFILER_GUID).context("our own number is none")?;
    let data = request(args, folder).to_text();
    let loaded = socket.clone().with_timeout(ATTACH_PATIENCE).attach_profiler(
        ATTACH_PATIENCE,
        class,
        agent,
        data.as_bytes(),
    );
    let log = folder.join(LOG);
    let said = || fs::read_to_string(&log).unwrap_or_default();
    if let Err(error) = loaded {
        let said = said();
        let why = if said.is_empty() { error.reason() } else { said.trim_end().to_owned() };
        let what = format!("can't attach to process {pid}: {why}; {}", error.remedy());
        let _no_log = fs::remove_file(&log);
        return Err(Failure::new(FAILED, what));
    }
    let started = Instant::now();
    watch(pid, &stopped, started, args.time_limit);
    let elapsed = started.elapsed();
    let (pids, unix_ns) = ([u64::from(pid); 2], coverage::now_ns());
    let until = Until { pids, unix_ns, ran: before.ran(elapsed), is_cut_off: true };
    if let Err(error) = leave(pid) {
        warn(format!("{error:#}"));
    }
    agent_log::relay(&said());
    let _no_log = fs::remove_file(&log);
    let files = outcome::new_files(&before, folder)?;
    let Some(mut loaded) = outcome::load(&files, folder) else {
        return Err(Failure::new(FAILED, "the agent wrote no profile; see its log above"));
    };
    let ran = time(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
    let how = format!("profiled process {pid} for {ran}");
    let more = vec![("pid", json!(pid))];
    let outcome = Outcome { folder, how, is_cut_off: false, elapsed, until, more, hint: None };
    outcome.show(&mut loaded, &args.report)?;
    Ok(0)
}

/// What the agent is told as it is loaded.
fn request(args: &AttachArgs, folder: &Path) -> Request {
    let log = folder.join(LOG).to_string_lossy().into_owned();
    let out = folder.to_string_lossy().into_owned();
    let given = args.options.settings();
    let mut settings = vec![
        ("CORPROF_UPLOAD_PERIOD".to_owned(), RUN_PERIOD.to_owned()),
        ("CORPROF_LOG_FILE".to_owned(), log),
    ];
    settings.retain(|(name, _)| given.iter().all(|(other, _)| other != name));
    settings.extend(given);
    // Who runs it by hand wants it, and to end it, whatever the environment says.
    let always = [
        ("CORPROF_OUTPUT_DIR", out),
        ("CORPROF_ENABLED", "true".to_owned()),
        ("CORPROF_CONTROL", "true".to_owned()),
    ];
    settings.retain(|(name, _)| always.iter().all(|(other, _)| other != name));
    settings.extend(always.map(|(name, value)| (name.to_owned(), value)));
    let leave_after = args.time_limit.map(|limit| limit.saturating_add(ORPHANED));
    let begin_before = SystemTime::now().checked_add(ATTACH_PATIENCE);
    Request { command: Command::Attach(Stay { leave_after, begin_before }), settings }
}

/// Waits until the time is over, somebody stops us, or the process or the agent is gone.
fn watch(pid: u32, stopped: &AtomicBool, started: Instant, limit: Option<Duration>) {
    let until = limit.map_or("until Ctrl-C".to_owned(), |limit| {
        format!("for {}; Ctrl-C ends it earlier", config::duration_to_text(limit))
    });
    note(format!("profiling process {pid} {until}"));
    let is_over = || limit.is_some_and(|limit| started.elapsed() >= limit);
    while !is_over() && !stopped.load(Ordering::Acquire) {
        if control::pipe_of(pid).is_err() {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Has the agent leave, and waits until its pipe is gone.
fn leave(pid: u32) -> anyhow::Result<()> {
    let Ok(pipe) = control::pipe_of(pid) else { return Ok(()) };
    control::ask(&pipe, &Request::of(Command::Detach))
        .with_context(|| format!("the agent stays in process {pid}"))?;
    let deadline = Instant::now() + LEAVE_PATIENCE;
    while control::pipe_of(pid).is_ok() && listening().contains(&pid) {
        if Instant::now() >= deadline {
            anyhow::bail!("the agent is still about to leave process {pid}");
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
