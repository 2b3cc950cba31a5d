//! Real servers and the official exporter, where `cargo xtask servers` could build them; what it
//! could not is skipped, and said.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::wire::form;
use e2e::{Intake, Received, Session, built};
use rig::Net9;
use serde_json::Value;

/// How far two sums may differ.
const FRACTION: f64 = 0.001;

/// A program of `target/servers`, if it is there.
fn server(name: &str) -> Result<Option<PathBuf>> {
    let release = built()?.agent.parent().context("no folder")?;
    let path = release.join("../servers").join(name);
    if path.is_file() {
        return Ok(Some(path));
    }
    println!("SKIPPED {name}: it is not built; `cargo xtask servers` builds it where it can");
    Ok(None)
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

fn wait_for(port: u16) -> Result<()> {
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(begin.elapsed() < Duration::from_secs(60), "nobody listens at port {port}");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn folder(name: &str) -> Result<PathBuf> {
    let folder =
        std::env::temp_dir().join(format!("corprof-servers-{name}-{}", std::process::id()));
    let _left = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[test]
fn a_real_collector_has_the_same_totals_per_function() -> Result<()> {
    let Some(collector) = server("collector")? else { return Ok(()) };
    let Some(session) = Session::new("collector", "calls", Net9)? else { return Ok(()) };
    let folder = folder("collector")?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let (config, out) = (folder.join("config.yaml"), folder.join("out.json"));
    let template = include_str!("../../servers/collector/config.yaml");
    let text = template.replace("PORT", &port.to_string()).replace("FILE", &out.to_string_lossy());
    fs::write(&config, text)?;
    let log = fs::File::create(folder.join("log"))?;
    let child = Command::new(collector)
        .arg("--config")
        .arg(format!("file:{}", config.display()))
        .arg("--feature-gates=service.profilesSupport")
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?;
    let running = Running(child);
    wait_for(port).with_context(|| fs::read_to_string(folder.join("log")).unwrap_or_default())?;
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
    Command::new("kill").arg(running.0.id().to_string()).status()?;
    let mut running = running;
    running.0.wait()?;
    let theirs = collected(&out)?;
    let mut checks = run.checks();
    let mut ours: BTreeMap<(&str, String), u64> = BTreeMap::new();
    for row in &run.view.rows {
        let leaf = row.frames.first().cloned().unwrap_or_default();
        for (kind, value) in [
            ("cpu", row.values.cpu_ns),
            ("wall", row.values.wall_ns),
            ("samples", row.values.count),
            ("gc", row.values.gc_ns),
        ] {
            *ours.entry((kind, leaf.clone())).or_default() += value;
        }
    }
    ours.retain(|_, value| *value > 0);
    checks.that(ours.len() > 40, format!("only {} sums", ours.len()));
    checks.that(ours.len() == theirs.len(), format!("{} and {}", ours.len(), theirs.len()));
    for ((kind, name), value) in &ours {
        let their = theirs.get(&((*kind).to_owned(), name.clone())).copied().unwrap_or_default();
        let off = their.abs_diff(*value) as f64 / *value as f64;
        checks.that(off <= FRACTION, format!("{kind} of {name}: {their} and not {value}"));
    }
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
fn collected(out: &Path) -> Result<BTreeMap<(String, String), u64>> {
    let text = fs::read_to_string(out).context("the collector wrote nothing")?;
    let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in text.lines() {
        let sent: Value = serde_json::from_str(line)?;
        let tables = &sent["dictionary"];
        let at = |table: &str, position: &Value| {
            list(tables, table).get(number(position) as usize).cloned().unwrap_or_default()
        };
        let string =
            |position: &Value| at("stringTable", position).as_str().unwrap_or("").to_owned();
        for resource in list(&sent, "resourceProfiles") {
            let attributes = resource["resource"]["attributes"].to_string();
            for word in ["shop", "deployment.environment.name", "service.instance.id"] {
                ensure!(attributes.contains(word), "no {word} in {attributes}");
            }
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

/// The official exporter sends the same file; what differs is what the design note says.
#[test]
fn datadog_gets_what_its_own_exporter_sends() -> Result<()> {
    let Some(exporter) = server("datadog-exporter")? else { return Ok(()) };
    let Some(session) = Session::new("datadog-oracle", "split", Net9)? else { return Ok(()) };
    let run = session.args(["--seconds", "2"]).set("CORPROF_SERVICE", "shop").run()?;
    let file = fs::read_dir(&run.folder)?.flatten().map(|entry| entry.path()).next();
    let file = file.context("no file")?;
    let (_, profile) = run.profiles.first().context("no profile")?;
    let period = profile.period;
    let end_ns = period.start_unix_ns + period.duration_ns;
    let (theirs, ours) = (Intake::start()?, Intake::start()?);
    let done = Command::new(exporter)
        .arg(theirs.url())
        .arg(&file)
        .args([period.start_unix_ns.to_string(), end_ns.to_string()])
        .output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let done = Command::new(&built()?.corprof)
        .arg("upload")
        .arg(&file)
        .arg(format!("--to=datadog={}", ours.url()))
        .output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (theirs, ours) = (one(&theirs)?, one(&ours)?);
    ensure!(theirs.path == ours.path, "{} and {}", theirs.path, ours.path);
    for name in ["dd-evp-origin", "connection"] {
        let (their, our) = (theirs.header(name), ours.header(name));
        ensure!(their == our, "{name}: {their} and {our}");
    }
    for name in theirs.headers.keys().filter(|name| *name != "transfer-encoding") {
        let known = ["accept", "content-length", "user-agent", "content-type"];
        let there = ours.headers.contains_key(name) || known.contains(&name.as_str());
        ensure!(there, "no {name}: {:?}", theirs.headers);
    }
    let parts = |received: &Received| form(received.header("content-type"), &received.body);
    let (theirs, ours) = (parts(&theirs)?, parts(&ours)?);
    ensure!(theirs.len() == ours.len(), "{} and {} parts", theirs.len(), ours.len());
    for (their, our) in theirs.iter().zip(&ours) {
        ensure!((&their.name, &their.file) == (&our.name, &our.file), "{our:?}");
    }
    ensure!(theirs[0].kind == ours[0].kind, "{} and {}", theirs[0].kind, ours[0].kind);
    let event = |part: &e2e::wire::Part| serde_json::from_slice::<Value>(&part.bytes);
    let (their, our) = (event(&theirs[0])?, event(&ours[0])?);
    keep(&their)?;
    let names = |event: &Value| -> Vec<String> {
        event.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    ensure!(names(&their) == names(&our), "{:?} and {:?}", names(&their), names(&our));
    for same in ["attachments", "start", "end", "family", "version"] {
        ensure!(their[same] == our[same], "{same}: {} and {}", their[same], our[same]);
    }
    for tag in their["tags_profiler"].as_str().context("tags")?.split(',') {
        let there = our["tags_profiler"].as_str().is_some_and(|t| t.split(',').any(|t| t == tag));
        ensure!(there, "no {tag} in {}", our["tags_profiler"]);
    }
    run.checks().done()
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
