//! Samples know their request: which endpoint, which trace, which span; and the table of endpoints
//! says what the service itself measured.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use anyhow::{Context, Result};
use e2e::{Checks, Competitors, Row, Run, Session, Truth, on_one};
use model::ThreadState::{self, Runnable, Running, Sleeping};
use profile::{SpanIds, Values};
use rig::{Net8, Net9, Net10, RuntimeVersion};

/// How far the cost of a request may be off what the service measured.
const FRACTION: f64 = 0.10;
/// By how much more time requests may have on threads where others compete for the processors: of
/// a delay that nobody saw begin, some is charged to what the thread did before. Charged to waits
/// as a whole, such delays made it six times as much.
const LATE_FRACTION: f64 = 0.50;
/// CPU time from one sample of a thread to the next.
const INTERVAL_NS: u64 = 4_000_000;
/// How many standard deviations chance may take.
const SIGMAS: f64 = 4.0;
/// What the server itself does for a request, on any thread: far more than it ever was.
const SERVER_NS: u64 = 2_000_000;
/// A frame of every piece of a request's work.
const PIECE: &str = "Corprof.TestApps.Book.Piece(";

/// An endpoint, as the profile has it.
#[derive(Default)]
struct Endpoint {
    requests: u64,
    elapsed_ns: u64,
}

#[test]
fn endpoints_cost_what_they_cost() -> Result<()> {
    on_one(Net9, |version| under_load(version, "activities", &[], FRACTION))
}

/// Requests are known even where nobody traces them; and what delays a thread between two requests
/// is neither's, however long that is.
#[test]
fn so_they_do_without_activities_on_a_busy_machine() -> Result<()> {
    let processors = std::thread::available_parallelism()?.get();
    let _competitors = Competitors::start(2 * processors)?;
    under_load(Net9, "no-activities", &["--no-activities"], LATE_FRACTION)
}

/// `late` is by how much more time requests may have on threads than they had.
fn under_load(version: RuntimeVersion, how: &str, arguments: &[&str], late: f64) -> Result<()> {
    let Some(session) = Session::new(&format!("requests-{how}"), "requests", version)? else {
        return Ok(());
    };
    let log = session.folder.with_extension("log");
    // As many clients as leave the processors some room, so that most of the elapsed time is the
    // requests' own; and a sample each tick of the kernel, since each piece of work may be a sample
    // off at its end.
    let run = session
        .with_spans()?
        .set("CORPROF_CPU_INTERVAL", format!("{INTERVAL_NS}ns"))
        .args(["--load", "12", "--clients", "3", "--log"])
        .args([&log])
        .args(arguments)
        .run()?;
    let mut checks = run.checks();
    let found = endpoints(&run);
    for truth in truths(&run)? {
        costs(&run, &mut checks, &found, &truth, late)?;
    }
    checks.that(found.contains_key("GET"), "requests without a route are under their method");
    let log = fs::read_to_string(&log).with_context(|| format!("{}", log.display()))?;
    ids(&run, &mut checks, &log, arguments.is_empty())?;
    checks.done()
}

/// A request's CPU, elapsed and blocked time are what the service measured.
fn costs(
    run: &Run,
    checks: &mut Checks<'_>,
    found: &BTreeMap<String, Endpoint>,
    truth: &Truth,
    late: f64,
) -> Result<()> {
    let route = truth.name();
    if route.is_empty() {
        return Ok(());
    }
    let name = format!("GET {route}");
    let none = Endpoint::default();
    let endpoint = found.get(&name).unwrap_or(&none);
    let requests = truth.number("requests")?;
    checks.between(format!("{name}: requests"), endpoint.requests, requests, requests);
    let of = |states: &[ThreadState]| -> Values {
        run.view.of(|row| row.endpoint == name && row.is_in(states))
    };
    let elapsed_ns = truth.number("elapsed_ns")?;
    let server_ns = SERVER_NS * requests;
    checks.between(
        format!("{name}: elapsed"),
        endpoint.elapsed_ns,
        part(elapsed_ns, 1.0 - FRACTION),
        part(elapsed_ns, 1.0 + FRACTION) + server_ns,
    );
    // Work in many short pieces has many borders.
    let fraction = if route == "/mixed" { 2.0 * FRACTION } else { FRACTION };
    let cpu_ns = truth.number("cpu_ns")?;
    checks.between(
        format!("{name}: CPU"),
        of(&[Running]).cpu_ns,
        part(cpu_ns, 1.0 - fraction).saturating_sub(chance_ns(cpu_ns, requests)),
        part(cpu_ns, 1.0 + fraction) + server_ns,
    );
    // No thread works for a request that awaits.
    let on_threads = of(&[Running, Runnable, Sleeping]).wall_ns;
    let worked_ns = truth.number("piece_wall_ns")?;
    checks.between(
        format!("{name}: on threads"),
        on_threads,
        part(worked_ns, 1.0 - fraction),
        part(worked_ns, 1.0 + fraction.max(late)) + server_ns,
    );
    Ok(())
}

