//! Having an agent leave a process, and waiting until it has.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use config::control::{Command, Request};
use diagnostics::Process;

use crate::{control, patience, stops};

/// How long the agent may take to leave, after its time or a word to it.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at whether it has left.
const LOOK: Duration = Duration::from_millis(20);

/// Whether the agent has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It has, with its last profile written.
    Now,
    /// It will once the process goes on, which is stopped: it has been told.
    Later,
    /// It has not, for the reason that was said.
    NotYet,
}

/// Why it is waited for no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The process is stopped.
    Stopped,
    /// Somebody wants no more of it.
    Interrupted,
}

/// Has the agent leave, and waits until it has; not if the process is stopped, and no longer than
/// until somebody interrupts it.
///
/// # Errors
/// That it has not left, and what to do.
pub fn leave(process: &Process, is_interrupted: impl Fn() -> bool) -> anyhow::Result<Left> {
    let over = || match stops::is_stopped(process) {
        true => Some(Over::Stopped),
        false => is_interrupted().then_some(Over::Interrupted),
    };
    // Without a socket it is leaving already, as it does by itself after its time.
    if let Ok(socket) = control::socket_of(process)
        && let Some(over) = told(process, &socket, over)?
    {
        return ended(process, over);
    }
    // The last profile is written before its last thread ends.
    let deadline = Instant::now() + PATIENCE;
    while is_in(process) {
        if let Some(over) = over() {
            return ended(process, over);
        }
        if Instant::now() >= deadline {
            bail!("the agent is still about to leave process {}", process.pid());
        }
        std::thread::sleep(LOOK);
    }
    Ok(Left::Now)
}

/// Whether a thread of the agent is in a process.
pub fn is_in(process: &Process) -> bool {
    let names = process.thread_names(usize::MAX).unwrap_or_default();
    names.iter().any(|name| name.starts_with("corprof-"))
}

/// Tells the agent to leave; gives why its answer is not waited for, if it is not.
fn told(
    process: &Process,
    socket: &Path,
    over: impl Fn() -> Option<Over>,
) -> anyhow::Result<Option<Over>> {
    let request = Request::of(Command::Detach);
    let leave_word = || {
        let is_told = || control::leave_word(process, socket, &request).is_ok();
        (stops::is_stopped(process) && is_told()).then_some(Over::Stopped)
    };
    if let Some(over) = leave_word() {
        return Ok(Some(over));
    }
    let ask = {
        let (process, socket, request) = (process.clone(), socket.to_owned(), request.clone());
        move || control::ask(&process, &socket, &request).map(drop)
    };
    match patience::unless(ask, over)? {
        Err(over) => Ok(Some(over)),
        // It may have been stopped just before it was asked.
        Ok(Err(error)) if control::socket_of(process).is_ok() => match leave_word() {
            Some(over) => Ok(Some(over)),
            None => Err(error.context(stays(process))),
        },
        Ok(_) => Ok(None),
    }
}

/// What comes of a wait that was given up.
fn ended(process: &Process, over: Over) -> anyhow::Result<Left> {
    match over {
        Over::Stopped => Ok(Left::Later),
        Over::Interrupted => {
            let pid = process.pid();
            bail!(
                "interrupted: the agent was told to leave process {pid} and had not left yet; \
                 `corprof ctl {pid} status` says whether it has"
            )
        }
    }
}

fn stays(process: &Process) -> String {
    let pid = process.pid();
    format!("the agent stays in process {pid}; `corprof ctl {pid} detach` tries again")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn an_agent_that_does_not_answer_is_told_and_not_waited_for() {
        let own = Process::new(std::process::id());
        let path = std::env::temp_dir().join(format!("corprof-leaving-{}", own.pid()));
        let listener = UnixListener::bind(&path).unwrap();
        let is_heard = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&is_heard);
        let agent = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            heard.store(true, Ordering::Release);
            (stream, text)
        });
        let over = || is_heard.load(Ordering::Acquire).then_some(Over::Interrupted);
        assert_eq!(told(&own, &path, over).unwrap(), Some(Over::Interrupted));
        let (_stream, text) = agent.join().unwrap();
        assert_eq!(text, Request::of(Command::Detach).to_text());
        let error = ended(&own, Over::Interrupted).unwrap_err().to_string();
        assert!(error.contains("had not left yet; `corprof ctl"), "{error}");
        assert_eq!(ended(&own, Over::Stopped).unwrap(), Left::Later);
        std::fs::remove_file(&path).unwrap();
    }
}
