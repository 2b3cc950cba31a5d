//! Requests to a runtime, each on a connection of its own, and its answers.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::message::HEADER_BYTES;
use crate::payload::{Reader, write_text};
use crate::{
    AttachError, Command, Endpoint, Frame, Guid, Hresult, Malformed, ProcessInfo, RequestError,
    Stream,
};

/// Between two tries while a runtime is starting.
const START_RETRY: Duration = Duration::from_millis(50);

/// A runtime that is asked.
pub(crate) struct Exchange<'a> {
    /// Where it listens.
    pub endpoint: &'a dyn Endpoint,
    /// How long a request may take.
    pub timeout: Duration,
}

impl Exchange<'_> {
    /// What the runtime says of its process: as much as its version knows.
    pub fn process_info(&self) -> Result<ProcessInfo, RequestError> {
        let deadline = Instant::now() + self.timeout;
        let mut refused = RequestError::Refused(Hresult::UNKNOWN_COMMAND);
        for command in [Command::ProcessInfo3, Command::ProcessInfo2, Command::ProcessInfo] {
            match self.request(command, Vec::new(), deadline) {
                Ok((payload, _)) => return Ok(ProcessInfo::decode(command, &payload)?),
                Err(RequestError::Refused(code)) => refused = RequestError::Refused(code),
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// Has the runtime load a profiler; while it is starting this is tried again. `other` finds the
    /// profiler that is in its place already.
    pub fn attach_profiler(
        &self,
        deadline: Instant,
        class: Guid,
        library: &Path,
        client_data: &[u8],
        other: impl FnOnce() -> Option<PathBuf>,
    ) -> Result<(), AttachError> {
        let path = library.to_str().ok_or_else(|| AttachError::BadPath(library.to_owned()))?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let payload = attach_payload(left, class, path, client_data);
            match self.request(Command::AttachProfiler, payload, deadline) {
                Ok((payload, _)) => return loaded(&payload),
                Err(RequestError::Refused(code)) if code.is_too_early() => {
                    if left < START_RETRY {
                        return Err(AttachError::Starting);
                    }
                    thread::sleep(START_RETRY);
                }
                Err(RequestError::Refused(code)) if code == Hresult::ALREADY_ACTIVE => {
                    return Err(AttachError::AlreadyAttached(other()));
                }
                Err(RequestError::Refused(code)) => return Err(AttachError::Refused(code)),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a request on a connection of its own; gives the answer's payload, and the connection
    /// for what comes after it.
    pub fn request(
        &self,
        command: Command,
        payload: Vec<u8>,
        deadline: Instant,
    ) -> Result<(Vec<u8>, Box<dyn Stream>), RequestError> {
        let bytes = Frame { command, payload }.encode().ok_or(RequestError::TooLong)?;
        let failed = |error| self.failed(error);
        let mut stream = self.endpoint.connect(deadline).map_err(failed)?;
        stream.send(&bytes, deadline).map_err(failed)?;
        let mut head = [0; HEADER_BYTES];
        stream.receive(&mut head, deadline).map_err(failed)?;
        let (command, length) = Frame::header(head)?;
        let mut payload = vec![0; length];
        stream.receive(&mut payload, deadline).map_err(failed)?;
        match command {
            Command::Ok => Ok((payload, stream)),
            Command::Error => Err(RequestError::Refused(result_of(&payload)?)),
            _ => Err(RequestError::Malformed(Malformed::Magic)),
        }
    }

    pub fn failed(&self, error: io::Error) -> RequestError {
        match error.kind() {
            io::ErrorKind::TimedOut => RequestError::TimedOut(self.timeout),
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => RequestError::Closed,
            _ => RequestError::Io(error),
        }
    }
}

fn attach_payload(timeout: Duration, class: Guid, path: &str, client_data: &[u8]) -> Vec<u8> {
    let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    let mut payload = timeout_ms.to_le_bytes().to_vec();
    payload.extend(class.to_bytes());
    write_text(&mut payload, path);
    // More than 64 KiB does not fit in a message, which is seen when it is made.
    payload.extend(u32::try_from(client_data.len()).unwrap_or(u32::MAX).to_le_bytes());
    payload.extend(client_data);
    payload
}

fn result_of(payload: &[u8]) -> Result<Hresult, RequestError> {
    Ok(Hresult(Reader(payload).u32()?))
}

/// Success has a result code, too.
fn loaded(payload: &[u8]) -> Result<(), AttachError> {
    let code = if payload.is_empty() { Hresult::OK } else { result_of(payload)? };
    if code.is_ok() { Ok(()) } else { Err(AttachError::Refused(code)) }
}
