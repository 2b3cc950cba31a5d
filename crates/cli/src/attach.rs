//! `corprof attach`: a process that runs already, from now until told otherwise, and then as if
//! nothing had been there.

use std::fs;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use config::control::{Command, Request, Stay};
use diagnostics::{AttachError, Hresult, Process, RequestError, Socket, Unreachable};
use nix::unistd::Uid;
use serde_json::json;

use crate::args::{AttachArgs, RUN_PERIOD};
use crate::coverage::{self, Until};
use crate::entering::{self, NotWaited, interrupted, load};
use crate::failure::{FAILED, Failure};
use crate::files::{self, Before};
use crate::interrupts::{self, Interrupts};
use crate::leaving::{Left, is_in, leave};
use crate::leftover::{self, Of};
use crate::outcome::{self, Outcome};
use crate::run::{EXPORT, TIMELINE, with_files};
use crate::staging::Staging;
use crate::stops::{self, Stops};
use crate::units::time;
use crate::{agent, agent_log, control, fetching, folder, lent, note, patience, warn};

/// After its time, the agent leaves by itself if nobody has told it to for so long.
const ORPHANED: Duration = Duration::from_secs(5);
/// How long a runtime may take to start.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at the process.
const LOOK: Duration = Duration::from_millis(200);
/// The agent's log, beside the profiles.
const LOG: &str = "corprof-agent.log";
/// Bytes of it that are shown; a line has some hundred.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// Profiles a process; 0 if there is a report.
pub fn attach(args: &AttachArgs) -> Result<u8, Failure> {
    let agent = agent::find(args.agent.as_deref())?;
    let process = Process::new(args.pid);
    let interrupts = Interrupts::read(last_words(args.pid)).context("can't read signals")?;
    let socket = started(&process, &interrupts).map_err(|error| unreachable(args.pid, &error))?;
    if let Some(user) = stranger(&process) {
        return Err(unreachable(args.pid, &Unreachable::OtherUser(user)));
    }
    if let Some(target) = &args.report.json {
        outcome::check_report(Path::new(target))?;
    }
    let name = program_name(&process);
    let (folder, is_fresh) = match args.options.get("CORPROF_OUTPUT_DIR") {
        Some(path) => (folder::given(Path::new(path))?, false),
        None => (folder::fresh(&name, SystemTime::now())?, true),
    };
    let result = attached(args, &socket, &agent, &folder, &name, &interrupts);
    if is_fresh {
        folder::remove_empty(&folder);
    }
    result
}

