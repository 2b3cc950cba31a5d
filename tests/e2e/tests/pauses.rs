//! Garbage collections and their pauses: as many and as long as the runtime itself says, and in the
//! wall time of the threads that they stopped, and of no others.

use anyhow::Result;
use e2e::{Checks, Competitors, Row, Run, Session, Truth};
use model::ThreadState::{GcPause, Lock, Sleeping};
use rig::{Net8, Net9, Net10, Net31, RuntimeVersion};

/// How far sums of pauses may be off from the runtime's own.
const FRACTION: f64 = 0.02;
/// What may lie between the two borders of a pause and the runtime's, in nanoseconds.
const BORDER_NS: u64 = 500_000;
/// The same at its end, where the collector's threads may lose their processors; and at most so
/// much of all.
const END_NS: u64 = 30_000_000;
const ENDS: f64 = 0.25;
/// The part of a thread's life in which it may have lost its processor without that being counted:
/// to a hypervisor, or to interrupts.
const ROBBED: f64 = 0.05;
/// How far the kernel's count of delays may be off, beside its count of the thread's life.
const FRACTION_OF_DELAYS: f64 = 0.1;
/// What a thread may wait for a processor before the first of them runs again after a pause, in
/// nanoseconds; and at most so much of all.
const FIRST_NS: u64 = 20_000_000;
const FIRSTS: f64 = 0.2;
const ROOT: &str = "Garbage Collector";

/// How the collector works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Workstation,
    Concurrent,
    Server,
}

impl Mode {
    fn set(self, session: Session) -> Session {
        let switch = |on: bool| if on { "1" } else { "0" };
        session
            .set("DOTNET_gcServer", switch(self == Self::Server))
            .set("DOTNET_gcConcurrent", switch(self == Self::Concurrent))
            .set("DOTNET_GCHeapCount", "2")
            // 8 MiB, in hex: many collections.
            .set("DOTNET_GCgen0size", "800000")
            .set("DOTNET_GCgen0MaxBudget", "800000")
    }
}

fn run(test: &str, version: RuntimeVersion, mode: Mode, args: &[&str]) -> Result<Option<Run>> {
    let Some(session) = Session::new(test, "gc", version)? else { return Ok(None) };
    let session = mode.set(session).args(["--seconds", "3"]).args(args);
    Ok(Some(session.run()?))
}

/// Does it for each of these, and tells all that failed.
fn on_all(versions: &[RuntimeVersion], test: impl Fn(RuntimeVersion) -> Result<()>) -> Result<()> {
    let failed = |version: &RuntimeVersion| {
        test(*version).err().map(|error| format!("on {version}: {error:#}"))
    };
    let errors: Vec<String> = versions.iter().filter_map(failed).collect();
    anyhow::ensure!(errors.is_empty(), "{}", errors.join("\n\n"));
    Ok(())
}

#[test]
fn blocking_collections_and_their_pauses() -> Result<()> {
    on_all(&[Net8, Net9, Net10], |version| {
        let Some(run) = run("gc-blocking", version, Mode::Workstation, &["--live", "20"])? else {
            return Ok(());
        };
        let mut checks = run.checks();
        counts(&run, &mut checks)?;
        checks.that(run.report.gc_background == 0, "one went on in the background");
        pauses(&run, &mut checks)?;
        threads(&run, &mut checks)?;
        checks.done()
    })
}

#[test]
fn induced_collections_and_their_pauses() -> Result<()> {
    on_all(&[Net8, Net9, Net10], |version| {
        let args = ["--live", "1", "--threads", "0", "--induced", "20"];
        let Some(run) = run("induced", version, Mode::Workstation, &args)? else {
            return Ok(());
        };
        let mut checks = run.checks();
        counts(&run, &mut checks)?;
        pauses(&run, &mut checks)?;
        threads(&run, &mut checks)?;
        let all = run.view.of(|row| row.has(ROOT)).gc_ns;
        let induced = run.view.of(|row| row.has("induced") && row.has(ROOT)).gc_ns;
        checks.that(induced == all && all > 0, format!("{induced} of {all} ns were induced"));
        checks.done()
    })
}

