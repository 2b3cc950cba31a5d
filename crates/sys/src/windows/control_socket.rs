//! A named pipe by which the same user, and nobody else, can speak to the process.
//!
//! A pipe has no half that can be closed, so it carries messages: one says all that is wanted, one
//! answers. Its default rights let its owner, the system and administrators write to it, and
//! nobody else; nor anybody from another machine.

use std::io;
use std::os::windows::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::api;
use super::overlapped::{Channel, own};

/// Bytes that somebody may send: a command, and some settings with their paths.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Where a place of that name is: among the system's pipes, whatever the folder.
#[must_use]
pub fn place(_folder: &Path, name: &str) -> PathBuf {
    PathBuf::from(format!(r"\\.\pipe\{name}"))
}

/// Somebody who has connected.
#[derive(Debug)]
pub struct Visitor(Channel);

/// The end of the pipe that the next one connects to.
#[derive(Debug)]
enum Next {
    /// Nobody waits at it now.
    Free(Channel),
    /// Whoever accepts has it, or has to make it.
    Missing,
    /// The pipe was removed.
    Removed,
}

/// The pipe.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    next: Mutex<Next>,
}

impl ControlSocket {
    /// Makes a pipe. Waits for nobody.
    ///
    /// # Errors
    /// As `AddrInUse` and with what to do, if there is one of that name already.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let first = end_of(path, true).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => io::Error::new(
                io::ErrorKind::AddrInUse,
                "another process listens at its place already; end that one",
            ),
            _ => error,
        })?;
        Ok(Self { path: path.to_owned(), next: Mutex::new(Next::Free(first)) })
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        // What a panicked holder left is whole.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end to wait at; made if there is none.
    fn take(&self) -> io::Result<Channel> {
        let mut next = self.next();
        match std::mem::replace(&mut *next, Next::Missing) {
            Next::Free(end) => Ok(end),
            Next::Missing => end_of(&self.path, false),
            Next::Removed => {
                *next = Next::Removed;
                Err(io::ErrorKind::NotConnected.into())
            }
        }
    }

    /// Has an end for the next one, unless the pipe was removed meanwhile.
    fn put(&self, end: Channel) -> io::Result<()> {
        let mut next = self.next();
        if matches!(*next, Next::Removed) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        *next = Next::Free(end);
        Ok(())
    }

    /// Waits for somebody who may speak, at most so long (for ever without a limit). By one thread.
    ///
    /// # Errors
    /// Whatever the system says, such as that somebody came and went; that the pipe was removed.
    pub fn accept(&self, limit: Option<Duration>) -> io::Result<Option<Visitor>> {
        /// How long one wait is: a pipe that is removed meanwhile is noticed after it.
        const SLICE: Duration = Duration::from_millis(500);
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = until.map_or(SLICE, left);
            // Not under the lock: who removes it must not wait.
            let mut waiting = self.take()?;
            let connected = waiting.connected_within(left.min(SLICE));
            if !matches!(connected, Ok(false)) {
                // The next one finds a pipe all the time.
                self.put(end_of(&self.path, false)?)?;
                return connected.map(|_| Some(Visitor(waiting)));
            }
            self.put(waiting)?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes it away: at once, or as soon as nobody is waited for any more.
    pub fn remove(&self) {
        *self.next() = Next::Removed;
    }
}

/// Nothing is ever left: a pipe goes with its process.
pub fn clear_leftovers(_folder: &Path, _owner: impl Fn(&str) -> Option<(u32, u64)>) {}

/// An end of the pipe of that name, for the next one who comes.
fn end_of(path: &Path, is_first: bool) -> io::Result<Channel> {
    let name: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let first = if is_first { api::PIPE_FIRST } else { 0 };
    let room = u32::try_from(TEXT_BYTES_MAX).unwrap_or(0);
    // SAFETY: a name that ends with NUL; without attributes the rights are the default.
    let pipe = unsafe {
        api::CreateNamedPipeW(
            name.as_ptr(),
            api::PIPE_BOTH_WAYS_OVERLAPPED | first,
            api::PIPE_MESSAGES_LOCAL,
            api::PIPE_ENDS,
            room,
            room,
            0,
            std::ptr::null(),
        )
    };
    if pipe == api::INVALID_HANDLE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else closes it.
    Channel::new(unsafe { own(pipe) })
}

