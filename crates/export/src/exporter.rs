//! The thread that sends, and how profiles get to it.
//!
//! Two locks. `core` is held while files are read, written and synchronized, so it is the
//! exporter's thread's; nobody else takes it but `corprof-keep`, for which nobody waits without an
//! end. The `desk` is what others know: it is held for moments only, and never while anything is
//! waited for. Who holds both took `core` first.

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
use crate::inbox::Inbox;
use crate::place::{Place, Whereabouts};
use crate::request::Post;
use crate::status::Status;

/// The thread's name.
const THREAD: &str = "corprof-export";
/// The name of the thread that puts on disk what is left, should the other hang.
const KEEPER: &str = "corprof-keep";
/// How often it is looked for what other processes left.
const ADOPT_EVERY: Duration = Duration::from_secs(60);
/// How much longer than the limit the end may take: until a wait is over that had begun.
const GRACE: Duration = Duration::from_millis(500);
/// How long the end waits for the disk, should the thread not have ended by then.
const KEEP_MAX: Duration = Duration::from_secs(2);

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

/// What passes between the thread and everybody else.
#[derive(Default)]
struct Desk {
    inbox: Inbox,
    /// How it went when the thread last looked.
    status: Vec<Status>,
    /// Somebody wants it to end.
    is_ending: bool,
    /// The thread has ended.
    has_ended: bool,
    /// All that was left has been put on disk, or was given up.
    is_kept: bool,
}

struct Shared {
    core: Mutex<Core>,
    desk: Mutex<Desk>,
    changed: Condvar,
    cut: Cut,
    timeout: Duration,
}

impl Shared {
    fn core(&self) -> MutexGuard<'_, Core> {
        // What a panicked holder left is what waited before, or a little less.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        // The same holds here.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the core what has come in; returns whether somebody wants an end.
    fn take_in(&self, core: &mut Core) -> bool {
        let (arrived, is_ending) = {
            let mut desk = self.desk();
            (desk.inbox.take(), desk.is_ending)
        };
        for (target, n) in arrived.dropped {
            core.dropped(target, n);
        }
        for parcel in arrived.parcels {
            core.accept(parcel);
            self.publish(core);
        }
        is_ending
    }

    /// Has others know how it goes.
    fn publish(&self, core: &Core) {
        self.desk().status = core.status();
    }

    /// Waits until something comes in or an end is wanted, at most so long.
    fn wait(&self, limit: Duration) {
        let is_idle = |desk: &mut Desk| desk.inbox.is_empty() && !desk.is_ending;
        drop(self.changed.wait_timeout_while(self.desk(), limit, is_idle));
    }

    /// Puts all on disk that is left.
    fn keep_all(&self) {
        let mut core = self.core();
        self.take_in(&mut core);
        core.spool_all();
        self.publish(&core);
    }
}

