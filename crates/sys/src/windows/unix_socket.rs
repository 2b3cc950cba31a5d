//! Where exporters connect to an agent on this machine: a named pipe on Windows.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A connection.
#[derive(Debug)]
pub struct LocalStream(File);

/// All of the pipe's places are taken.
const ERROR_PIPE_BUSY: i32 = 231;

/// Connects to a pipe, until then at the latest.
///
/// # Errors
/// If there is none of that name, or no place in time.
pub fn connect(path: &Path, limit: Duration) -> io::Result<LocalStream> {
    const PAUSE: Duration = Duration::from_millis(20);
    let end = Instant::now() + limit;
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(pipe) => return Ok(LocalStream(pipe)),
            Err(error) if error.raw_os_error() == Some(ERROR_PIPE_BUSY) && Instant::now() < end => {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Pipes that are opened as files have no time-out: who serves one has taken what was written, and
/// answers or closes it.
///
/// # Errors
/// None.
pub fn set_timeouts(_stream: &LocalStream, _limit: Duration) -> io::Result<()> {
    Ok(())
}

impl Read for LocalStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for LocalStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
