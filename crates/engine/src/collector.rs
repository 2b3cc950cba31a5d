//! The collector: takes samples and events, has them charged, and writes a profile each period.
//!
//! It runs on one thread of its own and is the only one that calls the runtime.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::export::Exporter;
use config::Config;
use model::Loss;
use model::limits::RING_SLOTS;
use profile::{After, Period, Profile, SelfReport};
use signal::handler::{Shared, on_signal};
use sys::disposition::{self, Disposition};
use sys::{clock, processors, thread};

use crate::accounts::Accounts;
use crate::budget::Budget;
use crate::event::{Event, Inbox, Timed, Told};
use crate::log::Log;
use crate::output::{Output, Written, check_folder};
use crate::pauses::Pauses;
use crate::spans::Spans;
use crate::ticker::TickerState;

/// How long the collector waits for work.
const BEAT: Duration = Duration::from_millis(100);
/// The same when there has been none for some beats, and the longest where the budget is exceeded.
/// What fills the ring wakes it at once.
const IDLE_BEAT: Duration = Duration::from_millis(500);
/// Beats without work after which nobody is expected to have any.
const IDLE_BEATS: u32 = 3;
/// How long it waits for the ticker to charge all wall time before a profile is written.
const SETTLE_NS_MAX: u64 = 1_000_000_000;

/// What to do about a folder that can't be written.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Free some space there, or set CORPROF_OUTPUT_DIR to a folder with more."
        }
        _ => "Set CORPROF_OUTPUT_DIR to a folder that this user may write to.",
    }
}

/// Requests to the collector, and its answer.
#[derive(Debug, Default)]
pub struct CollectorState {
    /// Write what there is and end.
    pub stop: AtomicBool,
    /// The last profile has been written.
    pub stopped: AtomicBool,
    /// The process's CPU clock when the tracking of threads ended, in nanoseconds; 0 before. The
    /// program may run on while the last profile is made.
    pub process_cpu_ns: AtomicU64,
    /// What the profiler's own threads had used then, in nanoseconds: what they use to make the
    /// last profile is the process's, too.
    pub own_cpu_ns: AtomicU64,
    /// What comes after the last profile, said before it is asked for.
    pub next: Mutex<Option<Next>>,
}

/// What comes after the last profile, which says so: who reads the files may look for what is
/// elsewhere or nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// What comes.
    pub after: After,
    /// Where files go then, if any are made; absolute.
    pub folder: Option<PathBuf>,
}

impl Next {
    /// Something after which no file is made.
    #[must_use]
    pub const fn nothing(after: After) -> Self {
        Self { after, folder: None }
    }
}

/// Counters at the start of a period, to tell what happened in it.
#[derive(Clone, Debug, Default)]
struct Marks {
    unix_ns: u64,
    monotonic_ns: u64,
    process_cpu_ns: u64,
    own_cpu_ns: u64,
    cpu_samples: u64,
    wall_samples: u64,
    losses: [u64; Loss::ALL.len()],
}

/// The collector.
pub struct Collector {
    shared: &'static Shared,
    inbox: Arc<Inbox>,
    spans: Arc<Spans>,
    pauses: Arc<Pauses>,
    ticker: Arc<TickerState>,
    state: Arc<CollectorState>,
    config: Config,
    log: Log,
    runtime_version: String,
    instance: String,
    accounts: Accounts,
    /// Where files go, unless none are wanted.
    output: Option<Output>,
    exporter: Option<Arc<Exporter>>,
    /// Why files can't be written, if that was said: a service is not to say it each minute.
    complaint: Option<std::io::ErrorKind>,
    signal: Option<i32>,
    /// Whether it was said that other code has it.
    signal_taken: bool,
    profiles: Arc<AtomicU64>,
    budget: Budget,
    /// The largest slowdown of the period.
    slowdown: u32,
    settled: u64,
    /// How often in a row there was no work.
    idle_beats: u32,
    start: Marks,
    /// What tracers told of requests, while it is taken in; kept for its memory.
    told: Vec<Told>,
}

