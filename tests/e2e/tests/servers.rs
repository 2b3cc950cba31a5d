//! Real servers and the official exporter, where `cargo xtask servers` could build them; what it
//! could not is skipped, and said.

#[path = "../../../crates/cli/tests/support/made.rs"]
mod made;

use std::collections::BTreeMap;
use std::fs;
use std::mem::discriminant;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::server::{Running, folder, free_port, server};
use e2e::wire::{Part, form};
use e2e::{Intake, LeafSums, Received, Session, built};
use made::made;
use profile::{Profile, SelfReport};
use rig::Net9;
use serde_json::Value;

/// How far two sums may differ.
const FRACTION: f64 = 0.001;

#[test]
fn a_real_collector_has_the_same_totals_per_function() -> Result<()> {
    let Some(collector) = server("collector")? else { return Ok(()) };
    let Some(session) = Session::new("collector", "calls", Net9)? else { return Ok(()) };
    let folder = folder("collector")?;
    let port = free_port()?;
    let (config, out) = (folder.join("config.yaml"), folder.join("out.json"));
    let template = include_str!("../../servers/collector/config.yaml");
    let text = template.replace("PORT", &port.to_string()).replace("FILE", &out.to_string_lossy());
    fs::write(&config, text)?;
    let log = fs::File::create(folder.join("log"))?;
    let mut command = Command::new(collector);
    command
        .arg("--config")
        .arg(format!("file:{}", config.display()))
        .arg("--feature-gates=service.profilesSupport")
        .stdout(Stdio::null())
        .stderr(log);
    let mut running = Running::start(command)?;
    running
        .wait_for(port)
        .with_context(|| fs::read_to_string(folder.join("log")).unwrap_or_default())?;
    let run = session
        .args(["--seconds", "4"])
        .set("CORPROF_UPLOAD_PERIOD", "1s")
        .set("CORPROF_SERVICE", "shop")
        .set("CORPROF_EXPORT", "file,otlp")
        .set("CORPROF_OTLP_ENDPOINT", format!("http://127.0.0.1:{port}"))
        .set("CORPROF_SPOOL_DIR", folder.join("spool"))
        .set("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        .run()?;
    // It writes what it has when it is told to end.
    running.end()?;
    let theirs = collected(&out)?;
    let mut checks = run.checks();
    checks.same_sums(&theirs, &run.view.leaf_sums(), FRACTION);
    fs::remove_dir_all(&folder)?;
    checks.done()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// A number; those that are zero are left out, large ones are texts.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}

/// The sums by type of value and leaf function of all that a collector wrote.
fn collected(out: &Path) -> Result<LeafSums> {
    let text = fs::read_to_string(out).context("the collector wrote nothing")?;
    let mut sums = LeafSums::new();
    for line in text.lines() {
        let sent: Value = serde_json::from_str(line)?;
        let tables = &sent["dictionary"];
        let at = |table: &str, position: &Value| {
            list(tables, table).get(number(position) as usize).cloned().unwrap_or_default()
        };
        let string =
            |position: &Value| at("stringTable", position).as_str().unwrap_or("").to_owned();
        for resource in list(&sent, "resourceProfiles") {
            let attributes = list(&resource["resource"], "attributes").iter().map(|attribute| {
                let (key, value) = (&attribute["key"], &attribute["value"]);
                // The collector puts keys and texts in the dictionary.
                let text = |plain: &Value, position: &Value| match plain.as_str() {
                    Some(text) => text.to_owned(),
                    None => string(position),
                };
                let value = text(&value["stringValue"], &value["stringValueStrindex"]);
                (text(key, &attribute["keyStrindex"]), value)
            });
            let attributes: BTreeMap<String, String> = attributes.collect();
            for (key, value) in [("service.name", "shop"), ("deployment.environment.name", "test")]
            {
                let found = attributes.get(key).map(String::as_str);
                ensure!(found == Some(value), "no {key}: {attributes:?}");
            }
            ensure!(attributes.contains_key("service.instance.id"), "no id: {attributes:?}");
            for scope in list(resource, "scopeProfiles") {
                for profile in list(scope, "profiles") {
                    let kind = string(&profile["sampleType"]["typeStrindex"]);
                    for sample in list(profile, "samples") {
                        let stack = at("stackTable", &sample["stackIndex"]);
                        let leaf = list(&stack, "locationIndices").first().cloned();
                        let location = at("locationTable", &leaf.unwrap_or_default());
                        let line = list(&location, "lines").first().cloned().unwrap_or_default();
                        let function = at("functionTable", &line["functionIndex"]);
                        let name = string(&function["nameStrindex"]);
                        let value: u64 = list(sample, "values").iter().map(number).sum();
                        *sums.entry((kind.clone(), name)).or_default() += value;
                    }
                }
            }
        }
    }
    Ok(sums)
}

/// The official exporter sends the same profile; what differs is what the design note says.
#[test]
fn datadog_gets_what_its_own_exporter_sends() -> Result<()> {
    let Some(exporter) = server("datadog-exporter")? else { return Ok(()) };
    let folder = folder("datadog")?;
    let profile = shop();
    let file = folder.join("shop_7_0.pb.gz");
    fs::write(&file, profile::pprof::write(&profile, Vec::new())?)?;
    let (theirs, ours) = (Intake::start()?, Intake::start()?);
    let period = profile.period;
    let end_ns = period.start_unix_ns + period.duration_ns;
    let mut command = Command::new(exporter);
    command.arg(theirs.url()).arg(&file);
    command.args([period.start_unix_ns.to_string(), end_ns.to_string()]);
    for endpoint in &profile.endpoints {
        command.args([profile.text(endpoint.name), &endpoint.requests.to_string()]);
    }
    let done = command.output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let done = Command::new(&built()?.corprof)
        .arg("upload")
        .arg(&file)
        .arg(format!("--to=datadog={}", ours.url()))
        .output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::remove_dir_all(&folder)?;
    let (theirs, ours) = (one(&theirs)?, one(&ours)?);
    same_heads(&theirs, &ours)?;
    let parts = |received: &Received| form(received.header("content-type"), &received.body);
    let (theirs, ours) = (parts(&theirs)?, parts(&ours)?);
    ensure!(theirs.len() == ours.len(), "{} and {} parts", theirs.len(), ours.len());
    for (their, our) in theirs.iter().zip(&ours) {
        let head = |part: &Part| (part.name.clone(), part.file.clone(), part.kind.clone());
        ensure!(head(their) == head(our), "{:?} and {:?}", head(their), head(our));
    }
    let event = |part: &Part| serde_json::from_slice::<Value>(&part.bytes);
    let (their, our) = (event(&theirs[0])?, event(&ours[0])?);
    keep(&their)?;
    same_events(&their, &our)
}

/// A profile of a service with requests, and the profiler's own numbers.
fn shop() -> Profile {
    let mut profile = made(5, 300);
    profile.report = Some(SelfReport {
        service: "shop".into(),
        pid: 7,
        runtime_version: "CoreCLR 9.0.5".into(),
        agent_version: "0.1.0".into(),
        ..SelfReport::default()
    });
    profile
}

fn same_heads(theirs: &Received, ours: &Received) -> Result<()> {
    ensure!(theirs.path == ours.path, "{} and {}", theirs.path, ours.path);
    for name in ["dd-evp-origin", "dd-evp-origin-version", "connection"] {
        let (their, our) = (theirs.header(name), ours.header(name));
        ensure!(their == our, "{name}: {their:?} and {our:?}");
    }
    ensure!(ours.headers.contains_key("content-length"), "chunks: {:?}", ours.headers);
    for name in theirs.headers.keys().filter(|name| *name != "transfer-encoding") {
        ensure!(ours.headers.contains_key(name), "no {name}: {:?}", theirs.headers);
    }
    Ok(())
}

fn same_events(their: &Value, our: &Value) -> Result<()> {
    let types = |event: &Value| -> Vec<_> {
        let fields = event.as_object().into_iter().flatten();
        fields.map(|(name, value)| (name.clone(), discriminant(value))).collect()
    };
    ensure!(types(their) == types(our), "{their} and {our}");
    for same in ["attachments", "start", "end", "family", "version", "endpoint_counts"] {
        ensure!(their[same] == our[same], "{same}: {} and {}", their[same], our[same]);
    }
    let tags = |event: &Value| -> Vec<String> {
        let tags = event["tags_profiler"].as_str().unwrap_or("");
        tags.split(',').map(str::to_owned).collect()
    };
    let (theirs, ours) = (tags(their), tags(our));
    for tag in &theirs {
        ensure!(ours.contains(tag), "no {tag} in {ours:?}");
    }
    ensure!(theirs.last() == ours.last(), "{theirs:?} and {ours:?}");
    Ok(())
}

fn one(intake: &Intake) -> Result<Received> {
    intake.check()?;
    let mut taken = intake.taken();
    ensure!(taken.len() == 1, "{} requests", taken.len());
    taken.pop().context("no request")
}

/// What the official exporter sent, for the tests that run without it.
fn keep(event: &Value) -> Result<()> {
    if std::env::var_os("CORPROF_WRITE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/datadog-event.json");
        fs::write(path, format!("{}\n", serde_json::to_string_pretty(event)?))?;
    }
    Ok(())
}
