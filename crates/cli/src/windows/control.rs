//! Speaking to an agent at work: its control pipe, and `corprof ctl`.

use std::io::{ErrorKind, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use config::control::{Command, Request, answer_from_text, socket_name};
use diagnostics::Pipe;
use serde_json::{Map, Value};

use crate::args::{CtlAction, CtlArgs};
use crate::failure::{Failure, USAGE};

/// Longer than an agent needs to write its last profile and to stop.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of an answer; it has some lines.
const ANSWER_BYTES_MAX: usize = 64 << 10;

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
    if command == Command::Set && settings.is_empty() {
        let what = "set what? Name an option: corprof ctl PID set --cpu-interval 5ms";
        return Err(Failure::new(USAGE, what));
    }
    let takes_options = matches!(command, Command::Set | Command::Start);
    if !takes_options && !settings.is_empty() {
        let what = "options of the profiler go with `start` and `set` only";
        return Err(Failure::new(USAGE, what));
    }
    let pipe = pipe_of(args.pid)?;
    let answer = ask(&pipe, &Request { command, settings })
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

/// The control pipe of the agent in a process.
///
/// # Errors
/// That there is none, and what to do.
pub fn pipe_of(pid: u32) -> anyhow::Result<Pipe> {
    let pipe = Pipe::new(&socket_name(pid, 0), pid);
    ensure!(
        pipe.is_there(),
        "process {pid} has no agent that listens: start it with `corprof run`, or attach with \
         `corprof attach {pid}`; CORPROF_CONTROL=false makes agents deaf"
    );
    Ok(pipe)
}

/// Asks the agent of a process.
///
/// # Errors
/// The agent's own, or why it didn't answer.
pub fn ask(pipe: &Pipe, request: &Request) -> anyhow::Result<Pairs> {
    let shown = pipe.path().display();
    let asked = pipe.ask(request.to_text().as_bytes(), ANSWER_BYTES_MAX, Instant::now() + PATIENCE);
    let answer = asked.map_err(|error| match error.kind() {
        ErrorKind::TimedOut => anyhow!("the agent at {shown} doesn't answer"),
        ErrorKind::Other => anyhow!("nobody is believed at {shown}: {error}"),
        _ => anyhow!(
            "nobody answers at {shown}: {error}; the agent is gone, or it is another user's"
        ),
    })?;
    let answer = String::from_utf8(answer)
        .with_context(|| format!("what listens at {shown} is no agent"))?;
    answer_from_text(&answer).map_err(|why| anyhow!("the agent says: {why}"))
}
