//! The profiler as a whole: how it starts, stops, and starts again.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::export::{Exporter, Status};
use config::{Config, LogLevel};
use model::Loss;
use model::limits::{DESCRIPTORS_MIN, RING_SLOTS, THREADS_MAX, TIDS_MAX};
use signal::handler::{Shared, on_signal, set_shared};
use signal::record::Record;
use signal::ring::{Ring, Slot};
use signal::sample::Sample;
use sys::disposition::{self, Disposition};
use sys::{clock, pages, thread};

use crate::accounts::{Accounts, Wanted};
use crate::collector::{Collector, CollectorState, Next, Parts};
use crate::cpu::{CpuSampler, Scan};
use crate::event::Inbox;
use crate::export;
use crate::log::Log;
use crate::natives::Natives;
use crate::pauses::{Pauses, Stop};
use crate::publish::Publisher;
use crate::registry::Registry;
use crate::rest::Rest;
use crate::runtime::Runtime;
use crate::spans::Spans;
use crate::symbolizer::Symbolizer;
use crate::ticker::{Ticker, TickerState};
use crate::wall::{Beat, WallSampler};

/// Names of threads.
const COLLECTOR: &str = "corprof-collect";
const TICKER: &str = "corprof-tick";
/// The sampling signal: free in CoreCLR, and by its name made for this.
const SIGNAL: i32 = sys::disposition::PROFILING_SIGNAL;
/// How long stopping waits for handlers that are inside.
const HANDLERS_NS_MAX: u64 = 1_000_000_000;
/// How long stopping waits for the last profile.
const LAST_PROFILE_NS_MAX: u64 = 5_000_000_000;
/// How long taking the handler back waits for the profiler's threads, which may be writing a file.
const THREADS_NS_MAX: u64 = 5_000_000_000;

/// Why the profiler could not start.
#[derive(Debug)]
pub enum StartError {
    /// The process may have so few descriptors that it needs them all.
    Descriptors(u64),
    /// No memory for records or ring.
    Memory(io::Error),
    /// Another handler owns the sampling signal.
    SignalTaken,
    /// The handler could not be installed.
    Handler(io::Error),
    /// A thread could not be made.
    Thread(io::Error),
    /// A thread of the session before has not ended yet.
    StillRunning,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Descriptors(max) => write!(
                formatter,
                "the process may have {max} file descriptors, and fewer than {DESCRIPTORS_MIN} may \
                 be too few for it and the profiler; raise its hard limit (ulimit -Hn)"
            ),
            Self::Memory(error) => write!(formatter, "no memory for its buffers: {error}"),
            Self::SignalTaken => write!(
                formatter,
                "signal SIGPROF is handled by other code in this process (another profiler?)"
            ),
            Self::Handler(error) => write!(formatter, "no handler for SIGPROF: {error}"),
            Self::Thread(error) => write!(formatter, "no thread of its own: {error}"),
            Self::StillRunning => {
                write!(formatter, "what ran before has not ended yet; try again in a few seconds")
            }
        }
    }
}

/// What is logged at the start.
fn started(config: &Config, runtime_version: &str, folder: &Path) -> String {
    let targets = config.export.targets.iter().map(|target| match target {
        config::Target::File => folder.display().to_string(),
        other => other.name().to_owned(),
    });
    format!(
        "agent {} in process {}, {runtime_version}: profiles of {} go to {} every {:?}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        config.service,
        targets.collect::<Vec<_>>().join(", "),
        config.upload_period,
    )
}

/// The profiler of a process: made once, started and stopped any number of times.
pub struct Profiler {
    shared: &'static Shared,
    registry: Arc<Registry>,
    inbox: Arc<Inbox>,
    rest: Arc<Rest>,
    spans: Arc<Spans>,
    pauses: Arc<Pauses>,
    /// The next profile's number.
    profiles: Arc<AtomicU64>,
    /// What tells this process from others where profiles are sent to.
    id: [u8; 16],
    session: Mutex<Option<Session>>,
}

/// From a start to a stop.
struct Session {
    ticker: Arc<TickerState>,
    collector: Arc<CollectorState>,
    /// Sends profiles, if they are sent anywhere.
    exporter: Option<Arc<Exporter>>,
    log: Log,
    /// Who had the signal before.
    before: Disposition,
    /// Whether it is over, except that its handler is still there.
    stopped: bool,
}

