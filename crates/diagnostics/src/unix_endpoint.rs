//! A Unix socket as a runtime's endpoint.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};

use crate::{Endpoint, Stream};

/// How long to wait before the next try where the other side has no room for one more connection.
const BUSY_RETRY: Duration = Duration::from_millis(5);
/// Bytes of a path that fit in a socket's address (`sun_path` is 108, with a zero at its end).
const ADDRESS_BYTES_MAX: usize = 107;

/// A process's Unix socket in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixEndpoint {
    path: PathBuf,
    pid: u32,
}

impl UnixEndpoint {
    /// The socket with this path, however long that is, at which that process listens. Nobody else
    /// is spoken to: who may write to the folder may have put a link to another's socket there.
    #[must_use]
    pub fn new(path: PathBuf, pid: u32) -> Self {
        Self { path, pid }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Endpoint for UnixEndpoint {
    fn connect(&self, deadline: Instant) -> io::Result<Box<dyn Stream>> {
        // Without blocking: a runtime that is stopped accepts nothing, and once its backlog is full
        // a blocking connect would wait for ever.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        let is_short = self.path.as_os_str().len() <= ADDRESS_BYTES_MAX;
        let folder = if is_short { None } else { Some(self.open_folder()?) };
        let path = match (&folder, self.path.file_name()) {
            (Some(folder), Some(name)) => {
                Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name)
            }
            _ => self.path.clone(),
        };
        let address = UnixAddr::new(&path)?;
        loop {
            match connect(socket.as_raw_fd(), &address) {
                Ok(()) => break,
                Err(Errno::EAGAIN | Errno::EINTR) => {
                    left(deadline)?;
                    thread::sleep(BUSY_RETRY);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let heard = getsockopt(&socket, PeerCredentials)?.pid();
        if u32::try_from(heard) != Ok(self.pid) {
            let pid = self.pid;
            let what = format!("process {heard} listens at it, and not process {pid}");
            return Err(io::Error::other(what));
        }
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(Box::new(UnixConnection(stream)))
    }
}

impl UnixEndpoint {
    fn open_folder(&self) -> io::Result<std::fs::File> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        OpenOptions::new().read(true).custom_flags(nix::libc::O_PATH).open(folder)
    }
}

struct UnixConnection(UnixStream);

impl Stream for UnixConnection {
    fn send(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            self.0.set_write_timeout(Some(left(deadline)?))?;
            match self.0.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) => again(error)?,
            }
        }
        Ok(())
    }

    fn receive(&mut self, bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            self.0.set_read_timeout(Some(left(deadline)?))?;
            match self.0.read(&mut bytes[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) => again(error)?,
            }
        }
        Ok(())
    }
}

/// The time until the deadline, never zero, since zero would mean "without end".
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Whether to look at the clock and try again.
fn again(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(()),
        _ => Err(error),
    }
}