/// What is concurrent without the profiler is so with it.
#[test]
fn collections_in_the_background_stay_there() -> Result<()> {
    on_all(&[Net8, Net9, Net10], |version| {
        let args = ["--live", "40"];
        let Some(run) = run("gc-concurrent", version, Mode::Concurrent, &args)? else {
            return Ok(());
        };
        let mut checks = run.checks();
        counts(&run, &mut checks)?;
        let (told, found) = (run.number("backgrounds")?, run.report.gc_background);
        // The program may have missed some, and has those that were to be in the background and
        // were not, since the runtime could not prepare them. Its last one blocks.
        let [.., gen2] = run.report.gc_collections;
        let low = told.saturating_sub(1).max(1);
        checks.between("collections in the background", found, low, gen2.saturating_sub(1));
        let background = run.view.of(|row| row.has("generation 2, background")).gc_ns;
        checks.that(background > 0, "no pauses of collections in the background");
        pauses(&run, &mut checks)?;
        threads(&run, &mut checks)?;
        checks.done()
    })
}

#[test]
fn server_collections_and_their_pauses() -> Result<()> {
    on_all(&[Net8, Net9], |version| {
        let args = ["--live", "20", "--threads", "2"];
        let Some(run) = run("gc-server", version, Mode::Server, &args)? else { return Ok(()) };
        let mut checks = run.checks();
        checks.that(run.number("server")? == 1, "it is no server collector");
        counts(&run, &mut checks)?;
        pauses(&run, &mut checks)?;
        threads(&run, &mut checks)?;
        checks.done()
    })
}

#[test]
fn so_it_is_where_processors_are_contended() -> Result<()> {
    let processors = std::thread::available_parallelism()?.get();
    on_all(&[Net8], |version| {
        let Some(session) = Session::new("gc-contended", "gc", version)? else { return Ok(()) };
        let competitors = Competitors::start(2 * processors)?;
        let session = Mode::Concurrent.set(session);
        let run = session.args(["--seconds", "4", "--live", "20"]).run()?;
        drop(competitors);
        let mut checks = run.checks();
        counts(&run, &mut checks)?;
        pauses(&run, &mut checks)?;
        threads(&run, &mut checks)?;
        checks.done()
    })
}

/// It tells neither its pauses nor whether collections go on in the background.
#[test]
fn net_3_1_counts_its_collections() -> Result<()> {
    let Some(run) = run("gc-old", Net31, Mode::Workstation, &["--live", "20"])? else {
        return Ok(());
    };
    let mut checks = run.checks();
    counts(&run, &mut checks)?;
    let paused = run.view.total().gc_ns;
    checks.that(paused == run.report.gc_pause_ns + run.report.other_pause_ns, "sums differ");
    computer(&run, &mut checks, &run.thread("computer")?)?;
    checks.done()
}

/// A thread that only computes was held up for as long as it neither ran nor was ready to, by the
/// kernel's counts.
fn computer(run: &Run, checks: &mut Checks<'_>, truth: &Truth) -> Result<()> {
    let tid = truth.tid()?;
    let is_in = |row: &Row| row.tid == tid && row.has("ComputeHere(") && row.is_in(&[GcPause]);
    let held_up = run.view.of(is_in).wall_ns;
    let [wall, cpu, delay] =
        ["compute_wall_ns", "compute_cpu_ns", "compute_delay_ns"].map(|name| truth.number(name));
    let (wall, delay) = (wall?, delay?);
    let expected = wall.saturating_sub(cpu? + delay);
    let slack = (wall as f64 * ROBBED + delay as f64 * FRACTION_OF_DELAYS) as u64;
    let low = expected.saturating_sub(slack);
    checks.that(held_up >= low, format!("held up for {held_up} ns, and {expected} ns are right"));
    let first = (run.report.gc_pauses * FIRST_NS).min((expected as f64 * FIRSTS) as u64);
    let slack = slack + first;
    let low = expected.saturating_sub(slack);
    checks.between("pauses of the computer", held_up, low, expected + slack);
    Ok(())
}

