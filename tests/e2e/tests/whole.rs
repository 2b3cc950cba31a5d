//! A profile has the CPU time of the whole process, whoever's it was: the sum is what the kernel
//! counted, threads that run no managed code are under roots of their own, and stacks are whole.
//!
//! The runs are short here. `cargo xtask whole` makes them long, and on one version more.

use anyhow::Result;
use e2e::{Checks, Form, Row, Run, Session, library, on_both};
use rig::{CLASSES, Net8, Net9, Net10, RuntimeVersion};

/// How far the sum may be off from the kernel's count for the process.
const PROCESS: f64 = 0.01;
/// The same for threads of a kind.
const KIND: f64 = 0.02;
/// How many of all walks must reach their thread's first frame.
const ROOTS: f64 = 0.995;
/// CPU time before the profiler was loaded and after the program's last word, in nanoseconds.
const AROUND_NS: u64 = 500_000_000;
/// The same before it was loaded and after it has ended.
const OUTSIDE_NS: u64 = 150_000_000;

/// What a thread of the runtime may do after the program has told of it, in nanoseconds: what the
/// telling itself calls is compiled.
const LAST_NS: u64 = 8_000_000;

const GC_THREADS: [&str; 2] = [".NET Server GC", ".NET BGC"];

#[test]
fn busy_is_all_there() -> Result<()> {
    let form = Form::asked()?;
    form.on_versions(|version| {
        let Some(session) = session("busy", version)? else { return Ok(()) };
        let run = session.args(["--busy"]).args(seconds(form, 3)).run()?;
        whole(&run)?.done()
    })
}

#[test]
fn server_gc_is_all_there() -> Result<()> {
    let form = Form::asked()?;
    form.on_versions(|version| {
        let Some(session) = session("gc", version)? else { return Ok(()) };
        let run = server(session, form.seconds(6)).set("DOTNET_GCHeapCount", "2").run()?;
        let mut checks = whole(&run)?;
        kind(&run, &mut checks, "Garbage Collector", &GC_THREADS)?;
        checks.done()
    })
}

/// Without a count of heaps .NET 9 and 10 adapt it to the work: threads come to use later.
#[test]
fn adapting_gc_is_all_there() -> Result<()> {
    let form = Form::asked()?;
    form.on(if form.is_long() { &[Net9, Net10] } else { &[Net9] }, |version| {
        let Some(session) = session("gc-adapting", version)? else { return Ok(()) };
        let session = server(session, form.seconds(5));
        let run = session.set("DOTNET_GCDynamicAdaptationMode", "1").run()?;
        let mut checks = whole(&run)?;
        kind(&run, &mut checks, "Garbage Collector", &GC_THREADS)?;
        checks.done()
    })
}

/// Only the thread for collections beside the program is a thread of its own here.
#[test]
fn concurrent_gc_is_all_there() -> Result<()> {
    let form = Form::asked()?;
    form.on_versions(|version| {
        let Some(session) = session("gc-concurrent", version)? else { return Ok(()) };
        let session = session.args(["--gc", "--threads", "2"]).args(seconds(form, 5));
        let run = session
            .set("CORPROF_CPU_INTERVAL", "2ms")
            .set("DOTNET_gcServer", "0")
            .set("DOTNET_gcConcurrent", "1")
            .run()?;
        let mut checks = whole(&run)?;
        kind(&run, &mut checks, "Garbage Collector", &[".NET BGC"])?;
        checks.done()
    })
}

#[test]
fn jit_is_all_there() -> Result<()> {
    let form = Form::asked()?;
    form.on_versions(|version| {
        let Some(session) = session("jit", version)? else { return Ok(()) };
        // Without the delay, the background compiles all the time instead of only after a tenth
        // of a second in which nothing new came.
        let session = session.set("DOTNET_TC_CallCountingDelayMs", "0");
        let run = session.args(["--jit"]).args(seconds(form, 5)).run()?;
        let mut checks = whole(&run)?;
        // Its thread ends when there is nothing to compile for some seconds, which there is here.
        kind(&run, &mut checks, "JIT", &[".NET Tiered Com"])?;
        checks.done()
    })
}

