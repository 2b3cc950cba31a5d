//! Source lines of managed code: a program spends known times on known lines, and `corprof top
//! --lines` must have those times on those lines, whatever the compiler of the moment made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::{Checks, Run, Session, built};
use rig::{Net8, Net9, Net10, RuntimeVersion};
use serde_json::Value;

const CLASS: &str = "Corprof.TestApps.Lines";
/// The source, whose comments say which line is which.
const SOURCE: &str = "../apps/lines/lines.cs";
/// The mapped line, as its directive says.
const MAPPED: &str = "Prices.razor:500";
/// What the runtime's own assembly is called; it has no PDB here.
const CORE: &str = "System.Private.CoreLib.dll";

/// How methods are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// Without optimisation, for ever.
    Zero,
    /// First so, then optimised, in the middle of a loop if need be: as by default.
    All,
    /// Optimised from the start.
    Optimised,
}

impl Tier {
    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Zero => &[("DOTNET_TC_CallCounting", "0"), ("DOTNET_TC_OnStackReplacement", "0")],
            Self::All => &[],
            Self::Optimised => &[("DOTNET_TieredCompilation", "0")],
        }
    }
}

#[test]
fn on_net8() -> Result<()> {
    on(Net8, "net8")
}

#[test]
fn on_net9() -> Result<()> {
    on(Net9, "net9")
}

#[test]
fn in_a_single_file() -> Result<()> {
    on(Net10, "net10")
}

/// The PDB is inside of the assembly.
#[test]
fn with_an_embedded_pdb() -> Result<()> {
    check("lines-embedded", "lines-embedded", Net9, Tier::All, "timer")
}

fn on(version: RuntimeVersion, name: &str) -> Result<()> {
    for (tier, sampler) in [
        (Tier::Zero, "timer"),
        (Tier::All, "timer"),
        (Tier::Optimised, "timer"),
        (Tier::All, "scan"),
    ] {
        check(&format!("lines-{name}-{tier:?}-{sampler}"), "lines", version, tier, sampler)?;
    }
    Ok(())
}

fn check(name: &str, app: &str, version: RuntimeVersion, tier: Tier, sampler: &str) -> Result<()> {
    let Some(mut session) = Session::new(name, app, version)? else { return Ok(()) };
    for (variable, value) in tier.variables() {
        session = session.set(variable, value);
    }
    let run = session
        .args(["--seconds", "4"])
        .set("CORPROF_CPU_INTERVAL", "5ms")
        .set("CORPROF_SAMPLER", sampler)
        .run()?;
    let mut checks = run.checks();
    let (with, said) = top(&run, &["--lines"])?;
    shares(&run, &with, tier, sampler, &mut checks)?;
    let (without, _) = top(&run, &[])?;
    same_functions(&with, &without, &mut checks);
    // Precompiled code of the framework has no PDB; who called it has lines.
    let core = with.iter().filter(|row| row.module == CORE);
    for row in core {
        checks.that(row.place().is_none(), format!("a line of {CORE}: {}", row.name));
    }
    let is_told = said.contains("there is no PDB of") && said.contains(CORE);
    checks.that(is_told, format!("that there is no PDB of {CORE} is not in: {said}"));
    checks.done()
}

/// Each line has the share of the time that the program spent on it.
fn shares(
    run: &Run,
    rows: &[Row],
    tier: Tier,
    sampler: &str,
    checks: &mut Checks<'_>,
) -> Result<()> {
    let (mut found, mut truths) = (BTreeMap::new(), BTreeMap::new());
    let place = |row: &Row, place: &str| {
        row.name.starts_with(CLASS) && row.place() == Some(place)
            || row.name.starts_with("lambda ") && row.place() == Some(place)
    };
    for (name, line, calls) in marks()? {
        let own = |row: &Row| if calls { row.total } else { row.own };
        let time: Time = rows.iter().filter(|row| place(row, &line)).map(own).sum();
        found.insert(name, time);
    }
    let own = |wanted: &dyn Fn(&Row) -> bool| -> Time {
        rows.iter().filter(|row| wanted(row)).map(|row| row.own).sum()
    };
    found.insert("mapped".to_owned(), own(&|row| place(row, MAPPED)));
    let hidden = format!("{CLASS}.Hidden(int)");
    found.insert("hidden".to_owned(), own(&|row| row.name == hidden));
    // Inlined code has the line of the call, and until then its own.
    let call = found.remove("inlined-call").context("no mark inlined-call")?;
    let body = found.remove("inlined-body").context("no mark inlined-body")?;
    match tier {
        Tier::Zero => checks.within("the method itself", body.ns, body.ns + call.ns, 0.02),
        Tier::Optimised => checks.within("the call", call.ns, body.ns + call.ns, 0.02),
        Tier::All => {}
    }
    found.insert("inlined".to_owned(), [call, body].into_iter().sum());
    let line = found.insert("fail".to_owned(), failing(run, checks)).unwrap_or_default();
    // It has the throwing of the exception besides, which is nobody's in the truth.
    let fail = found.get("fail").copied().unwrap_or_default();
    checks.that(line.ns >= fail.ns, format!("{} of {} ns on its line", line.ns, fail.ns));
    for name in found.keys() {
        truths.insert(name.clone(), run.number(&format!("{name}_ns"))?);
    }
    let all: Time = found.values().copied().sum();
    let truth: u64 = truths.values().sum();
    checks.that(all.samples > 300, format!("only {} samples", all.samples));
    for (name, truth_ns) in truths {
        let time = found.get(&name).copied().unwrap_or_default();
        let (share, expected) = (ratio(time.ns, all.ns), ratio(truth_ns, truth));
        let name = format!("line {name}");
        if sampler == "scan" {
            checks.share_of_uneven(name, share, expected, all.samples);
        } else {
            checks.share(name, share, expected, all.samples);
        }
    }
    Ok(())
}

