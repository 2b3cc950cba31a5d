//! Calls that may take their time, each with an end: what is not done by then is called off.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::time::Duration;

use super::api::{self, Handle, Overlapped};

/// A pipe that was opened for such calls, and what tells that one has ended: one call at a time.
#[derive(Debug)]
pub struct Channel {
    pipe: OwnedHandle,
    event: OwnedHandle,
}

impl Channel {
    /// Of a pipe that was opened as overlapped.
    ///
    /// # Errors
    /// If there is no event left.
    pub fn new(pipe: OwnedHandle) -> io::Result<Self> {
        // SAFETY: no attributes, no name: an event of this process's that is set by hand.
        let event = unsafe { api::CreateEventW(std::ptr::null(), 1, 0, std::ptr::null()) };
        if event == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and nobody else closes it.
        Ok(Self { pipe, event: unsafe { own(event) } })
    }

    /// Whether somebody has connected to this end, at the end of that time at the latest.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn connected_within(&mut self, limit: Duration) -> io::Result<bool> {
        // SAFETY: an open pipe; the state is valid until the call has ended, see `within`.
        let call = |pipe, state| unsafe { api::ConnectNamedPipe(pipe, state) };
        match self.within(once(limit), call) {
            // Somebody was faster.
            Err(error) if error.raw_os_error() == Some(api::ERROR_PIPE_CONNECTED) => Ok(true),
            ended => Ok(ended?.is_some()),
        }
    }

    /// Reads what is there, or comes in that time; returns how many bytes that was.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if nothing came; whatever the system says.
    pub fn read_within(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<usize> {
        let room = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let to = buffer.as_mut_ptr();
        // SAFETY: the buffer has that room and is ours until the call has ended, see `within`.
        let call =
            |pipe, state| unsafe { api::ReadFile(pipe, to, room, std::ptr::null_mut(), state) };
        Ok(self.within(once(limit), call)?.ok_or(io::ErrorKind::TimedOut)?)
    }

    /// Writes in that time; returns how many bytes it was.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if nobody reads; whatever the system says.
    pub fn write_within(&mut self, bytes: &[u8], limit: Duration) -> io::Result<usize> {
        self.write_while(bytes, once(limit))
    }

    /// The same for as long as `left` gives time: it is asked again when that is over.
    ///
    /// # Errors
    /// As `write_within`.
    pub fn write_while(
        &mut self,
        bytes: &[u8],
        left: impl FnMut() -> Option<Duration>,
    ) -> io::Result<usize> {
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let from = bytes.as_ptr();
        // SAFETY: there are so many bytes until the call has ended, see `within`.
        let call =
            |pipe, state| unsafe { api::WriteFile(pipe, from, count, std::ptr::null_mut(), state) };
        Ok(self.within(left, call)?.ok_or(io::ErrorKind::TimedOut)?)
    }

    /// The process that made the pipe.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn server_pid(&self) -> io::Result<u32> {
        let mut pid = 0;
        // SAFETY: an open pipe, and a valid place for a number.
        let told = unsafe { api::GetNamedPipeServerProcessId(raw(&self.pipe), &raw mut pid) };
        if told == 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
    }

    /// Begins a call, and returns when it has ended: by itself, or called off when `left` gives no
    /// more time. Returns how many bytes it was about; `None` if it was called off.
    fn within(
        &mut self,
        mut left: impl FnMut() -> Option<Duration>,
        begin: impl FnOnce(Handle, *mut Overlapped) -> i32,
    ) -> io::Result<Option<usize>> {
        let (pipe, event) = (raw(&self.pipe), raw(&self.event));
        let mut state = Overlapped::new(event);
        if begin(pipe, &raw mut state) == 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(api::ERROR_IO_PENDING) {
                return Err(error);
            }
        }
        loop {
            let Some(slice) = left() else {
                // SAFETY: what was begun above on this pipe. Its end is waited for just below:
                // until then the system may write to `state`.
                unsafe { api::CancelIoEx(pipe, &raw mut state) };
                break;
            };
            // Rounded up, so that the last part of a millisecond is no busy wait.
            let millis = u32::try_from(slice.as_millis()).unwrap_or(u32::MAX - 2).saturating_add(1);
            // SAFETY: the event is open.
            if unsafe { api::WaitForSingleObject(event, millis) } == api::WAIT_OBJECT_0 {
                break;
            }
        }
        let mut bytes = 0;
        // SAFETY: what was begun above; waits for its end, and writes to a valid place.
        let ended = unsafe { api::GetOverlappedResult(pipe, &raw mut state, &raw mut bytes, 1) };
        if ended != 0 {
            return Ok(Some(bytes as usize));
        }
        let error = io::Error::last_os_error();
        let was_called_off = error.raw_os_error() == Some(api::ERROR_OPERATION_ABORTED);
        if was_called_off { Ok(None) } else { Err(error) }
    }
}

/// So much time, and no more.
fn once(limit: Duration) -> impl FnMut() -> Option<Duration> {
    let mut limit = Some(limit);
    move || limit.take()
}

/// Closes a handle with its owner.
///
/// # Safety
/// It is open, and nobody else closes it.
pub unsafe fn own(handle: Handle) -> OwnedHandle {
    // SAFETY: the caller's promise.
    unsafe { OwnedHandle::from_raw_handle(std::ptr::without_provenance_mut(handle)) }
}

fn raw(handle: &OwnedHandle) -> Handle {
    handle.as_raw_handle().addr()
}
