//! A socket of the file system by which the same user, and nobody else, can speak to the process.

use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::proc::process_start_ticks;
use super::silent::Silent;
use super::{unix_socket, user};

/// Where a place of that name is: in the process's temporary folder.
#[must_use]
pub fn place(folder: &Path, name: &str) -> PathBuf {
    // Absolute, to be found again when the program has changed its folder.
    let path = folder.join(name);
    std::path::absolute(&path).unwrap_or(path)
}

/// Somebody who has connected.
pub type Visitor = UnixStream;

/// The socket; its file goes with it.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
    /// Those who have said nothing yet.
    silent: Mutex<Silent<Visitor>>,
}

impl ControlSocket {
    /// Makes a socket that only this user can open. What lies there is taken away if it is this
    /// user's, and nobody listens to it any more. Waits for nobody.
    ///
    /// # Errors
    /// Such as a folder that can't be written, a path of more than 107 bytes, or, as `AddrInUse`
    /// and with what to do, another user's file there or somebody who listens.
    pub fn bind(path: &Path) -> io::Result<Self> {
        make_room(path, user::effective_id())?;
        let listener = UnixListener::bind(path)?;
        // Between the two lines others could connect; they are turned away by their user.
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let inode = std::fs::metadata(path)?.ino();
        // Who connects may go at once, which must not have the one who lets him in wait.
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path: path.to_owned(), inode, silent: Mutex::new(Silent::new()) })
    }

    /// Waits for somebody who may speak and has begun to, or has gone, at most so long (for ever
    /// without a limit). Those who say nothing hold nobody up: some are waited for together, for
    /// two seconds each, and of more the first have to go. By one thread.
    ///
    /// # Errors
    /// Whatever the kernel says, such as too many open files.
    pub fn accept(&self, limit: Option<Duration>) -> io::Result<Option<Visitor>> {
        // Each change of it is complete in itself.
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            silent.hang_up(Instant::now());
            let wakes = silent.wait(self.listener.as_raw_fd(), until)?;
            if let Some(stream) = wakes.speaker {
                return Ok(Some(stream));
            }
            if wakes.has_visitor {
                match self.listener.accept() {
                    Ok((stream, _address)) if is_allowed(&stream) => {
                        silent.add(stream, Instant::now());
                    }
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => {}
                }
            } else if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(None);
            }
        }
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

