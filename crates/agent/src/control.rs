//! The agent's ear: a thread that waits for requests of `corprof ctl`, and leaves the process when
//! the time of an attach is over. It costs nothing while nobody speaks.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use config::control::{Answer, Command, MESSAGE_BYTES_MAX, Request, answer_to_text, socket_name};
use config::duration_to_text;
use engine::Log;
use sys::control_socket::{ControlSocket, read_text, write_text};
use sys::proc::Stat;

use crate::session::Session;

/// How long somebody who has connected may take to say what he wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait after an error that comes again at once, such as too many open files.
const PAUSE: Duration = Duration::from_secs(5);

/// The ear, while there is one.
pub struct Control {
    socket: Mutex<Option<Arc<ControlSocket>>>,
}

impl Control {
    /// Deaf.
    pub const fn new() -> Self {
        Self { socket: Mutex::new(None) }
    }

    fn socket(&self) -> MutexGuard<'_, Option<Arc<ControlSocket>>> {
        // What a panicked holder left is a socket or none.
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen if it is wanted, and sees to it that the profiler leaves after that time.
    pub fn open(
        &'static self,
        session: &'static Session,
        listens: bool,
        leave_after: Option<Duration>,
        log: &Log,
    ) {
        let leave_at = leave_after.map(|time| Instant::now() + time);
        self.close();
        let socket = if listens { bind(log).map(Arc::new) } else { None };
        if socket.is_none() && leave_at.is_none() {
            return;
        }
        self.socket().clone_from(&socket);
        let body = move || {
            let time_is_over = match &socket {
                Some(socket) => listen(session, socket, leave_at),
                None => {
                    std::thread::sleep(leave_after.unwrap_or_default());
                    true
                }
            };
            // First this: as soon as the profiler has left, another may come and listen.
            if let Some(socket) = socket {
                self.close_only(&socket);
            }
            if time_is_over {
                leave(session);
            }
        };
        if let Err(error) = sys::thread::spawn("corprof-ctl", body) {
            self.close();
            log.warn(&format!("no thread to listen for `corprof ctl`: {error}"));
        }
    }

    fn close_only(&self, socket: &Arc<ControlSocket>) {
        socket.remove();
        let mut place = self.socket();
        if place.as_ref().is_some_and(|other| Arc::ptr_eq(other, socket)) {
            *place = None;
        }
    }

    /// Takes the socket's file away, so that nobody knocks any more.
    pub fn close(&self) {
        if let Some(socket) = self.socket().take() {
            socket.remove();
        }
    }
}

/// The socket, in the folder in which the runtime has its own.
fn bind(log: &Log) -> Option<ControlSocket> {
    let pid = std::process::id();
    let start_ticks = Stat::read(pid)?.start_ticks;
    let folder = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let path = folder.join(socket_name(pid, start_ticks));
    let bound = ControlSocket::bind(&path);
    let say = |error: &io::Error| log.info(&refusal(&path, error));
    bound.inspect_err(say).ok()
}

fn refusal(path: &Path, error: &io::Error) -> String {
    format!("`corprof ctl` can't reach this process: no socket {}: {error}", path.display())
}

/// Does what is asked for until the profiler has left, or is to: then the answer is true.
fn listen(session: &'static Session, socket: &ControlSocket, leave_at: Option<Instant>) -> bool {
    loop {
        let limit = leave_at.map(|at| at.saturating_duration_since(Instant::now()));
        match socket.accept(limit) {
            Ok(Some(stream)) => {
                if answer(session, socket, stream) == Next::Gone {
                    return false;
                }
            }
            Ok(None) => {}
            Err(_) => std::thread::sleep(PAUSE.min(limit.unwrap_or(PAUSE))),
        }
        if leave_at.is_some_and(|at| at <= Instant::now()) {
            return true;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The profiler is there.
    Listen,
    /// The profiler has left.
    Gone,
}

fn answer(session: &'static Session, socket: &ControlSocket, mut stream: UnixStream) -> Next {
    let text = match read_text(&mut stream, MESSAGE_BYTES_MAX, PATIENCE) {
        Ok(text) => text,
        Err(_) => return Next::Listen,
    };
    let (answer, next) = match Request::parse(&text) {
        Ok(request) => obey(session, socket, &request),
        Err(why) => (Err(why), Next::Listen),
    };
    // Who has gone without waiting for it didn't want it.
    let _unheard = write_text(&mut stream, &answer_to_text(&answer), PATIENCE);
    next
}

fn obey(session: &'static Session, socket: &ControlSocket, request: &Request) -> (Answer, Next) {
    let done = match request.command {
        Command::Status => Ok(()),
        Command::Start => session.start(&request.settings),
        Command::Stop => session.stop(),
        Command::Set => session.set(&request.settings),
        Command::Detach => match session.leave() {
            Ok(()) => {
                // Before the answer: who gets it may attach again at once.
                socket.remove();
                return (Ok(status(session)), Next::Gone);
            }
            Err(why) => Err(why),
        },
        Command::Attach(_) => Err("it is attached already".to_owned()),
    };
    (done.map(|()| status(session)), Next::Listen)
}

/// How things are, by name.
fn status(session: &Session) -> Vec<(String, String)> {
    let Some(config) = session.config() else { return Vec::new() };
    let running = session.profiler().is_some_and(engine::Profiler::is_running);
    let state = if running { "running" } else { "stopped" };
    let folder =
        std::path::absolute(&config.output_dir).unwrap_or_else(|_| config.output_dir.clone());
    let pairs = [
        ("state", state.to_owned()),
        ("agent", env!("CARGO_PKG_VERSION").to_owned()),
        ("service", config.service),
        ("folder", folder.display().to_string()),
        ("period", duration_to_text(config.upload_period)),
        ("sampler", config.sampler.name().to_owned()),
        ("cpu_interval", duration_to_text(config.cpu_interval)),
        ("wall_interval", duration_to_text(config.wall_interval)),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).into()
}

fn leave(session: &Session) {
    if let (Err(why), Some(log)) = (session.leave(), session.log()) {
        log.error(&format!("the profiler can't leave: {why}"));
    }
}