impl Profiler {
    /// A profiler that does nothing yet. The memory that handlers use is never given back, so a
    /// process has one profiler.
    ///
    /// # Errors
    /// That there is no memory.
    pub fn new() -> Result<Self, StartError> {
        let shared = make_shared().map_err(StartError::Memory)?;
        let inbox = Arc::new(Inbox::default());
        let off = CpuSampler::new(None, Duration::ZERO, SIGNAL, Log::new(LogLevel::Off, None));
        let registry = Arc::new(Registry::new(shared, Arc::clone(&inbox), off));
        registry.stop();
        let rest = Arc::new(Rest::default());
        let spans =
            Arc::new(Spans::new(Arc::clone(&registry), Arc::clone(&inbox), Arc::clone(&rest)));
        let pauses = Arc::new(Pauses::new(shared, make_stops().map_err(StartError::Memory)?));
        let (profiles, session) = (Arc::default(), Mutex::new(None));
        let id = ::export::random_id();
        Ok(Self { shared, registry, inbox, rest, spans, pauses, profiles, id, session })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Session>> {
        // What a panicked holder left is a session or none: both can be stopped.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts: handler, threads, first period. Threads of the runtime are told of by `registry`,
    /// those that were there before as well. Does nothing if it runs already.
    ///
    /// # Errors
    /// Why it can't.
    pub fn start(
        &self,
        config: Config,
        runtime: Arc<dyn Runtime>,
        folder: PathBuf,
        log: Log,
    ) -> Result<(), StartError> {
        let mut place = self.lock();
        if place.as_ref().is_some_and(|session| !session.stopped) {
            return Ok(());
        }
        let descriptors = sys::files::descriptors_max();
        if descriptors < DESCRIPTORS_MIN {
            return Err(StartError::Descriptors(descriptors));
        }
        if let Some(last) = place.take() {
            last.withdraw()?;
        }
        self.shared.cpu_interval_ns.store(nanos(config.cpu_interval), Ordering::Relaxed);
        let before = install(self.shared)?;
        let wanted = Wanted {
            cpu: config.cpu_enabled,
            wall: config.wall_enabled,
            span_ids: config.span_ids,
            timeline: config.timeline,
        };
        // The wall time of running threads is charged by CPU samples.
        let kind = (wanted.cpu || wanted.wall).then_some(config.sampler);
        self.registry.resume(CpuSampler::new(kind, config.cpu_interval, SIGNAL, log.clone()));
        // What nobody took is of the last session, which has been told that it is over.
        drop(self.inbox.take(Duration::ZERO, &mut Vec::new()));
        self.pauses.begin();
        let session = place.insert(Session {
            ticker: Arc::new(TickerState::default()),
            collector: Arc::new(CollectorState::default()),
            exporter: None,
            log: log.clone(),
            before,
            stopped: false,
        });
        let begun = self.begin(session, wanted, config, runtime, folder);
        if begun.is_err() {
            session.stopped = true;
            self.registry.stop();
            session.exporter.iter().for_each(|exporter| exporter.stop());
            session.ticker.end();
            session.collector.stopped.store(true, Ordering::Release);
        }
        begun
    }

    fn begin(
        &self,
        session: &mut Session,
        wanted: Wanted,
        config: Config,
        runtime: Arc<dyn Runtime>,
        folder: PathBuf,
    ) -> Result<(), StartError> {
        let shared = self.shared;
        if config.spans {
            self.spans.open();
        }
        self.spawn_ticker(session, &config)?;
        #[cfg(feature = "oracle")]
        let oracle = crate::oracle::Oracle::new(Arc::clone(&runtime), session.log.clone());
        let natives = config.native_threads;
        let runtime_version = runtime.version();
        let started = started(&config, &runtime_version, &folder);
        session.exporter = export::start(&config, &runtime_version, self.id, &session.log);
        let symbolizer = Symbolizer::new(runtime, Publisher::new(shared));
        let parts = Parts {
            shared,
            inbox: Arc::clone(&self.inbox),
            spans: Arc::clone(&self.spans),
            pauses: Arc::clone(&self.pauses),
            ticker: Arc::clone(&session.ticker),
            state: Arc::clone(&session.collector),
            config,
            log: session.log.clone(),
            runtime_version,
            instance: ::export::id_text(self.id),
            accounts: Accounts::new(
                shared,
                wanted,
                symbolizer,
                #[cfg(feature = "oracle")]
                oracle,
            ),
            folder,
            exporter: session.exporter.clone(),
            signal: Some(SIGNAL),
            profiles: Arc::clone(&self.profiles),
        };
        // Made here and not on its thread, which may begin to run late: the first period begins
        // before the first sample.
        let process_cpu_ns = self.registry.begin(natives);
        let collector = Collector::new(parts, process_cpu_ns);
        let (state, registry) = (Arc::clone(&session.collector), Arc::clone(&self.registry));
        let log = session.log.clone();
        let run = move || {
            guarded(shared, &registry, || {
                log.arena(COLLECTOR);
                collector.run();
            });
            state.stopped.store(true, Ordering::Release);
        };
        thread::spawn(COLLECTOR, run).map_err(StartError::Thread)?;
        shared.gate.open();
        session.log.info(&started);
        Ok(())
    }

    fn spawn_ticker(&self, session: &Session, config: &Config) -> Result<(), StartError> {
        let (shared, inbox) = (self.shared, Arc::clone(&self.inbox));
        let wall_interval_ns = nanos(config.wall_interval);
        let beat = Beat {
            tick_ns: wall_interval_ns,
            threads: usize::try_from(config.wall_threads).unwrap_or(1),
            span_threads: usize::try_from(config.span_threads).unwrap_or(0),
        };
        let wall = config.wall_enabled.then(|| {
            let (registry, pauses) = (Arc::clone(&self.registry), Arc::clone(&self.pauses));
            WallSampler::new(shared, registry, pauses, Arc::clone(&inbox), beat)
        });
        let ticker = Ticker {
            shared,
            registry: Arc::clone(&self.registry),
            inbox,
            state: Arc::clone(&session.ticker),
            rest: Arc::clone(&self.rest),
            wall,
            scan: Scan::new(SIGNAL),
            natives: config.native_threads.then(|| Natives::new(Arc::clone(&self.registry))),
            scan_interval_ns: nanos(config.cpu_interval),
            wall_interval_ns,
        };
        let (registry, state) = (Arc::clone(&self.registry), Arc::clone(&session.ticker));
        let log = session.log.clone();
        let run = move || {
            guarded(shared, &registry, || {
                log.arena(TICKER);
                ticker.run();
            });
            state.stopped.store(true, Ordering::Release);
        };
        thread::spawn(TICKER, run)
            .inspect_err(|_| session.ticker.stopped.store(true, Ordering::Release))
            .map_err(StartError::Thread)
    }

    /// The list of threads, for the runtime's callbacks.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The inbox, for the runtime's callbacks.
    #[must_use]
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// What tracers may ask and tell.
    #[must_use]
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// What the runtime's callbacks tell of pauses.
    #[must_use]
    pub fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Counts a panic that was caught at the border.
    pub fn panicked(&self) {
        self.shared.count(Loss::CaughtPanic);
    }

    /// As [`Profiler::stop`], and has the last profile say what comes after it.
    pub fn stop_for(&self, next: Next) {
        self.tell_next(next);
        self.stop();
    }

    fn tell_next(&self, next: Next) {
        if let Some(session) = self.lock().as_ref() {
            *session.collector.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
        }
    }

    /// Stops: no signal any more, no handler inside, all time charged, the last profile written and
    /// sent, or kept to be sent.
    /// The handler stays, for signals that are still under way. Returns after some seconds at the
    /// latest, whatever happens.
    pub fn stop(&self) {
        let mut place = self.lock();
        let Some(session) = place.as_mut().filter(|session| !session.stopped) else { return };
        session.stopped = true;
        self.spans.close();
        if let Some(process_cpu_ns) = self.registry.stop() {
            session.collector.own_cpu_ns.store(thread::spawned_cpu_ns(), Ordering::Release);
            session.collector.process_cpu_ns.store(process_cpu_ns, Ordering::Release);
        }
        self.shared.gate.shut();
        wait(HANDLERS_NS_MAX, || self.shared.gate.inside() == 0);
        session.collector.stop.store(true, Ordering::Release);
        self.inbox.hurry();
        if !wait(LAST_PROFILE_NS_MAX, || session.collector.stopped.load(Ordering::Acquire)) {
            session.log.error("the last profile was not written in time");
        }
        if let Some(exporter) = &session.exporter {
            exporter.stop();
        }
        session.ticker.end();
        session.log.info("stopped");
    }

    /// Stops, and takes the handler back: nothing of the profiler runs any more or will.
    ///
    /// # Errors
    /// That one of its threads didn't end in time.
    pub fn withdraw(&self) -> Result<(), StartError> {
        self.stop();
        let mut place = self.lock();
        match place.take() {
            Some(session) => session.withdraw(),
            None => Ok(()),
        }
    }

    /// As [`Profiler::withdraw`], and has the last profile say what comes after it.
    ///
    /// # Errors
    /// As there.
    pub fn withdraw_for(&self, next: Next) -> Result<(), StartError> {
        self.tell_next(next);
        self.withdraw()
    }

    /// How sending goes, by target, and the folder in which profiles wait.
    #[must_use]
    pub fn export_status(&self) -> (Vec<Status>, PathBuf) {
        let exporter = self.lock().as_ref().and_then(|session| session.exporter.clone());
        exporter.map_or_else(Default::default, |exporter| (exporter.status(), exporter.folder()))
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.lock().as_ref().is_some_and(|session| !session.stopped)
    }
}

impl Session {
    /// Waits until its threads have ended, so that nobody sends signals, and takes the handler back
    /// unless somebody else has the signal by now.
    fn withdraw(self) -> Result<(), StartError> {
        let ended = wait(THREADS_NS_MAX, || {
            self.collector.stopped.load(Ordering::Acquire)
                && self.ticker.stopped.load(Ordering::Acquire)
                && self.exporter.as_ref().is_none_or(|exporter| exporter.has_ended())
        });
        if !ended {
            return Err(StartError::StillRunning);
        }
        let ours = Disposition::Handler(on_signal as *const () as usize);
        if disposition::current(SIGNAL).map_err(StartError::Handler)? == ours {
            disposition::withdraw(SIGNAL, self.before).map_err(StartError::Handler)?;
        }
        Ok(())
    }
}

/// Runs the body of one of the profiler's threads. Should it panic, sampling ends: without either
/// thread, signals would be for nothing, and what waits for it would pile up.
fn guarded(shared: &Shared, registry: &Registry, body: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        shared.count(Loss::CaughtPanic);
        registry.stop();
        shared.gate.shut();
    }
}

/// Waits until something holds, at most so long; returns whether it does.
fn wait(limit_ns: u64, mut holds: impl FnMut() -> bool) -> bool {
    const STEP: Duration = Duration::from_micros(500);
    let deadline_ns = clock::monotonic_ns().saturating_add(limit_ns);
    while !holds() {
        if clock::monotonic_ns() >= deadline_ns {
            return false;
        }
        std::thread::sleep(STEP);
    }
    true
}

/// The handlers' state, in memory that stays for ever.
fn make_shared() -> io::Result<&'static Shared> {
    // SAFETY: a record is made of atomic numbers, for which zero bytes are valid.
    let records: &'static [Record] = unsafe { pages::map_zeroed::<Record>(THREADS_MAX)? };
    // SAFETY: a slot is made of numbers and an enum whose first variant is 0, so zero bytes are
    // valid, and those of a slot at rest.
    let slots: &'static [Slot<Sample>] = unsafe { pages::map_zeroed::<Slot<Sample>>(RING_SLOTS)? };
    // SAFETY: an atomic number of zero bytes is valid.
    let by_tid: &'static [AtomicU32] = unsafe { pages::map_zeroed::<AtomicU32>(TIDS_MAX)? };
    Ok(Box::leak(Box::new(Shared::new(records, by_tid, Ring::new(slots)))))
}

