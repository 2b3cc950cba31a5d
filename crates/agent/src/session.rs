//! How the profiler starts, stops, changes its settings, and leaves: at the runtime's request, and
//! at that of `corprof ctl` and `corprof attach`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use clr::{EventMask, Info, ThreadId};
use config::{Config, Warning};
use engine::{After, Log, ManagedId, Next, Profiler};

use crate::otel;
use crate::runtime::Clr;
use crate::unloading::NoAsking;

#[cfg(not(feature = "oracle"))]
const MASK: EventMask = EventMask::SAMPLING;
#[cfg(feature = "oracle")]
const MASK: EventMask = EventMask::SNAPSHOTS;

/// How long the profiler may still be in a callback after it has asked to be let go.
const DETACH_EXPECTED: Duration = Duration::from_millis(100);

/// How often, and after what time, it is looked whether the last callback has ended.
const CALLBACK_TRIES: u32 = 1000;
const CALLBACK_PAUSE: Duration = Duration::from_millis(1);

/// Said where there is nobody to be told.
const NOT_LOADED: &str = "the profiler is not loaded";

/// Said where neither time would be profiled.
const NOTHING: &str = "with CPU and wall time both off there is nothing to profile; leave one on, \
                       or stop with `corprof ctl PID stop`";
/// Said of what can't be set at run time.
const DEAF: &str = "CORPROF_CONTROL counts at the program's start only: an agent that hears this \
                    goes on to listen; start the program with it, or have the agent leave with \
                    `corprof ctl PID detach`";
const DISABLED: &str = "CORPROF_ENABLED counts at the program's start only; stop with `corprof \
                        ctl PID stop`";

/// Names of variables, and their values.
pub type Settings = Vec<(String, String)>;

/// Whether the profiler is in the process, and what it was told.
pub struct Session {
    /// Made at the first start, and never again: handlers may hold on to its memory.
    profiler: OnceLock<Profiler>,
    /// The runtime's interface, from being loaded to being let go.
    clr: RwLock<Option<Arc<Clr>>>,
    /// Names and values that count, and what they come to; from the first start on.
    told: Mutex<Option<Told>>,
    /// Whether OpenTelemetry's contexts are published.
    otel: OnceLock<bool>,
    /// When the runtime must not be asked. Told of while all threads stand still: without a lock.
    no_asking: NoAsking,
    /// Whether pauses are to be followed, and the runtime tells of them.
    follows_pauses: AtomicBool,
}

struct Told {
    settings: Settings,
    config: Config,
    log: Log,
    /// For how long it is attached, if it is and somebody said.
    leave_after: Option<Duration>,
}

impl Told {
    /// Settings with what they come to, and what makes no sense in them.
    fn new(settings: Settings, leave_after: Option<Duration>) -> (Self, Vec<Warning>) {
        let (config, warnings) = Config::from_vars(settings.iter().cloned(), &program_name());
        let log = Log::new(config.log, config.log_file.clone());
        (Self { settings, config, log, leave_after }, warnings)
    }
}

