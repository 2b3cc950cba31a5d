//! The program that is profiled: started, waited for, with the signals that were meant for it.
//!
//! Signals are read from a file descriptor (signalfd): they are blocked from before the program is
//! started until it has ended, so there is no handler, and no race between a signal and a wait. A
//! program inherits what is blocked and what is ignored; so it is started with what was blocked
//! before, and what was ignored stays so (`nohup corprof run` works).

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use diagnostics::Process;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, NOT_STARTED};
use crate::spawned::{REAL_TIME, Spawned};
use crate::stops::{self, Stops};
use crate::{note, warn};

/// Signals that are meant for the program when they come to us.
const FORWARDED: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
];
/// Signals of programs that went wrong.
const CRASHES: [Signal; 6] = [
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGSEGV,
];
/// From SIGTERM to SIGKILL at the end of `--for`: a .NET program may need its time to shut down,
/// and the agent writes the last profile in it.
const GRACE: Duration = Duration::from_secs(10);
/// How long to wait for a signal before looking at the program anyway.
const LOOK: Duration = Duration::from_secs(1);

/// How the program ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its process's number.
    pub pid: u32,
    /// Its exit code; 128+n if signal n ended it.
    pub code: u8,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it ran.
    pub elapsed: Duration,
    /// For how long of that it was stopped.
    pub stopped: Duration,
}

impl Ended {
    /// Whether that was a crash, as after an exception that nobody caught.
    pub fn is_crash(&self) -> bool {
        let number = self.signal.unwrap_or_else(|| i32::from(self.code) - 128);
        let signal = Signal::try_from(number);
        self.cut_off_by().is_some() && signal.is_ok_and(|signal| CRASHES.contains(&signal))
    }

    /// What ended the program before anything in it could write a last profile: a signal, also if
    /// only a shell's exit code tells of it. Of SIGTERM's 143 it doesn't: .NET ends with it in
    /// good order.
    pub fn cut_off_by(&self) -> Option<String> {
        match (self.signal, self.code) {
            (Some(signal), _) => Some(signal_name(signal)),
            (None, 134 | 137 | 139) => {
                let signal = signal_name(i32::from(self.code) - 128);
                Some(format!("{signal} (exit code {})", self.code))
            }
            (None, _) => None,
        }
    }
}

/// Runs a command to its end.
///
/// # Errors
/// If it can't be started; the exit code says whether it isn't there or can't be executed.
pub fn run(command: &mut Command, limit: Option<Duration>) -> Result<Ended, Failure> {
    let mut mask = SigSet::empty();
    FORWARDED.into_iter().chain([Signal::SIGCHLD]).for_each(|signal| mask.add(signal));
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&mask, flags)
        .context("can't read signals")
        .map_err(Failure::with(NOT_STARTED))?;
    let mut blocked = mask;
    blocked.add(Signal::SIGXFSZ);
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK).context("can't block signals")?;
    let started = Instant::now();
    let spawned = Spawned::start(command, &before);
    let result = match &spawned {
        Ok(child) => wait(child, &signals, started, limit),
        Err(_) => Ok(Default::default()),
    };
    // From here on a signal is for us again: Ctrl-C ends the report.
    let _ = before.thread_set_mask();
    crate::survive_file_limit();
    let child = spawned.map_err(|error| not_started(command.get_program(), &error))?;
    let (status, stopped) = result?;
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128_i32.saturating_add(signal),
        (None, None) => 1,
    };
    let code = u8::try_from(code & 0xff).unwrap_or(1);
    let pid = child.pid().as_raw().cast_unsigned();
    Ok(Ended { pid, code, signal: status.signal(), elapsed: started.elapsed(), stopped })
}

/// The name of a signal: `SIGTERM`.
pub fn signal_name(signal: i32) -> String {
    match Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) if signal >= REAL_TIME => "a real-time signal".to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

