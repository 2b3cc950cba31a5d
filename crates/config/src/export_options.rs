//! The options of export, each declared once; `options` has them in its list.

use std::time::Duration;

use crate::config::Config;
use crate::export::{Secret, Target};
use crate::option::{Choice, Kind, Opt};

const SECOND: Duration = Duration::from_secs(1);
/// A service that ends is not to be waited for by whoever ends it.
const FLUSH_MAX: Duration = Duration::from_secs(60);
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// An option that takes any text and has no flag.
const fn text(
    var: &'static str,
    aliases: &'static [&'static str],
    default_words: &'static str,
    store: fn(&mut Config, String),
    help: &'static str,
) -> Opt {
    let kind = Kind::Text { store };
    Opt { var, aliases, flag: None, default: "", default_words, kind, help }
}

/// An option that takes a name.
const fn name(
    var: &'static str,
    aliases: &'static [&'static str],
    default_words: &'static str,
    store: fn(&mut Config, String),
    help: &'static str,
) -> Opt {
    Opt { kind: Kind::Name { store }, ..text(var, aliases, default_words, store, help) }
}

/// The same with a flag.
const fn flagged(option: Opt, flag: &'static str) -> Opt {
    Opt { flag: Some(flag), ..option }
}

pub(crate) const EXPORT: Opt = Opt {
    var: "CORPROF_EXPORT",
    aliases: &[],
    flag: Some("export"),
    default: "",
    default_words: "`file`, and each target that an address below is set for",
    kind: Kind::Words {
        words: &[
            Choice {
                name: "file",
                help: "files in CORPROF_OUTPUT_DIR",
                store: |config| config.export.add(Target::File),
            },
            Choice {
                name: "datadog",
                help: "Datadog's agent, or its intake",
                store: |config| config.export.add(Target::Datadog),
            },
            Choice {
                name: "pyroscope",
                help: "a Pyroscope server, or Grafana Cloud",
                store: |config| config.export.add(Target::Pyroscope),
            },
            Choice {
                name: "otlp",
                help: "an OpenTelemetry collector, over HTTP",
                store: |config| config.export.add(Target::Otlp),
            },
            Choice {
                name: "corprof",
                help: "`corprof serve`",
                store: |config| config.export.add(Target::Server),
            },
        ],
        clear: |config| config.export.targets.clear(),
    },
    help: "Where profiles go, several with commas. If it is not set, an address that is there for \
           profiles alone (`CORPROF_DATADOG_URL`, `PYROSCOPE_SERVER_ADDRESS`, \
           `CORPROF_OTLP_ENDPOINT`, `CORPROF_SERVER_URL` …) adds its target; the \
           addresses of tracing (`DD_*`, `OTEL_EXPORTER_OTLP_ENDPOINT`) never do, and are used \
           once the target is named here. `docs/export.md` has an example for each.",
};

pub(crate) const ENVIRONMENT: Opt = flagged(
    name(
        "CORPROF_ENVIRONMENT",
        &["DD_ENV"],
        "that of `OTEL_RESOURCE_ATTRIBUTES`, if any",
        |config, value| config.export.environment = value,
        "The service's environment, such as `production`, in what is sent.",
    ),
    "environment",
);

pub(crate) const VERSION: Opt = flagged(
    name(
        "CORPROF_SERVICE_VERSION",
        &["DD_VERSION"],
        "that of `OTEL_RESOURCE_ATTRIBUTES`, if any",
        |config, value| config.export.version = value,
        "The service's version, in files and in what is sent.",
    ),
    "service-version",
);

pub(crate) const TAGS: Opt = flagged(
    text(
        "CORPROF_TAGS",
        &[],
        "none",
        |config, value| config.export.tags = value,
        "Tags of what is sent, for all targets: `name:value,name:value`. They are sent as they are \
         and are no place for secrets.",
    ),
    "tags",
);

pub(crate) const DATADOG_URL: Opt = text(
    "CORPROF_DATADOG_URL",
    &["DD_TRACE_AGENT_URL"],
    "from the two below",
    |config, value| config.export.datadog.url = Secret::new(value),
    "Address of Datadog's agent: `http://host:8126` or `unix:///path`. If nothing says where it \
     is, it is the socket `/var/run/datadog/apm.socket` if there is one, else localhost.",
);

pub(crate) const DATADOG_HOST: Opt = text(
    "CORPROF_DATADOG_HOST",
    &["DD_AGENT_HOST"],
    "localhost",
    |config, value| config.export.datadog.host = value,
    "Host of Datadog's agent, if no address is set.",
);

