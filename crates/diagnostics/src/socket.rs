//! A runtime's diagnostics socket: where it is, and requests to it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::control::temporary_folder;

use crate::exchange::Exchange;
use crate::{
    AttachError, Command, Guid, Hidden, Process, ProcessInfo, RequestError, Runtime, Switch,
    UnixEndpoint, Unreachable, check_fit, switched_off,
};

/// How long a request may take if nothing else is said.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// For this long after its start a process without a socket is taken for one that is starting.
const STARTING: Duration = Duration::from_secs(5);
/// Clock ticks of `/proc/<pid>/stat` in a second: `USER_HZ`, the same on all Linux systems of ours.
const TICKS_PER_SECOND: u64 = 100;
/// Bytes of an environment that are taken from a runtime; the kernel allows 6 MiB by default.
const ENVIRONMENT_BYTES_MAX: usize = 32 << 20;

/// A runtime that can be talked to.
#[derive(Clone, Debug)]
pub struct Socket {
    process: Process,
    endpoint: UnixEndpoint,
    timeout: Duration,
}

impl Socket {
    /// The socket of a process, also in a container.
    ///
    /// It is there when this returns; whether the runtime answers is seen with the first request.
    ///
    /// # Errors
    /// If there is none, or it may not be used; with the reason.
    pub fn of(pid: u32) -> Result<Self, Unreachable> {
        Self::of_process(&Process::new(pid))
    }

    /// The same for a process that is known already.
    ///
    /// # Errors
    /// As `of`.
    pub fn of_process(process: &Process) -> Result<Self, Unreachable> {
        let (_, state) = process.started().map_err(unseen)?;
        if state == 'Z' || state == 'X' {
            return Err(Unreachable::NoProcess);
        }
        if let Some(pid) = process.of_thread() {
            return Err(Unreachable::Thread { tid: process.pid(), pid });
        }
        if state == 'T' {
            // It would answer once it goes on, when nobody waits for that any more.
            return Err(Unreachable::Stopped(process.pid()));
        }
        let environment = process.environment();
        let folders = folders(process, environment.as_deref().ok());
        match find(process, &folders) {
            Some(path) => {
                let endpoint = UnixEndpoint::new(path, process.pid());
                Ok(Self { process: process.clone(), endpoint, timeout: REQUEST_TIMEOUT })
            }
            None => Err(why_none(process, environment.as_deref(), folders)),
        }
    }

    /// The same socket with another time for each request.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Where the socket is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.endpoint.path()
    }

    /// What the runtime says of its process: as much as its version knows.
    ///
    /// # Errors
    /// If it does not answer; from .NET Core 3.1 `Refused` with `UNKNOWN_COMMAND`.
    pub fn process_info(&self) -> Result<ProcessInfo, RequestError> {
        self.exchange().process_info()
    }

    /// The environment as the runtime has it now, which may differ from what it was started with.
    ///
    /// # Errors
    /// If it does not answer; from .NET Core 3.1 `Refused` with `UNKNOWN_COMMAND`.
    pub fn environment(&self) -> Result<Vec<(String, String)>, RequestError> {
        let deadline = Instant::now() + self.timeout;
        let exchange = self.exchange();
        let (payload, mut stream) = exchange.request(Command::Environment, Vec::new(), deadline)?;
        let length = crate::payload::Reader(&payload).u32()?;
        let length = usize::try_from(length).ok().filter(|length| *length <= ENVIRONMENT_BYTES_MAX);
        let mut bytes = vec![0; length.ok_or(crate::Malformed::Long)?];
        stream.receive(&mut bytes, deadline).map_err(|error| exchange.failed(error))?;
        Ok(crate::payload::environment(&bytes)?)
    }

    /// Has the runtime load a profiler. While it is starting this is tried again, for `timeout` in
    /// all.
    ///
    /// `library` is the profiler's path as the process sees it, `client_data` what it gets.
    ///
    /// # Errors
    /// If it could not be loaded; with the reason.
    pub fn attach_profiler(
        &self,
        timeout: Duration,
        class: Guid,
        library: &Path,
        client_data: &[u8],
    ) -> Result<(), AttachError> {
        let deadline = Instant::now() + timeout;
        let variables = self.process.environment().unwrap_or_default();
        if let Some(setting) = switched_off(Switch::Profiler, |name| value(&variables, name)) {
            return Err(AttachError::SwitchedOff(setting));
        }
        let mapped = self.process.mapped_files().unwrap_or_default();
        check_fit(&self.process, &mapped, library)?;
        let other = || crate::profilers::mapped_one(&mapped);
        self.exchange().attach_profiler(deadline, class, library, client_data, other)
    }

    fn exchange(&self) -> Exchange<'_> {
        Exchange { endpoint: &self.endpoint, timeout: self.timeout }
    }
}

