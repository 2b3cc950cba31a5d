//! Where exporters connect to an agent on this machine: a named pipe on Windows.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::OwnedHandle;
use std::path::Path;
use std::time::{Duration, Instant};

use super::api;
use super::overlapped::Channel;

/// A connection.
#[derive(Debug)]
pub struct LocalStream {
    channel: Channel,
    /// How long each read and write may take.
    limit: Duration,
}

/// Connects to a pipe, and waits for that no longer than so long. Each read and write ends after
/// the same time, unless another is set.
///
/// # Errors
/// If there is none of that name, or no place in time.
pub fn connect(path: &Path, limit: Duration) -> io::Result<LocalStream> {
    const PAUSE: Duration = Duration::from_millis(20);
    /// Whoever serves the pipe may ask who we are, and not act in our name.
    const IDENTIFY: u32 = 0x0001_0000;
    let end = Instant::now() + limit;
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.custom_flags(api::FILE_OVERLAPPED).security_qos_flags(IDENTIFY);
    loop {
        match options.open(path) {
            Ok(pipe) => {
                let channel = Channel::new(OwnedHandle::from(pipe))?;
                return Ok(LocalStream { channel, limit });
            }
            Err(error)
                if error.raw_os_error() == Some(api::ERROR_PIPE_BUSY) && Instant::now() < end =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The process that serves the pipe.
///
/// # Errors
/// That the system doesn't say: then it is not known who listens.
pub fn server_pid(stream: &LocalStream) -> io::Result<u32> {
    stream.channel.server_pid()
}

/// Whether there is a pipe of that name. Nobody is connected to it for that: whoever serves it may
/// take its end away for a moment, or for good, after a visitor who says nothing.
#[must_use]
pub fn is_there(path: &Path) -> bool {
    let name: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    // SAFETY: a name that ends with NUL; waits for a millisecond at most.
    let waits = unsafe { api::WaitNamedPipeW(name.as_ptr(), 1) } != 0;
    // All of its places may be taken: it is there all the same.
    waits || io::Error::last_os_error().raw_os_error() == Some(api::ERROR_SEM_TIMEOUT)
}

/// Has each read and write end after that time.
///
/// # Errors
/// None.
pub fn set_timeouts(stream: &mut LocalStream, limit: Duration) -> io::Result<()> {
    stream.limit = limit;
    Ok(())
}

/// Writes, for as long as `left` gives time: it is asked again when that is over. Returns how many
/// bytes it was. Whoever serves a pipe without room need not have begun to read.
///
/// # Errors
/// As `ConnectionAborted`, if nobody reads: of a write that was called off nobody knows how much
/// was read, so it is not to be tried again. Whatever the system says.
pub fn write_while(
    stream: &mut LocalStream,
    bytes: &[u8],
    left: impl FnMut() -> Option<Duration>,
) -> io::Result<usize> {
    match stream.channel.write_while(bytes, left) {
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            Err(ErrorKind::ConnectionAborted.into())
        }
        written => written,
    }
}

impl Read for LocalStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.channel.read_within(buffer, self.limit) {
            // Where a socket has an end, a pipe has an error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(0),
            read => read,
        }
    }
}

impl Write for LocalStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut limit = Some(self.limit);
        write_while(self, bytes, || limit.take())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::control_socket::{ControlSocket, place, read_text, write_text};
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn nobody_is_waited_for_for_ever() {
        let path = place(Path::new(""), &format!("corprof-test-local-{}", std::process::id()));
        let nobody = connect(&path, LONG).map_err(|error| error.kind());
        assert_eq!(nobody.err(), Some(ErrorKind::NotFound));
        let server = ControlSocket::bind(&path).expect("a pipe");
        let mut stream = connect(&path, LONG).expect("connected");
        let mut visitor = server.accept(Some(LONG)).expect("no trouble").expect("somebody");
        assert_eq!(server_pid(&stream).expect("told"), std::process::id());
        set_timeouts(&mut stream, Duration::from_millis(20)).expect("set");
        let late = stream.read(&mut [0; 8]).map_err(|error| error.kind());
        assert_eq!(late, Err(ErrorKind::TimedOut));
        // A read that was called off takes nothing away.
        set_timeouts(&mut stream, LONG).expect("set");
        stream.write_all(b"hello").expect("written");
        let until = Instant::now() + LONG;
        assert_eq!(read_text(&mut visitor, until).expect("a text"), "hello");
        let answering = std::thread::spawn(move || write_text(&mut visitor, "yes", until));
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"yes");
        drop(stream);
        answering.join().expect("it ends").expect("it was read");
    }

    #[test]
    fn a_write_waits_for_who_begins_to_read_late_and_not_for_ever() {
        let path = place(Path::new(""), &format!("corprof-test-late-{}", std::process::id()));
        let server = ControlSocket::bind(&path).expect("a pipe");
        let mut stream = connect(&path, LONG).expect("connected");
        let mut visitor = server.accept(Some(LONG)).expect("no trouble").expect("somebody");
        let slice = Duration::from_millis(5);
        let mut slices = 3;
        let mut few = || (slices > 0).then(|| (slices -= 1, slice).1);
        // More than the pipe has room for.
        let late = write_while(&mut stream, &[b'x'; 1 << 20], &mut few).map_err(|e| e.kind());
        assert_eq!(late, Err(ErrorKind::ConnectionAborted));
        let asked = AtomicU32::new(0);
        let left = || {
            asked.fetch_add(1, Ordering::Relaxed);
            Some(slice)
        };
        let text = [b'x'; 60 << 10];
        let read = std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                // After some slices; at once, if the pipe has room for all of it.
                let begin = Instant::now();
                while asked.load(Ordering::Relaxed) < 4 && begin.elapsed() < slice * 100 {
                    std::thread::yield_now();
                }
                read_text(&mut visitor, Instant::now() + LONG).expect("a text").len()
            });
            assert_eq!(write_while(&mut stream, &text, left).expect("written"), text.len());
            reading.join().expect("it ends")
        });
        assert_eq!(read, text.len());
    }

    #[test]
    fn a_pipe_is_there_and_nobody_visits_it() {
        let path = place(Path::new(""), &format!("corprof-test-there-{}", std::process::id()));
        assert!(!is_there(&path));
        let server = ControlSocket::bind(&path).expect("a pipe");
        assert!(is_there(&path) && is_there(&path));
        assert!(server.accept(Some(Duration::ZERO)).expect("no trouble").is_none(), "a visitor");
        server.remove();
        assert!(!is_there(&path));
    }

    #[test]
    fn the_other_end_gone_is_the_end() {
        let path = place(Path::new(""), &format!("corprof-test-end-{}", std::process::id()));
        let server = ControlSocket::bind(&path).expect("a pipe");
        let mut stream = connect(&path, LONG).expect("connected");
        drop(server.accept(Some(LONG)).expect("no trouble").expect("somebody"));
        assert_eq!(stream.read(&mut [0; 8]).expect("an end"), 0);
    }
}