/// The time up to an instant.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// Reads the message that somebody sends, until then at the latest.
///
/// # Errors
/// That it comes too slowly, is longer than anything that makes sense, or is no text.
pub fn read_text(visitor: &mut Visitor, until: Instant) -> io::Result<String> {
    let mut text = vec![0; TEXT_BYTES_MAX];
    let read = visitor.0.read_within(&mut text, left(until))?;
    text.truncate(read);
    String::from_utf8(text).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no text"))
}

/// Writes all, and waits for it to be read, until then at the latest.
///
/// # Errors
/// That it is read too slowly, or not at all.
pub fn write_text(visitor: &mut Visitor, text: &str, until: Instant) -> io::Result<()> {
    visitor.0.write_within(text.as_bytes(), left(until))?;
    // A pipe that is closed drops what nobody has read. Who has read it closes his end, which ends
    // this reading.
    let _closed = visitor.0.read_within(&mut [0], left(until));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{Read as _, Write as _};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn named(name: &str) -> PathBuf {
        place(Path::new(""), &format!("corprof-test-{name}-{}", std::process::id()))
    }

    fn visit(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(path)
    }

    #[test]
    fn a_visitor_asks_and_is_answered() {
        let path = named("ask");
        let socket = ControlSocket::bind(&path).expect("a pipe");
        // Wine lets a second one in.
        if let Err(error) = ControlSocket::bind(&path) {
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        }
        let nobody = socket.accept(Some(Duration::ZERO)).expect("no trouble");
        assert!(nobody.is_none());
        for _ in 0..3 {
            let path = path.clone();
            let asking = std::thread::spawn(move || {
                let mut pipe = visit(&path).expect("connected");
                pipe.write_all(b"status").expect("written");
                let mut answer = [0; 64];
                let read = pipe.read(&mut answer).expect("an answer");
                String::from_utf8_lossy(&answer[..read]).into_owned()
            });
            let mut visitor = socket.accept(Some(LONG)).expect("no trouble").expect("somebody");
            let until = Instant::now() + LONG;
            assert_eq!(read_text(&mut visitor, until).expect("a text"), "status");
            write_text(&mut visitor, "running", until).expect("answered");
            assert_eq!(asking.join().expect("it ends"), "running");
        }
    }

    #[test]
    fn who_comes_and_goes_makes_nobody_deaf() {
        let path = named("gone");
        let socket = ControlSocket::bind(&path).expect("a pipe");
        for _ in 0..3 {
            drop(visit(&path).expect("connected"));
            // Whether it is seen is the system's to say; then it says nothing.
            if let Ok(Some(mut visitor)) = socket.accept(Some(LONG)) {
                assert!(read_text(&mut visitor, Instant::now() + LONG).is_err());
            }
        }
        let silent = visit(&path).expect("connected");
        let mut visitor = loop {
            if let Ok(visitor) = socket.accept(Some(LONG)) {
                break visitor.expect("somebody");
            }
        };
        let late = read_text(&mut visitor, Instant::now() + Duration::from_millis(20));
        assert_eq!(late.map_err(|error| error.kind()).err(), Some(io::ErrorKind::TimedOut));
        drop(silent);
    }

    #[test]
    fn what_is_removed_is_there_no_more() {
        let path = named("removed");
        let socket = ControlSocket::bind(&path).expect("a pipe");
        socket.remove();
        assert!(visit(&path).is_err());
        let refused = socket.accept(None).map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::NotConnected));
        ControlSocket::bind(&path).expect("its place is free");
    }
}
