//! The profiler's settings, complete and within their bounds.

use std::path::PathBuf;
use std::time::Duration;

use crate::export::{ExportConfig, complete};
use crate::option::Opt;
use crate::options::OPTIONS;
use crate::tags;
use crate::warning::Warning;

/// How CPU time is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// A timer on each thread's CPU clock: only threads that compute are touched.
    Timer,
    /// A regular look for threads that run.
    Scan,
}

impl Sampler {
    /// The option's value.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Scan => "scan",
        }
    }
}

/// How much the agent says; each level includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What stops it from profiling.
    Error,
    /// What makes profiles worse than they could be.
    Warn,
    /// Starts, stops and files.
    Info,
    /// For those who work on the profiler.
    Debug,
}

impl LogLevel {
    /// The option's value.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// All settings. The options' help says what each is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether to profile at all.
    pub enabled: bool,
    /// The service's name.
    pub service: String,
    /// The folder profiles are written to.
    pub output_dir: PathBuf,
    /// Time between two profiles.
    pub upload_period: Duration,
    /// Whether CPU time is sampled.
    pub cpu_enabled: bool,
    /// CPU time between two samples of a thread.
    pub cpu_interval: Duration,
    /// How CPU time is sampled.
    pub sampler: Sampler,
    /// Whether threads that the runtime doesn't tell of are sampled.
    pub native_threads: bool,
    /// Whether places in managed methods are in profiles, for source lines.
    pub lines: bool,
    /// Whether wall time is sampled.
    pub wall_enabled: bool,
    /// Whether pauses of the garbage collector are followed.
    pub gc_enabled: bool,
    /// Time between two ticks of the wall sampler.
    pub wall_interval: Duration,
    /// Threads looked at in one tick.
    pub wall_threads: u32,
    /// What the profiler may use of the processors, in millionths; 1,000,000 is no limit.
    pub cpu_budget_ppm: u32,
    /// Whether samples are labelled with the request that they belong to.
    pub spans: bool,
    /// Threads with a span that are looked at in one tick besides the others.
    pub span_threads: u32,
    /// Whether profiles have the ids of spans and traces, besides endpoints.
    pub span_ids: bool,
    /// Whether files say when samples came about.
    pub timeline: bool,
    /// Whether OpenTelemetry's thread and process contexts are published.
    pub otel_context: bool,
    /// Whether the agent can be spoken to while it runs.
    pub control: bool,
    /// Where profiles go, and how.
    pub export: ExportConfig,
    /// How much the agent says.
    pub log: LogLevel,
    /// Where it says it; `None` is standard error.
    pub log_file: Option<PathBuf>,
}

impl Config {
    /// The settings that variables give: for each option the first of its names that is there and
    /// not empty counts. A value that makes no sense is replaced by the default, with a warning,
    /// and so is every `CORPROF_` name that doesn't exist, since it is likely a slip.
    ///
    /// `service` is the service's name if no variable gives one: the program's name.
    pub fn from_vars(
        vars: impl IntoIterator<Item = (String, String)>,
        service: &str,
    ) -> (Self, Vec<Warning>) {
        let vars: Vec<(String, String)> = vars.into_iter().collect();
        let mut config = Self::unset(service);
        let mut warnings = Vec::new();
        for option in &OPTIONS {
            // A test holds that each default is a good value, so there is no error to lose here.
            let _ = option.store(&mut config, option.default);
            let Some((name, value)) = find_value(option, &vars) else { continue };
            if let Err(reason) = option.store(&mut config, value) {
                let value = value.to_owned();
                warnings.push(Warning::BadValue { name, value, reason, option });
            } else if name != option.var {
                config.export.aliases.push((option.var, name));
            }
        }
        complete(&mut config, &vars);
        let unknown = vars.iter().filter_map(|(name, _)| Warning::of_unknown(name));
        warnings.extend(unknown);
        (config, warnings)
    }

    /// The service's version: its own option, or else the attribute of OpenTelemetry's; empty if
    /// neither says it.
    #[must_use]
    pub fn service_version(&self) -> String {
        if !self.export.version.is_empty() {
            return self.export.version.clone();
        }
        let mut attributes = tags::attributes(&self.export.otlp.attributes).into_iter();
        let found = attributes.find(|(key, _)| key == "service.version");
        found.map(|(_, version)| version).unwrap_or_default()
    }

    /// All defaults, for a service of that name.
    #[must_use]
    pub fn defaults(service: &str) -> Self {
        Self::from_vars([], service).0
    }

    /// Values that each option overwrites with its default.
    fn unset(service: &str) -> Self {
        Self {
            enabled: true,
            // A program may be called anything.
            service: service.replace(char::is_control, "_"),
            output_dir: PathBuf::new(),
            upload_period: Duration::ZERO,
            cpu_enabled: true,
            cpu_interval: Duration::ZERO,
            sampler: Sampler::Timer,
            native_threads: true,
            lines: true,
            wall_enabled: true,
            gc_enabled: true,
            wall_interval: Duration::ZERO,
            wall_threads: 0,
            cpu_budget_ppm: 0,
            spans: true,
            span_threads: 0,
            span_ids: true,
            timeline: false,
            otel_context: false,
            control: true,
            export: ExportConfig::default(),
            log: LogLevel::Warn,
            log_file: None,
        }
    }
}

/// The first name of an option that has a value. Empty counts as not there: that is how shells and
/// orchestrators unset.
fn find_value<'a>(option: &Opt, vars: &'a [(String, String)]) -> Option<(&'static str, &'a str)> {
    option.names().find_map(|name| {
        let (_, value) =
            vars.iter().find(|(var, value)| var == name && !value.trim().is_empty())?;
        Some((name, value.as_str()))
    })
}
