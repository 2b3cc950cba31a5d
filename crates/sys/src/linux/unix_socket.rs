//! Connecting to a socket that is a file, with an end: the standard library's waits for as long as
//! a listener that doesn't accept has its queue full.

use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::attempts::until_done;

/// A connection.
pub type LocalStream = UnixStream;

/// Has each read and write end after that time.
///
/// # Errors
/// Whatever the kernel says.
pub fn set_timeouts(stream: &mut LocalStream, limit: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))
}

/// Writes, for as long as `left` gives time: it is asked again when that is over. Returns how many
/// bytes it was.
///
/// # Errors
/// As `TimedOut`, if nobody reads; whatever the kernel says.
pub fn write_while(
    stream: &mut LocalStream,
    bytes: &[u8],
    left: impl FnMut() -> Option<Duration>,
) -> io::Result<usize> {
    until_done(left, |slice| {
        stream.set_write_timeout(Some(slice))?;
        stream.write(bytes)
    })
}

/// Connects, and waits for that no longer than so long (a microsecond at least).
///
/// # Errors
/// Such as nobody who listens, no time left, or a path that is too long for a socket.
pub fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let (address, length) = address(path)?;
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: three numbers; the kernel checks them.
    let descriptor = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the call above has made, and that nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let limit = libc::timeval {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        // No time at all would mean for ever.
        tv_usec: limit.subsec_micros().max(1).into(),
    };
    // SAFETY: the time is valid, and its size is said.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDTIMEO,
            (&raw const limit).cast(),
            size_of_val(&limit) as libc::socklen_t,
        )
    };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the address is valid, and so many of its bytes are set.
    if unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(UnixStream::from(socket))
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let bytes = path.as_os_str().as_bytes();
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    // The last byte stays zero.
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = byte.cast_signed();
    }
    Ok((address, size_of_val(&address) as libc::socklen_t))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_full_queue_is_not_waited_for_for_ever() {
        let path = std::env::temp_dir().join(format!("corprof-connect-{}", std::process::id()));
        let limit = Duration::from_millis(50);
        assert_eq!(
            connect(&path, limit).map_err(|e| e.kind()).err(),
            Some(io::ErrorKind::NotFound)
        );
        let listener = UnixListener::bind(&path).expect("a socket");
        let mut first = connect(&path, limit).expect("connected");
        let (mut served, _) = listener.accept().expect("somebody");
        first.write_all(b"x").expect("written");
        let mut byte = [0];
        served.read_exact(&mut byte).expect("read");
        assert_eq!(byte, *b"x");
        // Nobody accepts any more.
        let begin = Instant::now();
        let mut waiting = Vec::new();
        let refused = loop {
            match connect(&path, limit) {
                Ok(socket) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
        assert!(begin.elapsed() > limit);
        let _gone = std::fs::remove_file(&path);
    }

    #[test]
    fn a_path_has_to_fit() {
        let path = format!("/{}", "x".repeat(200));
        let refused = connect(Path::new(&path), Duration::from_secs(1));
        assert_eq!(refused.map_err(|e| e.kind()).err(), Some(io::ErrorKind::InvalidInput));
    }
}
