//! The pages of `corprof flamegraph`, `corprof view` and `corprof serve` in a real browser: what
//! they show is what the files say, they do what one asks of them, and stay usable when a profile
//! is large.

#[path = "../../../crates/cli/tests/support/http.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "the client of the command line's tests")]
mod http;
#[path = "../../../crates/cli/tests/support/made.rs"]
mod made;
#[path = "flamegraph/server.rs"]
mod server;
#[path = "flamegraph/viewer.rs"]
mod viewer;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::{Checks, Form, Run, Session, built};
use made::{made, made_with_moments};
use rig::{Browser, Net9, Rig};
use serde_json::Value;

/// Rows of functions in the page, at most.
const ROWS: usize = 100;
/// The work of the service's requests.
const PIECE: &str = "Corprof.TestApps.Book.Piece(";
/// What is searched for; in small letters, as the search takes no notice of them.
const WORD: &str = "corprof.testapps.book";
/// Milliseconds that an answer of a large page may take.
const ANSWER_MS: f64 = 100.0;
/// And how long where other programs are at work, or the machine is slower; the long form allows no
/// more than the other.
const ANSWER_MS_HERE: f64 = 500.0;

/// Microseconds that moments of one thread may overlap: a native thread that comes to managed code
/// is another for the agent from then on, and the two know of their ends apart.
const MEETING_US: u32 = 10_000;

/// Nanoseconds of functions: their own and all, by name. Equal names of several modules in order.
type Rows = BTreeMap<String, Vec<(u64, u64)>>;

#[test]
fn the_page_shows_what_the_files_say() -> Result<()> {
    let Some(browser) = browser("flamegraph")? else { return Ok(()) };
    let Some(session) = Session::new("flamegraph", "requests", Net9)? else { return Ok(()) };
    let log = session.folder.with_extension("log");
    let run = session
        .with_spans()?
        .set("CORPROF_TIMELINE", "true")
        .args(["--load", "8", "--clients", "3", "--log"])
        .args([&log])
        .run()?;
    let mut checks = run.checks();
    one_thing_at_a_time(&mut checks, &run.folder)?;
    let page = page_of(&run.folder, &["--value", "cpu"])?;
    let all = top(&run.folder, &[])?;
    let endpoint = endpoint(&all)?;
    let piece = run.view.rows.iter().flat_map(|row| &row.frames).find(|n| n.starts_with(PIECE));
    let piece = piece.context("no request did its work")?;
    let pictures = pictures("flamegraph")?;
    let script = script("flamegraph.mjs");
    let mut command = browser.script(&script);
    command.args([&page, &pictures]).args([&endpoint, piece, WORD]);
    let seen = answer(command)?;

    checks.that(seen["complaints"] == serde_json::json!([]), &seen["complaints"]);
    checks.that(seen["dark"]["complaints"] == serde_json::json!([]), &seen["dark"]);
    checks.that(seen["dark"]["back"] == "rgb(22, 24, 28)", &seen["dark"]);
    same(&mut checks, "cpu", &seen["full"], &all, "cpu_ns")?;
    same(&mut checks, "wall", &seen["wall"], &all, "wall_ns")?;
    let of_endpoint = top(&run.folder, &["--endpoint", &endpoint])?;
    same(&mut checks, "endpoint", &seen["endpoint"], &of_endpoint, "cpu_ns")?;
    let has_beginning = |part: &str| rows(&seen[part]["rows"]).contains_key("start_thread");
    checks.that(has_beginning("full") && !has_beginning("folded"), "folding folds nothing");
    checks.that(seen["folded"]["whole"] == seen["full"]["whole"], "folding loses CPU time");
    searched(&mut checks, &run, &seen);
    moved(&mut checks, &seen, piece, &all)?;
    viewer::check(&mut checks, &browser, &run, (&endpoint, piece, &all))?;
    checks.done()
}

