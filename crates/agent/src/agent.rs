//! The runtime's callbacks, handed on to the engine; and how it all starts and stops.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use clr::{EventMask, Events, FunctionId, HResult, Info, ModuleId, ThreadId};
use config::Config;
use engine::{Event, Log, ManagedId, ModuleKey, Profiler};

use crate::otel;
use crate::runtime::Clr;

#[cfg(not(feature = "oracle"))]
const MASK: EventMask = EventMask::SAMPLING;
#[cfg(feature = "oracle")]
const MASK: EventMask = EventMask::SNAPSHOTS;

/// The one agent of this process.
pub static AGENT: Agent = Agent { running: OnceLock::new() };

/// What listens to the runtime.
pub struct Agent {
    running: OnceLock<Running>,
}

pub struct Running {
    pub profiler: Profiler,
    clr: Arc<Clr>,
    /// Whether OpenTelemetry's contexts are published.
    pub otel: bool,
}

impl Agent {
    #[cfg(feature = "oracle")]
    pub fn info(&self) -> Option<&Info> {
        self.running.get().map(|running| running.clr.info())
    }

    fn profiler(&self) -> Option<&Profiler> {
        self.running().map(|running| &running.profiler)
    }

    /// What runs, once it has started.
    pub fn running(&self) -> Option<&Running> {
        self.running.get()
    }
}

impl Events for Agent {
    fn initialize(&self, info: Info) -> Result<(), HResult> {
        // Values that are not UTF-8 are none of ours; `vars` would panic on them.
        let vars = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let (config, warnings) = Config::from_vars(vars, &program_name());
        let log = Log::new(config.log, config.log_file.clone());
        for warning in warnings {
            log.warn(&warning.to_string());
        }
        if !config.enabled {
            log.info("switched off by CORPROF_ENABLED");
            return Err(HResult::CANCEL_ACTIVATION);
        }
        let clr = Arc::new(Clr::new(info, config.lines));
        let (wants_otel, service) = (config.otel_context && config.spans, config.service.clone());
        let started = start(config, &clr, log.clone());
        let profiler = started.map_err(|reason| {
            log.error(&format!("not profiling: {reason}. The application runs on without it."));
            HResult::CANCEL_ACTIVATION
        })?;
        let otel = wants_otel && publish_process_context(&service, &log);
        let running = Running { profiler, clr, otel };
        // A second runtime in one process asks again; the first keeps the profiler.
        if let Err(second) = self.running.set(running) {
            second.profiler.stop();
            return Err(HResult::CANCEL_ACTIVATION);
        }
        Ok(())
    }

    fn shutdown(&self) {
        if let Some(profiler) = self.profiler() {
            profiler.stop();
        }
    }

    fn thread_created(&self, thread: ThreadId) {
        let Some(running) = self.running.get() else { return };
        let id = ManagedId(thread.0);
        running.profiler.registry().created(id);
        if let Some(tid) = running.clr.info().thread_tid(thread) {
            running.profiler.registry().assigned(id, tid);
        }
    }

    fn thread_assigned(&self, thread: ThreadId, tid: u32) {
        if let Some(profiler) = self.profiler() {
            profiler.registry().assigned(ManagedId(thread.0), tid);
        }
    }

    fn thread_destroyed(&self, thread: ThreadId) {
        if let Some(profiler) = self.profiler() {
            profiler.registry().destroyed(ManagedId(thread.0));
        }
    }

    fn thread_named(&self, thread: ThreadId, name: String) {
        if let Some(profiler) = self.profiler() {
            profiler.registry().named(ManagedId(thread.0), name);
        }
    }

    fn module_unloading(&self, module: ModuleId) {
        let Some(running) = self.running.get() else { return };
        running.clr.unloading(module);
        running.profiler.inbox().post(Event::Unloaded { module: ModuleKey(module.0) });
    }

    fn dynamic_method_unloaded(&self, function: FunctionId) {
        let Some(running) = self.running.get() else { return };
        drop(running.clr.wait_for_look_up());
        running.profiler.inbox().post(Event::Unloaded { module: ModuleKey(function.0) });
    }

    fn panicked(&self) {
        if let Some(profiler) = self.profiler() {
            profiler.panicked();
        }
    }
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

/// Starts the profiler, and then the callbacks that feed it.
fn start(config: Config, clr: &Arc<Clr>, log: Log) -> Result<Profiler, String> {
    let folder = std::path::absolute(&config.output_dir)
        .map_err(|error| format!("no output folder {}: {error}", config.output_dir.display()))?;
    let runtime = Arc::clone(clr);
    let profiler = Profiler::start(config, runtime, folder, log).map_err(|e| e.to_string())?;
    #[cfg(feature = "oracle")]
    crate::oracle::install();
    if let Err(error) = clr.info().set_event_mask(MASK) {
        profiler.stop();
        return Err(format!("the runtime refuses the profiler's events: {error}"));
    }
    Ok(profiler)
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