impl Session {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            profiler: OnceLock::new(),
            clr: RwLock::new(None),
            told: Mutex::new(None),
            otel: OnceLock::new(),
            no_asking: NoAsking::new(),
            follows_pauses: AtomicBool::new(false),
        }
    }

    /// When the runtime must not be asked, to be told of stops.
    pub fn no_asking(&self) -> &NoAsking {
        &self.no_asking
    }

    /// Whether the runtime's stops are to be noted as pauses.
    pub fn follows_pauses(&self) -> bool {
        self.follows_pauses.load(Ordering::Relaxed)
    }

    /// The profiler, once it has started for the first time.
    pub fn profiler(&self) -> Option<&Profiler> {
        self.profiler.get()
    }

    /// The runtime's interface, while the profiler is loaded.
    pub fn clr(&self) -> Option<Arc<Clr>> {
        self.clr.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether threads' contexts are to be published.
    pub fn publishes_otel(&self) -> bool {
        self.otel.get().copied().unwrap_or(false)
    }

    fn told(&self) -> MutexGuard<'_, Option<Told>> {
        // What a panicked holder left is what was told before.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_clr(&self, clr: Option<Arc<Clr>>) {
        *self.clr.write().unwrap_or_else(PoisonError::into_inner) = clr;
    }

    /// The runtime has loaded the profiler as it starts: so does the profiler, with the
    /// environment's settings. Returns whether it does.
    pub fn load(&'static self, info: Info) -> bool {
        let began = Instant::now();
        let Some((told, clr)) = self.prepare(info, &Settings::new(), None) else { return false };
        let started = self.start_with(&told, &clr).and_then(|()| self.listen(&clr, &told));
        if let Err(reason) = started {
            told.log
                .error(&format!("not profiling: {reason}. The application runs on without it."));
            if let Some(profiler) = self.profiler() {
                let _said_enough = profiler.withdraw();
            }
            return false;
        }
        told.log.debug(&format!("ready after {:.1?}", began.elapsed()));
        self.keep(told, clr);
        true
    }

    /// The runtime has loaded the profiler because somebody attaches it, with those settings
    /// besides the environment's: it is to begin once the runtime makes callbacks, if it is ready.
    /// Returns whether it will.
    pub fn attach(
        &'static self,
        info: Info,
        given: &Settings,
        leave_after: Option<Duration>,
        ready: impl FnOnce() -> Result<(), String>,
    ) -> bool {
        let Some((told, clr)) = self.prepare(info, given, leave_after) else { return false };
        if let Err(reason) = ready() {
            told.log.error(&format!("not profiling: {reason}"));
            return false;
        }
        self.keep(told, clr);
        true
    }

    /// Settings, and the interface; `None` if it is not to run.
    fn prepare(
        &'static self,
        info: Info,
        given: &Settings,
        leave_after: Option<Duration>,
    ) -> Option<(Told, Arc<Clr>)> {
        let (told, warnings) = Told::new(merged(environment(), given), leave_after);
        for warning in warnings {
            told.log.warn(&warning.to_string());
        }
        if !told.config.enabled {
            told.log.info("switched off by CORPROF_ENABLED");
            return None;
        }
        // A second runtime in one process asks again; the first keeps the profiler.
        self.clr().is_none().then(|| (told, Arc::new(Clr::new(info, &self.no_asking))))
    }

    fn keep(&self, told: Told, clr: Arc<Clr>) {
        self.set_clr(Some(clr));
        *self.told() = Some(told);
    }

    fn start_with(&self, told: &Told, clr: &Arc<Clr>) -> Result<(), String> {
        let config = told.config.clone();
        let folder = std::path::absolute(&config.output_dir).map_err(|error| {
            format!("no output folder {}: {error}", config.output_dir.display())
        })?;
        let wants_otel = config.otel_context && config.spans;
        let service = config.service.clone();
        clr.begin(config.lines);
        let runtime = Arc::clone(clr);
        let profiler = self.made_profiler()?;
        profiler
            .start(config, runtime, folder, told.log.clone())
            .map_err(|error| error.to_string())?;
        #[cfg(feature = "oracle")]
        crate::oracle::install(clr);
        if wants_otel {
            self.otel.get_or_init(|| publish_process_context(&service, &told.log));
        }
        Ok(())
    }

    fn made_profiler(&self) -> Result<&Profiler, String> {
        if let Some(profiler) = self.profiler.get() {
            return Ok(profiler);
        }
        let made = Profiler::new().map_err(|error| error.to_string())?;
        Ok(self.profiler.get_or_init(|| made))
    }

    /// Takes in the threads that are there already. Callbacks tell of those that come and go
    /// meanwhile.
    fn take_in_threads(&self) {
        let (Some(clr), Some(profiler)) = (self.clr(), self.profiler()) else { return };
        let listed = clr.info().threads();
        let with_id =
            |thread: &ThreadId| Some((ManagedId(thread.0), clr.info().thread_tid(*thread)?));
        let threads: Vec<(ManagedId, u32)> = listed.iter().filter_map(with_id).collect();
        profiler.registry().present(&threads);
        // One that ended after it was listed has been told of as ended before it was taken in.
        let still: HashSet<ThreadId> = clr.info().threads().into_iter().collect();
        for gone in listed.iter().filter(|thread| !still.contains(thread)) {
            profiler.registry().destroyed(ManagedId(gone.0));
        }
    }

    /// Begins to profile what runs already, as it was told.
    ///
    /// # Errors
    /// Why it can't.
    pub fn begin(&self) -> Result<(), String> {
        let began = Instant::now();
        let place = self.told();
        let (Some(clr), Some(told)) = (self.clr(), place.as_ref()) else {
            return Err(NOT_LOADED.to_owned());
        };
        self.listen(&clr, told)?;
        self.start_with(told, &clr)?;
        let log = told.log.clone();
        drop(place);
        self.take_in_threads();
        log.debug(&format!("ready after {:.1?}", began.elapsed()));
        Ok(())
    }

    /// Profiles, with those settings besides. If it does already, what was gathered with others is
    /// written first.
    ///
    /// # Errors
    /// Why it can't, or what makes no sense in the settings.
    pub fn start(&self, given: &Settings) -> Result<(), String> {
        let config = self.check(given)?;
        if self.is_running() {
            if given.is_empty() {
                return Ok(());
            }
            self.stop(next(&config))?;
        }
        self.tell(given)?;
        self.begin()
    }

    /// Whether it profiles.
    pub fn is_running(&self) -> bool {
        self.profiler().is_some_and(Profiler::is_running)
    }

    /// Stops profiling; it can be started again. The last profile says what comes after it.
    ///
    /// # Errors
    /// That a thread of it goes on.
    pub fn stop(&self, next: Next) -> Result<(), String> {
        let Some(profiler) = self.profiler() else { return Ok(()) };
        profiler.withdraw_for(next).map_err(|error| error.to_string())
    }

    /// Has those settings count from now on.
    ///
    /// # Errors
    /// What makes no sense in them, or why it can't go on with them.
    pub fn set(&self, given: &Settings) -> Result<(), String> {
        if self.is_running() {
            return self.start(given);
        }
        self.check(given)?;
        self.tell(given)
    }

    /// What the settings come to with those besides, if they make sense.
    fn check(&self, given: &Settings) -> Result<Config, String> {
        check(given)?;
        let place = self.told();
        let told = place.as_ref().ok_or_else(|| NOT_LOADED.to_owned())?;
        let settings = merged(told.settings.clone(), given);
        let (config, _) = Config::from_vars(settings, &told.config.service);
        if !config.cpu_enabled && !config.wall_enabled {
            return Err(NOTHING.to_owned());
        }
        Ok(config)
    }

    fn tell(&self, given: &Settings) -> Result<(), String> {
        let mut place = self.told();
        let old = place.as_mut().ok_or_else(|| NOT_LOADED.to_owned())?;
        // What makes no sense in the environment has been said.
        (*old, _) = Told::new(merged(std::mem::take(&mut old.settings), given), old.leave_after);
        Ok(())
    }

    /// Stops, and asks the runtime to let the profiler go.
    ///
    /// # Errors
    /// Why it can't be let go; it has stopped all the same.
    pub fn leave(&'static self) -> Result<(), String> {
        self.stop(Next::nothing(After::Leave))?;
        let Some(clr) = self.take_clr()? else { return Ok(()) };
        clr.into_info().request_detach(DETACH_EXPECTED).map_err(|(error, info)| {
            self.set_clr(Some(Arc::new(Clr::new(info, &self.no_asking))));
            format!("the runtime keeps the profiler loaded: {error}")
        })
    }

    /// The runtime's interface, for good: who else has it is in a callback, which is short.
    fn take_clr(&self) -> Result<Option<Clr>, String> {
        let taken = self.clr.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut shared) = taken else { return Ok(None) };
        for _ in 0..CALLBACK_TRIES {
            match Arc::try_unwrap(shared) {
                Ok(clr) => return Ok(Some(clr)),
                Err(again) => shared = again,
            }
            std::thread::sleep(CALLBACK_PAUSE);
        }
        self.set_clr(Some(shared));
        Err("a callback of the runtime doesn't end".to_owned())
    }

    /// Asks the runtime for callbacks. For those of stops even if no pauses are to be followed:
    /// they say when it may be asked again. A runtime that refuses these is profiled without.
    fn listen(&self, clr: &Clr, told: &Told) -> Result<(), String> {
        let stops = MASK.with(EventMask::PAUSES);
        let wanted =
            if told.config.gc_enabled { stops.with(EventMask::COLLECTIONS) } else { stops };
        let set = clr.info().set_event_mask(wanted);
        self.follows_pauses.store(told.config.gc_enabled && set.is_ok(), Ordering::Relaxed);
        let Err(error) = set else { return Ok(()) };
        if told.config.gc_enabled {
            told.log.warn(&format!(
                "no pauses of the garbage collector: the runtime refuses to tell of them: {error}"
            ));
        }
        let set = clr.info().set_event_mask(MASK);
        set.map_err(|error| format!("the runtime refuses the profiler's events: {error}"))
    }

    /// The runtime has let the profiler go.
    pub fn left(&self) {
        if let Some(profiler) = self.profiler() {
            profiler.registry().forget();
            profiler.pauses().forget();
        }
    }

    /// The settings that count; `None` before the first start.
    pub fn config(&self) -> Option<Config> {
        self.told().as_ref().map(|told| told.config.clone())
    }

    /// For how long it is attached, if it is and somebody said.
    pub fn leave_after(&self) -> Option<Duration> {
        self.told().as_ref().and_then(|told| told.leave_after)
    }

    /// Where lines go; `None` before the first start.
    pub fn log(&self) -> Option<Log> {
        self.told().as_ref().map(|told| told.log.clone())
    }
}

