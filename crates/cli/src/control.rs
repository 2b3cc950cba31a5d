//! Speaking to an agent at work: its control socket, and `corprof ctl`.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use config::control::{Command, Request, answer_from_text, socket_name};
use diagnostics::{Hidden, Process, Socket, Unreachable};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt};
use nix::sys::stat::Mode;
use nix::unistd::Uid;
use serde_json::{Map, Value};

use crate::args::{CtlAction, CtlArgs};
use crate::failure::{Failure, USAGE};
use crate::file_user::FileUser;

/// Longer than an agent needs to write its last profile and to stop.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two tries to connect where others wait.
const CONNECT_RETRY: Duration = Duration::from_millis(20);
/// Bytes of an answer; it has some lines.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Names and values.
type Pairs = Vec<(String, String)>;

/// `corprof ctl`.
pub fn ctl(args: &CtlArgs) -> Result<u8, Failure> {
    let settings: Pairs = args.options.settings();
    let command = match args.action {
        CtlAction::Status => Command::Status,
        CtlAction::Start => Command::Start,
        CtlAction::Stop => Command::Stop,
        CtlAction::Set => Command::Set,
        CtlAction::Detach => Command::Detach,
    };
    match (command, settings.is_empty()) {
        (Command::Set, true) => {
            let what = "set what? Name an option: corprof ctl PID set --cpu-interval 5ms";
            return Err(Failure::new(USAGE, what));
        }
        (Command::Status | Command::Stop | Command::Detach, false) => {
            let what = "options of the profiler go with `start` and `set` only";
            return Err(Failure::new(USAGE, what));
        }
        _ => {}
    }
    let process = Process::new(args.pid);
    let socket = socket_of(&process)?;
    let answer = ask(&process, &socket, &Request { command, settings })
        .with_context(|| format!("process {}", args.pid))?;
    let mut out = anstream::stdout().lock();
    if args.json {
        let map = answer.into_iter().map(|(name, value)| (name, Value::String(value)));
        writeln!(out, "{}", serde_json::to_string_pretty(&Value::Object(Map::from_iter(map)))?)?;
    } else {
        for (name, value) in answer {
            writeln!(out, "{name:<14} {value}")?;
        }
    }
    Ok(0)
}

/// The control socket of the agent in a process.
///
/// # Errors
/// That there is none, and what to do.
pub fn socket_of(process: &Process) -> anyhow::Result<PathBuf> {
    let pid = process.pid();
    let Ok((start_ticks, _)) = process.started() else {
        bail!("there is no process {pid}; `corprof ps` lists those that can be profiled");
    };
    if let Some(of) = process.of_thread() {
        bail!("{}", Unreachable::Thread { tid: pid, pid: of });
    }
    let folder = process.temporary_folder(&process.environment().unwrap_or_default());
    let place = process.outside(&folder);
    let own_pid = process.status().ok().and_then(|status| status.own_pid()).unwrap_or(pid);
    let path = place.join(socket_name(own_pid, start_ticks));
    match fs::metadata(&path) {
        Ok(_) => Ok(path),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // As `corprof attach` says it, which tells users from what root may not do either.
            let unreachable = Socket::of_process(process).err();
            let why = unreachable.unwrap_or(Unreachable::Hidden(Hidden::Denied));
            bail!("process {pid} can't be spoken to: {why}")
        }
        Err(_) => bail!(
            "process {pid} has no agent that listens ({} is not there): start it with `corprof \
             run`, or attach with `corprof attach {pid}`; CORPROF_CONTROL=false makes agents deaf",
            path.display()
        ),
    }
}

/// Asks the agent of a process.
///
/// # Errors
/// The agent's own, or why it didn't answer.
pub fn ask(process: &Process, socket: &Path, request: &Request) -> anyhow::Result<Pairs> {
    if process.started().is_ok_and(|(_, state)| state == 'T') {
        bail!("{}", Unreachable::Stopped(process.pid()));
    }
    let mut stream = believed(process, socket)?;
    // As text: that this pipe is broken is no end of our own output.
    let text =
        exchange(&mut stream, &request.to_text(), Instant::now() + PATIENCE).map_err(|error| {
            anyhow::anyhow!("the agent at {} doesn't answer: {error}", socket.display())
        })?;
    answer_from_text(&text).map_err(|why| anyhow::anyhow!("the agent says: {why}"))
}

/// Says something to the agent of a process that is stopped, which hears it once that goes on.
///
/// # Errors
/// That it can't be said.
pub fn leave_word(process: &Process, socket: &Path, request: &Request) -> anyhow::Result<()> {
    let mut stream = believed(process, socket)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.to_text().as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    Ok(())
}