/// What a collector is made of.
pub struct Parts {
    /// The handlers' state.
    pub shared: &'static Shared,
    /// Where events come from.
    pub inbox: Arc<Inbox>,
    /// What tracers call, for the memory that it holds.
    pub spans: Arc<Spans>,
    /// What the runtime has told of pauses.
    pub pauses: Arc<Pauses>,
    /// The ticker, to be asked for settlements.
    pub ticker: Arc<TickerState>,
    /// Requests.
    pub state: Arc<CollectorState>,
    /// The settings.
    pub config: Config,
    /// Where lines go.
    pub log: Log,
    /// Such as `CoreCLR 8.0.4`.
    pub runtime_version: String,
    /// What tells the process from all others.
    pub instance: String,
    /// Empty accounts.
    pub accounts: Accounts,
    /// The output folder, absolute.
    pub folder: PathBuf,
    /// What sends profiles, if they are sent anywhere.
    pub exporter: Option<Arc<Exporter>>,
    /// The sampling signal, to be watched.
    pub signal: Option<i32>,
    /// The next profile's number: how many this process has had, and more if there are files of an
    /// earlier one of its name and number.
    pub profiles: Arc<AtomicU64>,
}

impl Collector {
    /// A collector whose first period begins now, at that time of the process's CPU clock.
    #[must_use]
    pub fn new(parts: Parts, process_cpu_ns: u64) -> Self {
        let Parts {
            shared,
            inbox,
            spans,
            pauses,
            ticker,
            state,
            config,
            log,
            runtime_version,
            instance,
            accounts,
            folder,
            exporter,
            signal,
            profiles,
        } = parts;
        let output = config.export.writes_files().then(|| Output::new(folder));
        let budget = Budget::new(config.cpu_budget_ppm, processors::allowed());
        let mut collector = Self {
            shared,
            inbox,
            spans,
            pauses,
            ticker,
            state,
            config,
            log,
            runtime_version,
            instance,
            accounts,
            output,
            exporter,
            complaint: None,
            signal,
            signal_taken: false,
            profiles,
            budget,
            slowdown: 1,
            settled: 0,
            idle_beats: 0,
            start: Marks::default(),
            told: Vec::new(),
        };
        collector.start = Marks { process_cpu_ns, ..collector.marks() };
        collector.accounts.begin(collector.start.monotonic_ns);
        collector
    }

    /// Runs until told to stop; then writes the last profile.
    pub fn run(mut self) {
        if let Some(output) = &self.output {
            if let Err(error) = check_folder(output.folder()) {
                self.complaint = Some(error.kind());
                let (folder, remedy) = (output.folder().display(), remedy(&error));
                self.log
                    .error(&format!("profiles can't be written to {folder}: {error}. {remedy}"));
            }
            let next = output.next_number(&self.config.service, std::process::id());
            self.profiles.fetch_max(next, Ordering::Relaxed);
        }
        let period_ns = u64::try_from(self.config.upload_period.as_nanos()).unwrap_or(u64::MAX);
        while !self.state.stop.load(Ordering::Acquire) {
            let slowed = BEAT.saturating_mul(self.ticker.slowdown.load(Ordering::Relaxed).max(1));
            let beat = if self.idle_beats < IDLE_BEATS { slowed } else { IDLE_BEAT };
            let elapsed_ns = clock::monotonic_ns().saturating_sub(self.start.monotonic_ns);
            let left = Duration::from_nanos(period_ns.saturating_sub(elapsed_ns));
            self.collect(beat.min(IDLE_BEAT).min(left));
            self.keep_within_budget();
            let elapsed_ns = clock::monotonic_ns().saturating_sub(self.start.monotonic_ns);
            if elapsed_ns >= period_ns {
                self.settle();
                self.rotate();
            }
        }
        self.settle();
        self.rotate();
    }

    /// Slows sampling down, or lets it go faster again.
    fn keep_within_budget(&mut self) {
        let slowdown = self.budget.slowdown(
            clock::monotonic_ns(),
            thread::spawned_cpu_ns(),
            self.shared.kept.load(Ordering::Relaxed),
        );
        self.slowdown = self.slowdown.max(slowdown);
        if self.ticker.slowdown.swap(slowdown, Ordering::Relaxed) != slowdown {
            let interval_ns = nanos(self.config.cpu_interval).saturating_mul(u64::from(slowdown));
            self.shared.cpu_interval_ns.store(interval_ns, Ordering::Relaxed);
            self.log.debug(&format!("samples are taken 1/{slowdown} as often, for the budget"));
        }
    }

