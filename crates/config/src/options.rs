//! The options, each declared once and nowhere else.

use std::time::Duration;

use crate::config::{LogLevel, Sampler};
use crate::export_options;
use crate::option::{Choice, Kind, Opt};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// All options, in the order of the docs.
pub static OPTIONS: [Opt; 54] = [
    Opt {
        var: "CORPROF_ENABLED",
        aliases: &[],
        flag: None,
        default: "true",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.enabled = value },
        help: "Whether to profile at all. With false the agent loads and does nothing.",
    },
    Opt {
        var: "CORPROF_SERVICE",
        aliases: &["OTEL_SERVICE_NAME", "DD_SERVICE"],
        flag: Some("service"),
        default: "",
        default_words: "the program's name",
        kind: Kind::Name { store: |config, value| config.service = value },
        help: "Name of the service: the first part of a profile's file name.",
    },
    Opt {
        var: "CORPROF_OUTPUT_DIR",
        aliases: &[],
        flag: Some("out"),
        default: "corprof-out",
        default_words: "",
        kind: Kind::Path { store: |config, value| config.output_dir = value },
        help: "Folder that profiles are written to, made if it is not there. \
               `corprof run` makes a fresh one inside of `corprof-out` if none is given.",
    },
    Opt {
        var: "CORPROF_UPLOAD_PERIOD",
        aliases: &[],
        flag: Some("upload-period"),
        default: "60s",
        default_words: "",
        kind: Kind::Duration {
            min: SECOND,
            max: HOUR,
            store: |config, value| config.upload_period = value,
        },
        help: "Time between two profiles; `corprof run` sets 5s if none is given. The last one is \
               written when the program returns from `Main`, calls `Environment.Exit` or gets \
               SIGTERM; a crash, FailFast, SIGKILL and a plain program's Ctrl-C lose what came \
               after the one before.",
    },
    Opt {
        var: "CORPROF_CPU_ENABLED",
        aliases: &[],
        flag: Some("cpu-enabled"),
        default: "true",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.cpu_enabled = value },
        help: "Whether CPU time is sampled.",
    },
    Opt {
        var: "CORPROF_CPU_INTERVAL",
        aliases: &[],
        flag: Some("cpu-interval"),
        default: "10ms",
        default_words: "",
        kind: Kind::Duration {
            min: MILLISECOND,
            max: SECOND,
            store: |config, value| config.cpu_interval = value,
        },
        help: "CPU time between two samples of a thread. Totals don't depend on it: a sample \
               counts what the thread has really used since the one before.",
    },
    Opt {
        var: "CORPROF_SAMPLER",
        aliases: &[],
        flag: Some("sampler"),
        default: "timer",
        default_words: "",
        kind: Kind::Choice(&[
            Choice {
                name: "timer",
                help: "a timer on each thread's CPU clock: only threads that compute are touched",
                store: |config| config.sampler = Sampler::Timer,
            },
            Choice {
                name: "scan",
                help: "a regular look for threads that run: for systems without such timers",
                store: |config| config.sampler = Sampler::Scan,
            },
        ]),
        help: "How CPU time is sampled.",
    },
    Opt {
        var: "CORPROF_NATIVE_THREADS",
        aliases: &[],
        flag: Some("native-threads"),
        default: "true",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.native_threads = value },
        help: "Whether threads are sampled that run no managed code: those of the garbage \
               collector and others of the runtime, and those of native libraries. Without them a \
               profile is not all of the process's CPU time.",
    },
    Opt {
        var: "CORPROF_LINES",
        aliases: &[],
        flag: Some("lines"),
        default: "true",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.lines = value },
        help: "Whether profiles have the places in managed methods from which `corprof top \
               --lines` finds source lines. With false they have methods only, and are smaller.",
    },
    Opt {
        var: "CORPROF_WALL_ENABLED",
        aliases: &[],
        flag: Some("wall-enabled"),
        default: "true",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.wall_enabled = value },
        help: "Whether wall time is sampled: where threads wait as well as where they compute.",
    },
    Opt {
        var: "CORPROF_GC_ENABLED",
        aliases: &[],
        flag: Some("gc-enabled"),
        default: "true",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.gc_enabled = value },
        help: "Whether garbage collections and the pauses of all threads that they make are \
               followed. Without it threads seem to wait in them.",
    },
    Opt {
        var: "CORPROF_WALL_INTERVAL",
        aliases: &[],
        flag: Some("wall-interval"),
        default: "10ms",
        default_words: "",
        kind: Kind::Duration {
            min: MILLISECOND,
            max: SECOND,
            store: |config, value| config.wall_interval = value,
        },
        help: "Time between two ticks of the wall sampler.",
    },
    Opt {
        var: "CORPROF_WALL_THREADS",
        aliases: &[],
        flag: Some("wall-threads"),
        default: "5",
        default_words: "",
        kind: Kind::Count { min: 1, max: 64, store: |config, value| config.wall_threads = value },
        help: "Threads that the wall sampler looks at in one tick, in turn.",
    },
    Opt {
        var: "CORPROF_CPU_BUDGET",
        aliases: &[],
        flag: Some("cpu-budget"),
        default: "0.5%",
        default_words: "",
        kind: Kind::Share {
            min: 100,
            max: 1_000_000,
            store: |config, value| config.cpu_budget_ppm = value,
        },
        help: "What the profiler may use of the processors that the process may use (a container \
               may have a tenth of one), in the long run. Above it, samples are taken less often; \
               totals stay what they are. What it may use in a hundred seconds it may use at once: \
               starting costs, and short runs are not thinned out. 100% is no limit.",
    },
    Opt {
        var: "CORPROF_SPANS",
        aliases: &[],
        flag: Some("spans"),
        default: "true",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.spans = value },
        help: "Whether samples are labelled with the request that they belong to: its endpoint, \
               its trace and its span. It needs `Corprof.Spans.dll` in the program, which \
               `corprof run` and `corprof env` see to.",
    },
    Opt {
        var: "CORPROF_SPAN_THREADS",
        aliases: &[],
        flag: Some("span-threads"),
        default: "10",
        default_words: "",
        kind: Kind::Count { min: 0, max: 64, store: |config, value| config.span_threads = value },
        help: "Threads at work for a request that the wall sampler looks at in one tick, besides \
               those of `CORPROF_WALL_THREADS`: short requests would be over before their turn.",
    },
    Opt {
        var: "CORPROF_SPAN_IDS",
        aliases: &[],
        flag: Some("span-ids"),
        default: "true",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.span_ids = value },
        help: "Whether profiles have the ids of traces and spans. With false they have the names \
               of endpoints only, and are smaller.",
    },
    Opt {
        var: "CORPROF_TIMELINE",
        aliases: &[],
        flag: Some("timeline"),
        default: "false",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.timeline = value },
        help: "Whether profile files also say when their samples came about, for the timeline of \
               `corprof view`: some bytes a sample, and up to 9 MiB of memory. `--view` switches \
               it on. Of what is sent only `corprof serve` gets it.",
    },
    Opt {
        var: "CORPROF_OTEL_CONTEXT",
        aliases: &[],
        flag: Some("otel-context"),
        default: "false",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.otel_context = value },
        help: "Whether threads' spans are published for other agents too, as OpenTelemetry's \
               thread context (`otel_thread_ctx_v1`) and process context (`OTEL_CTX`). Both are \
               drafts of its specification. On x86-64 only.",
    },
    Opt {
        var: "CORPROF_CONTROL",
        aliases: &[],
        flag: Some("control"),
        default: "true",
        default_words: "",
        kind: Kind::Switch { store: |config, value| config.control = value },
        help: "Whether `corprof ctl` can reach the process while it runs: by a socket in its \
               temporary folder, which only the same user and root can open.",
    },
    export_options::EXPORT,
    export_options::ENVIRONMENT,
    export_options::VERSION,
    export_options::TAGS,
    export_options::DATADOG_URL,
    export_options::DATADOG_HOST,
    export_options::DATADOG_PORT,
    export_options::DATADOG_AGENTLESS,
    export_options::DATADOG_SITE,
    export_options::DATADOG_API_KEY,
    export_options::DATADOG_TAGS,
    export_options::PYROSCOPE_URL,
    export_options::PYROSCOPE_APPLICATION,
    export_options::PYROSCOPE_USER,
    export_options::PYROSCOPE_PASSWORD,
    export_options::PYROSCOPE_TOKEN,
    export_options::PYROSCOPE_TENANT,
    export_options::PYROSCOPE_LABELS,
    export_options::OTLP_ENDPOINT,
    export_options::OTLP_PROFILES_ENDPOINT,
    export_options::OTLP_HEADERS,
    export_options::OTLP_ATTRIBUTES,
    export_options::SERVER_URL,
    export_options::SERVER_TOKEN,
    export_options::SPOOL_DIR,
    export_options::SPOOL_MIB,
    export_options::EXIT_FLUSH,
    export_options::TIMEOUT,
    export_options::CA_FILE,
    export_options::HTTP_PROXY,
    export_options::HTTPS_PROXY,
    export_options::NO_PROXY,
    Opt {
        var: "CORPROF_LOG",
        aliases: &[],
        flag: Some("log"),
        default: "warn",
        default_words: "",
        kind: Kind::Choice(&[
            Choice { name: "off", help: "nothing", store: |config| config.log = LogLevel::Off },
            Choice {
                name: "error",
                help: "what stops it from profiling",
                store: |config| config.log = LogLevel::Error,
            },
            Choice {
                name: "warn",
                help: "and what makes profiles worse than they could be",
                store: |config| config.log = LogLevel::Warn,
            },
            Choice {
                name: "info",
                help: "and starts, stops and files",
                store: |config| config.log = LogLevel::Info,
            },
            Choice {
                name: "debug",
                help: "and what helps those who work on the profiler",
                store: |config| config.log = LogLevel::Debug,
            },
        ]),
        help: "How much the agent says.",
    },
    Opt {
        var: "CORPROF_LOG_FILE",
        aliases: &[],
        flag: Some("log-file"),
        default: "",
        default_words: "standard error",
        kind: Kind::Path { store: |config, value| config.log_file = Some(value) },
        help: "File that the agent's log goes to; lines are added at its end.",
    },
];

/// The option of a variable, by its main name.
#[must_use]
pub fn find(var: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.var == var)
}

/// Whether two variables set the same option, or are the same.
#[must_use]
pub fn is_same(one: &str, other: &str) -> bool {
    let sets = |option: &&Opt, name: &str| option.var == name || option.aliases.contains(&name);
    one == other || OPTIONS.iter().any(|option| sets(&option, one) && sets(&option, other))
}
