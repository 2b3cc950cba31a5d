//! A named pipe by which the same user, and nobody else, can speak to the process.
//!
//! A pipe has no half that can be closed, so it carries messages: one says all that is wanted, one
//! answers. Its default rights let its owner, the system and administrators write to it, and
//! nobody else; nor anybody from another machine.

use std::io;
use std::os::windows::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::api::{self, Handle, Overlapped};

/// Bytes that somebody may send: a command, and some settings with their paths.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Where a place of that name is: among the system's pipes, whatever the folder.
#[must_use]
pub fn place(_folder: &Path, name: &str) -> PathBuf {
    PathBuf::from(format!(r"\\.\pipe\{name}"))
}

/// A handle that is closed with its owner.
#[derive(Debug)]
struct Owned(Handle);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is this owner's alone, and closed once.
        unsafe { api::CloseHandle(self.0) };
    }
}

/// One end of a pipe, and what tells when something has happened to it.
#[derive(Debug)]
struct End {
    pipe: Owned,
    event: Owned,
}

/// Somebody who has connected.
#[derive(Debug)]
pub struct Visitor(End);

/// The pipe.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    /// The end that the next one connects to; `None` while that is waited for.
    next: Mutex<Option<End>>,
    is_removed: AtomicBool,
}

impl ControlSocket {
    /// Makes a pipe. Waits for nobody.
    ///
    /// # Errors
    /// As `AddrInUse` and with what to do, if there is one of that name already.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let first = End::new(path, true).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => io::Error::new(
                io::ErrorKind::AddrInUse,
                "another process listens at its place already; end that one",
            ),
            _ => error,
        })?;
        let is_removed = AtomicBool::new(false);
        Ok(Self { path: path.to_owned(), next: Mutex::new(Some(first)), is_removed })
    }

    fn next(&self) -> MutexGuard<'_, Option<End>> {
        // What a panicked holder left is an end or none.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for somebody who may speak, at most so long (for ever without a limit). By one thread.
    ///
    /// # Errors
    /// Whatever the system says; that the pipe was removed.
    pub fn accept(&self, limit: Option<Duration>) -> io::Result<Option<Visitor>> {
        /// How long one wait is: a pipe that is removed meanwhile is noticed after it.
        const SLICE: Duration = Duration::from_millis(500);
        let end = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()));
            // Not under the lock: who removes it must not wait.
            let mut waiting = self.next().take().ok_or(io::ErrorKind::NotConnected)?;
            let connected = waiting.connected_within(left.min(SLICE));
            if self.is_removed.load(Ordering::Acquire) {
                return Err(io::ErrorKind::NotConnected.into());
            }
            if matches!(connected, Ok(true)) {
                *self.next() = Some(End::new(&self.path, false)?);
                return Ok(Some(Visitor(waiting)));
            }
            *self.next() = Some(waiting);
            connected?;
            if end.is_some_and(|end| Instant::now() >= end) {
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
        self.is_removed.store(true, Ordering::Release);
        *self.next() = None;
    }
}

/// Nothing is ever left: a pipe goes with its process.
pub fn clear_leftovers(_folder: &Path, _owner: impl Fn(&str) -> Option<(u32, u64)>) {}

impl End {
    fn new(path: &Path, is_first: bool) -> io::Result<Self> {
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
        let pipe = Owned(pipe);
        // SAFETY: no attributes, no name: an event of this process's that is set by hand.
        let event = unsafe { api::CreateEventW(std::ptr::null(), 1, 0, std::ptr::null()) };
        if event == 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { pipe, event: Owned(event) })
    }

    /// Does something that may take its time, until then at the latest. Returns how many bytes it
    /// was about; `None` if time is over and it was called off.
    fn within(
        &mut self,
        limit: Duration,
        begin: impl FnOnce(Handle, *mut Overlapped) -> i32,
    ) -> io::Result<Option<usize>> {
        let mut state = Overlapped::new(self.event.0);
        let begun = begin(self.pipe.0, &raw mut state);
        let error = io::Error::last_os_error();
        if begun == 0 {
            match error.raw_os_error() {
                Some(api::ERROR_IO_PENDING) => {}
                Some(api::ERROR_PIPE_CONNECTED) => return Ok(Some(0)),
                _ => return Err(error),
            }
        }
        // Rounded up, so that the last part of a millisecond is no busy wait.
        let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX - 2).saturating_add(1);
        // SAFETY: the event is open.
        let in_time =
            unsafe { api::WaitForSingleObject(self.event.0, millis) } == api::WAIT_OBJECT_0;
        if !in_time {
            // SAFETY: what was begun above on this pipe. Its end is waited for just below: until
            // then the system may write to `state`.
            unsafe { api::CancelIoEx(self.pipe.0, &raw mut state) };
        }
        let mut bytes = 0;
        // SAFETY: what was begun above; waits for its end, and writes to a valid place.
        let ended =
            unsafe { api::GetOverlappedResult(self.pipe.0, &raw mut state, &raw mut bytes, 1) };
        let error = io::Error::last_os_error();
        match (ended, error.raw_os_error()) {
            (0, Some(api::ERROR_OPERATION_ABORTED)) => Ok(None),
            (0, _) => Err(error),
            _ => Ok(Some(bytes as usize)),
        }
    }

    fn connected_within(&mut self, limit: Duration) -> io::Result<bool> {
        // SAFETY: an open pipe, and a state that outlives the call, see `within`.
        let connected =
            self.within(limit, |pipe, state| unsafe { api::ConnectNamedPipe(pipe, state) });
        Ok(connected?.is_some())
    }
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
    let room = u32::try_from(text.len()).unwrap_or(0);
    let to = text.as_mut_ptr();
    let read = visitor.0.within(left(until), |pipe, state| {
        // SAFETY: the buffer has that room and outlives the reading, see `within`.
        unsafe { api::ReadFile(pipe, to, room, std::ptr::null_mut(), state) }
    })?;
    text.truncate(read.ok_or(io::ErrorKind::TimedOut)?);
    String::from_utf8(text).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no text"))
}

/// Writes all, and waits for it to be read, until then at the latest.
///
/// # Errors
/// That it is read too slowly, or not at all.
pub fn write_text(visitor: &mut Visitor, text: &str, until: Instant) -> io::Result<()> {
    let count = u32::try_from(text.len()).unwrap_or(0);
    let from = text.as_ptr();
    let written = visitor.0.within(left(until), |pipe, state| {
        // SAFETY: the text outlives the writing, see `within`.
        unsafe { api::WriteFile(pipe, from, count, std::ptr::null_mut(), state.cast()) }
    })?;
    written.ok_or(io::ErrorKind::TimedOut)?;
    // A pipe that is closed drops what nobody has read. Who has read it closes his end, which ends
    // this reading.
    let mut more = [0_u8];
    let to = more.as_mut_ptr();
    let _closed = visitor.0.within(left(until), |pipe, state| {
        // SAFETY: room for one byte, which outlives the reading, see `within`.
        unsafe { api::ReadFile(pipe, to, 1, std::ptr::null_mut(), state) }
    });
    Ok(())
}