fn wait(
    child: &Spawned,
    signals: &SignalFd,
    started: Instant,
    limit: Option<Duration>,
) -> anyhow::Result<(ExitStatus, Duration)> {
    let pid = child.pid();
    // A stop is told by SIGCHLD, too.
    let mut stops = Stops::of(Process::new(pid.as_raw().cast_unsigned()));
    let mut limit = limit.map(|limit| (limit, Signal::SIGTERM));
    // What came while the program was being started may have found no program.
    pass_on(pid, signals, Whose::All);
    loop {
        if let Some(status) = child.ended().context("can't wait for the program")? {
            return Ok((status, stops.sum()));
        }
        stops.look();
        let left = limit.map(|(limit, _)| limit.saturating_sub(started.elapsed()));
        if let (Some((at, signal)), Some(Duration::ZERO)) = (limit, left) {
            end(pid, signal);
            limit = (signal == Signal::SIGTERM)
                .then_some((at.saturating_add(GRACE).max(started.elapsed()), Signal::SIGKILL));
            continue;
        }
        // One more, or the last part of a millisecond would be waited for by spinning.
        let wait = left.map_or(LOOK, |left| left.min(LOOK)) + Duration::from_millis(1);
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("can't wait for signals"),
        }
        pass_on(pid, signals, Whose::Processes);
    }
}

/// Asks the program to end, or ends it. What is stopped acts on no signal but SIGKILL.
fn end(pid: Pid, signal: Signal) {
    let is_stopped = stops::is_stopped(&Process::new(pid.as_raw().cast_unsigned()));
    if signal == Signal::SIGKILL {
        let why = if is_stopped { ", since it is stopped" } else { "" };
        warn(format!(
            "the program did not end within {} s of SIGTERM{why}: SIGKILL; \
             the agent could not write the last profile",
            GRACE.as_secs()
        ));
    } else if is_stopped {
        note("the time is over: SIGTERM to the program, and SIGCONT, since it is stopped");
    } else {
        note("the time is over: SIGTERM to the program");
    }
    send(pid, signal);
    if is_stopped {
        send(pid, Signal::SIGCONT);
    }
}

/// Which signals the program has not got by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// All: there was no program yet.
    All,
    /// Those that processes have sent. The kernel itself sends when a key is pressed (Ctrl-C) or
    /// the terminal goes away, and then to the whole foreground group: the program has it already.
    Processes,
}

/// Sends the program what has come for it.
fn pass_on(pid: Pid, signals: &SignalFd, whose: Whose) {
    while let Ok(Some(signal)) = signals.read_signal() {
        if whose == Whose::Processes && signal.ssi_code == libc::SI_KERNEL {
            continue;
        }
        let number = i32::try_from(signal.ssi_signo).ok();
        let signal = number.and_then(|number| Signal::try_from(number).ok());
        if let Some(signal) = signal.filter(|signal| FORWARDED.contains(signal)) {
            send(pid, signal);
        }
    }
}

fn send(pid: Pid, signal: Signal) {
    match kill(pid, signal) {
        // ESRCH: it ended by itself in the meantime.
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => warn(format!("can't send {} to the program: {error}", signal.as_str())),
    }
}

fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let shown = program.to_string_lossy();
    let path = Path::new(program);
    let is_path = path.components().count() > 1;
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR) if is_path && path.exists() => Failure::new(
            NOT_EXECUTABLE,
            format!("{shown} is there, but the interpreter or loader that it names is not"),
        ),
        Some(Errno::ENOENT | Errno::ENOTDIR) if is_path => {
            Failure::new(NOT_FOUND, format!("there is no program {shown}"))
        }
        Some(Errno::ENOENT | Errno::ENOTDIR) => {
            let hint = if path.extension() == Some(OsStr::new("dll")) {
                format!("; for a .NET assembly: dotnet {shown}")
            } else {
                String::new()
            };
            Failure::new(NOT_FOUND, format!("there is no program {shown} in PATH{hint}"))
        }
        Some(Errno::EACCES) if path.is_dir() => {
            Failure::new(NOT_EXECUTABLE, format!("{shown} is a folder, not a program"))
        }
        Some(Errno::EACCES) => Failure::new(
            NOT_EXECUTABLE,
            format!("{shown} may not be executed; for a .NET assembly: dotnet {shown}"),
        ),
        Some(Errno::ENOEXEC) => Failure::new(
            NOT_EXECUTABLE,
            format!(
                "{shown} is not a program for this system; for a .NET assembly: dotnet {shown}"
            ),
        ),
        _ => Failure::new(NOT_STARTED, format!("{shown} could not be started: {error}")),
    }
}