pub(crate) const DATADOG_PORT: Opt = Opt {
    var: "CORPROF_DATADOG_PORT",
    aliases: &["DD_TRACE_AGENT_PORT"],
    flag: None,
    default: "8126",
    default_words: "",
    kind: Kind::Count {
        min: 1,
        max: 65_535,
        store: |config, value| {
            config.export.datadog.port = u16::try_from(value).unwrap_or(u16::MAX);
        },
    },
    help: "Port of Datadog's agent, if no address is set.",
};

pub(crate) const DATADOG_AGENTLESS: Opt = Opt {
    var: "CORPROF_DATADOG_AGENTLESS",
    aliases: &["DD_PROFILING_AGENTLESS"],
    flag: None,
    default: "false",
    default_words: "",
    kind: Kind::Switch { store: |config, value| config.export.datadog.is_agentless = value },
    help: "Whether profiles go to Datadog's intake itself, without an agent. The key alone does \
           not say so: the agent's own key may be in the environment.",
};

pub(crate) const DATADOG_SITE: Opt = Opt {
    default: "datadoghq.com",
    ..text(
        "CORPROF_DATADOG_SITE",
        &["DD_SITE"],
        "",
        |config, value| config.export.datadog.site = value,
        "Datadog's site, for sending without an agent.",
    )
};

pub(crate) const DATADOG_API_KEY: Opt = text(
    "CORPROF_DATADOG_API_KEY",
    &["DD_API_KEY"],
    "none",
    |config, value| config.export.datadog.api_key = Secret::new(value),
    "Datadog's API key, for sending without an agent.",
);

pub(crate) const DATADOG_TAGS: Opt = text(
    "CORPROF_DATADOG_TAGS",
    &["DD_TAGS"],
    "none",
    |config, value| config.export.datadog.tags = value,
    "Further tags of what Datadog gets, as in `CORPROF_TAGS`.",
);

pub(crate) const PYROSCOPE_URL: Opt = flagged(
    text(
        "CORPROF_PYROSCOPE_URL",
        &["PYROSCOPE_SERVER_ADDRESS"],
        "`http://localhost:4040`",
        |config, value| config.export.pyroscope.url = Secret::new(value),
        "Address of the Pyroscope server.",
    ),
    "pyroscope-url",
);

pub(crate) const PYROSCOPE_APPLICATION: Opt = name(
    "CORPROF_PYROSCOPE_APPLICATION",
    &["PYROSCOPE_APPLICATION_NAME"],
    "the service's name",
    |config, value| config.export.pyroscope.application = value,
    "Name of the service at Pyroscope.",
);

pub(crate) const PYROSCOPE_USER: Opt = text(
    "CORPROF_PYROSCOPE_USER",
    &["PYROSCOPE_BASIC_AUTH_USER"],
    "none",
    |config, value| config.export.pyroscope.user = Secret::new(value),
    "User for basic authentication.",
);

pub(crate) const PYROSCOPE_PASSWORD: Opt = text(
    "CORPROF_PYROSCOPE_PASSWORD",
    &["PYROSCOPE_BASIC_AUTH_PASSWORD"],
    "none",
    |config, value| config.export.pyroscope.password = Secret::new(value),
    "Password for basic authentication.",
);

pub(crate) const PYROSCOPE_TOKEN: Opt = text(
    "CORPROF_PYROSCOPE_TOKEN",
    &["PYROSCOPE_AUTH_TOKEN"],
    "none",
    |config, value| config.export.pyroscope.token = Secret::new(value),
    "Token for bearer authentication; counts more than user and password.",
);

pub(crate) const PYROSCOPE_TENANT: Opt = text(
    "CORPROF_PYROSCOPE_TENANT",
    &["PYROSCOPE_TENANT_ID"],
    "none",
    |config, value| config.export.pyroscope.tenant = value,
    "Tenant on a server that has several (`X-Scope-OrgID`).",
);

pub(crate) const PYROSCOPE_LABELS: Opt = text(
    "CORPROF_PYROSCOPE_LABELS",
    &["PYROSCOPE_LABELS"],
    "none",
    |config, value| config.export.pyroscope.labels = value,
    "Further labels of what Pyroscope gets, as in `CORPROF_TAGS`.",
);

pub(crate) const SERVER_URL: Opt = flagged(
    text(
        "CORPROF_SERVER_URL",
        &[],
        "`http://localhost:4041`",
        |config, value| config.export.server.url = Secret::new(value),
        "Address of `corprof serve`.",
    ),
    "server-url",
);

pub(crate) const SERVER_TOKEN: Opt = text(
    "CORPROF_SERVER_TOKEN",
    &[],
    "none",
    |config, value| config.export.server.token = Secret::new(value),
    "Its token.",
);

