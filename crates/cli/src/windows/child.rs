//! The program that is profiled: started and waited for.
//!
//! Ctrl-C goes to all processes of a console: the program has it already, and we go on, to show its
//! report.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use config::control::{Command as Ask, Request};

use super::control;
use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, NOT_STARTED};
use crate::{note, warn};

/// Between two looks at the program.
const LOOK: Duration = Duration::from_millis(20);
/// Exit codes from here on are those of crashes (`STATUS_…`), and .NET's for an exception that
/// nobody caught.
const CRASHES_FROM: u32 = 0xc000_0000;

/// How the program ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its process's number.
    pub pid: u32,
    /// The low byte of its exit code; 1 if that would say success though it failed.
    pub code: u8,
    /// What would be a signal elsewhere: the whole exit code, if that is a crash's.
    pub signal: Option<i32>,
    /// How long it ran.
    pub elapsed: Duration,
    /// For how long of that it was stopped; no signal does that here.
    pub stopped: Duration,
}

impl Ended {
    /// Whether that was a crash, as after an exception that nobody caught.
    pub fn is_crash(&self) -> bool {
        self.signal.is_some()
    }

    /// What ended the program before anything in it could write a last profile.
    pub fn cut_off_by(&self) -> Option<String> {
        self.signal.map(signal_name)
    }
}

/// The name of a crash: its code.
pub fn signal_name(code: i32) -> String {
    format!("a crash ({:#x})", code.cast_unsigned())
}

/// Runs a command to its end.
///
/// # Errors
/// If it can't be started; the exit code says whether it isn't there or can't be executed.
pub fn run(command: &mut Command, limit: Option<Duration>) -> Result<Ended, Failure> {
    // Without it Ctrl-C ends us before the report. That is all that is lost if it can't be had.
    if let Err(error) = ctrlc::set_handler(|| {}) {
        warn(format!("after Ctrl-C there will be no report: {error}"));
    }
    let started = Instant::now();
    let child = command.spawn().map_err(|error| not_started(command.get_program(), &error))?;
    let pid = child.id();
    let status = wait(child, started, limit)?;
    let whole = status.code().unwrap_or(1).cast_unsigned();
    let low = u8::try_from(whole & 0xff).unwrap_or(1);
    Ok(Ended {
        pid,
        code: if low == 0 && whole != 0 { 1 } else { low },
        signal: (whole >= CRASHES_FROM).then_some(whole.cast_signed()),
        elapsed: started.elapsed(),
        stopped: Duration::ZERO,
    })
}

fn wait(mut child: Child, started: Instant, limit: Option<Duration>) -> anyhow::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().context("can't wait for the program")? {
            return Ok(status);
        }
        if limit.is_some_and(|limit| started.elapsed() >= limit) {
            end(&mut child);
            return child.wait().context("can't wait for the program");
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends the program: Windows has no way to ask one that shows no window, so the agent is asked to
/// write its last profile first.
fn end(child: &mut Child) {
    note("the time is over: the program is ended");
    let stopped =
        control::pipe_of(child.id()).and_then(|pipe| control::ask(&pipe, &Request::of(Ask::Stop)));
    if let Err(error) = stopped {
        warn(format!("the agent could not be asked to write the last profile: {error:#}"));
    }
    if let Err(error) = child.kill() {
        warn(format!("the program can't be ended: {error}"));
    }
}

fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let shown = program.to_string_lossy();
    match error.kind() {
        ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("there is no program {shown}")),
        ErrorKind::PermissionDenied => {
            Failure::new(NOT_EXECUTABLE, format!("{shown} may not be executed: {error}"))
        }
        // ERROR_BAD_EXE_FORMAT.
        _ if error.raw_os_error() == Some(193) => Failure::new(
            NOT_EXECUTABLE,
            format!(
                "{shown} is not a program for this system; for a .NET assembly: dotnet {shown}"
            ),
        ),
        _ => Failure::new(NOT_STARTED, format!("{shown} could not be started: {error}")),
    }
}