/// No two moments of a thread overlap, and those of all are what the files' samples have: all but
/// what was cut of microseconds.
fn one_thing_at_a_time(checks: &mut Checks<'_>, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let profile = profile::read::decode(&fs::read(entry?.path())?)?.profile;
        let mut ends = HashMap::new();
        let mut all_us = 0;
        for moment in &profile.moments {
            all_us += u64::from(moment.duration_us);
            // What nobody knows of may be of several.
            let Some(thread) = profile.samples[moment.sample as usize].thread else { continue };
            let end_us = ends.entry(thread).or_insert(0);
            let is_after = moment.begin_us.saturating_add(MEETING_US) >= *end_us;
            checks.that(is_after, format!("{moment:?} of {thread:?} overlaps {end_us}"));
            *end_us = moment.end_us().max(*end_us);
        }
        let length_ns = |values: profile::Values| values.wall_ns.max(values.cpu_ns);
        let ns: u64 = profile.samples.iter().map(|sample| length_ns(sample.values)).sum();
        let is_all = all_us <= ns / 1_000 && all_us >= ns / 1_000 * 98 / 100;
        checks.that(is_all, format!("moments of {all_us} us, samples of {ns} ns"));
    }
    Ok(())
}

/// The search finds what the profile has.
fn searched(checks: &mut Checks<'_>, run: &Run, seen: &Value) {
    let has = |frames: &[String]| frames.iter().any(|name| name.to_lowercase().contains(WORD));
    let found = run.view.of(|row| has(&row.frames)).cpu_ns;
    let told = seen["matched"].as_f64().unwrap_or_default() as u64;
    checks.that(told == found && found > 0, format!("{told} ns found and not {found}"));
    let text = seen["matchedText"].as_str().unwrap_or_default();
    checks.that(text.starts_with("found in "), text);
    let names = rows(&seen["matchedRows"]);
    let all = names.keys().all(|name| name.to_lowercase().contains(WORD));
    checks.that(all && !names.is_empty(), "the table has others than those that are found");
    checks.that(seen["afterSearch"].as_u64() > Some(names.len() as u64), "escape ends no search");
}

/// Zooming, keys, callers and callees.
fn moved(checks: &mut Checks<'_>, seen: &Value, piece: &str, all: &Value) -> Result<()> {
    let text = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
    checks.that(text("tip").starts_with(piece) && text("tip").contains("self"), text("tip"));
    checks.that(text("zoomed").trim().ends_with(piece), text("zoomed"));
    checks.that(text("reset").trim() == "all", text("reset"));
    checks.that(text("byKeys").starts_with("all ›"), text("byKeys"));
    checks.that(text("told").contains("total"), text("told"));
    checks.that(text("byEscape").trim() == "all", text("byEscape"));
    checks.that(text("chosen") == piece, text("chosen"));
    let expected = told(all, "cpu_ns")?;
    let expected = expected.get(piece).context("not in the table")?[0].1;
    let sides = &seen["sandwich"];
    let both = [&sides[0], &sides[1]].map(|side| side.as_f64().unwrap_or_default() as u64);
    checks.that(both == [expected; 2], format!("callers and callees {both:?}, not {expected}"));
    checks.that(seen["backAtGraph"] == true, "escape does not lead back");
    checks.that(seen["printed"].as_u64() > Some(10_000), "nothing is printed");
    let tops = ["graph", "functions"].map(|id| seen["paper"][id].as_f64().unwrap_or_default());
    checks.that(tops[0] < tops[1], format!("on paper the graph is below the table: {tops:?}"));
    Ok(())
}

/// The page's table against the command line's.
fn same(checks: &mut Checks<'_>, what: &str, page: &Value, top: &Value, value: &str) -> Result<()> {
    let (shown, expected) = (rows(&page["rows"]), told(top, value)?);
    let count = |rows: &Rows| rows.values().map(Vec::len).sum::<usize>();
    let wanted = count(&expected).min(ROWS);
    checks.that(count(&shown) == wanted, format!("{what}: {} rows, not {wanted}", count(&shown)));
    for (name, values) in &shown {
        let mut ours = expected.get(name).cloned().unwrap_or_default();
        ours.retain(|ours| values.contains(ours));
        checks.that(ours.len() >= values.len(), format!("{what} of {name}: {values:?}"));
    }
    let (whole, total) = (page["whole"].as_f64().unwrap_or(-1.0), top["total"][value].as_f64());
    checks.that(Some(whole) == total, format!("{what}: all is {whole}, not {total:?}"));
    Ok(())
}

/// The rows of the page.
fn rows(rows: &Value) -> Rows {
    let mut result = Rows::new();
    for row in rows.as_array().into_iter().flatten() {
        let number = |name: &str| row[name].as_f64().unwrap_or(-1.0) as u64;
        let name = row["name"].as_str().unwrap_or_default().to_owned();
        result.entry(name).or_default().push((number("self"), number("total")));
    }
    result
}

