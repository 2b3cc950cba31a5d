//! A socket of the file system by which the same user, and nobody else, can speak to the process.

use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Somebody who has connected.
pub type Visitor = UnixStream;

/// The socket; its file goes with it.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl ControlSocket {
    /// Makes a socket that only this user can open. What lies there is taken away if nobody
    /// listens to it any more.
    ///
    /// # Errors
    /// Such as a folder that can't be written, a path of more than 107 bytes, or somebody who
    /// listens there.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if UnixStream::connect(path).is_err() {
            let _nothing = std::fs::remove_file(path);
        }
        let listener = UnixListener::bind(path)?;
        // Between the two lines others could connect; they are turned away by their user.
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let inode = std::fs::metadata(path)?.ino();
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    /// Waits for somebody who may speak, at most so long (for ever without a limit).
    ///
    /// # Errors
    /// Whatever the kernel says, such as too many open files.
    pub fn accept(&self, limit: Option<Duration>) -> io::Result<Option<Visitor>> {
        if !readable(self.listener.as_raw_fd(), limit)? {
            return Ok(None);
        }
        let (stream, _address) = self.listener.accept()?;
        Ok(is_allowed(&stream).then_some(stream))
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the file away, unless it is another's by now.
    pub fn remove(&self) {
        if std::fs::metadata(&self.path).is_ok_and(|data| data.ino() == self.inode) {
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Bytes that somebody may send: a command, and some settings with their paths.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Reads all that somebody sends, for so long between two parts.
///
/// # Errors
/// That it comes too slowly, is longer than anything that makes sense, or is no text.
pub fn read_text(stream: &mut Visitor, wait: Duration) -> io::Result<String> {
    read_at_most(stream, TEXT_BYTES_MAX, wait)
}

fn read_at_most(stream: &mut Visitor, bytes_max: usize, wait: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(wait))?;
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut text = String::new();
    stream.take(limit).read_to_string(&mut text)?;
    if text.len() > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too long"));
    }
    Ok(text)
}

/// Writes all, but waits no longer than so long for a reader.
///
/// # Errors
/// That it is read too slowly, or not at all.
pub fn write_text(stream: &mut Visitor, text: &str, wait: Duration) -> io::Result<()> {
    stream.set_write_timeout(Some(wait))?;
    stream.write_all(text.as_bytes())
}

fn readable(descriptor: RawFd, limit: Option<Duration>) -> io::Result<bool> {
    let millis = limit.map_or(-1, |limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid element, as is said.
    let answer = unsafe { libc::poll(&raw mut poll, 1, millis) };
    match answer {
        0 => Ok(false),
        1.. => Ok(true),
        _ => {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) }
        }
    }
}

/// Whether who has connected is of the same user, or root.
fn is_allowed(stream: &UnixStream) -> bool {
    let mut who = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the structure.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut length,
        )
    };
    // SAFETY: no argument, can't fail.
    let own = unsafe { libc::geteuid() };
    answer == 0 && (who.uid == own || who.uid == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn one_speaks_and_is_answered() {
        let path = std::env::temp_dir().join(format!("corprof-test-{}.sock", std::process::id()));
        std::fs::write(&path, "left behind").expect("a file");
        let socket = ControlSocket::bind(&path).expect("bound");
        assert_eq!(std::fs::metadata(&path).expect("a file").mode() & 0o777, 0o600);
        assert!(socket.accept(Some(Duration::ZERO)).expect("no error").is_none());
        assert!(ControlSocket::bind(&path).is_err(), "somebody listens there");
        // Who only looked whether anybody does has connected, and gone.
        let mut looked = socket.accept(None).expect("no error").expect("of the same user");
        assert_eq!(read_text(&mut looked, LONG).expect("nothing"), "");
        let there = path.clone();
        let client = std::thread::spawn(move || {
            let mut stream = UnixStream::connect(there).expect("connected");
            write_text(&mut stream, "hello", LONG).expect("written");
            stream.shutdown(std::net::Shutdown::Write).expect("shut");
            read_text(&mut stream, LONG).expect("an answer")
        });
        let mut stream = socket.accept(None).expect("no error").expect("of the same user");
        assert_eq!(read_at_most(&mut stream, 5, LONG).expect("a text"), "hello");
        write_text(&mut stream, "world", LONG).expect("written");
        drop(stream);
        assert_eq!(client.join().expect("no panic"), "world");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn too_long_or_too_slow_is_an_error() {
        let (mut one, mut other) = UnixStream::pair().expect("a pair");
        assert!(read_at_most(&mut one, 5, Duration::from_millis(1)).is_err(), "nothing comes");
        write_text(&mut other, "123456", LONG).expect("written");
        assert!(read_at_most(&mut one, 5, LONG).is_err());
        let long = "x".repeat(10 << 20);
        assert!(write_text(&mut other, &long, Duration::from_millis(1)).is_err(), "nobody reads");
    }
}