/// As many collections of each generation as the runtime counted. Of those before one in the
/// background it does not tell the generation.
fn counts(run: &Run, checks: &mut Checks<'_>) -> Result<()> {
    let [gen0, gen1, gen2] = run.report.gc_collections;
    let unknown = run.report.gc_before_background;
    let (told0, told1) = (run.number("gen0")?, run.number("gen1")?);
    checks.that(gen2 == run.number("gen2")?, format!("generation 2: {gen2}, {:?}", run.report));
    checks.that(
        gen0 + gen1 + unknown == told0 + told1 && gen0 <= told0 && gen1 <= told1,
        format!("generations 0 and 1: {gen0}, {gen1} and {unknown}; {told0} and {told1} is right"),
    );
    checks.that(told0 + told1 + gen2 >= 5, "hardly any collections");
    checks.that(
        unknown <= run.report.gc_background,
        format!("{unknown} before {} in the background", run.report.gc_background),
    );
    Ok(())
}

/// Pauses make what the runtime says.
fn pauses(run: &Run, checks: &mut Checks<'_>) -> Result<()> {
    let report = &run.report;
    let gc = run.view.of(|row| row.has(ROOT)).gc_ns;
    checks.that(
        gc == report.gc_pause_ns,
        format!("{gc} ns in the samples, {} ns reported", report.gc_pause_ns),
    );
    let others = run.view.total().gc_ns - gc;
    checks.that(
        others == report.other_pause_ns,
        format!("{others} ns of other stops, {} ns reported", report.other_pause_ns),
    );
    let expected = run.number("pause_ns")?;
    let slack = (expected as f64 * FRACTION) as u64 + report.gc_pauses * BORDER_NS;
    let low = expected.saturating_sub(slack);
    checks.that(gc >= low, format!("pauses of {gc} ns, and {expected} ns are right"));
    let end = (report.gc_pauses * END_NS).min((expected as f64 * ENDS) as u64);
    let slack = slack + end;
    let low = expected.saturating_sub(slack);
    checks.between("pauses of all collections", gc, low, expected + slack);
    checks.that(
        report.gc_pause_max_ns * report.gc_pauses >= gc && report.gc_pause_max_ns <= gc,
        format!("the longest of {} was {} ns", report.gc_pauses, report.gc_pause_max_ns),
    );
    Ok(())
}

/// Who computes is stopped in each pause; who sleeps is in none; and all of their time is there.
fn threads(run: &Run, checks: &mut Checks<'_>) -> Result<()> {
    for truth in run.threads()? {
        let (tid, name) = (truth.tid()?, truth.name());
        let of = |states: &[model::ThreadState]| {
            run.view.of(|row| row.tid == tid && row.is_in(states)).wall_ns
        };
        let (held_up, wall) = (of(&[GcPause]), truth.number("wall_ns")?);
        // A thread's own measurement begins after its start, which may take a while.
        let all = run.view.thread(tid).wall_ns;
        checks.between(format!("life of {name}"), all, wall * 98 / 100, wall * 106 / 100);
        // Else the pauses are a smaller part of its life than what the kernel doesn't count.
        if name == "computer" && truth.number("pause_ns")? > wall / 10 {
            computer(run, checks, &truth)?;
        }
        // It waits for the collector's own thread, and that the runtime doesn't tell.
        if name.starts_with("allocator") && run.number("server")? == 1 {
            let (lock, paused) = (of(&[Lock]), truth.number("pause_ns")?);
            checks.that(
                held_up > paused / 3 && lock < held_up,
                format!("{name}: {held_up} ns held up, {lock} in locks, {paused} of pauses"),
            );
        }
        if name == "sleeper" {
            // Its sleep may end in the middle of a pause, whose rest then holds it up.
            let sleep = truth.number("sleep_ns")?;
            let (low, high) = (sleep * 98 / 100, wall * 102 / 100);
            checks.between("sleep of the sleeper", of(&[Sleeping]), low, high);
            checks.that(
                held_up <= wall.saturating_sub(sleep),
                format!("the sleeper was held up: {held_up} ns"),
            );
        }
    }
    Ok(())
}