/// A large program that runs for a short time, and so is compiled for most of it.
#[test]
fn a_compiler_is_all_there() -> Result<()> {
    let form = Form::asked()?;
    let (classes, versions): (_, &[RuntimeVersion]) =
        if form.is_long() { (CLASSES, &[Net8, Net9, Net10]) } else { (50, &[Net8]) };
    form.on(versions, |version| {
        let Some(session) = Session::compiling("whole-roslyn", classes, version)? else {
            return Ok(());
        };
        let run = session.run()?;
        let mut checks = sums(&run)?;
        checks.roots(ROOTS);
        checks.done()
    })
}

#[test]
fn exceptions_are_all_there() -> Result<()> {
    let form = Form::asked()?;
    form.on_versions(|version| {
        let Some(session) = session("exceptions", version)? else { return Ok(()) };
        let run = session.args(["--exceptions"]).args(seconds(form, 5)).run()?;
        whole(&run)?.done()
    })
}

#[test]
fn a_web_service_is_all_there() -> Result<()> {
    let form = Form::asked()?;
    form.on(if form.is_long() { &[Net9, Net10] } else { &[Net9] }, |version| {
        let Some(session) = Session::new("whole-web", "web", version)? else { return Ok(()) };
        let load = form.seconds(4).to_string();
        let run = session.args(["--clients", "16", "--load", &load]).run()?;
        let mut checks = sums(&run)?;
        checks.roots(ROOTS);
        let answers = run.number("load_answers")?;
        checks.that(answers > 100, format!("{answers} answers"));
        checks.done()
    })
}

/// Managed code calls native code that calls managed code, on threads that the runtime has made
/// and on one that it has not.
#[test]
fn calls_in_and_out_are_all_there() -> Result<()> {
    let library = library("calls")?;
    let form = Form::asked()?;
    form.on_versions(|version| {
        let Some(session) = session("calls", version)? else { return Ok(()) };
        let run = session
            .args(["--calls"])
            .args([&library])
            .args(seconds(form, 4))
            .set("CORPROF_CPU_INTERVAL", "2ms")
            .run()?;
        let mut checks = whole(&run)?;
        calls_are_whole(&run, &mut checks)?;
        checks.done()
    })
}