/// A connection to the agent of a process, which is who listens there.
fn believed(process: &Process, socket: &Path) -> anyhow::Result<UnixStream> {
    let shown = socket.display();
    let stream = connected_to(process, socket)?;
    let user = process.status().ok().and_then(|status| status.user());
    let heard = getsockopt(&stream, PeerCredentials).context("can't see who listens")?;
    if !is_believed((heard.pid(), heard.uid()), (process.pid(), user)) {
        bail!(
            "process {} of the user with number {} listens at {shown}, and is not believed: delete \
             it, or start process {} with TMPDIR set to a folder that only its user may write to",
            heard.pid(),
            heard.uid(),
            process.pid()
        );
    }
    Ok(stream)
}

/// Says something, and takes the whole answer, by that time.
fn exchange(stream: &mut UnixStream, text: &str, deadline: Instant) -> io::Result<String> {
    let late = || io::Error::new(ErrorKind::TimedOut, "not in time");
    let left = || Some(deadline.saturating_duration_since(Instant::now())).filter(|t| !t.is_zero());
    stream.set_write_timeout(Some(left().ok_or_else(late)?))?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while answer.len() < ANSWER_BYTES_MAX {
        stream.set_read_timeout(Some(left().ok_or_else(late)?))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend(piece.iter().take(count)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(late()),
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether a process and its user, as heard, are the process that was asked and its user. A link
/// in a folder that others may write to leads to another process's agent, which would obey us.
fn is_believed(heard: (i32, u32), asked: (u32, Option<u32>)) -> bool {
    let ((pid, user), (process, owner)) = (heard, asked);
    let is_user = user == 0 || user == Uid::effective().as_raw() || Some(user) == owner;
    is_user && u32::try_from(pid) == Ok(process)
}

/// A connection to the agent of a process. One in another user namespace (a container without
/// root's rights) does not see that we are root, but that we are nobody: there we are its own user.
fn connected_to(process: &Process, socket: &Path) -> anyhow::Result<UnixStream> {
    let deadline = Instant::now() + PATIENCE;
    let own = Process::new(std::process::id());
    let is_apart = process.shares_namespace(&own, "user") == Some(false);
    let user = FileUser::of(process).filter(|_| is_apart);
    let Some((user, folder)) = user.zip(socket.parent()) else {
        return connected(socket, deadline);
    };
    // That user may not go by way of the process's root.
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let folder = open(folder, flags, Mode::empty())
        .with_context(|| format!("can't open the folder of {}", socket.display()))?;
    let near = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    let near = near.join(socket.file_name().unwrap_or_default());
    let connect = || connected(&near, deadline).map_err(io::Error::other);
    user.call(connect).with_context(|| format!("can't reach the agent at {}", socket.display()))
}

/// A connection to who listens there, made by that time: where many wait, others wait for ever.
fn connected(socket: &Path, deadline: Instant) -> anyhow::Result<UnixStream> {
    let shown = socket.display();
    let nobody =
        || format!("nobody listens at {shown}: the agent is gone, or it is another user's");
    let address = UnixAddr::new(socket).with_context(nobody)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    loop {
        let descriptor =
            nix::sys::socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)
                .context("can't make a socket")?;
        match connect(descriptor.as_raw_fd(), &address) {
            Ok(()) => {
                let stream = UnixStream::from(descriptor);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(Errno::EAGAIN) if Instant::now() < deadline => std::thread::sleep(CONNECT_RETRY),
            Err(Errno::EAGAIN) => bail!("who listens at {shown} lets nobody speak"),
            Err(error) => return Err(error).with_context(nobody),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn who_lets_nobody_speak_is_left() {
        let path = std::env::temp_dir().join(format!("corprof-full-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
        let now = Instant::now();
        let connections: Vec<_> = (0..3).map(|_| connected(&path, now)).collect();
        let error = connections.into_iter().find_map(Result::err).unwrap();
        assert!(error.to_string().contains("lets nobody speak"), "{error:#}");
        drop(listener);
        let error = connected(&path, now).unwrap_err();
        assert!(error.to_string().contains("nobody listens"), "{error:#}");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn who_answers_slowly_or_not_at_all_is_told_of_in_time() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let dripping = std::thread::spawn(move || {
            while theirs.write_all(b"o").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let deadline = Instant::now() + Duration::from_millis(100);
        let error = exchange(&mut ours, "status\n", deadline).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(ours);
        dripping.join().unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let error = exchange(&mut ours, "status\n", Instant::now() + PATIENCE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_user_of_the_process_and_root_are_believed_and_strangers_are_not() {
        let own = Uid::effective().as_raw();
        let stranger = own + 4711;
        let is_believed = |user: u32, owner: Option<u32>| super::is_believed((7, user), (7, owner));
        assert!(is_believed(own, None) && is_believed(0, None));
        assert!(is_believed(stranger, Some(stranger)));
        assert!(!is_believed(stranger, Some(own)) && !is_believed(stranger, None));
        assert!(!super::is_believed((8, 0), (7, None)), "another process, also root's");
        assert!(!super::is_believed((0, own), (7, None)), "one that can't be seen");
    }
}