/// Takes away the sockets that this user's processes left when they crashed or were killed. `owner`
/// says of which process a name is, by its id and its start in ticks.
pub fn clear_leftovers(folder: &Path, owner: impl Fn(&str) -> Option<(u32, u64)>) {
    // What can't be seen or taken away stays, and harms nobody.
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.take(ENTRIES_MAX).flatten() {
        let name = entry.file_name();
        let Some((pid, start_ticks)) = name.to_str().and_then(&owner) else { continue };
        if process_start_ticks(pid) != Some(start_ticks) && is_leftover(&entry.path()) {
            let _gone = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether it is a socket of this user's that nobody listens to. Somebody may who has another
/// process id for us: a container that shares the folder.
fn is_leftover(path: &Path) -> bool {
    let is_ours = std::fs::symlink_metadata(path)
        .is_ok_and(|about| about.file_type().is_socket() && about.uid() == user::effective_id());
    is_ours && is_heard(path).is_ok_and(|heard| !heard)
}

fn taken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, why)
}

/// Whether anybody listens to a socket. Does not wait for one who doesn't accept.
fn is_heard(path: &Path) -> io::Result<bool> {
    /// Who listens and lets somebody in does so at once; the kernel rounds it up.
    const AT_ONCE: Duration = Duration::from_micros(1);
    let Err(error) = unix_socket::connect(path, AT_ONCE) else { return Ok(true) };
    match error.kind() {
        // As many wait as it lets wait.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(true),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(false),
        _ => Err(error),
    }
}

/// Names in a temporary folder that are looked at: some have a million.
const ENTRIES_MAX: usize = 10_000;

/// Bytes that somebody may send: a command, and some settings with their paths.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Reads all that somebody sends, until then at the latest.
///
/// # Errors
/// That it comes too slowly, is longer than anything that makes sense, or is no text.
pub fn read_text(stream: &mut Visitor, until: Instant) -> io::Result<String> {
    read_at_most(stream, TEXT_BYTES_MAX, || left(until))
}

/// The time up to an instant.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// The time that is left before each part is what `left` says: who sends a byte now and then gets
/// no more of it than others.
fn read_at_most(
    stream: &mut Visitor,
    bytes_max: usize,
    mut left: impl FnMut() -> Duration,
) -> io::Result<String> {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    loop {
        stream.set_read_timeout(Some(some_time(left())?))?;
        let read = match stream.read(&mut part) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        text.extend_from_slice(part.get(..read).unwrap_or_default());
        if text.len() > bytes_max {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too long"));
        }
    }
    String::from_utf8(text).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no text"))
}

/// A limit for one system call, to which none at all would be no limit.
fn some_time(left: Duration) -> io::Result<Duration> {
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Writes all, until then at the latest.
///
/// # Errors
/// That it is read too slowly, or not at all.
pub fn write_text(stream: &mut Visitor, text: &str, until: Instant) -> io::Result<()> {
    write_within(stream, text, || left(until))
}

fn write_within(
    stream: &mut Visitor,
    text: &str,
    mut left: impl FnMut() -> Duration,
) -> io::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(some_time(left())?))?;
        let written = match stream.write(rest) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            written => written?,
        };
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
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
    answer == 0 && (who.uid == user::effective_id() || who.uid == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

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
        assert_eq!(read_text(&mut looked, long()).expect("nothing"), "");
        let there = path.clone();
        let client = std::thread::spawn(move || {
            let mut stream = UnixStream::connect(there).expect("connected");
            write_text(&mut stream, "hello", long()).expect("written");
            stream.shutdown(std::net::Shutdown::Write).expect("shut");
            read_text(&mut stream, long()).expect("an answer")
        });
        let mut stream = socket.accept(None).expect("no error").expect("of the same user");
        assert_eq!(read_at_most(&mut stream, 5, || left(long())).expect("a text"), "hello");
        write_text(&mut stream, "world", long()).expect("written");
        drop(stream);
        assert_eq!(client.join().expect("no panic"), "world");
        drop(socket);
        assert!(!path.exists());
    }

    /// However many they are, and whoever came first.
    #[test]
    fn who_says_nothing_holds_nobody_up() {
        let path = place("silent");
        let socket = ControlSocket::bind(&path).expect("bound");
        let there = path.clone();
        let asking = std::thread::spawn(move || {
            let visit = || UnixStream::connect(&there).expect("connected");
            let mut silent: Vec<UnixStream> = (0..300).map(|_| visit()).collect();
            let mut stream = visit();
            write_text(&mut stream, "status", long()).expect("written");
            stream.shutdown(std::net::Shutdown::Write).expect("shut");
            assert_eq!(read_text(&mut stream, long()).expect("an answer"), "running");
            // The first of them is hung up on as soon as there are too many.
            assert_eq!(read_text(&mut silent[0], long()).expect("the end"), "");
        });
        let mut stream = socket.accept(None).expect("no error").expect("somebody");
        assert_eq!(read_text(&mut stream, long()).expect("a text"), "status");
        write_text(&mut stream, "running", long()).expect("written");
        drop(stream);
        asking.join().expect("no panic");
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
    fn what_the_dead_left_goes_and_what_others_have_stays() {
        let folder = place("leftovers");
        std::fs::create_dir(&folder).expect("a folder");
        let [left, heard, living, file] =
            ["left", "heard", "living", "file"].map(|name| folder.join(name));
        drop(UnixListener::bind(&left).expect("bound"));
        let _listens = UnixListener::bind(&heard).expect("bound");
        drop(UnixListener::bind(&living).expect("bound"));
        std::fs::write(&file, "").expect("a file");
        let own = std::process::id();
        let start_ticks = process_start_ticks(own).expect("this process");
        clear_leftovers(&folder, |name| match name {
            "living" => Some((own, start_ticks)),
            // An id that a process has again, which began later.
            _ => Some((own, start_ticks - 1)),
        });
        assert!(!left.exists() && heard.exists() && living.exists() && file.exists());
        clear_leftovers(&folder, |_| None);
        assert!(living.exists(), "no name of ours");
        std::fs::remove_dir_all(&folder).expect("gone");
    }

    #[test]
    fn what_is_anothers_stays_and_is_told_of() {
        let path = place("foreign");
        std::fs::write(&path, "").expect("a file");
        let error = make_room(&path, user::effective_id().wrapping_add(1)).expect_err("another's");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains("TMPDIR"), "{error}");
        assert!(path.exists());
        // A link goes, and not what it leads to.
        let link = place("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        make_room(&link, user::effective_id()).expect("room");
        assert!(std::fs::symlink_metadata(&link).is_err() && path.exists());
        std::fs::remove_file(&path).expect("gone");
        let long = PathBuf::from("/tmp").join("x".repeat(108));
        assert!(ControlSocket::bind(&long).is_err());
    }

    #[test]
    fn too_long_or_too_slow_is_an_error() {
        let (mut one, mut other) = UnixStream::pair().expect("a pair");
        assert!(read_at_most(&mut one, 5, || Duration::from_millis(1)).is_err(), "nothing comes");
        write_text(&mut other, "123456", long()).expect("written");
        assert!(read_at_most(&mut one, 5, || left(long())).is_err());
        let text = "x".repeat(10 << 20);
        assert!(
            write_within(&mut other, &text, || Duration::from_millis(1)).is_err(),
            "nobody reads"
        );
    }

    #[test]
    fn who_drips_bytes_is_hung_up_on() {
        let (mut one, mut other) = UnixStream::pair().expect("a pair");
        let mut seconds = 3;
        // A byte comes in each of them, so no single wait is ever too long.
        let dripping = || {
            other.write_all(b"x").expect("written");
            seconds -= 1;
            Duration::from_secs(seconds)
        };
        let error = read_at_most(&mut one, 100, dripping).expect_err("too slow");
        assert_eq!((error.kind(), seconds), (io::ErrorKind::TimedOut, 0));
        let error = write_within(&mut one, "y", || Duration::ZERO).expect_err("too late");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