/// The stacks of `NativeCalls`: what lies between the caller and the function that was called back
/// is there, in order, and each has its share.
fn calls_are_whole(run: &Run, checks: &mut Checks<'_>) -> Result<()> {
    /// The leaf first.
    const BACK: [&str; 5] =
        ["Work.Multiply(", "NativeCalls.Back(", "calls_inner", "calls_outer", "NativeCalls.Out("];
    const NATIVE: [&str; 4] = ["calls_compute", "calls_inner", "calls_outer", "NativeCalls.Out("];
    const FOREIGN_BACK: [&str; 4] =
        ["Work.Multiply(", "NativeCalls.Back(", "calls_inner", "calls_thread"];
    const FOREIGN_NATIVE: [&str; 3] = ["calls_compute", "calls_inner", "calls_thread"];
    let foreign = u32::try_from(run.number("native_tid")?)?;
    let mut parts = |what: &str, is_it: &dyn Fn(&Row) -> bool, back: &[&str], native: &[&str]| {
        let of = |leaf: &str| {
            run.view.of(|row| is_it(row) && row.frames.first().is_some_and(|f| f.contains(leaf)))
        };
        let in_order = |order: &[&str]| {
            let is_leaf = |frame: &String| order.first().is_some_and(|leaf| frame.contains(leaf));
            let has_leaf = |row: &Row| row.frames.first().is_some_and(is_leaf);
            run.view.of(|row| is_it(row) && has_leaf(row) && has_in_order(row, order))
        };
        let (backs, natives) = (of("Work.Multiply("), of("calls_compute"));
        checks.that(backs.count > 100, format!("{what}: {} samples called back", backs.count));
        checks.that(natives.count > 100, format!("{what}: {} native samples", natives.count));
        let whole = in_order(back).cpu_ns;
        checks.between(
            format!("{what}: called back, with all its callers"),
            whole,
            backs.cpu_ns * 995 / 1000,
            backs.cpu_ns,
        );
        let whole = in_order(native).cpu_ns;
        checks.between(
            format!("{what}: native, with all its callers"),
            whole,
            natives.cpu_ns * 995 / 1000,
            natives.cpu_ns,
        );
        (backs, natives)
    };
    let is_worker = |row: &Row| row.thread.starts_with("work-");
    let is_foreign = |row: &Row| row.tid == foreign;
    let (backs, natives) = parts("a thread of the program", &is_worker, &BACK, &NATIVE);
    parts("a thread of the library", &is_foreign, &FOREIGN_BACK, &FOREIGN_NATIVE);
    let share = |one: u64, other: u64| one as f64 / (one + other).max(1) as f64;
    let (back_ns, native_ns) = (run.number("called_back_ns")?, run.number("called_native_ns")?);
    let found = share(backs.cpu_ns, natives.cpu_ns);
    checks.share("called back", found, share(back_ns, native_ns), backs.count + natives.count);
    let cpu_ns = run.view.thread(foreign).cpu_ns;
    checks.within("CPU of the library's thread", cpu_ns, run.number("native_cpu_ns")?, KIND);
    Ok(())
}

/// Whether the row has frames of these names one after the other, stubs of the runtime between them
/// left out.
fn has_in_order(row: &Row, order: &[&str]) -> bool {
    let mut frames = row.frames.iter().filter(|frame| !frame.starts_with('['));
    order.iter().all(|name| frames.next().is_some_and(|frame| frame.contains(name)))
}

#[test]
fn native_threads_are_all_there() -> Result<()> {
    let library = library("burn")?;
    let form = Form::asked()?;
    form.on_versions(|version| {
        let Some(session) = session("native", version)? else { return Ok(()) };
        let run = session
            .args(seconds(form, 3))
            .args(["--native"])
            .args([&library])
            .args(["--short", "200"])
            .run()?;
        let mut checks = sums(&run)?;
        checks.roots(ROOTS);
        let tid = u32::try_from(run.number("native_tid")?)?;
        let thread = run.view.thread(tid);
        let expected = run.number("native_cpu_ns")?;
        checks.within("CPU of the native thread", thread.cpu_ns, expected, KIND);
        let named = run.view.of(|row| row.tid == tid && row.has("burn_thread"));
        let unsampled = run.view.of(|row| row.tid == tid && row.has("[unsampled]"));
        // All but what it used before it was found.
        checks.between("under its function", named.cpu_ns, expected * 75 / 100, expected);
        checks.between(
            "all of it",
            named.cpu_ns + unsampled.cpu_ns,
            expected * 98 / 100,
            expected * 102 / 100,
        );
        // Those that were over too soon.
        let nobody = run.view.of(|row| row.tid == 0).cpu_ns;
        let seen = run.view.of(|row| row.tid != tid && row.has("burn_thread")).cpu_ns;
        let short = run.number("short_cpu_ns")?;
        checks.between("CPU of short threads", nobody + seen, short * 95 / 100, short * 115 / 100);
        checks.done()
    })
}

