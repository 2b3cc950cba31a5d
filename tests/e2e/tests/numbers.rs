//! The profiler's own numbers are in what each target gets: samples, losses by reason, what waits
//! in memory and on disk, its own CPU time and memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use config::Config;
use e2e::wire::{form, pushed};
use e2e::{Intake, Manners, Received, Session};
use export::{Exporter, Identity};
use model::Loss;
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use profile::{Aggregate, Limits, Period, SelfReport, read};
use prost::Message as _;
use rig::Net9;
use serde_json::Value;

type Numbers = BTreeMap<String, String>;

/// A report in which nothing is zero that a target has to be told.
fn report() -> SelfReport {
    let mut report = SelfReport {
        agent_version: "0.1.0".into(),
        runtime_version: "CoreCLR 9.0.5".into(),
        service: "shop".into(),
        sampler: "timer".into(),
        pid: 7,
        seq: 3,
        cpu_samples: 11,
        wall_samples: 12,
        own_cpu_ns: 13,
        own_memory_bytes: 14,
        export_sent: 15,
        export_failed: 16,
        export_lost: 17,
        export_queue_bytes: 18,
        export_spool_bytes: 19,
        ..SelfReport::default()
    };
    for (n, loss) in (100..).zip(Loss::ALL) {
        report.losses.add(loss, n);
    }
    report
}

/// What a target gets of a profile with that report.
fn sent(target: &str) -> Result<Received> {
    let intake = Intake::start()?;
    let vars = [
        ("CORPROF_EXPORT", target.to_owned()),
        (&*format!("CORPROF_{}_{}", target.to_uppercase(), address_of(target)), intake.url()),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let (config, warnings) = Config::from_vars(vars, "shop");
    ensure!(warnings.is_empty(), "{warnings:?}");
    let identity = Identity::new(&config, "CoreCLR 9.0.5", export::random_id());
    let say: export::Say = Arc::new(|_, _| {});
    let exporter = Exporter::start(&config, identity, std::env::temp_dir(), say)?;
    let exporter = exporter.context("no exporter")?;
    let period = Period { start_unix_ns: 1, duration_ns: 1, cpu_interval_ns: 1 };
    let mut profile = Aggregate::new(Limits::HOST).take(period).profile;
    profile.report = Some(report());
    exporter.offer(&profile);
    exporter.stop();
    intake.check()?;
    let mut taken = intake.taken();
    ensure!(taken.len() == 1, "{} requests", taken.len());
    taken.pop().context("no request")
}

fn address_of(target: &str) -> &'static str {
    if target == "otlp" { "ENDPOINT" } else { "URL" }
}

fn in_pprof(bytes: &[u8]) -> Result<Numbers> {
    let report = read::decode(bytes)?.profile.report.context("no report")?;
    Ok(report.facts().into_iter().collect())
}

fn in_event(bytes: &[u8]) -> Result<Numbers> {
    let event: Value = serde_json::from_slice(bytes)?;
    let own = event["internal"]["corprof"].as_object().context("no numbers")?;
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Ok(own.iter().map(|(name, value)| (name.clone(), shown(value))).collect())
}

/// The attributes of the first profile of a request, without their prefix.
fn in_otlp(received: &Received) -> Result<Numbers> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(received.body.as_slice()).read_to_end(&mut plain)?;
    let request = ExportProfilesServiceRequest::decode(plain.as_slice())?;
    let dictionary = request.dictionary.context("no dictionary")?;
    let profiles = request.resource_profiles.first().and_then(|all| all.scope_profiles.first());
    let profile = profiles.and_then(|scope| scope.profiles.first()).context("no profile")?;
    let mut numbers = Numbers::new();
    for at in &profile.attribute_indices {
        let attribute = &dictionary.attribute_table[usize::try_from(*at)?];
        let key = &dictionary.string_table[usize::try_from(attribute.key_strindex)?];
        let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
        let value = match value.context("no value")? {
            Any::StringValue(text) => text.clone(),
            Any::IntValue(number) => number.to_string(),
            other => anyhow::bail!("{key} is {other:?}"),
        };
        if let Some(name) = key.strip_prefix("corprof.") {
            numbers.insert(name.to_owned(), value);
        }
    }
    Ok(numbers)
}