    /// Waits for work, at most so long, and does it.
    fn collect(&mut self, timeout: Duration) {
        let mut told = std::mem::take(&mut self.told);
        let (events, dropped) = self.inbox.take(timeout, &mut told);
        // Not more samples than fit, so that events have their turn however fast samples come.
        let mut room = RING_SLOTS;
        let is_idle = events.is_empty() && told.is_empty();
        for Timed { time_ns, within, event } in events {
            self.samples_until(time_ns, &mut room);
            if let Event::Settled { request } = event {
                self.settled = self.settled.max(request);
            }
            self.accounts.pass(within);
            self.accounts.event(event);
        }
        told.drain(..).for_each(|told| self.accounts.told(told));
        self.told = told;
        self.samples_until(u64::MAX, &mut room);
        self.shared.ring.rewind();
        let is_idle = is_idle && room == RING_SLOTS;
        self.idle_beats = if is_idle { self.idle_beats.saturating_add(1) } else { 0 };
        for _ in 0..dropped {
            self.shared.count(Loss::EventsFull);
        }
        self.accounts.refresh();
        self.watch_signal();
    }

    /// Takes the samples up to a time: what a thread did and what is said of it belong in order. A
    /// thread is known before its samples and ends after them, and a delay is charged to the sample
    /// that follows it.
    fn samples_until(&mut self, time_ns: u64, room: &mut usize) {
        let ring = &self.shared.ring;
        while *room > 0
            && ring
                .read_if(|sample| sample.time_ns <= time_ns, |sample| self.accounts.sample(sample))
                .is_some()
        {
            *room = room.saturating_sub(1);
        }
    }

    /// Says so if other code has taken the sampling signal.
    fn watch_signal(&mut self) {
        let Some(signal) = self.signal else { return };
        let ours = Disposition::Handler(on_signal as *const () as usize);
        let taken = disposition::current(signal).is_ok_and(|current| current != ours);
        if taken {
            self.shared.count(Loss::SignalTaken);
        }
        // Once: who takes it and gives it back may do so every second.
        if taken && !std::mem::replace(&mut self.signal_taken, true) {
            self.log.warn(
                "other code has taken SIGPROF: until it is given back there are no stacks of \
                 running threads, whose time goes to those that are seen before and after. How \
                 often it was found taken is in each profile, as signal_taken",
            );
        }
    }

    /// Has all wall time charged up to now.
    fn settle(&mut self) {
        let request = self.settled.saturating_add(1);
        let deadline_ns = clock::monotonic_ns().saturating_add(SETTLE_NS_MAX);
        self.ticker.ask_to_settle(request);
        while self.settled < request && clock::monotonic_ns() < deadline_ns {
            self.collect(BEAT);
        }
        self.settled = request;
        self.collect(Duration::ZERO);
    }

    /// Ends the period and writes its profile.
    fn rotate(&mut self) {
        let end = self.marks();
        let period = Period {
            start_unix_ns: self.start.unix_ns,
            duration_ns: end.monotonic_ns.saturating_sub(self.start.monotonic_ns),
            cpu_interval_ns: nanos(self.config.cpu_interval),
        };
        let bytes = self.accounts.bytes().saturating_add(self.shared.ring.bytes_touched());
        let bytes = bytes.saturating_add(self.spans.bytes());
        let mut report = self.report(&end);
        let last = self.state.stop.load(Ordering::Acquire);
        if last {
            self.tell_next(&mut report);
        }
        for paused in self.pauses.take(&mut report, last) {
            self.accounts.paused(&paused);
        }
        let (mut profile, ends, sampled_cpu_ns) = self.accounts.take(period);
        profile.report = Some(SelfReport {
            ends,
            sampled_cpu_ns,
            own_memory_bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            ..report
        });
        if let Some(exporter) = &self.exporter {
            exporter.offer(&profile);
        }
        self.write(&profile);
        self.profiles.fetch_add(1, Ordering::Relaxed);
        self.start = end;
        self.slowdown = self.ticker.slowdown.load(Ordering::Relaxed).max(1);
    }