/// Sends profiles, from a thread of its own.
pub struct Exporter {
    shared: Arc<Shared>,
    identity: Identity,
    say: Say,
    targets: Vec<Target>,
    whereabouts: Whereabouts,
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
        let whereabouts = place.whereabouts().clone();
        let seed = u64::from_ne_bytes(std::array::from_fn(|at| identity.id[at]));
        let core = Core::new(destinations, place, Arc::clone(&say), seed);
        let targets = core.targets().collect();
        let shared = Arc::new(Shared {
            desk: Mutex::new(Desk { status: core.status(), ..Desk::default() }),
            core: Mutex::new(core),
            changed: Condvar::new(),
            cut,
            timeout: config.export.timeout,
        });
        spawn(Arc::clone(&shared), client).map_err(StartError::Thread)?;
        let flush_limit = config.export.exit_flush;
        let pid = std::process::id();
        Ok(Some(Self { shared, identity, say, targets, whereabouts, flush_limit, pid }))
    }

    fn is_fork(&self) -> bool {
        std::process::id() != self.pid
    }

    /// Hands a profile over. It is made ready here, on the caller's thread, and kept and sent on
    /// the other.
    pub fn offer(&self, profile: &Profile) {
        if self.is_fork() {
            return;
        }
        for target in &self.targets {
            match parcel(*target, profile, &self.identity) {
                Some(Ok(parcel)) => {
                    self.shared.desk().inbox.put(parcel);
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
        if self.is_fork() {
            return Vec::new();
        }
        let desk = self.shared.desk();
        let mut status = desk.status.clone();
        status.iter_mut().for_each(|status| desk.inbox.add_to(status));
        status
    }

    /// The spool's folder.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        if self.is_fork() { PathBuf::new() } else { self.whereabouts.folder() }
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

    /// Ends: sends what it can within the limit, and puts the rest on disk. Whatever the network
    /// and the disk do, it takes no longer than the limit and some seconds.
    pub fn stop(&self) {
        if self.is_fork() {
            return;
        }
        self.shared.desk().is_ending = true;
        self.shared.cut.after(self.flush_limit);
        self.shared.changed.notify_all();
        let has_ended = self.wait_until(self.flush_limit + GRACE, |desk| desk.has_ended);
        if has_ended && self.shared.desk().inbox.is_empty() {
            return;
        }
        // It hangs, as in a look-up of a host: what it was sending may go twice. Or in the disk,
        // and then this thread must not.
        self.shared.desk().is_kept = false;
        let shared = Arc::clone(&self.shared);
        let keep = move || {
            let _panicked = catch_unwind(AssertUnwindSafe(|| shared.keep_all()));
            shared.desk().is_kept = true;
            shared.changed.notify_all();
        };
        let spawned = sys::thread::spawn(KEEPER, keep).is_ok();
        if !spawned || !self.wait_until(KEEP_MAX, |desk| desk.is_kept) {
            let folder = self.folder();
            let text = format!(
                "the disk of {} does not answer: profiles that were not sent may be lost",
                folder.display()
            );
            (self.say)(LogLevel::Error, &text);
        }
    }

    /// Waits until something holds, at most so long; returns whether it does.
    fn wait_until(&self, limit: Duration, holds: impl Fn(&Desk) -> bool) -> bool {
        let desk = self.shared.desk();
        let waited = self.shared.changed.wait_timeout_while(desk, limit, |desk| !holds(desk));
        holds(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Whether its thread has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.is_fork() || self.shared.desk().has_ended
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
        // After a panic, too, what waits is kept.
        let _panicked = catch_unwind(AssertUnwindSafe(|| shared.keep_all()));
        shared.desk().has_ended = true;
        shared.changed.notify_all();
    };
    sys::thread::spawn(THREAD, body)
}

fn run(shared: &Shared, mut client: Client) {
    let adopt_ns = u64::try_from(ADOPT_EVERY.as_nanos()).unwrap_or(u64::MAX);
    let mut next_adopt_ns = 0;
    let mut core = shared.core();
    loop {
        let is_ending = shared.take_in(&mut core);
        let now_ns = sys::clock::monotonic_ns();
        if now_ns >= next_adopt_ns && !is_ending {
            core.adopt();
            next_adopt_ns = now_ns.saturating_add(adopt_ns);
        }
        if !is_ending {
            core.line_up();
        }
        core.settle(now_ns);
        let limit = match shared.cut.left() {
            Some(left) if left.is_zero() => return,
            // The others want to have their turn, too.
            Some(left) => left / u32::try_from(core.ready(now_ns).max(1)).unwrap_or(1),
            None => shared.timeout,
        };
        let job = core.next(now_ns, is_ending);
        shared.publish(&core);
        if let Some(job) = job {
            drop(core);
            let result = client.post(&job.request, limit.min(shared.timeout));
            core = shared.core();
            core.done(&job, result, sys::clock::monotonic_ns());
            shared.publish(&core);
            continue;
        }
        if is_ending {
            return;
        }
        let due_ns = core.due_ns().unwrap_or(u64::MAX).min(next_adopt_ns);
        drop(core);
        shared.wait(Duration::from_nanos(due_ns.saturating_sub(now_ns)));
        core = shared.core();
    }
}

#[cfg(test)]
mod tests;