/// Of the time in the requests' work, 99 % has the ids that the service logged for that thread.
fn ids(run: &Run, checks: &mut Checks<'_>, log: &str, has_ids: bool) -> Result<()> {
    let mut logged = HashSet::new();
    for line in log.lines() {
        let mut words = line.split(' ');
        let mut next = || words.next().with_context(|| format!("a line of the log: {line}"));
        let (tid, trace, span) = (next()?.parse::<u32>()?, next()?, next()?);
        logged.insert((tid, trace.to_owned(), span.to_owned()));
    }
    let is_right = |row: &Row| {
        let Some(span) = row.span else { return false };
        let (trace, span) = hex(&span);
        let is_known = !has_ids || logged.contains(&(row.tid, trace, span));
        is_known && row.endpoint.starts_with("GET /")
    };
    let work = |row: &&Row| row.has(PIECE);
    let time = |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.values.wall_ns).sum();
    let all: u64 = time(&mut run.view.rows.iter().filter(work));
    let right: u64 = time(&mut run.view.rows.iter().filter(work).filter(|row| is_right(row)));
    checks.between("time in work with the right ids", right, part(all, 0.99), all);
    checks.that(all > 1_000_000_000, format!("only {all} ns of work were seen"));
    Ok(())
}

#[test]
fn a_request_longer_than_a_period_has_its_endpoint_in_all_of_them() -> Result<()> {
    let Some(session) = Session::new("requests-long", "requests", Net9)? else { return Ok(()) };
    let run = session
        .with_spans()?
        .args(["--load", "5", "--clients", "1", "--path", "/long/6"])
        .set("CORPROF_UPLOAD_PERIOD", "1s")
        .run()?;
    let mut checks = run.checks();
    let name = "GET /long/{seconds:double}";
    let of =
        |wanted: &dyn Fn(&Row) -> bool| run.view.of(|row| row.has(PIECE) && wanted(row)).wall_ns;
    let (all, named) = (of(&|_| true), of(&|row| row.endpoint == name));
    checks.between("time in work with the endpoint", named, part(all, 0.99), all);
    let has_it = |profile: &profile::Profile| {
        profile.spans.iter().any(|span| profile.text(span.endpoint) == name)
    };
    let periods = run.profiles.iter().filter(|(_, profile)| has_it(profile)).count();
    checks.that(periods >= 5, format!("{periods} of {} profiles have it", run.profiles.len()));
    checks.that(endpoints(&run).get(name).is_some_and(|e| e.requests == 1), "it ended once");
    checks.done()
}