/// What is known of how each thread was held up, in memory that stays for ever: a callback may come
/// at any time.
fn make_stops() -> io::Result<&'static [Stop]> {
    // SAFETY: a `Stop` is made of atomic numbers, for which zero bytes are valid.
    Ok(unsafe { pages::map_zeroed::<Stop>(THREADS_MAX)? })
}

/// Installs the handler, unless the signal is somebody else's; returns whose it was before.
fn install(shared: &'static Shared) -> Result<Disposition, StartError> {
    if let Disposition::Handler(_) = disposition::current(SIGNAL).map_err(StartError::Handler)? {
        return Err(StartError::SignalTaken);
    }
    // Only now: the other code may be a profiler of ours, whose handler works with its own state.
    set_shared(shared);
    // SAFETY: the handler reaches only the signal crate (checked in the linked library), and the
    // library is never unloaded.
    let before = unsafe { disposition::install(SIGNAL, on_signal) }.map_err(StartError::Handler)?;
    if let Disposition::Handler(address) = before {
        shared.previous.store(address, Ordering::Relaxed);
    }
    Ok(before)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{events, lost, shared};
    use crate::registry::ManagedId;

    #[test]
    fn a_panic_on_a_thread_of_ours_ends_the_sampling() {
        let shared = shared(2, 2);
        shared.gate.open();
        let log = Log::new(config::LogLevel::Off, None);
        let cpu = CpuSampler::new(None, Duration::ZERO, SIGNAL, log);
        let inbox = Arc::new(Inbox::default());
        let registry = Registry::new(shared, Arc::clone(&inbox), cpu);
        guarded(shared, &registry, || registry.assigned(ManagedId(1), thread::own_id()));
        assert_eq!(lost(shared, Loss::CaughtPanic), 0);
        assert!(shared.gate.enter().is_some());
        guarded(shared, &registry, || panic!("on purpose"));
        assert_eq!(lost(shared, Loss::CaughtPanic), 1);
        assert!(shared.gate.enter().is_none());
        assert_eq!(shared.records[0].tid(), 0);
        let count = events(&inbox).len();
        registry.assigned(ManagedId(2), thread::own_id());
        assert_eq!((count, events(&inbox).len()), (2, 0));
    }
}