fn unseen(hidden: Hidden) -> Unreachable {
    match hidden {
        Hidden::Gone => Unreachable::NoProcess,
        hidden => Unreachable::Hidden(hidden),
    }
}

fn value(variables: &[(String, String)], name: &str) -> Option<String> {
    let (_, value) = variables.iter().find(|(other, _)| other == name)?;
    Some(value.clone())
}

/// Where the process has its socket, as it sees the folder: first what is most likely.
fn folders(process: &Process, environment: Option<&[(String, String)]>) -> Vec<PathBuf> {
    let Some(environment) = environment else {
        // We may not look; ours is a good guess.
        let ours = std::env::var("TMPDIR").map(|value| ("TMPDIR".to_owned(), value)).ok();
        let mut guesses = vec![process.temporary_folder(ours.as_slice()), temporary_folder(None)];
        guesses.dedup();
        return guesses;
    };
    vec![process.temporary_folder(environment)]
}

/// The socket of a process in its folders. Others of the same number are leftovers of processes
/// that have ended: the name has the start's time, too.
fn find(process: &Process, folders: &[PathBuf]) -> Option<PathBuf> {
    let (start, _) = process.started().ok()?;
    let own_pid = process.status().ok().and_then(|status| status.own_pid());
    let own_pid = own_pid.unwrap_or(process.pid());
    // In another time namespace the start is another number there, and only the newest is a guess.
    let own = Process::new(std::process::id());
    let is_same_time = process.shares_namespace(&own, "time").unwrap_or(true);
    let places = folders.iter().flat_map(|folder| [process.outside(folder), folder.clone()]);
    places.into_iter().find_map(|place| {
        let sockets = sockets(&place, own_pid);
        let exact = sockets.iter().find(|(key, _)| *key == start);
        let found = if is_same_time { exact } else { exact.or(sockets.last()) };
        found.map(|(_, path)| path.clone())
    })
}

/// The sockets of a number in a folder with their keys, the newest last.
fn sockets(folder: &Path, pid: u32) -> Vec<(u64, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let key = |name: &OsStr| key_of(name.to_str()?, pid);
    let mut sockets: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((key(&entry.file_name())?, entry.path())))
        .collect();
    sockets.sort_unstable();
    sockets
}

/// The key in a socket's name, `dotnet-diagnostic-<pid>-<key>-socket`.
fn key_of(name: &str, pid: u32) -> Option<u64> {
    let rest = name.strip_prefix("dotnet-diagnostic-")?.strip_suffix("-socket")?;
    let (number, key) = rest.split_once('-')?;
    (number.parse() == Ok(pid)).then(|| key.parse().ok())?
}

fn why_none(
    process: &Process,
    environment: Result<&[(String, String)], &Hidden>,
    folders: Vec<PathBuf>,
) -> Unreachable {
    let own = Process::new(std::process::id());
    let user = process.status().ok().and_then(|status| status.user());
    let our_user = own.status().ok().and_then(|status| status.user());
    let Ok(environment) = environment else {
        return match user.filter(|user| our_user.is_some_and(|our| our != 0 && our != *user)) {
            Some(user) => Unreachable::OtherUser(user),
            None => Unreachable::Hidden(Hidden::Denied),
        };
    };
    let mapped = match process.mapped_files() {
        Ok(mapped) => mapped,
        Err(hidden) => return unseen(hidden),
    };
    match Runtime::of(process, &mapped) {
        Ok(Some(Runtime::NativeAot)) => return Unreachable::NativeAot,
        Ok(Some(Runtime::Mono)) => return Unreachable::Mono,
        Ok(Some(_)) => {}
        Ok(None) if age(process).is_some_and(|age| age < STARTING) && is_host(process, &mapped) => {
            return Unreachable::Starting;
        }
        Ok(None) => return Unreachable::NotDotnet,
        Err(hidden) => return unseen(hidden),
    }
    if let Some(setting) = switched_off(Switch::Socket, |name| value(environment, name)) {
        return Unreachable::SwitchedOff(setting);
    }
    match age(process) {
        Some(age) if age < STARTING => Unreachable::Starting,
        _ => Unreachable::NoSocket(folders),
    }
}

/// Whether a process is .NET's host, which loads the runtime.
fn is_host(process: &Process, mapped: &[PathBuf]) -> bool {
    let has = |name: &str| mapped.iter().any(|file| file.file_name() == Some(OsStr::new(name)));
    let program = process.program().unwrap_or_default();
    program.file_name() == Some(OsStr::new("dotnet"))
        || has("libhostfxr.so")
        || has("libhostpolicy.so")
}

/// How long a process has been there.
fn age(process: &Process) -> Option<Duration> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = text.split_whitespace().next()?.parse().ok()?;
    let now = Duration::try_from_secs_f64(uptime).ok()?;
    let (start, _) = process.started().ok()?;
    now.checked_sub(Duration::from_millis(start.saturating_mul(1000 / TICKS_PER_SECOND)))
}
