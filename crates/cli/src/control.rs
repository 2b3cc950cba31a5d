//! Speaking to an agent at work: its control socket, and `corprof ctl`.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use config::control::{Command, MESSAGE_BYTES_MAX, Request, answer_from_text, socket_name};
use diagnostics::Process;
use serde_json::{Map, Value};

use crate::args::{CtlAction, CtlArgs};
use crate::failure::{Failure, USAGE};

/// Longer than an agent needs to write its last profile and to stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// Names and values.
type Pairs = Vec<(String, String)>;

/// `corprof ctl`.
pub fn ctl(args: &CtlArgs) -> Result<u8, Failure> {
    let settings: Pairs = args.options.settings();
    let command = match args.action {
        CtlAction::Status => Command::Status,
        CtlAction::Start => Command::Start,
        CtlAction::Stop => Command::Stop,
        CtlAction::Set => Command::Set,
        CtlAction::Detach => Command::Detach,
    };
    match (command, settings.is_empty()) {
        (Command::Set, true) => {
            let what = "set what? Name an option: corprof ctl PID set --cpu-interval 5ms";
            return Err(Failure::new(USAGE, what));
        }
        (Command::Status | Command::Stop | Command::Detach, false) => {
            let what = "options of the profiler go with `start` and `set` only";
            return Err(Failure::new(USAGE, what));
        }
        _ => {}
    }
    let socket = socket_of(&Process::new(args.pid))?;
    let answer = ask(&socket, &Request { command, settings })
        .with_context(|| format!("process {}", args.pid))?;
    let mut out = anstream::stdout().lock();
    if args.json {
        let map = answer.into_iter().map(|(name, value)| (name, Value::String(value)));
        writeln!(out, "{}", serde_json::to_string_pretty(&Value::Object(Map::from_iter(map)))?)?;
    } else {
        for (name, value) in answer {
            writeln!(out, "{name:<14} {value}")?;
        }
    }
    Ok(0)
}

/// The control socket of the agent in a process.
///
/// # Errors
/// That there is none, and what to do.
pub fn socket_of(process: &Process) -> anyhow::Result<PathBuf> {
    let pid = process.pid();
    let Ok((start_ticks, _)) = process.started() else {
        bail!("there is no process {pid}; `corprof ps` lists those that can be profiled");
    };
    let place = folder_of(process);
    let own_pid = process.status().ok().and_then(|status| status.own_pid()).unwrap_or(pid);
    let path = place.join(socket_name(own_pid, start_ticks));
    match fs::metadata(&path) {
        Ok(_) => Ok(path),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("process {pid} is another user's; run corprof as that user or as root")
        }
        Err(_) => bail!(
            "process {pid} has no agent that listens ({} is not there): start it with `corprof \
             run`, or attach with `corprof attach {pid}`; CORPROF_CONTROL=false makes an agent deaf",
            path.display()
        ),
    }
}

/// The temporary folder of a process, as we see it.
pub fn folder_of(process: &Process) -> PathBuf {
    process.outside(&their_folder(process))
}

/// The temporary folder of a process, as it sees it.
pub fn their_folder(process: &Process) -> PathBuf {
    let variables = process.environment().unwrap_or_default();
    let named = variables.into_iter().find(|(name, value)| name == "TMPDIR" && !value.is_empty());
    named.map_or_else(|| PathBuf::from("/tmp"), |(_, value)| PathBuf::from(value))
}

/// Asks an agent.
///
/// # Errors
/// The agent's own, or why it didn't answer.
pub fn ask(socket: &Path, request: &Request) -> anyhow::Result<Pairs> {
    let shown = socket.display();
    let mut stream = UnixStream::connect(socket).with_context(|| {
        format!("nobody listens at {shown}: the agent is gone, or it is another user's")
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.to_text().as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut text = String::new();
    let limit = u64::try_from(MESSAGE_BYTES_MAX).unwrap_or(u64::MAX);
    stream
        .take(limit)
        .read_to_string(&mut text)
        .with_context(|| format!("the agent at {shown} doesn't answer"))?;
    answer_from_text(&text).map_err(|why| anyhow::anyhow!("the agent says: {why}"))
}