#[test]
fn nothing_is_left_for_the_next_request() -> Result<()> {
    for (version, arguments) in
        [(Net9, &[][..]), (Net9, &["--no-activities"]), (Net9, &["--listener"]), (Net10, &[])]
    {
        let how = arguments.first().map_or("", |argument| argument.trim_start_matches('-'));
        let Some(session) = Session::new(&format!("requests-verify{how}"), "requests", version)?
        else {
            continue;
        };
        let mut is_announced = false;
        let run = session
            .with_spans()?
            .args(["--verify", "25000"])
            .args(arguments)
            .set("CORPROF_OTEL_CONTEXT", "true")
            .run_watched(|pid| is_announced |= has_process_context(pid))?;
        let mut checks = run.checks();
        checks.that(is_announced, "others find OpenTelemetry's process context");
        let (requests, wrong) = (run.number("requests")?, run.number("wrong")?);
        checks.between(format!("{how}: requests"), requests, 25_000, 25_000);
        checks.between(format!("{how}: wrong"), wrong, 0, 0);
        checks.between(format!("{how}: local roots"), run.number("roots")?, requests, requests);
        checks.done()?;
    }
    Ok(())
}

#[test]
fn a_request_is_counted_once_whoever_works_for_it_and_ends_it() -> Result<()> {
    for version in [Net8, Net9] {
        let Some(session) = Session::new("requests-handoffs", "activities", version)? else {
            continue;
        };
        let run = session.with_spans()?.args(["--handoffs", "300"]).run()?;
        let mut checks = run.checks();
        let each = run.number("each")?;
        for (name, endpoint) in endpoints(&run) {
            checks.between(format!("{name}: requests"), endpoint.requests, each, each);
        }
        let names: Vec<String> = endpoints(&run).into_keys().collect();
        checks.that(names == ["ended elsewhere", "handed on", "outlived"], format!("{names:?}"));
        checks.done()?;
    }
    Ok(())
}

#[test]
fn ids_are_left_out_if_they_are_not_wanted() -> Result<()> {
    let Some(session) = Session::new("requests-private", "requests", Net9)? else { return Ok(()) };
    let run = session
        .with_spans()?
        .args(["--load", "3", "--clients", "2"])
        .set("CORPROF_SPAN_IDS", "false")
        .run()?;
    let mut checks = run.checks();
    let work: Vec<&Row> = run.view.rows.iter().filter(|row| row.has(PIECE)).collect();
    let is_nameless = |row: &&&Row| row.span.is_none_or(|span| span == SpanIds::NONE);
    checks.that(work.iter().all(|row| is_nameless(&row)), "no id in the profile");
    let named = work.iter().filter(|row| row.endpoint.starts_with("GET /")).count();
    checks.that(named > 0, "endpoints all the same");
    checks.done()
}

/// Whether a process's memory has what OpenTelemetry's readers look for, as they look for it.
fn has_process_context(pid: u32) -> bool {
    const NAMES: [&str; 3] = ["[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]", "/memfd:OTEL_CTX"];
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| NAMES.iter().any(|name| line.contains(name)))
}

/// The endpoints of all profiles of a run, summed.
fn endpoints(run: &Run) -> BTreeMap<String, Endpoint> {
    let mut sums: BTreeMap<String, Endpoint> = BTreeMap::new();
    for (_, profile) in &run.profiles {
        for endpoint in &profile.endpoints {
            let sum = sums.entry(profile.text(endpoint.name).to_owned()).or_default();
            sum.requests += endpoint.requests;
            sum.elapsed_ns += endpoint.duration_ns;
        }
    }
    sums
}

/// What the service measured of each endpoint.
fn truths(run: &Run) -> Result<Vec<Truth>> {
    let truth = run.outcome.truth()?;
    let endpoints = truth["endpoints"].as_array().context("no endpoints in the truth")?;
    Ok(endpoints.iter().cloned().map(Truth).collect())
}

fn hex(span: &SpanIds) -> (String, String) {
    let trace = span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    (trace, format!("{:016x}", span.span_id))
}

/// What chance alone may take from a CPU time that many requests used together, each less than from
/// one sample to the next: their samples are rare events, as many as a Poisson process has. Longer
/// ones have samples for certain.
fn chance_ns(cpu_ns: u64, requests: u64) -> u64 {
    if cpu_ns >= requests * INTERVAL_NS {
        return 0;
    }
    (SIGMAS * (cpu_ns as f64 * INTERVAL_NS as f64).sqrt()) as u64
}

fn part(ns: u64, fraction: f64) -> u64 {
    (ns as f64 * fraction) as u64
}
