//! A runtime's diagnostics pipe on Windows: where it is, and requests to it.
//!
//! The system lets a user's own processes and administrators open it.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sys::unix_socket::{self, LocalStream};

use crate::exchange::Exchange;
use crate::{AttachError, Endpoint, Guid, ProcessInfo, RequestError, Stream, Unreachable};

/// How long a request may take if nothing else is said.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
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
    let Some(names) = names() else { return tried() };
    let mut pids: Vec<u32> =
        names.iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The same where pipes can't be listed, as in Wine: all small numbers are tried.
fn tried() -> Vec<u32> {
    const LAST: u32 = 4096;
    (4..LAST).step_by(4).filter(|pid| Pipe::of_runtime(*pid).is_there()).collect()
}

/// The names of all pipes; `None` where they can't be listed.
fn names() -> Option<Vec<String>> {
    let entries = std::fs::read_dir(PIPES).ok()?;
    Some(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
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
        let pipe = Pipe::of_runtime(pid);
        if pipe.is_there() {
            return Ok(Self { pipe, timeout: REQUEST_TIMEOUT });
        }
        Err(Unreachable::NoSocket(vec![PathBuf::from(PIPES)]))
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

/// A named pipe of this machine, served by one process.
#[derive(Clone, Debug)]
pub struct Pipe {
    path: PathBuf,
    pid: u32,
}

impl Pipe {
    /// The pipe of that name, whether there is one or not, at which that process listens. Nobody
    /// else is spoken to, nor is anybody if the system doesn't say who listens: any user may make a
    /// pipe of a name that is not taken yet.
    #[must_use]
    pub fn new(name: &str, pid: u32) -> Self {
        Self { path: PathBuf::from(format!("{PIPES}{name}")), pid }
    }

    fn of_runtime(pid: u32) -> Self {
        Self::new(&format!("{PREFIX}{pid}"), pid)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is one.
    #[must_use]
    pub fn is_there(&self) -> bool {
        unix_socket::is_there(&self.path)
    }

    /// Sends one message, and reads the one that answers it, of at most so many bytes.
    ///
    /// # Errors
    /// If nobody is there, or another process; `TimedOut` after the deadline.
    pub fn ask(&self, message: &[u8], room: usize, deadline: Instant) -> io::Result<Vec<u8>> {
        let mut connection = self.connection(deadline)?;
        connection.send(message, deadline)?;
        let mut answer = vec![0; room];
        let read = connection.read(&mut answer, deadline)?;
        answer.truncate(read);
        Ok(answer)
    }

    fn connection(&self, deadline: Instant) -> io::Result<Connection> {
        let stream = unix_socket::connect(&self.path, left(deadline)?)?;
        let what = match unix_socket::server_pid(&stream) {
            Ok(heard) if heard == self.pid => return Ok(Connection(stream)),
            Ok(heard) => format!("process {heard} listens at it, and not process {}", self.pid),
            Err(error) => format!("the system doesn't say which process listens at it: {error}"),
        };
        Err(io::Error::other(what))
    }
}

impl Endpoint for Pipe {
    fn connect(&self, deadline: Instant) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.connection(deadline)?))
    }
}

struct Connection(LocalStream);

impl Connection {
    fn read(&mut self, bytes: &mut [u8], deadline: Instant) -> io::Result<usize> {
        unix_socket::set_timeouts(&mut self.0, left(deadline)?)?;
        self.0.read(bytes)
    }
}

impl Stream for Connection {
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        unix_socket::set_timeouts(&mut self.0, left(deadline)?)?;
        self.0.write_all(bytes)
    }

    fn receive(&mut self, bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.read(rest, deadline)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => rest = rest.get_mut(read..).unwrap_or_default(),
            }
        }
        Ok(())
    }
}

/// The time until the deadline.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use sys::control_socket::{ControlSocket, read_text, write_text};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn nobody_but_the_process_that_is_meant_is_spoken_to() {
        let own = std::process::id();
        let name = format!("corprof-test-peer-{own}");
        let pipe = Pipe::new(&name, own);
        let server = ControlSocket::bind(pipe.path()).expect("a pipe");
        let until = Instant::now() + LONG;
        let other = Pipe::new(&name, own.wrapping_add(4));
        let refused = other.ask(b"status", 8, until).expect_err("another process");
        assert_eq!(refused.kind(), io::ErrorKind::Other, "{refused}");
        assert!(refused.to_string().contains(&format!("process {own} listens")), "{refused}");
        // Who was hung up on may be seen, and has said nothing.
        let visited = server.accept(Some(Duration::ZERO));
        if let Ok(Some(mut visitor)) = visited {
            assert!(read_text(&mut visitor, until).is_err());
        }
        let asking = std::thread::spawn(move || pipe.ask(b"status", 8, until));
        let mut visitor = loop {
            if let Ok(visitor) = server.accept(Some(LONG)) {
                break visitor.expect("somebody");
            }
        };
        assert_eq!(read_text(&mut visitor, until).expect("a text"), "status");
        write_text(&mut visitor, "running", until).expect("answered");
        assert_eq!(asking.join().expect("it ends").expect("an answer"), b"running");
    }
}
