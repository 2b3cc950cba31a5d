//! Where finished profiles go, and how they are sent.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::Config;
use crate::option::is_name;

/// A place that profiles go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Files in a folder.
    File,
    /// Datadog's agent, or its intake.
    Datadog,
    /// A Pyroscope server.
    Pyroscope,
    /// An OpenTelemetry collector.
    Otlp,
    /// `corprof serve`.
    Server,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::File, Self::Datadog, Self::Pyroscope, Self::Otlp, Self::Server];

    /// The option's value.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Datadog => "datadog",
            Self::Pyroscope => "pyroscope",
            Self::Otlp => "otlp",
            Self::Server => "corprof",
        }
    }
}

/// A text that must not be shown: no log, status or profile may have it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, to be sent to whom it is for.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "[none]" } else { "[secret]" })
    }
}

/// Datadog's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatadogConfig {
    /// The agent's address; may have a password, so it is a secret.
    pub url: Secret,
    /// The agent's host, if there is no address.
    pub host: String,
    /// The agent's port, if there is no address.
    pub port: u16,
    /// Whether to send to the intake itself, without an agent.
    pub is_agentless: bool,
    /// Datadog's site.
    pub site: String,
    /// The key for sending without an agent.
    pub api_key: Secret,
    /// Tags as they were written.
    pub tags: String,
}

/// Pyroscope's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PyroscopeConfig {
    /// The server's address; may have a password.
    pub url: Secret,
    /// The application's name; empty for the service's.
    pub application: String,
    /// For basic authentication.
    pub user: Secret,
    /// For basic authentication.
    pub password: Secret,
    /// A bearer token.
    pub token: Secret,
    /// The tenant, on servers that have several.
    pub tenant: String,
    /// Labels as they were written.
    pub labels: String,
}

/// OpenTelemetry's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtlpConfig {
    /// The collector's address, to which the path is added.
    pub endpoint: Secret,
    /// The whole address for profiles.
    pub profiles_endpoint: Secret,
    /// Headers as they were written.
    pub headers: Secret,
    /// Resource attributes as they were written.
    pub attributes: String,
}

/// The settings of `corprof serve`, as a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its address; may have a password.
    pub url: Secret,
    /// Its token.
    pub token: Secret,
}

/// Where finished profiles go, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportConfig {
    /// The targets.
    pub targets: Vec<Target>,
    /// The environment of the service, such as `production`.
    pub environment: String,
    /// The version of the service.
    pub version: String,
    /// Tags for all targets, as they were written.
    pub tags: String,
    /// Datadog's settings.
    pub datadog: DatadogConfig,
    /// Pyroscope's settings.
    pub pyroscope: PyroscopeConfig,
    /// OpenTelemetry's settings.
    pub otlp: OtlpConfig,
    /// The settings of `corprof serve`.
    pub server: ServerConfig,
    /// Where profiles wait on disk; `None` for the default.
    pub spool_dir: Option<PathBuf>,
    /// How much may wait there, in MiB; 0 for no spool.
    pub spool_mib: u32,
    /// How long sending may go on at the end.
    pub exit_flush: Duration,
    /// How long one request may take.
    pub timeout: Duration,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The proxy for `http` addresses; may have a password.
    pub http_proxy: Secret,
    /// The proxy for `https` addresses.
    pub https_proxy: Secret,
    /// Hosts that are reached without.
    pub no_proxy: String,
    /// Options whose value is another name's, with that: who set it knows it by no other.
    pub aliases: Vec<(&'static str, &'static str)>,
}

impl ExportConfig {
    /// Whether profiles are written to files.
    #[must_use]
    pub fn writes_files(&self) -> bool {
        self.targets.contains(&Target::File)
    }

    /// Targets that profiles are sent to.
    pub fn remote_targets(&self) -> impl Iterator<Item = Target> + '_ {
        self.targets.iter().copied().filter(|target| *target != Target::File)
    }

    /// The name by which an option was set; its own if it wasn't.
    #[must_use]
    pub fn name_of(&self, option: &'static str) -> &'static str {
        let alias = self.aliases.iter().find(|(own, _)| *own == option);
        alias.map_or(option, |(_, name)| name)
    }

    pub(crate) fn add(&mut self, target: Target) {
        if !self.targets.contains(&target) {
            self.targets.push(target);
        }
    }
}

/// Addresses that are there for nothing but profiles: who sets one wants them sent there. Those
/// that serve tracing too (`DD_TRACE_AGENT_URL`, `OTEL_EXPORTER_OTLP_ENDPOINT`) are not among them:
/// nobody gets profiles who did not ask for any.
const IMPLYING: [(&str, Target); 7] = [
    ("CORPROF_SERVER_URL", Target::Server),
    ("CORPROF_DATADOG_URL", Target::Datadog),
    ("CORPROF_PYROSCOPE_URL", Target::Pyroscope),
    ("PYROSCOPE_SERVER_ADDRESS", Target::Pyroscope),
    ("CORPROF_OTLP_ENDPOINT", Target::Otlp),
    ("CORPROF_OTLP_PROFILES_ENDPOINT", Target::Otlp),
    ("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", Target::Otlp),
];

/// Chooses the targets if `CORPROF_EXPORT` doesn't: files, and those whose address is set; and the
/// service's name if only the resource attributes have it.
pub(crate) fn complete(config: &mut Config, vars: &[(String, String)]) {
    let is_set =
        |name: &str| vars.iter().any(|(var, value)| var == name && !value.trim().is_empty());
    // Not set, or of no sense.
    if config.export.targets.is_empty() {
        config.export.targets = vec![Target::File];
        for (name, target) in IMPLYING {
            if is_set(name) {
                config.export.add(target);
            }
        }
    }
    let has_service =
        ["CORPROF_SERVICE", "OTEL_SERVICE_NAME", "DD_SERVICE"].into_iter().any(is_set);
    if !has_service {
        let attributes = crate::tags::attributes(&config.export.otlp.attributes);
        let mut names = attributes.into_iter().filter(|(key, _)| key == "service.name");
        if let Some((_, name)) = names.next().filter(|(_, name)| is_name(name)) {
            config.service = name;
        }
    }
}
