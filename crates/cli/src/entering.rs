//! Having a process's runtime load the agent, and waiting until it has.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::PROFILER_GUID;
use config::control::Request;
use diagnostics::{AttachError, Guid, Process, Socket};

use crate::interrupts::Interrupts;
use crate::{patience, stops, warn};

/// How long a runtime may take to load the agent; a garbage collection may be under way.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long it still may where somebody has us end: an agent that has come in can be told to leave.
const GRACE: Duration = Duration::from_secs(1);

/// Why nobody waits for the runtime to load the agent.
#[derive(Debug)]
pub enum NotWaited {
    /// Somebody had us end, so long before the runtime would have been too late.
    Interrupted(Duration),
    /// There can be no thread to ask it.
    NoThread(io::Error),
}

/// Has the runtime load the agent; says so if the process is seen to be stopped meanwhile.
pub fn load(
    socket: &Socket,
    agent: &Path,
    request: &Request,
    interrupts: &Interrupts,
) -> Result<Result<(), AttachError>, NotWaited> {
    let Some(class) = Guid::parse(PROFILER_GUID) else {
        return Ok(Err(AttachError::BadPath(PathBuf::new())));
    };
    let process = socket.process();
    let begun = Instant::now();
    let ask = {
        let (agent, data) = (agent.to_owned(), request.to_text());
        let socket = socket.clone().with_timeout(PATIENCE);
        move || socket.attach_profiler(PATIENCE, class, &agent, data.as_bytes())
    };
    let (mut is_told, mut interrupted) = (false, None);
    let give_up = || {
        let stopped = stops::told(process);
        if let Some(how) = stopped.as_ref().filter(|_| !is_told) {
            let left = PATIENCE.saturating_sub(begun.elapsed()).as_secs();
            let pid = process.pid();
            warn(format!("process {pid} {how}; waiting {left} s for that, or until Ctrl-C"));
            is_told = true;
        }
        if !interrupts.came() {
            return None;
        }
        let since = interrupted.get_or_insert_with(Instant::now);
        let is_over = stopped.is_some() || since.elapsed() >= GRACE;
        is_over.then(|| PATIENCE.saturating_sub(begun.elapsed()))
    };
    let answer = patience::unless(ask, give_up).map_err(NotWaited::NoThread)?;
    answer.map_err(NotWaited::Interrupted)
}

/// How things are if somebody has us end before the runtime has answered.
pub fn interrupted(
    process: &Process,
    name: &str,
    left: Duration,
    time_limit: Option<Duration>,
) -> String {
    let pid = process.pid();
    let how = match stops::told(process) {
        Some(how) => format!("process {pid} ({name}) {how}"),
        None => format!("process {pid} ({name}) has not answered"),
    };
    let until = match time_limit {
        Some(limit) => format!(
            "for {} and some seconds, or until `corprof ctl {pid} detach`",
            config::duration_to_text(limit)
        ),
        None => format!("until `corprof ctl {pid} detach`"),
    };
    format!(
        "ended before the agent was loaded: {how}. Its runtime has the request: if it loads the \
         agent within {} s, that stays {until}; after that it leaves at once",
        left.as_secs().saturating_add(1)
    )
}
