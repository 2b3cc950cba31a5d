//! A running program's profiles at Pyroscope: what its query API returns is what our files say.
//!
//! Asked, and once answered, by a program made of Pyroscope's official API
//! (`tests/servers/pyroscope`): its messages, its connect services, its rules for labels. The same
//! is asked of a real server (`tests/servers/pyroscope-server`). `cargo xtask servers` builds both.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::server::{Running, folder, free_port, installed, server};
use e2e::{LeafSums, Run, Session};
use rig::Net9;
use serde_json::Value;

/// How far two sums may differ.
const FRACTION: f64 = 0.001;
/// Names another real server than the one that was built.
const SERVER: &str = "CORPROF_TEST_PYROSCOPE";
/// What a server may need until it can be asked for what it took.
const SETTLED: Duration = Duration::from_secs(60);

/// Parts of the server that have an address.
const PARTS: [&str; 7] = [
    "ingester.lifecycler.addr",
    "compactor.ring.instance-addr",
    "distributor.ring.instance-addr",
    "overrides-exporter.ring.instance-addr",
    "query-frontend.instance-addr",
    "query-scheduler.ring.instance-addr",
    "store-gateway.sharding-ring.instance-addr",
];

#[test]
fn pyroscopes_api_has_the_same_totals_per_function() -> Result<()> {
    let Some(api) = server("pyroscope-api")? else { return Ok(()) };
    let port = free_port()?;
    let mut command = Command::new(&api);
    command.args(["serve", &format!("127.0.0.1:{port}")]);
    let mut running = Running::start(command)?;
    running.wait_for(port)?;
    same_totals("pyroscope-api", &api, running, port)
}

#[test]
fn a_real_pyroscope_has_the_same_totals_per_function() -> Result<()> {
    let Some(real) = installed(SERVER, "pyroscope")? else { return Ok(()) };
    let Some(api) = server("pyroscope-api")? else { return Ok(()) };
    let data = folder("pyroscope-data")?;
    let (port, grpc, gossip) = (free_port()?, free_port()?, free_port()?);
    let mut command = Command::new(real);
    command.current_dir(&data).stdout(Stdio::null()).stderr(fs::File::create(data.join("log"))?);
    command.args([
        "-server.http-listen-address=127.0.0.1".to_owned(),
        format!("-server.http-listen-port={port}"),
        "-server.grpc-listen-address=127.0.0.1".to_owned(),
        format!("-server.grpc-listen-port={grpc}"),
        "-memberlist.bind-addr=127.0.0.1".to_owned(),
        "-memberlist.advertise-addr=127.0.0.1".to_owned(),
        format!("-memberlist.bind-port={gossip}"),
        format!("-pyroscopedb.data-path={}", data.join("db").display()),
        format!("-storage.filesystem.dir={}", data.join("shared").display()),
        "-storage.backend=filesystem".to_owned(),
        // It tells nobody, and profiles itself not at all.
        "-usage-stats.enabled=false".to_owned(),
        "-self-profiling.disable-push=true".to_owned(),
        // Else ready after a quarter of a minute.
        "-ingester.min-ready-duration=0s".to_owned(),
    ]);
    // Its parts find each other at the machine's address, if they are not told otherwise.
    command.args(PARTS.map(|part| format!("-{part}=127.0.0.1")));
    let log = || fs::read_to_string(data.join("log")).unwrap_or_default();
    let mut running = Running::start(command)?;
    running.wait_until_ready(port, "/ready").with_context(log)?;
    same_totals("pyroscope-real", &api, running, port).with_context(log)?;
    fs::remove_dir_all(&data)?;
    Ok(())
}

fn same_totals(test: &str, api: &Path, running: Running, port: u16) -> Result<()> {
    let Some(session) = Session::new(test, "calls", Net9)? else { return Ok(()) };
    let url = format!("http://127.0.0.1:{port}");
    let spool = folder(test)?;
    let run = session
        .args(["--seconds", "4"])
        .set("CORPROF_UPLOAD_PERIOD", "1s")
        .set("CORPROF_SERVICE", "shop")
        .set("CORPROF_TAGS", "region:eu")
        .set("CORPROF_EXPORT", "file,pyroscope")
        .set("CORPROF_PYROSCOPE_URL", &url)
        .set("CORPROF_SPOOL_DIR", &spool)
        // A server that has just started may not take all at once.
        .set("CORPROF_EXIT_FLUSH", "20s")
        .run()?;
    ensure!(fs::read_dir(&spool)?.next().is_none(), "something was not taken");
    let ours = run.view.leaf_sums();
    let begin = Instant::now();
    let mut theirs = asked(api, &url, &run);
    while theirs.as_ref().ok() != Some(&ours) && test == "pyroscope-real" {
        if begin.elapsed() > SETTLED {
            break;
        }
        thread::sleep(Duration::from_millis(500));
        theirs = asked(api, &url, &run);
    }
    running.end()?;
    fs::remove_dir_all(&spool)?;
    let mut checks = run.checks();
    checks.same_sums(&theirs?, &ours, FRACTION);
    checks.done()
}

/// What the server at an address has of a run.
fn asked(api: &Path, url: &str, run: &Run) -> Result<LeafSums> {
    let times = run.profiles.iter().map(|(_, profile)| profile.period.start_unix_ns / 1_000_000);
    let (from, until) =
        (times.clone().min().context("no profiles")?, times.max().unwrap_or_default());
    let output = Command::new(api)
        .args(["query", url, "shop"])
        .args([from.saturating_sub(1000).to_string(), (until + 120_000).to_string()])
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{errors}");
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let mut sums = LeafSums::new();
    for (kind, functions) in answer.as_object().context("no sums")? {
        let kind = kind.split(':').next().unwrap_or_default();
        for (name, value) in functions.as_object().context("no functions")? {
            let value = value.as_u64().with_context(|| format!("{name}: {value}"))?;
            sums.insert((kind.to_owned(), name.clone()), value);
        }
    }
    Ok(sums)
}