/// What a method did that never returned. All of it must have been called at one place: a return
/// address may be another line's, or even another method's.
fn failing(run: &Run, checks: &mut Checks<'_>) -> Time {
    let [spin, fail, caller] =
        ["Spin(int)", "Fail(int)", "Handlers(int)"].map(|name| format!("{CLASS}.{name}"));
    let mut places = BTreeSet::new();
    for (_, profile) in &run.profiles {
        for sample in &profile.samples {
            let frames: Vec<_> = profile.stack(sample.stack).collect();
            let name = |frame| profile.function_of(frame).map(|f| profile.text(f.name));
            let names: Vec<_> = frames.iter().map(|frame| name(*frame)).collect();
            let stack = [&spin, &fail, &caller].map(|name| Some(name.as_str()));
            if let Some(at) = names.windows(3).position(|names| names == stack) {
                places.extend(frames.get(at + 2).map(|frame| profile.frames[frame.get()].address));
            }
        }
    }
    checks.that(places.len() == 1, format!("{fail} is called from {places:x?}"));
    let called = run.view.of(|row| row.has(&spin) && row.has(&fail));
    Time { samples: called.count, ns: called.cpu_ns }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Lines only divide functions: each has the same time of its own as without them.
fn same_functions(with: &[Row], without: &[Row], checks: &mut Checks<'_>) {
    let by_function = |rows: &[Row]| {
        let mut sums: BTreeMap<(String, String), Time> = BTreeMap::new();
        for row in rows {
            let sum = sums.entry((row.function().to_owned(), row.module.clone())).or_default();
            *sum = [*sum, row.own].into_iter().sum();
        }
        sums
    };
    let (one, other) = (by_function(with), by_function(without));
    checks.that(one == other, format!("by lines {one:?}\nby functions {other:?}"));
    checks.that(with.len() > without.len(), "no function has two lines");
}

/// The marked lines of the source: name, `file:line`, and whether what it calls counts.
fn marks() -> Result<Vec<(String, String, bool)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SOURCE);
    let text = fs::read_to_string(&path).with_context(|| format!("no {path:?}"))?;
    let mut marks = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (comment, calls) in [("// line: ", false), ("// call: ", true)] {
            if let Some((_, name)) = line.split_once(comment) {
                marks.push((name.trim().to_owned(), format!("lines.cs:{number}"), calls));
            }
        }
    }
    ensure!(marks.len() > 10, "only {} marks in {path:?}", marks.len());
    Ok(marks)
}

/// A row of `corprof top`.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    module: String,
    own: Time,
    total: Time,
}

/// Samples and CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Time {
    samples: u64,
    ns: u64,
}

impl std::iter::Sum for Time {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::default(), |sum, time| Self {
            samples: sum.samples + time.samples,
            ns: sum.ns + time.ns,
        })
    }
}

impl Row {
    /// Its `file:line`, if it has one.
    fn place(&self) -> Option<&str> {
        let (_, last) = self.name.rsplit_once(' ')?;
        let (_, line) = last.rsplit_once(':')?;
        line.bytes().all(|byte| byte.is_ascii_digit()).then_some(last)
    }

    fn function(&self) -> &str {
        let length = self.place().map_or(0, |place| place.len() + 1);
        &self.name[..self.name.len() - length]
    }
}

/// All rows of `corprof top`, and what it said of them.
fn top(run: &Run, options: &[&str]) -> Result<(Vec<Row>, String)> {
    let output = Command::new(&built()?.corprof)
        .args(["top", "--json", "--limit", "100000"])
        .args(options)
        .arg(&run.folder)
        .output()
        .context("corprof")?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "corprof top: {errors}");
    let json: Value = serde_json::from_slice(&output.stdout)?;
    let number = |value: &Value| value.as_u64().context("no number");
    let time = |values: &Value| -> Result<Time> {
        Ok(Time { samples: number(&values["samples"])?, ns: number(&values["cpu_ns"])? })
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |row: &Value| -> Result<Row> {
        let (own, total) = (time(&row["self"])?, time(&row["total"])?);
        Ok(Row { name: text(&row["name"]), module: text(&row["module"]), own, total })
    };
    let rows = json["rows"].as_array().context("no rows")?.iter().map(row);
    Ok((rows.collect::<Result<_>>()?, errors))
}