fn expected() -> Numbers {
    report().facts().into_iter().collect()
}

#[test]
fn pyroscope_is_told_all_of_them() -> Result<()> {
    let found = in_pprof(&pushed(&sent("pyroscope")?)?.pprof)?;
    ensure!(found == expected(), "{found:?}");
    Ok(())
}

#[test]
fn datadog_is_told_all_of_them_in_the_profile_and_in_the_event() -> Result<()> {
    let received = sent("datadog")?;
    let parts = form(received.header("content-type"), &received.body)?;
    let [event, attached] = &parts[..] else { anyhow::bail!("{} parts", parts.len()) };
    ensure!(in_pprof(&attached.bytes)? == expected(), "in the profile");
    let found = in_event(&event.bytes)?;
    ensure!(found == expected(), "in the event: {found:?}");
    Ok(())
}

#[test]
fn a_collector_is_told_all_of_them() -> Result<()> {
    let found = in_otlp(&sent("otlp")?)?;
    for (name, value) in expected() {
        ensure!(found.get(&name) == Some(&value), "{name} is {:?} in {found:?}", found.get(&name));
    }
    Ok(())
}

/// What a running program's profiles say, one target of which is down at first.
#[test]
fn a_running_program_fills_them_in() -> Result<()> {
    let (pyroscope, datadog, otlp) = (Intake::start()?, Intake::start()?, Intake::start()?);
    let Some(session) = Session::new("numbers", "split", Net9)? else { return Ok(()) };
    let spool = session.folder.with_extension("spool");
    if spool.exists() {
        fs::remove_dir_all(&spool)?;
    }
    datadog.be(Manners::Status(503, "Retry-After: 2\r\n"));
    let run = session
        .args(["--seconds", "5"])
        .set("CORPROF_UPLOAD_PERIOD", "1s")
        .set("CORPROF_SPOOL_DIR", &spool)
        .set("CORPROF_EXPORT", "file,pyroscope,datadog,otlp")
        .set("CORPROF_PYROSCOPE_URL", pyroscope.url())
        .set("CORPROF_DATADOG_URL", datadog.url())
        .set("CORPROF_OTLP_ENDPOINT", otlp.url())
        .run_watched(|_| {
            if datadog.count(|_| true) > 1 {
                datadog.be(Manners::Good);
            }
        })?;
    let last = |intake: &Intake| intake.taken().pop().context("nothing was taken");
    let form_of = |received: &Received| form(received.header("content-type"), &received.body);
    let all = [
        ("pyroscope", in_pprof(&pushed(&last(&pyroscope)?)?.pprof)?),
        ("datadog", in_event(&form_of(&last(&datadog)?)?[0].bytes)?),
        ("otlp", in_otlp(&last(&otlp)?)?),
    ];
    let mut checks = run.checks();
    for (target, numbers) in &all {
        for name in [
            "samples.cpu",
            "samples.wall",
            "own_cpu_ns",
            "own_memory_bytes",
            "export.sent",
            "export.failed",
        ] {
            let is_there = numbers.get(name).is_some_and(|n| n.parse::<u64>().is_ok_and(|n| n > 0));
            checks.that(is_there, format!("{target} has no {name}: {numbers:?}"));
        }
    }
    let spooled = run.profiles.iter().filter_map(|(_, profile)| profile.report.as_ref());
    let spooled = spooled.map(|report| report.export_spool_bytes).max().unwrap_or(0);
    checks.that(spooled > 0, "nothing was ever told to wait on disk");
    let reports = run.profiles.iter().filter_map(|(_, profile)| profile.report.as_ref());
    let instances: BTreeSet<&str> = reports.map(|report| report.instance.as_str()).collect();
    let is_one = instances.len() == 1 && instances.iter().all(|instance| instance.len() == 32);
    checks.that(is_one, format!("files of one process are of {instances:?}"));
    checks.done()
}