/// Whether settings make sense: a person waits for the answer, and can say it again.
fn check(settings: &Settings) -> Result<(), String> {
    let (config, warnings) = Config::from_vars(settings.iter().cloned(), "");
    if let Some(warning) = warnings.first() {
        return Err(warning.to_string());
    }
    if !config.control {
        return Err(DEAF.to_owned());
    }
    if !config.enabled {
        return Err(DISABLED.to_owned());
    }
    let names_folder = |(name, _): &(String, String)| config::is_same(name, "CORPROF_OUTPUT_DIR");
    if !settings.iter().any(names_folder) {
        return Ok(());
    }
    let folder = &config.output_dir;
    engine::check_folder(folder).map_err(|error| {
        format!(
            "profiles can't be written to {}: {error}; name a folder that the process's user may \
             write to",
            folder.display()
        )
    })
}

/// What comes after a stop for those settings.
fn next(config: &Config) -> Next {
    let folder = || std::path::absolute(&config.output_dir).ok();
    let folder = config.export.writes_files().then(folder).flatten();
    Next { after: After::Set, folder }
}

fn environment() -> Settings {
    // Values that are not UTF-8 are none of ours; `vars` would panic on them.
    let vars = std::env::vars_os();
    vars.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Settings, where those given count instead of others of the same option.
fn merged(settings: Settings, given: &Settings) -> Settings {
    let is_given = |name: &str| given.iter().any(|(other, _)| config::is_same(other, name));
    let kept = settings.into_iter().filter(|(name, _)| !is_given(name));
    kept.chain(given.iter().cloned()).collect()
}

/// Announces the threads' contexts to other agents; returns whether that could be done.
fn publish_process_context(service: &str, log: &Log) -> bool {
    if !otel::IS_AVAILABLE {
        log.warn("OpenTelemetry's contexts are published on x86-64 only");
        return false;
    }
    let published = sys::process_context::publish(&otel::process_context(service));
    if let Err(error) = &published {
        log.warn(&format!("OpenTelemetry's process context could not be published: {error}"));
    }
    published.is_ok()
}

/// The program's name: its application for `dotnet app.dll`, else its executable.
fn program_name() -> String {
    let executable = std::env::current_exe().unwrap_or_default();
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = stem(&executable).unwrap_or_else(|| "unknown".to_owned());
    if name != "dotnet" {
        return name;
    }
    let is_assembly = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "dll" || extension == "exe")
    };
    let assembly = std::env::args_os().skip(1).map(PathBuf::from).find(is_assembly);
    assembly.and_then(|path| stem(&path)).unwrap_or(name)
}
