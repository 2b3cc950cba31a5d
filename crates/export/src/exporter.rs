//! The thread that sends, and how profiles get to it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::{Config, LogLevel, Target};
use profile::{Profile, SelfReport};

use crate::client::Client;
use crate::core::{Core, Say};
use crate::deadline::Cut;
use crate::destination::{Destination, parcel};
use crate::identity::Identity;
use crate::place::Place;
use crate::request::Post;
use crate::status::Status;

/// The thread's name.
const THREAD: &str = "corprof-export";
/// How often it is looked for what other processes left.
const ADOPT_EVERY: Duration = Duration::from_secs(60);
/// How much longer than the limit the end may take: until a wait is over that had begun.
const GRACE: Duration = Duration::from_millis(500);

/// Why there is no exporter.
#[derive(Debug)]
pub enum StartError {
    /// There is no thread for it.
    Thread(std::io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Thread(error) => write!(f, "no thread to send profiles: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

struct State {
    core: Core,
    /// Somebody wants it to end.
    is_ending: bool,
    /// The thread has ended.
    has_ended: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    cut: Cut,
    timeout: Duration,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What a panicked holder left is what waited before, or a little less.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends profiles, from a thread of its own.
pub struct Exporter {
    shared: Arc<Shared>,
    identity: Identity,
    say: Say,
    targets: Vec<Target>,
    flush_limit: Duration,
    /// The process that it is of: a fork has no such thread, and what waits is its parent's.
    pid: u32,
}

impl Exporter {
    /// Starts, with the targets of the settings; `None` if there are none to send to. What is wrong
    /// with one of them is said, and doesn't keep the others from working.
    ///
    /// # Errors
    /// That there is no thread.
    pub fn start(
        config: &Config,
        identity: Identity,
        temporary: PathBuf,
        say: Say,
    ) -> Result<Option<Self>, StartError> {
        let destinations = destinations(config, &say);
        if destinations.is_empty() {
            return Ok(None);
        }
        let cut = Cut::default();
        let client = match Client::new(&config.export, cut.clone()) {
            Ok(client) => client,
            Err((option, why)) => {
                say(LogLevel::Error, &format!("{option} is no address: {why}. Nothing is sent"));
                return Ok(None);
            }
        };
        let place = Place::new(&config.export, temporary, crate::identity::random_id());
        let seed = u64::from_ne_bytes(std::array::from_fn(|at| identity.id[at]));
        let core = Core::new(destinations, place, Arc::clone(&say), seed);
        let targets = core.targets().collect();
        let shared = Arc::new(Shared {
            state: Mutex::new(State { core, is_ending: false, has_ended: false }),
            changed: Condvar::new(),
            cut,
            timeout: config.export.timeout,
        });
        spawn(Arc::clone(&shared), client).map_err(StartError::Thread)?;
        let flush_limit = config.export.exit_flush;
        let pid = std::process::id();
        Ok(Some(Self { shared, identity, say, targets, flush_limit, pid }))
    }

    fn is_fork(&self) -> bool {
        std::process::id() != self.pid
    }

    /// Hands a profile over. It is made ready here, on the caller's thread, and sent on the other.
    pub fn offer(&self, profile: &Profile) {
        if self.is_fork() {
            return;
        }
        for target in &self.targets {
            match parcel(*target, profile, &self.identity) {
                Some(Ok(parcel)) => {
                    self.shared.lock().core.accept(parcel);
                    self.shared.changed.notify_all();
                }
                Some(Err(error)) => {
                    let target = target.name();
                    let text = format!("a profile could not be made ready for {target}: {error}");
                    (self.say)(LogLevel::Error, &text);
                }
                None => {}
            }
        }
    }

    /// How it goes with each target.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        if self.is_fork() { Vec::new() } else { self.shared.lock().core.status() }
    }

    /// The spool's folder.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        if self.is_fork() { PathBuf::new() } else { self.shared.lock().core.folder() }
    }

    /// Adds how it goes to the profiler's own numbers.
    pub fn report(&self, report: &mut SelfReport) {
        for status in self.status() {
            for (sum, n) in [
                (&mut report.export_sent, status.counts.sent),
                (&mut report.export_failed, status.counts.failed),
                (&mut report.export_lost, status.counts.lost()),
                (&mut report.export_queue_bytes, status.queued.1),
                (&mut report.export_spool_bytes, status.spooled.1),
            ] {
                *sum = sum.saturating_add(n);
            }
        }
    }

    /// Ends: sends what it can within the limit, and puts the rest on disk.
    pub fn stop(&self) {
        if self.is_fork() {
            return;
        }
        let mut state = self.shared.lock();
        state.is_ending = true;
        self.shared.cut.after(self.flush_limit);
        self.shared.changed.notify_all();
        let limit = self.flush_limit + GRACE;
        let waited = self.shared.changed.wait_timeout_while(state, limit, |s| !s.has_ended);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if !state.has_ended {
            // It hangs, as in a look-up of a host. What it was sending may go twice.
            state.core.spool_all();
        }
    }

    /// Whether its thread has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.is_fork() || self.shared.lock().has_ended
    }
}

/// Where the settings want profiles sent; what is wrong with it is said.
#[must_use]
pub fn destinations(config: &Config, say: &Say) -> Vec<Destination> {
    let mut found = Vec::new();
    for target in config.export.remote_targets() {
        match Destination::new(target, config) {
            Some(Ok(destination)) => found.push(destination),
            Some(Err(why)) => {
                let text = format!("no profiles are sent to {}: {why}", target.name());
                say(LogLevel::Error, &text);
            }
            None => {}
        }
    }
    found
}

fn spawn(shared: Arc<Shared>, client: Client) -> std::io::Result<()> {
    let body = move || {
        let _panicked = catch_unwind(AssertUnwindSafe(|| run(&shared, client)));
        let mut state = shared.lock();
        // After a panic, too, what waits is kept.
        state.core.spool_all();
        state.has_ended = true;
        shared.changed.notify_all();
    };
    sys::thread::spawn(THREAD, body)
}

fn run(shared: &Shared, mut client: Client) {
    let adopt_ns = u64::try_from(ADOPT_EVERY.as_nanos()).unwrap_or(u64::MAX);
    let mut next_adopt_ns = 0;
    let mut state = shared.lock();
    loop {
        let now_ns = sys::clock::monotonic_ns();
        if now_ns >= next_adopt_ns && !state.is_ending {
            state.core.adopt();
            next_adopt_ns = now_ns.saturating_add(adopt_ns);
        }
        state.core.settle(now_ns);
        let limit = match shared.cut.left() {
            Some(left) if left.is_zero() => return,
            // The others want to have their turn, too.
            Some(left) => left / u32::try_from(state.core.ready(now_ns).max(1)).unwrap_or(1),
            None => shared.timeout,
        };
        let is_ending = state.is_ending;
        if let Some(job) = state.core.next(now_ns, is_ending) {
            drop(state);
            let result = client.post(&job.request, limit.min(shared.timeout));
            state = shared.lock();
            state.core.done(&job, result, sys::clock::monotonic_ns());
            continue;
        }
        if is_ending {
            return;
        }
        let due_ns = state.core.due_ns().unwrap_or(u64::MAX).min(next_adopt_ns);
        let wait = Duration::from_nanos(due_ns.saturating_sub(now_ns));
        let waited = shared.changed.wait_timeout(state, wait);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}
