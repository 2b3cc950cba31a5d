//! Speaking to an agent at work: its control pipe, and `corprof ctl`.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use config::control::{Command, Request, answer_from_text, socket_name};
use serde_json::{Map, Value};

use crate::args::{CtlAction, CtlArgs};
use crate::failure::{Failure, USAGE};

/// Longer than an agent needs to write its last profile and to stop.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two tries to connect where others wait.
const CONNECT_RETRY: Duration = Duration::from_millis(20);
/// Bytes of an answer; it has some lines.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Where pipes are.
const PIPES: &str = r"\\.\pipe\";
/// All places of the pipe are taken.
const ERROR_PIPE_BUSY: i32 = 231;

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
    let pipe = socket_of(args.pid)?;
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
pub fn socket_of(pid: u32) -> anyhow::Result<PathBuf> {
    let name = socket_name(pid, 0);
    let path = Path::new(PIPES).join(&name);
    let is_there = match std::fs::read_dir(PIPES) {
        Ok(entries) => entries.flatten().any(|entry| entry.file_name() == name.as_str()),
        // Wine has no list of pipes.
        Err(_) => match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(_) => true,
            Err(error) => error.raw_os_error() == Some(ERROR_PIPE_BUSY),
        },
    };
    if !is_there {
        bail!(
            "process {pid} has no agent that listens: start it with `corprof run`, or attach with \
             `corprof attach {pid}`; CORPROF_CONTROL=false makes agents deaf"
        )
    }
    Ok(path)
}

/// Asks the agent of a process.
///
/// # Errors
/// The agent's own, or why it didn't answer.
pub fn ask(pipe: &Path, request: &Request) -> anyhow::Result<Pairs> {
    let shown = pipe.display();
    let mut stream = connected(pipe, Instant::now() + PATIENCE)?;
    let text = request.to_text();
    let (tell, told) = mpsc::channel();
    // A pipe that is opened as a file has no time-outs: the thread is left alone if it takes too
    // long.
    std::thread::spawn(move || {
        let _late = tell.send(exchange(&mut stream, &text));
    });
    let text = told
        .recv_timeout(PATIENCE)
        .with_context(|| format!("the agent at {shown} doesn't answer"))?
        .with_context(|| format!("the agent at {shown} doesn't answer"))?;
    answer_from_text(&text).map_err(|why| anyhow::anyhow!("the agent says: {why}"))
}

/// Says it in one message, and reads up to the end of the pipe.
fn exchange(stream: &mut File, text: &str) -> std::io::Result<String> {
    stream.write_all(text.as_bytes())?;
    let mut answer = vec![0; usize::try_from(ANSWER_BYTES_MAX).unwrap_or(0)];
    let read = stream.read(&mut answer)?;
    answer.truncate(read);
    String::from_utf8(answer).map_err(|_| ErrorKind::InvalidData.into())
}

/// A connection, made by that time: where many wait, others wait for ever.
fn connected(pipe: &Path, deadline: Instant) -> anyhow::Result<File> {
    let shown = pipe.display();
    loop {
        match OpenOptions::new().read(true).write(true).open(pipe) {
            Ok(stream) => return Ok(stream),
            Err(error)
                if error.raw_os_error() == Some(ERROR_PIPE_BUSY) && Instant::now() < deadline =>
            {
                std::thread::sleep(CONNECT_RETRY);
            }
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("nobody listens at {shown}: the agent is gone, or it is another user's")
                });
            }
        }
    }
}