pub(crate) const OTLP_ENDPOINT: Opt = flagged(
    text(
        "CORPROF_OTLP_ENDPOINT",
        &["OTEL_EXPORTER_OTLP_ENDPOINT"],
        "`http://localhost:4318`",
        |config, value| config.export.otlp.endpoint = Secret::new(value),
        "Address of the OpenTelemetry collector, for OTLP over HTTP; `/v1development/profiles` is \
         added.",
    ),
    "otlp-endpoint",
);

pub(crate) const OTLP_PROFILES_ENDPOINT: Opt = text(
    "CORPROF_OTLP_PROFILES_ENDPOINT",
    &["OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT"],
    "from the one above",
    |config, value| config.export.otlp.profiles_endpoint = Secret::new(value),
    "The whole address for profiles, to which nothing is added.",
);

pub(crate) const OTLP_HEADERS: Opt = text(
    "CORPROF_OTLP_HEADERS",
    &["OTEL_EXPORTER_OTLP_PROFILES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"],
    "none",
    |config, value| config.export.otlp.headers = Secret::new(value),
    "Further headers for the collector: `name=value,name=value`, percent-encoded.",
);

pub(crate) const OTLP_ATTRIBUTES: Opt = text(
    "CORPROF_OTLP_ATTRIBUTES",
    &["OTEL_RESOURCE_ATTRIBUTES"],
    "none",
    |config, value| config.export.otlp.attributes = value,
    "Resource attributes: `name=value,name=value`, percent-encoded. `service.name`, \
     `service.version` and `deployment.environment.name` of them count for all targets where \
     nothing else says so.",
);

pub(crate) const SPOOL_DIR: Opt = Opt {
    var: "CORPROF_SPOOL_DIR",
    aliases: &[],
    flag: Some("spool-dir"),
    default: "",
    default_words: "`corprof-spool-<user id>` in the temporary folder",
    kind: Kind::Path { store: |config, value| config.export.spool_dir = Some(value) },
    help: "Folder in which profiles wait that could not be sent, made when the first one has to. \
           They are sent later, by this process, by the next one with the same folder and the same \
           address, or by `corprof flush`.",
};

pub(crate) const SPOOL_MIB: Opt = Opt {
    var: "CORPROF_SPOOL_MIB",
    aliases: &[],
    flag: Some("spool-mib"),
    default: "256",
    default_words: "",
    kind: Kind::Count {
        min: 0,
        max: 65_536,
        store: |config, value| config.export.spool_mib = value,
    },
    help: "How many MiB may wait there, of all processes with this folder; above it the oldest \
           are removed and counted. With 0 profiles wait in memory only, and not for long.",
};

pub(crate) const EXIT_FLUSH: Opt = Opt {
    var: "CORPROF_EXIT_FLUSH",
    aliases: &[],
    flag: Some("exit-flush"),
    default: "5s",
    default_words: "",
    kind: Kind::Duration {
        min: Duration::ZERO,
        max: FLUSH_MAX,
        store: |config, value| config.export.exit_flush = value,
    },
    help: "How long sending may hold up the program's end, or the profiler's leaving. What is not \
           sent by then goes to the spool.",
};

pub(crate) const TIMEOUT: Opt = Opt {
    var: "CORPROF_EXPORT_TIMEOUT",
    aliases: &[],
    flag: None,
    default: "10s",
    default_words: "",
    kind: Kind::Duration {
        min: SECOND,
        max: TIMEOUT_MAX,
        store: |config, value| config.export.timeout = value,
    },
    help: "How long one request may take, from connecting to the last byte of the answer.",
};

pub(crate) const CA_FILE: Opt = Opt {
    var: "CORPROF_CA_FILE",
    aliases: &["SSL_CERT_FILE"],
    flag: None,
    default: "",
    default_words: "the system's certificates",
    kind: Kind::Path { store: |config, value| config.export.ca_file = Some(value) },
    help: "File with the certificates (PEM) that are trusted, instead of the system's: a regular \
           one, or a link to one.",
};

pub(crate) const HTTP_PROXY: Opt = text(
    "CORPROF_HTTP_PROXY",
    &["http_proxy", "HTTP_PROXY"],
    "none",
    |config, value| config.export.http_proxy = Secret::new(value),
    "Proxy for `http` addresses: `http://user:password@host:port`.",
);

pub(crate) const HTTPS_PROXY: Opt = text(
    "CORPROF_HTTPS_PROXY",
    &["https_proxy", "HTTPS_PROXY"],
    "none",
    |config, value| config.export.https_proxy = Secret::new(value),
    "Proxy for `https` addresses, by `CONNECT`.",
);

pub(crate) const NO_PROXY: Opt = text(
    "CORPROF_NO_PROXY",
    &["no_proxy", "NO_PROXY"],
    "none; localhost is always reached directly",
    |config, value| config.export.no_proxy = value,
    "Hosts that are reached without a proxy, with commas: a name stands for its subdomains too, \
     `*` for all.",
);
