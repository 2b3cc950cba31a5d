//! A profile has the CPU time of the whole process, whoever's it was: the sum is what the kernel
//! counted, and threads that run no managed code are under roots of their own.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::{Checks, Run, Session, on_both};
use model::EndReason;
use rig::RuntimeVersion;

/// How far the sum may be off from the kernel's count for the process.
const PROCESS: f64 = 0.01;
/// The same for threads of a kind.
const KIND: f64 = 0.02;
/// CPU time before the profiler was loaded and after the program's last word, in nanoseconds.
const AROUND_NS: u64 = 500_000_000;

/// What a thread of the runtime may do after the program has told of it, in nanoseconds: what the
/// telling itself calls is compiled.
const LAST_NS: u64 = 8_000_000;

#[test]
fn server_gc_is_all_there() -> Result<()> {
    on_both(|version| {
        let Some(session) = session("gc", version)? else { return Ok(()) };
        let run = session
            .args(["--gc", "--seconds", "6", "--threads", "3"])
            .set("CORPROF_CPU_INTERVAL", "2ms")
            .set("DOTNET_gcServer", "1")
            .set("DOTNET_GCHeapCount", "2")
            // 32 MiB, in hex. Else .NET 8 makes it as large as it finds right for the machine, and
            // a slow one never allocates so much.
            .set("DOTNET_GCgen0size", "2000000")
            .run()?;
        let mut checks = sums(&run)?;
        seen(&run, &mut checks);
        kind(&run, &mut checks, "Garbage Collector", &[".NET Server GC", ".NET BGC"])?;
        natives_reach_their_roots(&run, &mut checks)?;
        checks.done()
    })
}

#[test]
fn jit_is_all_there() -> Result<()> {
    on_both(|version| {
        let Some(session) = session("jit", version)? else { return Ok(()) };
        // Without the delay, the background compiles all the time instead of only after a tenth
        // of a second in which nothing new came.
        let session = session.set("DOTNET_TC_CallCountingDelayMs", "0");
        let run = session.args(["--jit", "--seconds", "5"]).run()?;
        let mut checks = sums(&run)?;
        seen(&run, &mut checks);
        // Its thread ends when there is nothing to compile for some seconds, which there is here.
        kind(&run, &mut checks, "JIT", &[".NET Tiered Com"])?;
        checks.done()
    })
}

#[test]
fn exceptions_are_all_there() -> Result<()> {
    on_both(|version| {
        let Some(session) = session("exceptions", version)? else { return Ok(()) };
        let run = session.args(["--exceptions", "--seconds", "5"]).run()?;
        let mut checks = sums(&run)?;
        seen(&run, &mut checks);
        checks.done()
    })
}

#[test]
fn native_threads_are_all_there() -> Result<()> {
    let library = library()?;
    on_both(|version| {
        let Some(session) = session("native", version)? else { return Ok(()) };
        let run = session
            .args(["--seconds", "3", "--native"])
            .args([&library])
            .args(["--short", "200"])
            .run()?;
        let mut checks = sums(&run)?;
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
        natives_reach_their_roots(&run, &mut checks)?;
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
    let library = library()?;
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

/// The sum of the profile is the process's, as the kernel counted it, less the profiler's own.
fn sums(run: &Run) -> Result<Checks<'_>> {
    let mut checks = run.checks();
    let report = &run.report;
    let expected = report.process_cpu_ns.saturating_sub(report.own_cpu_ns);
    checks.within("CPU of the process", run.view.total().cpu_ns, expected, PROCESS);
    // What the profile says of the process is what the process says of itself.
    let (begin, end) = (run.number("process_cpu_begin_ns")?, run.number("process_cpu_end_ns")?);
    checks.between(
        "CPU of the process, reported",
        report.process_cpu_ns,
        end - begin,
        end + AROUND_NS,
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

/// Nearly all samples of threads that run no managed code reach their threads' first frames.
fn natives_reach_their_roots(run: &Run, checks: &mut Checks<'_>) -> Result<()> {
    let mut natives = vec![u32::try_from(run.number("native_tid").unwrap_or(0))?];
    for thread in run.threads()?.iter().filter(|thread| thread.name().starts_with(".NET ")) {
        natives.push(thread.tid()?);
    }
    let is_cut = |name: &String| EndReason::ALL.iter().any(|end| end.frame() == name);
    let all = run.view.of(|row| natives.contains(&row.tid)).count;
    let cut = run.view.of(|row| natives.contains(&row.tid) && row.frames.iter().any(is_cut)).count;
    checks.that(all > 100, format!("only {all} samples of native threads"));
    checks.between("whole stacks of native threads", all - cut, all - all / 100, all);
    Ok(())
}

/// The native library, built.
fn library() -> Result<PathBuf> {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("native/burn.c");
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("libburn.so");
    let status = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-pthread", "-o"])
        .args([&out, &source])
        .status()
        .context("no C compiler")?;
    ensure!(status.success(), "{source:?} does not compile");
    Ok(out)
}