    /// Has the last profile say what comes after it.
    fn tell_next(&self, report: &mut SelfReport) {
        let next = self.state.next.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = &*next else { return };
        report.after = next.after.word().to_owned();
        let here = self.output.as_ref().map(Output::folder);
        if let Some(folder) = next.folder.as_deref().filter(|folder| Some(*folder) != here) {
            report.after_folder = folder.display().to_string();
        }
    }

    /// The number of the profile that is being made.
    fn seq(&self) -> u64 {
        self.profiles.load(Ordering::Relaxed)
    }

    fn report(&self, end: &Marks) -> SelfReport {
        let start = &self.start;
        let mut report = SelfReport {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_version: self.runtime_version.clone(),
            service: self.config.service.clone(),
            service_version: self.config.service_version(),
            sampler: self.config.sampler.name().to_owned(),
            pid: u64::from(std::process::id()),
            instance: self.instance.clone(),
            seq: self.seq(),
            cpu_interval_ns: nanos(self.config.cpu_interval),
            wall_interval_ns: nanos(self.config.wall_interval),
            wall_threads: u64::from(self.config.wall_threads),
            slowdown: u64::from(self.slowdown),
            cpu_samples: end.cpu_samples.saturating_sub(start.cpu_samples),
            wall_samples: end.wall_samples.saturating_sub(start.wall_samples),
            own_cpu_ns: end.own_cpu_ns.saturating_sub(start.own_cpu_ns),
            process_cpu_ns: end.process_cpu_ns.saturating_sub(start.process_cpu_ns),
            traced: u64::from(self.spans.were_asked_for()),
            ..SelfReport::default()
        };
        for (loss, (end, start)) in Loss::ALL.iter().zip(end.losses.iter().zip(&start.losses)) {
            report.losses.add(*loss, end.saturating_sub(*start));
        }
        if let Some(exporter) = &self.exporter {
            exporter.report(&mut report);
        }
        report
    }

    fn write(&mut self, profile: &Profile) {
        let Some(output) = &mut self.output else { return };
        let name = profile::file_name(
            &self.config.service,
            std::process::id(),
            self.profiles.load(Ordering::Relaxed),
        );
        let bytes = match profile::pprof::write(profile, Vec::new()) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.shared.count(Loss::WriteFailed);
                return self.log.error(&format!("profile {name} could not be encoded: {error}"));
            }
        };
        let folder = output.folder().display().to_string();
        match output.write(name.clone(), bytes) {
            Written::All => {
                self.complaint = None;
                self.log.info(&format!("profile {name} written to {folder}"));
            }
            Written::Later { error, dropped } => {
                (0..dropped).for_each(|_| self.shared.count(Loss::WriteFailed));
                let last = self.state.stop.load(Ordering::Acquire);
                let again = self.complaint.replace(error.kind()) == Some(error.kind());
                if again && !last {
                    return;
                }
                let now = if last {
                    "It was the last, and is lost with those before it that could not be written"
                } else {
                    "It is kept in memory and tried again with the next one"
                };
                let remedy = remedy(&error);
                self.log.error(&format!(
                    "profile {name} could not be written to {folder}: {error}. {now}. {remedy}"
                ));
            }
        }
    }

    fn marks(&self) -> Marks {
        let counter = |index: usize| {
            self.shared.losses.get(index).map_or(0, |counter| counter.load(Ordering::Relaxed))
        };
        let process_cpu_ns = match self.state.process_cpu_ns.load(Ordering::Acquire) {
            0 => clock::process_cpu_ns(),
            at_the_end => {
                let own_ns = self.state.own_cpu_ns.load(Ordering::Acquire);
                at_the_end.saturating_add(thread::spawned_cpu_ns().saturating_sub(own_ns))
            }
        };
        Marks {
            unix_ns: clock::wall_clock_ns(),
            monotonic_ns: clock::monotonic_ns(),
            process_cpu_ns,
            own_cpu_ns: thread::spawned_cpu_ns(),
            cpu_samples: self.shared.kept.load(Ordering::Relaxed),
            wall_samples: self.ticker.wall_samples.load(Ordering::Relaxed),
            losses: std::array::from_fn(counter),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