fn attached(
    args: &AttachArgs,
    socket: &Socket,
    agent: &Path,
    folder: &Path,
    name: &str,
    interrupts: &Interrupts,
) -> Result<u8, Failure> {
    let process = socket.process();
    let before = Before::of(folder);
    let place = enter(args, socket, agent, folder, name, interrupts)?;
    let started = Instant::now();
    place.clear_leftovers(process);
    let own_pid = process.status().ok().and_then(|status| status.own_pid()).unwrap_or(args.pid);
    let pids = [args.pid, own_pid].map(u64::from);
    let (ended, stopped) = watch(process, interrupts, started, args.time_limit, name);
    let (elapsed, unix_ns) = (started.elapsed(), coverage::now_ns());
    let left = match ended {
        End::Gone => Ok(Left::Now),
        // Whoever has ended it once ends us at once the second time.
        End::Stopped => leave(process, || false),
        End::Time | End::Left => leave(process, || interrupts.came()),
    };
    agent_log::relay(&place.log());
    place.fetch(folder, left.as_ref().is_ok_and(|left| *left != Left::Later));
    let left = left.unwrap_or_else(|error| {
        warn(format!("{error:#}"));
        Left::NotYet
    });
    if left != Left::Later {
        place.clear();
    }
    let files = outcome::new_files(&before, folder)?;
    let pid = args.pid;
    let Some(mut loaded) = outcome::load(&files, folder) else {
        return Err(Failure::new(FAILED, no_profile(pid, ended, left, &place)));
    };
    let ran = time(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
    let profiled =
        format!("profiled process {pid} ({name}) for {ran}{}", outcome::while_stopped(stopped));
    let unsaid_ns = coverage::unsaid_end_ns(&loaded, pids, unix_ns);
    let is_killed = ended == End::Gone && unsaid_ns.is_some();
    let then = match ended {
        End::Gone => format!(", when it ended{}", cut_off(unsaid_ns)),
        End::Left => format!("; then the profiler left it (by `corprof ctl {pid} detach`?)"),
        End::Time | End::Stopped => format!("; {}", left_so(pid, left, &place)),
    };
    let until = Until {
        pids,
        unix_ns,
        ran: before.ran(elapsed),
        is_cut_off: is_killed || left != Left::Now,
    };
    let outcome = Outcome {
        folder,
        how: profiled + &then,
        is_cut_off: is_killed || left == Left::Later,
        elapsed,
        until,
        more: vec![("pid", json!(pid))],
        hint: None,
    };
    outcome.show(&mut loaded, &args.report)?;
    // What stops the profiling ends the page, too.
    interrupts::unblock();
    outcome::view(&files, &args.report)?;
    Ok(0)
}

/// Has the process load the agent; an error says why it can't.
fn enter(
    args: &AttachArgs,
    socket: &Socket,
    agent: &Path,
    folder: &Path,
    name: &str,
    interrupts: &Interrupts,
) -> Result<Place, Failure> {
    let process = socket.process();
    if agent_answers(process, interrupts) {
        return Err(Failure::new(FAILED, at_work(args.pid, name)));
    }
    let mut place = Place::new(process, folder, agent)?;
    let request = request(args, &place, process);
    if interrupts.came() {
        place.clear();
        return Err(Failure::new(FAILED, "stopped before the agent was loaded"));
    }
    note(format!("attaching to process {} ({name})", args.pid));
    let loaded = match load(socket, &place.agent, &request, interrupts) {
        Ok(Err(error)) if place.lend_anew(agent, &error) => {
            load(socket, &place.agent, &request, interrupts)
        }
        loaded => loaded,
    };
    let pid = args.pid;
    let loaded = loaded.map_err(|stopped| {
        place.clear();
        match stopped {
            NotWaited::Interrupted(left) => {
                Failure::new(FAILED, interrupted(process, name, left, args.time_limit))
            }
            NotWaited::NoThread(error) => error.into(),
        }
    })?;
    if let Err(error) = loaded {
        let said = place.log();
        place.clear();
        let is_refused = matches!(error, AttachError::Refused(Hresult::CANCELLED));
        if is_refused && said.is_empty() && is_in(process) {
            return Err(Failure::new(FAILED, at_work(pid, name)));
        }
        let is_late = matches!(error, AttachError::Request(RequestError::TimedOut(_)));
        let why = match stops::told(process).filter(|_| is_late) {
            Some(how) => format!("it {how}; then try again"),
            None if said.is_empty() => format!("{}; {}", error.reason(), error.remedy()),
            None => format!("{}; {}", said.trim_end(), error.remedy()),
        };
        let message = format!("can't attach to process {pid} ({name}): {why}");
        return Err(Failure::new(FAILED, message));
    }
    Ok(place)
}

/// Why there is no profile.
fn no_profile(pid: u32, ended: End, left: Left, place: &Place) -> String {
    match (ended, left) {
        (End::Gone, _) => "the process ended before the agent could write a profile".to_owned(),
        (End::Left, _) => "the agent has left at once; see its log above".to_owned(),
        (_, Left::Later) => {
            format!("no profile yet: process {pid} {}", when_it_goes_on(pid, place))
        }
        (_, Left::NotYet) => "the agent wrote no profile yet".to_owned(),
        (_, Left::Now) => "the agent wrote no profile; see its log above".to_owned(),
    }
}

/// How the process and the agent are now.
fn left_so(pid: u32, left: Left, place: &Place) -> String {
    match left {
        Left::Now => "it runs on without the profiler".to_owned(),
        Left::Later => format!("it {}", when_it_goes_on(pid, place)),
        Left::NotYet => "the profiler has not left it yet".to_owned(),
    }
}

/// What is missing of a process that ended, if its last file didn't say that it is the last.
fn cut_off(unsaid_ns: Option<u64>) -> String {
    unsaid_ns.map_or_else(String::new, |ns| {
        format!(
            ", before the agent could write what came after the last file: about {} are missing",
            time(ns)
        )
    })
}

/// What happens to a process that is stopped, and to the agent in it.
fn when_it_goes_on(pid: u32, place: &Place) -> String {
    format!(
        "is stopped (SIGSTOP, Ctrl-Z or a debugger); once it goes on (`kill -CONT {pid}`) the \
         agent writes its last profile to {} and leaves",
        place.theirs.display()
    )
}

/// What is said when a second signal ends us at once.
fn last_words(pid: u32) -> String {
    format!(
        "ended at once; an agent may still be in process {pid}: `corprof ctl {pid} detach` has it \
         leave"
    )
}

/// The process's runtime, which may be starting just now.
fn started(process: &Process, interrupts: &Interrupts) -> Result<Socket, Unreachable> {
    let deadline = Instant::now() + START_PATIENCE;
    loop {
        match Socket::of_process(process) {
            Err(Unreachable::Starting) if Instant::now() < deadline && !interrupts.wait(LOOK) => {}
            other => return other,
        }
    }
}

/// The user of a process that is another's, and into which we may not look.
fn stranger(process: &Process) -> Option<u32> {
    let user = process.status().ok()?.user()?;
    let is_ours = user == Uid::effective().as_raw();
    let may_look = fs::metadata(process.outside(Path::new("/"))).is_ok();
    (!is_ours && !may_look).then_some(user)
}

fn unreachable(pid: u32, error: &Unreachable) -> Failure {
    if let Unreachable::Thread { .. } = error {
        return Failure::new(FAILED, error.to_string());
    }
    let (why, remedy) = (error.reason(), error.remedy());
    Failure::new(FAILED, format!("can't attach to process {pid}: {why}; {remedy}"))
}

/// Whether an agent is in the process already that can be spoken to.
fn agent_answers(process: &Process, interrupts: &Interrupts) -> bool {
    let Ok(socket) = control::socket_of(process) else { return false };
    let asked = process.clone();
    let ask = move || control::ask(&asked, &socket, &Request::of(Command::Status)).is_ok();
    let give_up = || (interrupts.came() || stops::is_stopped(process)).then_some(());
    patience::unless(ask, give_up).is_ok_and(|answer| answer == Ok(true))
}

/// Said of a process that has an agent already.
fn at_work(pid: u32, name: &str) -> String {
    format!(
        "can't attach to process {pid} ({name}): an agent is in it already, by its start or \
         another `corprof attach`; `corprof ctl {pid} status` says what it does, \
         `corprof ctl {pid} start` has it profile, `corprof ctl {pid} detach` has it leave, \
         and where `ctl` does not reach it, it ends with the process"
    )
}

/// What the agent is told.
fn request(args: &AttachArgs, place: &Place, process: &Process) -> Request {
    let given = args.options.settings();
    let log = place.theirs.join(LOG);
    let timeline = args.report.view.then_some((TIMELINE, "true".into()));
    let period = ("CORPROF_UPLOAD_PERIOD", RUN_PERIOD.into());
    let defaults = [period, ("CORPROF_LOG_FILE", log.to_string_lossy())];
    // Who runs it by hand wants it, and to end it, whatever the environment says.
    let always = [
        ("CORPROF_OUTPUT_DIR", place.theirs.to_string_lossy()),
        ("CORPROF_ENABLED", "true".into()),
        ("CORPROF_CONTROL", "true".into()),
    ];
    let inherited = process.environment().unwrap_or_default();
    let inherited = inherited.into_iter().find(|(name, _)| name == EXPORT).map(|(_, value)| value);
    let targets = with_files(args.options.get(EXPORT), inherited.as_deref());
    let always = always.into_iter().chain(targets.map(|targets| (EXPORT, targets.into())));
    let always: Vec<_> = always.collect();
    let is_given = |name: &str| given.iter().any(|(other, _)| other == name);
    let defaults = defaults.into_iter().chain(timeline).filter(|(name, _)| !is_given(name));
    let rest = given.iter().filter(|(name, _)| always.iter().all(|(other, _)| other != name));
    let mut settings: Vec<(String, String)> = rest.cloned().collect();
    settings.extend(defaults.chain(always).map(|(name, value)| (name.to_owned(), value.into())));
    // It leaves by itself if we can't tell it to.
    let leave_after = args.time_limit.map(|limit| limit.saturating_add(ORPHANED));
    let begin_before = SystemTime::now().checked_add(entering::PATIENCE);
    Request { command: Command::Attach(Stay { leave_after, begin_before }), settings }
}

/// Where the agent writes, as the process sees it and as we do.
struct Place {
    theirs: PathBuf,
    /// The process's temporary folder, as it sees it.
    temporary: PathBuf,
    /// Where profiles are wanted.
    folder: PathBuf,
    /// The agent, as the process sees it.
    agent: PathBuf,
    /// A folder made for this alone, from which files are fetched.
    staging: Option<Staging>,
}

impl Place {
    /// The output folder itself, if the process can write to it; else one in its own temporary
    /// folder, with the agent in it if the process has another file system.
    fn new(process: &Process, folder: &Path, agent: &Path) -> anyhow::Result<Self> {
        let own = Process::new(std::process::id());
        let sees_ours =
            process.shares_namespace(&own, "mnt").unwrap_or(true) && has_our_root(process);
        let user_of = |process: &Process| process.status().ok().and_then(|status| status.user());
        let user = user_of(process);
        let is_ours = user.is_none() || user == user_of(&own);
        if sees_ours && is_ours {
            let (theirs, folder) = (folder.to_owned(), folder.to_owned());
            let temporary = PathBuf::new();
            return Ok(Self { theirs, temporary, folder, agent: agent.to_owned(), staging: None });
        }
        let name = Staging::name_for(process);
        let environment = process.environment().unwrap_or_default();
        let temporary = process.temporary_folder(&environment);
        let theirs = temporary.join(&name);
        let shown = theirs.display();
        let failed = |error: io::Error| {
            let remedy = remedy(&error);
            let why = format!("can't make a folder for the process at {shown}; {remedy}");
            anyhow::Error::new(error).context(why)
        };
        let staging = Staging::make(process, &temporary, name).map_err(failed)?;
        leftover::make_room(&staging, process, &temporary, folder);
        let mut seen = agent.to_owned();
        if !sees_ours {
            seen = theirs.join(agent::LIBRARY);
            if let Some(again) = lent::again(process, &temporary, agent) {
                seen = again;
            } else if let Err(error) = staging.put(agent, agent::LIBRARY) {
                staging.clear();
                return Err(failed(error));
            }
        }
        let (folder, staging) = (folder.to_owned(), Some(staging));
        Ok(Self { theirs, temporary, folder, agent: seen, staging })
    }

    /// Another copy of the agent, if the process would not load again what it has; whether there is
    /// one.
    fn lend_anew(&mut self, agent: &Path, error: &AttachError) -> bool {
        let own = self.theirs.join(agent::LIBRARY);
        let is_again = !self.agent.starts_with(&self.theirs) && lent::is_lent_path(&self.agent);
        let is_refused = matches!(error, AttachError::Refused(why) if *why != Hresult::CANCELLED);
        let Some(staging) = &self.staging else { return false };
        if !is_again || !is_refused || staging.put(agent, agent::LIBRARY).is_err() {
            return false;
        }
        self.agent = own;
        true
    }

    /// Takes away what earlier attaches to the process left, once our agent is in.
    fn clear_leftovers(&self, process: &Process) {
        if let Some(staging) = &self.staging {
            leftover::clear(staging, process, Of::TheProcess, &self.temporary, &self.folder);
        }
    }

    /// What the agent had to say.
    fn log(&self) -> String {
        let mut text = Vec::new();
        let opened = match &self.staging {
            Some(staging) => staging.open(LOG),
            None => files::open_plain(&self.folder.join(LOG)),
        };
        if let Ok(file) = opened {
            // What was read before an error is said all the same.
            let _read = file.take(LOG_BYTES_MAX).read_to_end(&mut text);
        }
        // Another user may have written it, and our terminal is none of his.
        let harmless = |letter: char| letter == '\n' || !letter.is_control();
        String::from_utf8_lossy(&text).chars().filter(|letter| harmless(*letter)).collect()
    }

    /// Brings the profiles to the output folder, and takes away what nobody needs any more: an
    /// agent that has not left yet has a last profile to write.
    fn fetch(&self, folder: &Path, has_left: bool) {
        let Some(staging) = &self.staging else { return self.clear() };
        let shown = self.theirs.display();
        match fetching::fetch(staging, &self.theirs, folder) {
            Ok(false) if has_left => self.clear(),
            Ok(false) => warn(format!("what the agent writes yet stays in {shown}")),
            Ok(true) => warn(format!("the rest stays in {shown}; copy it and delete the folder")),
            Err(error) => {
                warn(format!("can't read {shown}: {error}; is the process's container gone?"));
                self.clear();
            }
        }
    }

    /// Takes away what nobody needs any more.
    fn clear(&self) {
        let Some(staging) = &self.staging else {
            // It is there only if something was said.
            let _nothing_left = fs::remove_file(self.folder.join(LOG));
            return;
        };
        if !staging.clear() {
            let shown = self.theirs.display();
            warn(format!("the folder {shown} can't be removed, as the process sees it; delete it"));
        }
    }
}

/// What to do if no folder can be made for a process.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space there, for the agent's library and its profiles"
        }
        _ if !Uid::effective().is_root() => "run corprof as root",
        _ => "see that this folder (TMPDIR of the process) is there, and its user may write to it",
    }
}

