//! The agent's ear: a thread that waits for requests of `corprof ctl`, and leaves the process when
//! the time of an attach is over. It costs nothing while nobody speaks.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use config::control::{
    Answer, Command, Request, answer_to_text, socket_name, socket_name_parts, temporary_folder,
};
use config::duration_to_text;
use engine::{After, Log};
use sys::control_socket::{ControlSocket, Visitor, clear_leftovers, place, read_text, write_text};

use crate::session::Session;

/// The thread's name.
const THREAD: &str = "corprof-ctl";
/// How long somebody who has connected may take to say what he wants and to take the answer, both
/// together.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait after an error that comes again at once, such as too many open files.
const PAUSE: Duration = Duration::from_secs(5);

/// Why it can't listen.
#[derive(Debug)]
pub struct Deaf {
    /// What happened, why, and what to do.
    pub reason: String,
    /// Whether somebody else is in its place, which somebody has to see to.
    pub is_taken: bool,
}

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

    /// Takes the place at which to listen. An ear that is about to leave has left it already.
    ///
    /// # Errors
    /// Why it can't.
    pub fn take_place(&self) -> Result<(), Deaf> {
        let socket = bind()?;
        *self.socket() = Some(Arc::new(socket));
        Ok(())
    }

    /// Begins to listen at the place that was taken, and sees to it that the profiler leaves after
    /// that time, if one is given.
    ///
    /// # Errors
    /// Why it can't.
    pub fn open(
        &'static self,
        session: &'static Session,
        leave_after: Option<Duration>,
    ) -> Result<(), Deaf> {
        let leave_at = leave_after.map(|time| Instant::now() + time);
        let socket = self.socket().clone().ok_or_else(|| Deaf {
            reason: "there is no place to listen for `corprof ctl`".to_owned(),
            is_taken: false,
        })?;
        let body = move || {
            // Here, as a large folder takes its time.
            if let Some(folder) = socket.path().parent() {
                clear_leftovers(folder, socket_name_parts);
            }
            let time_is_over = listen(session, &socket, leave_at);
            // First this: as soon as the profiler has left, another may come and listen.
            self.close_only(&socket);
            if time_is_over {
                leave(session);
            }
        };
        sys::thread::spawn(THREAD, body).map_err(|error| {
            self.close();
            let reason = format!("no thread to listen for `corprof ctl`: {error}");
            Deaf { reason, is_taken: false }
        })
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

/// Has the profiler leave, from a thread of its own: the runtime's waits for callbacks to end.
pub fn leave_soon(session: &'static Session, log: &Log) {
    if let Err(error) = sys::thread::spawn(THREAD, move || leave(session)) {
        log.error(&format!("the profiler can't leave: no thread to do it: {error}"));
    }
}

/// The socket, in the folder in which the runtime has its own.
fn bind() -> Result<ControlSocket, Deaf> {
    let pid = std::process::id();
    let start_ticks = sys::proc::own_start_ticks();
    let folder = temporary_folder(std::env::var_os("TMPDIR").as_deref());
    let path = place(&folder, &socket_name(pid, start_ticks));
    ControlSocket::bind(&path).map_err(|error| {
        let path = path.display();
        let reason = format!("`corprof ctl` can't reach this process: no socket {path}: {error}");
        Deaf { reason, is_taken: error.kind() == ErrorKind::AddrInUse }
    })
}

/// Does what is asked for until the profiler has left, or is to: then the answer is true.
fn listen(session: &'static Session, socket: &ControlSocket, leave_at: Option<Instant>) -> bool {
    loop {
        let limit = leave_at.map(|at| at.saturating_duration_since(Instant::now()));
        match socket.accept(limit) {
            Ok(Some(stream)) => {
                if answer(session, socket, stream, leave_at) == Next::Gone {
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

/// Hears a visitor, and answers. Nobody who visits puts off the time to leave.
fn answer(
    session: &'static Session,
    socket: &ControlSocket,
    mut stream: Visitor,
    leave_at: Option<Instant>,
) -> Next {
    let patient = Instant::now() + PATIENCE;
    let until = leave_at.map_or(patient, |at| at.min(patient));
    let text = match read_text(&mut stream, until) {
        Ok(text) => text,
        Err(_) => return Next::Listen,
    };
    let left = until.saturating_duration_since(Instant::now());
    let (answer, next) = match Request::parse(&text) {
        Ok(request) => obey(session, socket, &request),
        Err(why) => (Err(why), Next::Listen),
    };
    // What it took to do it is not the visitor's time. Who has gone without waiting for the answer
    // didn't want it.
    let _unheard = write_text(&mut stream, &answer_to_text(&answer), Instant::now() + left);
    next
}

fn obey(session: &'static Session, socket: &ControlSocket, request: &Request) -> (Answer, Next) {
    let done = match request.command {
        Command::Status => Ok(()),
        Command::Start => session.start(&request.settings),
        Command::Stop => session.stop(engine::Next::nothing(After::Stop)),
        Command::Set => session.set(&request.settings),
        Command::Detach => match session.leave() {
            Ok(()) => {
                // Before the answer: who gets it may attach again at once.
                socket.remove();
                return (Ok(status(session, "left")), Next::Gone);
            }
            Err(why) => Err(why),
        },
        Command::Attach(_) => Err("it is attached already".to_owned()),
    };
    let state = if session.is_running() { "running" } else { "stopped" };
    (done.map(|()| status(session, state)), Next::Listen)
}

/// How things are, by name.
fn status(session: &Session, state: &str) -> Vec<(String, String)> {
    let Some(config) = session.config() else { return Vec::new() };
    let folder =
        std::path::absolute(&config.output_dir).unwrap_or_else(|_| config.output_dir.clone());
    let interval = |is_on: bool, interval| {
        if is_on { duration_to_text(interval) } else { "off".to_owned() }
    };
    let pairs = [
        ("state", state.to_owned()),
        ("agent", env!("CARGO_PKG_VERSION").to_owned()),
        ("service", config.service),
        ("folder", folder.display().to_string()),
        ("period", duration_to_text(config.upload_period)),
        ("sampler", config.sampler.name().to_owned()),
        ("cpu_interval", interval(config.cpu_enabled, config.cpu_interval)),
        ("wall_interval", interval(config.wall_enabled, config.wall_interval)),
        ("gc", switch(config.gc_enabled)),
        ("spans", switch(config.spans)),
        ("lines", switch(config.lines)),
        ("native_threads", switch(config.native_threads)),
        ("timeline", switch(config.timeline)),
        ("cpu_budget", budget(config.cpu_budget_ppm)),
    ];
    let mut pairs: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value)).into();
    let targets = config.export.targets.iter().map(|target| target.name());
    pairs.push(("export".to_owned(), targets.collect::<Vec<_>>().join(",")));
    if let Some(profiler) = session.profiler() {
        let (targets, spool) = profiler.export_status();
        if !targets.is_empty() {
            pairs.push(("spool".to_owned(), spool.display().to_string()));
        }
        pairs.extend(targets.iter().map(|target| (target.target.name().to_owned(), target.line())));
    }
    pairs
}

fn switch(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// The budget as it is set: `0.5%`.
fn budget(ppm: u32) -> String {
    let percent = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'))
}

fn leave(session: &'static Session) {
    if let (Err(why), Some(log)) = (session.leave(), session.log()) {
        log.error(&format!("the profiler can't leave: {why}"));
    }
}