#[test]
fn without_natives_there_are_managed_threads_only() -> Result<()> {
    let library = library("burn")?;
    on_both(|version| {
        let Some(session) = session("no-natives", version)? else { return Ok(()) };
        let run = session
            .args(["--seconds", "1", "--native"])
            .args([&library])
            .set("CORPROF_NATIVE_THREADS", "false")
            .run()?;
        let mut checks = run.checks();
        let tid = u32::try_from(run.number("native_tid")?)?;
        checks.that(run.view.thread(tid).cpu_ns == 0, "the native thread is in the profile");
        let total = run.view.total().cpu_ns;
        checks.between("CPU of the rest", total, 1, run.report.process_cpu_ns - 900_000_000);
        checks.done()
    })
}

fn session(test: &str, version: RuntimeVersion) -> Result<Option<Session>> {
    Session::new(&format!("whole-{test}"), "whole", version)
}

fn seconds(form: Form, short: u64) -> [String; 2] {
    ["--seconds".to_owned(), form.seconds(short).to_string()]
}

/// With a collector that has threads of its own.
fn server(session: Session, seconds: u64) -> Session {
    session
        .args(["--gc", "--threads", "3", "--seconds", &seconds.to_string()])
        .set("CORPROF_CPU_INTERVAL", "2ms")
        .set("DOTNET_gcServer", "1")
        // 32 MiB, in hex. Else .NET 8 makes it as large as it finds right for the machine, and a
        // slow one never allocates so much.
        .set("DOTNET_GCgen0size", "2000000")
}

/// What holds for each run of the program `whole` that starts no short threads.
fn whole(run: &Run) -> Result<Checks<'_>> {
    let mut checks = sums(run)?;
    let (begin, end) = (run.number("process_cpu_begin_ns")?, run.number("process_cpu_end_ns")?);
    // What the profile says of the process is what the process says of itself.
    checks.between(
        "CPU of the process, reported",
        run.report.process_cpu_ns,
        end - begin,
        end + AROUND_NS,
    );
    seen(run, &mut checks);
    checks.roots(ROOTS);
    Ok(checks)
}

/// The sum of the profile is the process's, as the kernel counted it, less the profiler's own.
fn sums(run: &Run) -> Result<Checks<'_>> {
    let mut checks = run.checks();
    let report = &run.report;
    let total_ns = run.view.total().cpu_ns;
    let expected = report.process_cpu_ns.saturating_sub(report.own_cpu_ns);
    checks.within("CPU of the process", total_ns, expected, PROCESS);
    // And as the kernel told its parent, from its first instruction, before the runtime loads the
    // profiler, to its last.
    let all_ns = u64::try_from(run.outcome.cpu.as_nanos())?;
    let slack_ns = (all_ns as f64 * PROCESS) as u64;
    checks.between(
        "CPU of the process and the profiler, by the parent's count",
        total_ns + report.own_cpu_ns,
        all_ns - slack_ns - OUTSIDE_NS,
        all_ns + slack_ns,
    );
    Ok(checks)
}

/// All but a hundredth is the time of threads that were seen: no short ones are started here, and
/// the sum is not made right by what is left over.
fn seen(run: &Run, checks: &mut Checks<'_>) {
    let expected = run.report.process_cpu_ns.saturating_sub(run.report.own_cpu_ns);
    let seen = run.view.of(|row| row.tid != 0).cpu_ns;
    checks.within("CPU of threads that were seen", seen, expected, PROCESS);
}

/// The rows under a root frame are the time of the threads of these names.
fn kind(run: &Run, checks: &mut Checks<'_>, root: &str, names: &[&str]) -> Result<()> {
    let mut expected = 0;
    for thread in run.threads()?.iter().filter(|thread| names.contains(&thread.name())) {
        expected += thread.number("cpu_ns")?;
    }
    let found = run.view.of(|row| row.frames.last().is_some_and(|frame| frame == root));
    checks.that(expected > 100_000_000, format!("{root}: only {expected} ns to be found"));
    let slack = (expected as f64 * KIND) as u64;
    checks.between(root, found.cpu_ns, expected - slack, expected + slack + LAST_NS);
    Ok(())
}