/// Whether a process's root folder is ours: a chroot has no namespace of its own.
fn has_our_root(process: &Process) -> bool {
    let root = |path: &Path| fs::metadata(path).map(|data| (data.dev(), data.ino()));
    match (root(&process.outside(Path::new("/"))), root(Path::new("/"))) {
        (Ok(theirs), Ok(ours)) => theirs == ours,
        _ => true,
    }
}

/// Why the profiling ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its time was over.
    Time,
    /// Somebody stopped it.
    Stopped,
    /// The agent has left before its time.
    Left,
    /// The process is gone.
    Gone,
}

/// Waits for the end, and shows on a terminal how far it is; also says for how long the process was
/// stopped meanwhile.
fn watch(
    process: &Process,
    interrupts: &Interrupts,
    started: Instant,
    limit: Option<Duration>,
    name: &str,
) -> (End, Duration) {
    let is_terminal = std::io::stderr().is_terminal();
    let pid = process.pid();
    let until = limit.map_or("until Ctrl-C".to_owned(), |limit| {
        format!("for {}; Ctrl-C ends it earlier", config::duration_to_text(limit))
    });
    note(format!("profiling process {pid} ({name}) {until}"));
    let born = process.started().map(|(ticks, _)| ticks);
    let mut stops = Stops::of(process.clone());
    let end = loop {
        stops.look();
        let elapsed = started.elapsed();
        if limit.is_some_and(|limit| elapsed >= limit) {
            break End::Time;
        }
        let lives = process.started().is_ok_and(|(ticks, state)| Ok(ticks) == born && state != 'Z');
        if !lives {
            break End::Gone;
        }
        if control::socket_of(process).is_err() {
            break End::Left;
        }
        if is_terminal {
            let seconds = elapsed.as_secs();
            let of = limit.map_or(String::new(), |limit| format!(" of {} s", limit.as_secs()));
            let _shown = write!(std::io::stderr(), "\r  {seconds} s{of} ");
        }
        let left = limit.map_or(LOOK, |limit| limit.saturating_sub(elapsed).min(LOOK));
        if interrupts.wait(left) {
            break End::Stopped;
        }
    };
    if is_terminal {
        let _cleared = write!(std::io::stderr(), "\r\x1b[K");
    }
    (end, stops.sum())
}

/// What the process is called: for `dotnet App.dll` it is `App`.
fn program_name(process: &Process) -> String {
    let words = process.command_line().unwrap_or_default();
    let words: Vec<std::ffi::OsString> = words.into_iter().map(Into::into).collect();
    let name = crate::run::program_name(&words);
    if name.is_empty() { process.pid().to_string() } else { name }
}
