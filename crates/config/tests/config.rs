//! Settings from variables: precedence, bounds, warnings; and the page in docs/.
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{
    Config, DatadogConfig, ExportConfig, LogLevel, OPTIONS, OtlpConfig, PyroscopeConfig, Sampler,
    Secret, ServerConfig, Target, docs, find,
};

fn read(vars: &[(&str, &str)]) -> (Config, Vec<String>) {
    let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let (config, warnings) = Config::from_vars(vars, "app");
    (config, warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn nothing_set_is_all_defaults() {
    let (config, warnings) =
        read(&[("PATH", "/bin"), ("CORPROF_AGENT", "/x"), ("CORPROF_LOG", "")]);
    assert!(warnings.is_empty(), "{warnings:?}");
    let expected = Config {
        enabled: true,
        service: "app".into(),
        output_dir: PathBuf::from("corprof-out"),
        upload_period: Duration::from_secs(60),
        cpu_enabled: true,
        cpu_interval: Duration::from_millis(10),
        sampler: Sampler::Timer,
        native_threads: true,
        lines: true,
        wall_enabled: true,
        gc_enabled: true,
        wall_interval: Duration::from_millis(10),
        wall_threads: 5,
        cpu_budget_ppm: 5_000,
        spans: true,
        span_threads: 10,
        span_ids: true,
        timeline: false,
        otel_context: false,
        control: true,
        export: ExportConfig {
            targets: vec![Target::File],
            datadog: DatadogConfig {
                port: 8126,
                site: "datadoghq.com".into(),
                ..DatadogConfig::default()
            },
            spool_mib: 256,
            exit_flush: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            ..ExportConfig::default()
        },
        log: LogLevel::Warn,
        log_file: None,
    };
    assert_eq!(config, expected);
    assert_eq!(config, Config::defaults("app"));
}

#[test]
fn every_option_can_be_set() {
    let others = [
        ("CORPROF_ENABLED", "no"),
        ("CORPROF_SERVICE", "orders"),
        ("CORPROF_OUTPUT_DIR", "/tmp/x y"),
        ("CORPROF_UPLOAD_PERIOD", "1h"),
        ("CORPROF_CPU_ENABLED", "0"),
        ("CORPROF_CPU_INTERVAL", "1ms"),
        ("CORPROF_SAMPLER", "SCAN"),
        ("CORPROF_NATIVE_THREADS", "no"),
        ("CORPROF_LINES", "off"),
        ("CORPROF_WALL_ENABLED", "off"),
        ("CORPROF_GC_ENABLED", "off"),
        ("CORPROF_WALL_INTERVAL", "1500us"),
        ("CORPROF_WALL_THREADS", "64"),
        ("CORPROF_CPU_BUDGET", "2.5 %"),
        ("CORPROF_SPANS", "false"),
        ("CORPROF_SPAN_THREADS", "0"),
        ("CORPROF_SPAN_IDS", "no"),
        ("CORPROF_TIMELINE", "1"),
        ("CORPROF_OTEL_CONTEXT", "on"),
        ("CORPROF_CONTROL", "off"),
        ("CORPROF_LOG", "debug"),
        ("CORPROF_LOG_FILE", "log"),
    ];
    let (config, warnings) = read(&[&others[..], &EXPORT_VARS].concat());
    assert!(warnings.is_empty(), "{warnings:?}");
    let expected = Config {
        enabled: false,
        service: "orders".into(),
        output_dir: PathBuf::from("/tmp/x y"),
        upload_period: Duration::from_secs(3600),
        cpu_enabled: false,
        cpu_interval: Duration::from_millis(1),
        sampler: Sampler::Scan,
        native_threads: false,
        lines: false,
        wall_enabled: false,
        gc_enabled: false,
        wall_interval: Duration::from_micros(1500),
        wall_threads: 64,
        cpu_budget_ppm: 25_000,
        spans: false,
        span_threads: 0,
        span_ids: false,
        timeline: true,
        otel_context: true,
        control: false,
        export: every_export_option(),
        log: LogLevel::Debug,
        log_file: Some(PathBuf::from("log")),
    };
    assert_eq!(config, expected);
}

const EXPORT_VARS: [(&str, &str); 32] = [
    ("CORPROF_EXPORT", "OTLP, datadog,pyroscope"),
    ("CORPROF_ENVIRONMENT", "test"),
    ("CORPROF_SERVICE_VERSION", "1.2"),
    ("CORPROF_TAGS", "a:b"),
    ("CORPROF_DATADOG_URL", "http://dd:1"),
    ("CORPROF_DATADOG_HOST", "dd"),
    ("CORPROF_DATADOG_PORT", "9126"),
    ("CORPROF_DATADOG_AGENTLESS", "true"),
    ("CORPROF_DATADOG_SITE", "datadoghq.eu"),
    ("CORPROF_DATADOG_API_KEY", "key"),
    ("CORPROF_DATADOG_TAGS", "c:d"),
    ("CORPROF_PYROSCOPE_URL", "http://pyro:1"),
    ("CORPROF_PYROSCOPE_APPLICATION", "app"),
    ("CORPROF_PYROSCOPE_USER", "user"),
    ("CORPROF_PYROSCOPE_PASSWORD", "password"),
    ("CORPROF_PYROSCOPE_TOKEN", "token"),
    ("CORPROF_PYROSCOPE_TENANT", "tenant"),
    ("CORPROF_PYROSCOPE_LABELS", "e:f"),
    ("CORPROF_OTLP_ENDPOINT", "http://otel:1"),
    ("CORPROF_OTLP_PROFILES_ENDPOINT", "http://otel:1/p"),
    ("CORPROF_OTLP_HEADERS", "x=y"),
    ("CORPROF_OTLP_ATTRIBUTES", "g=h"),
    ("CORPROF_SERVER_URL", "http://corprof:1"),
    ("CORPROF_SERVER_TOKEN", "word"),
    ("CORPROF_SPOOL_DIR", "/spool"),
    ("CORPROF_SPOOL_MIB", "7"),
    ("CORPROF_EXIT_FLUSH", "2s"),
    ("CORPROF_EXPORT_TIMEOUT", "3s"),
    ("CORPROF_CA_FILE", "/ca.pem"),
    ("CORPROF_HTTP_PROXY", "http://proxy:1"),
    ("CORPROF_HTTPS_PROXY", "http://proxy:2"),
    ("CORPROF_NO_PROXY", "inside"),
];

fn every_export_option() -> ExportConfig {
    let secret = |text: &str| Secret::new(text.to_owned());
    ExportConfig {
        targets: vec![Target::Otlp, Target::Datadog, Target::Pyroscope],
        environment: "test".into(),
        version: "1.2".into(),
        tags: "a:b".into(),
        datadog: DatadogConfig {
            url: secret("http://dd:1"),
            host: "dd".into(),
            port: 9126,
            is_agentless: true,
            site: "datadoghq.eu".into(),
            api_key: secret("key"),
            tags: "c:d".into(),
        },
        pyroscope: PyroscopeConfig {
            url: secret("http://pyro:1"),
            application: "app".into(),
            user: secret("user"),
            password: secret("password"),
            token: secret("token"),
            tenant: "tenant".into(),
            labels: "e:f".into(),
        },
        otlp: OtlpConfig {
            endpoint: secret("http://otel:1"),
            profiles_endpoint: secret("http://otel:1/p"),
            headers: secret("x=y"),
            attributes: "g=h".into(),
        },
        server: ServerConfig { url: secret("http://corprof:1"), token: secret("word") },
        spool_dir: Some(PathBuf::from("/spool")),
        spool_mib: 7,
        exit_flush: Duration::from_secs(2),
        timeout: Duration::from_secs(3),
        ca_file: Some(PathBuf::from("/ca.pem")),
        http_proxy: secret("http://proxy:1"),
        https_proxy: secret("http://proxy:2"),
        no_proxy: "inside".into(),
        aliases: Vec::new(),
    }
}

#[test]
fn addresses_of_tracing_send_no_profiles_anywhere() {
    use Target::{Datadog, File, Otlp, Pyroscope};
    let tracing = [
        ("DD_TRACE_AGENT_URL", "http://dd:8126"),
        ("DD_AGENT_HOST", "dd"),
        ("DD_API_KEY", "key"),
        ("DD_SERVICE", "shop"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel:4318"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b"),
    ];
    assert_eq!(read(&tracing).0.export.targets, [File]);
    for (var, value, targets) in [
        ("CORPROF_EXPORT", "datadog", &[Datadog][..]),
        ("CORPROF_EXPORT", "file,otlp,file", &[File, Otlp]),
        ("CORPROF_DATADOG_URL", "http://dd", &[File, Datadog]),
        ("PYROSCOPE_SERVER_ADDRESS", "http://pyro", &[File, Pyroscope]),
        ("CORPROF_PYROSCOPE_URL", "http://pyro", &[File, Pyroscope]),
        ("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "http://otel", &[File, Otlp]),
        ("CORPROF_OTLP_ENDPOINT", "http://otel", &[File, Otlp]),
        ("CORPROF_OTLP_ENDPOINT", " ", &[File]),
    ] {
        let mut vars = tracing.to_vec();
        vars.push((var, value));
        assert_eq!(read(&vars).0.export.targets, targets, "{var}={value}");
    }
    let (config, warnings) = read(&[("CORPROF_EXPORT", "file,datadogg")]);
    assert_eq!(
        warnings,
        ["CORPROF_EXPORT=\"file,datadogg\" is none of file, datadog, pyroscope, otlp, corprof; \
             using `file`, and each target that an address below is set for"]
    );
    assert_eq!(config.export.targets, [File]);
}

#[test]
fn secrets_are_not_shown() {
    let vars: Vec<_> = OPTIONS
        .iter()
        .filter(|option| {
            ["KEY", "PASSWORD", "TOKEN", "HEADERS", "URL", "ENDPOINT", "_USER", "PROXY"]
                .iter()
                .any(|word| option.var.contains(word) && option.var != "CORPROF_NO_PROXY")
        })
        .collect();
    assert!(vars.len() >= 10);
    for option in vars {
        let (config, _) = read(&[(option.var, "planted")]);
        assert!(!format!("{config:?}").contains("planted"), "{}", option.var);
        let in_flag = ["KEY", "PASSWORD", "TOKEN", "HEADERS", "_USER"];
        let is_secret = in_flag.iter().any(|word| option.var.contains(word));
        assert!(!(is_secret && option.flag.is_some()), "{}: a flag is seen by all", option.var);
    }
}

#[test]
fn resource_attributes_name_the_service_where_nothing_else_does() {
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "a=b,service.name=my%20shop");
    assert_eq!(read(&[attributes]).0.service, "my shop");
    assert_eq!(read(&[attributes, ("DD_SERVICE", "dd")]).0.service, "dd");
    let control = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=my%00shop");
    assert_eq!(read(&[control]).0.service, "app");
    assert_eq!(Config::defaults("a\nb").service, "a_b");
}

#[test]
fn our_own_name_counts_most_then_the_ecosystems_in_order() {
    let dd = ("DD_SERVICE", "dd");
    let otel = ("OTEL_SERVICE_NAME", "otel");
    let own = ("CORPROF_SERVICE", "own");
    assert_eq!(read(&[dd, otel, own]).0.service, "own");
    assert_eq!(read(&[dd, otel]).0.service, "otel");
    assert_eq!(read(&[dd, ("OTEL_SERVICE_NAME", " ")]).0.service, "dd");
}

#[test]
fn a_bad_value_gives_one_warning_and_the_default() {
    for (var, value, warning) in [
        (
            "CORPROF_CPU_INTERVAL",
            "fast",
            "CORPROF_CPU_INTERVAL=\"fast\" is not a duration such as 10ms, 1s or 250us; using 10ms",
        ),
        (
            "CORPROF_CPU_INTERVAL",
            "10us",
            "CORPROF_CPU_INTERVAL=\"10us\" is not between 1ms and 1s; using 10ms",
        ),
        (
            "CORPROF_WALL_THREADS",
            "65",
            "CORPROF_WALL_THREADS=\"65\" is not between 1 and 64; using 5",
        ),
        (
            "CORPROF_WALL_THREADS",
            "-1",
            "CORPROF_WALL_THREADS=\"-1\" is not a whole number; using 5",
        ),
        (
            "CORPROF_WALL_THREADS",
            "99999999999",
            "CORPROF_WALL_THREADS=\"99999999999\" is not between 1 and 64; using 5",
        ),
        ("CORPROF_SAMPLER", "perf", "CORPROF_SAMPLER=\"perf\" is none of timer, scan; using timer"),
        (
            "CORPROF_ENABLED",
            "maybe",
            "CORPROF_ENABLED=\"maybe\" is neither true nor false; using true",
        ),
        (
            "DD_SERVICE",
            "shop\u{1b}[2J",
            "DD_SERVICE=\"shop\\u{1b}[2J\" is not a name: it has control characters; \
             using the program's name",
        ),
        (
            "CORPROF_SERVICE_VERSION",
            "1\0",
            "CORPROF_SERVICE_VERSION=\"1\\0\" is not a name: it has control characters; \
             using that of `OTEL_RESOURCE_ATTRIBUTES`, if any",
        ),
        (
            "CORPROF_CPU_INTERVALL",
            "1ms",
            "CORPROF_CPU_INTERVALL is no option and has no effect; \
             did you mean CORPROF_CPU_INTERVAL?",
        ),
        ("CORPROF_COLOUR", "1", "CORPROF_COLOUR is no option and has no effect"),
    ] {
        let (config, warnings) = read(&[(var, value)]);
        assert_eq!(warnings, [warning]);
        assert_eq!(config, Config::defaults("app"));
    }
}

#[test]
fn declarations_make_sense() {
    for option in &OPTIONS {
        assert_eq!(option.check(option.default), Ok(()), "{}", option.var);
        assert!(!option.default_text().is_empty(), "{}", option.var);
        assert!(option.var.starts_with("CORPROF_"), "{}", option.var);
        assert!(option.help.ends_with('.'), "{}", option.var);
        assert!(std::ptr::eq(find(option.var).unwrap(), option));
    }
    let mut names: Vec<_> = OPTIONS.iter().flat_map(|option| option.names()).collect();
    let mut flags: Vec<_> = OPTIONS.iter().filter_map(|option| option.flag).collect();
    for list in [&mut names, &mut flags] {
        let all = list.len();
        list.sort_unstable();
        list.dedup();
        assert_eq!(list.len(), all);
    }
}

#[test]
fn the_page_in_docs_is_the_declarations() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os("CORPROF_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, docs::markdown()).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == docs::markdown(),
        "docs/configuration.md is old: CORPROF_WRITE_DOCS=1 cargo test -p config"
    );
}
