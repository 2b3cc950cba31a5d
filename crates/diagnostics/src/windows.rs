//! A runtime's diagnostics pipe on Windows: where it is, and requests to it.
//!
//! The system lets a user's own processes and administrators open it. A pipe that is opened as a
//! file has no time-outs, so each exchange is made on a thread that is left alone if it takes too
//! long.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::exchange::Exchange;
use crate::{AttachError, Endpoint, Guid, ProcessInfo, RequestError, Stream, Unreachable};

/// How long a request may take if nothing else is said.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait before the next try where all places of the pipe are taken.
const BUSY_RETRY: Duration = Duration::from_millis(5);
/// All places of the pipe are taken.
const ERROR_PIPE_BUSY: i32 = 231;
/// Where pipes are.
const PIPES: &str = r"\\.\pipe\";
/// What the names of runtimes' pipes begin with; the process's number follows.
const PREFIX: &str = "dotnet-diagnostic-";

/// Why something of a process can't be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// It has ended.
    Gone,
    /// The system doesn't let us.
    Denied,
    /// Something else went wrong.
    Failed(io::ErrorKind),
}

/// The processes whose runtimes listen, by number.
#[must_use]
pub fn listening() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(PIPES) else { return tried() };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut pids: Vec<u32> =
        names.filter_map(|name| name.to_str()?.strip_prefix(PREFIX)?.parse().ok()).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The same where pipes can't be listed, as in Wine: all small numbers are tried.
fn tried() -> Vec<u32> {
    const LAST: u32 = 4096;
    let open = |path: String| OpenOptions::new().read(true).write(true).open(path);
    let is_there = |pid: &u32| match open(format!("{PIPES}{PREFIX}{pid}")) {
        Ok(_) => true,
        Err(error) => error.raw_os_error() == Some(ERROR_PIPE_BUSY),
    };
    (4..LAST).step_by(4).filter(is_there).collect()
}

/// A runtime that can be talked to.
#[derive(Clone, Debug)]
pub struct Socket {
    pipe: Pipe,
    timeout: Duration,
}

impl Socket {
    /// The pipe of a process.
    ///
    /// # Errors
    /// If there is none, or it may not be used; with the reason.
    pub fn of(pid: u32) -> Result<Self, Unreachable> {
        if !listening().contains(&pid) {
            return Err(Unreachable::NoSocket(vec![PathBuf::from(PIPES)]));
        }
        let pipe = Pipe { path: PathBuf::from(format!("{PIPES}{PREFIX}{pid}")) };
        Ok(Self { pipe, timeout: REQUEST_TIMEOUT })
    }

    /// The same pipe with another time for each request.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// What the runtime says of its process: as much as its version knows.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn process_info(&self) -> Result<ProcessInfo, RequestError> {
        self.exchange().process_info()
    }

    /// Has the runtime load a profiler. While it is starting this is tried again, for `timeout` in
    /// all.
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
        self.exchange().attach_profiler(deadline, class, library, client_data, || None)
    }

    fn exchange(&self) -> Exchange<'_> {
        Exchange { endpoint: &self.pipe, timeout: self.timeout }
    }
}

/// A named pipe.
#[derive(Clone, Debug)]
struct Pipe {
    path: PathBuf,
}

impl Endpoint for Pipe {
    fn connect(&self, deadline: Instant) -> io::Result<Box<dyn Stream>> {
        loop {
            match OpenOptions::new().read(true).write(true).open(&self.path) {
                Ok(pipe) => return Ok(Box::new(Connection(pipe))),
                Err(error) if error.raw_os_error() == Some(ERROR_PIPE_BUSY) => {
                    left(deadline)?;
                    thread::sleep(BUSY_RETRY);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

struct Connection(File);

impl Stream for Connection {
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        let (mut pipe, bytes) = (self.0.try_clone()?, bytes.to_vec());
        within(deadline, move || pipe.write_all(&bytes))
    }

    fn receive(&mut self, bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
        let (mut pipe, length) = (self.0.try_clone()?, bytes.len());
        let read = move || {
            let mut read = vec![0; length];
            pipe.read_exact(&mut read).map(|()| read)
        };
        bytes.copy_from_slice(&within(deadline, read)?);
        Ok(())
    }
}

/// Does something that may take its time, until then at the latest.
fn within<T: Send + 'static>(
    deadline: Instant,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let left = left(deadline)?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens any more if it took too long.
        let _late = tell.send(work());
    });
    told.recv_timeout(left).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The time until the deadline.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