/// The rows of `corprof top` that have that value.
fn told(top: &Value, value: &str) -> Result<Rows> {
    let mut result = Rows::new();
    for row in top["rows"].as_array().context("no rows")? {
        let number = |part: &str| row[part][value].as_u64().unwrap_or(u64::MAX);
        let values = (number("self"), number("total"));
        if values != (0, 0) {
            let name = row["name"].as_str().unwrap_or_default().to_owned();
            result.entry(name).or_default().push(values);
        }
    }
    Ok(result)
}

/// The endpoint with the most CPU time.
fn endpoint(top: &Value) -> Result<String> {
    let names = top["endpoints"].as_array().context("no endpoints")?;
    let mut names = names.iter().filter_map(|endpoint| endpoint["name"].as_str());
    let name = names.find(|name| !name.starts_with('[')).context("no endpoint")?;
    Ok(name.to_owned())
}

/// Each thing that one does in a page of 50,000 stacks is answered at once.
#[test]
fn a_large_page_stays_usable() -> Result<()> {
    let Some(browser) = browser("usable")? else { return Ok(()) };
    let folder = pictures("usable")?;
    let profile = folder.join("made.pb.gz");
    fs::write(&profile, profile::pprof::write(&made(1, 50_000), Vec::new())?)?;
    let page = page_of(&profile, &[])?;
    let script = script("usable.mjs");
    let mut command = browser.script(&script);
    command.arg(&page).arg("7");
    let seen = answer(command)?;
    println!("a page of 50,000 stacks opens in {} ms", seen["opened"]);
    at_once(&seen)
}

/// The same of `corprof view` and many samples with their times: a million, and in the long form
/// ten.
#[test]
fn a_viewer_of_many_samples_stays_usable() -> Result<()> {
    let Some(browser) = browser("view-usable")? else { return Ok(()) };
    let folder = pictures("view-usable")?;
    let profile = folder.join("made.pb.gz");
    let moments = if Form::asked()?.is_long() { 10_000_000 } else { 1_000_000 };
    let made = made_with_moments(1, 50_000, moments);
    fs::write(&profile, profile::pprof::write(&made, Vec::new())?)?;
    drop(made);
    let viewer = viewer::Viewer::start(&profile)?;
    let script = script("view-usable.mjs");
    let mut command = browser.script(&script);
    command.arg(&viewer.link).arg("3");
    let seen = answer(command)?;
    println!("{} samples with their times open in {} ms", seen["moments"], seen["opened"]);
    at_once(&seen)
}

/// Nothing takes longer than an answer may; another program at work makes single answers slower, so
/// the fastest of several counts.
fn at_once(seen: &Value) -> Result<()> {
    ensure!(seen["complaints"] == serde_json::json!([]), "{}", seen["complaints"]);
    let limit_ms = if Form::asked()?.is_long() { ANSWER_MS } else { ANSWER_MS_HERE };
    let mut slow = Vec::new();
    for (action, times) in seen["times"].as_object().context("no times")? {
        let mut times: Vec<f64> =
            times.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        times.sort_by(f64::total_cmp);
        let (best, middle) = (times.first().context("no time")?, times[times.len() / 2]);
        println!("{action}: {best:.0} ms at best, {middle:.0} ms mostly");
        if *best > limit_ms {
            slow.push(format!("{action} takes {best:.0} ms"));
        }
    }
    ensure!(slow.is_empty(), "{}", slow.join("; "));
    Ok(())
}

/// A browser; `None`, and said loudly, if there can be none.
fn browser(test: &str) -> Result<Option<Browser>> {
    let rig = Rig::ensure()?;
    rig.or_skip(test, rig.browser())
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../browser").join(name)
}

/// An empty folder beside cargo's results, for pictures.
fn pictures(name: &str) -> Result<PathBuf> {
    let folder = built()?.corprof.with_file_name("pictures").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn page_of(profiles: &Path, flags: &[&str]) -> Result<PathBuf> {
    let page = profiles.with_extension("html");
    let mut command = Command::new(&built()?.corprof);
    command.arg("flamegraph").arg(profiles).arg("-o").arg(&page).args(flags);
    output(command)?;
    Ok(page)
}

fn top(folder: &Path, flags: &[&str]) -> Result<Value> {
    let mut command = Command::new(&built()?.corprof);
    command.arg("top").arg(folder).args(["--all", "--json", "--limit", "1000000"]).args(flags);
    answer(command)
}

fn answer(command: Command) -> Result<Value> {
    let output = output(command)?;
    serde_json::from_str(&output).with_context(|| output)
}

fn output(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}
