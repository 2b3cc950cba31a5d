//! A socket of the file system by which the same user, and nobody else, can speak to the process.

use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
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
    /// Makes a socket that only this user can open. What lies there is taken away if it is this
    /// user's, and nobody listens to it any more. Waits for nobody.
    ///
    /// # Errors
    /// Such as a folder that can't be written, a path of more than 107 bytes, or, as `AddrInUse`
    /// and with what to do, another user's file there or somebody who listens.
    pub fn bind(path: &Path) -> io::Result<Self> {
        make_room(path, own_user())?;
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

/// Takes away what a process of that user left at this place.
fn make_room(path: &Path, user: u32) -> io::Result<()> {
    // Of a link itself, which would lead to another's file.
    let about = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => about?,
    };
    if about.uid() != user {
        return Err(taken(&format!(
            "a file of another user (number {}) is in its place; delete it, or set TMPDIR to a \
             folder that only this user may write to",
            about.uid()
        )));
    }
    if about.file_type().is_socket() && is_heard(path)? {
        return Err(taken("another process listens at its place already; end that one"));
    }
    std::fs::remove_file(path)
}

fn taken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, why)
}

/// Whether anybody listens to a socket. Does not wait for one who doesn't accept.
fn is_heard(path: &Path) -> io::Result<bool> {
    let (address, length) = address(path)?;
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: three numbers, no memory.
    let descriptor = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made above, and nobody else has it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // SAFETY: the kernel reads at most `length` bytes of the address, which has as many.
    let answer =
        unsafe { libc::connect(descriptor.as_raw_fd(), (&raw const address).cast(), length) };
    if answer == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        // As many wait as it lets wait.
        io::ErrorKind::WouldBlock => Ok(true),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(false),
        _ => Err(error),
    }
}

/// A path as the kernel has it, and its length in bytes.
fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as _, sun_path: [0; 108] };
    let bytes = path.as_os_str().as_bytes();
    // One stays zero: the end.
    if bytes.len() >= address.sun_path.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is too long"));
    }
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = byte.cast_signed() as libc::c_char;
    }
    Ok((address, size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

/// The user as whom this process acts.
fn own_user() -> u32 {
    // SAFETY: no argument, can't fail.
    unsafe { libc::geteuid() }
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
    answer == 0 && (who.uid == own_user() || who.uid == 0)
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

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("corprof-test-{name}-{}.sock", std::process::id()))
    }

    #[test]
    fn who_lets_nobody_in_is_somebody_all_the_same() {
        let path = place("full");
        let listener = UnixListener::bind(&path).expect("bound");
        // SAFETY: two numbers, and the descriptor is the listener's.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        // One waits though none may; a call that waited for room would not come back.
        for _ in 0..3 {
            assert!(is_heard(&path).expect("no error"));
        }
        let error = ControlSocket::bind(&path).expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        let socket = ControlSocket::bind(&path).expect("nobody is there any more");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_anothers_stays_and_is_told_of() {
        let path = place("foreign");
        std::fs::write(&path, "").expect("a file");
        let error = make_room(&path, own_user().wrapping_add(1)).expect_err("another's");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains("TMPDIR"), "{error}");
        assert!(path.exists());
        // A link goes, and not what it leads to.
        let link = place("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        make_room(&link, own_user()).expect("room");
        assert!(std::fs::symlink_metadata(&link).is_err() && path.exists());
        std::fs::remove_file(&path).expect("gone");
        let long = PathBuf::from("/tmp").join("x".repeat(108));
        assert!(address(&long).is_err() && ControlSocket::bind(&long).is_err());
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
