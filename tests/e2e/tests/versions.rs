//! The other runtimes: .NET Core 3.1, whose profiling interface is older, and .NET 10 as a single
//! file, where no libcoreclr.so is in the process.

use anyhow::Result;
use e2e::Session;
use rig::{Net10, Net31};

#[test]
fn net_3_1_is_profiled() -> Result<()> {
    let Some(session) = Session::new("split", "split", Net31)? else { return Ok(()) };
    split(session)
}

#[test]
fn net_10_single_file_is_profiled() -> Result<()> {
    let Some(session) = Session::new("split", "split", Net10)? else { return Ok(()) };
    split(session)
}

fn split(session: Session) -> Result<()> {
    let run = session
        .args(["--share", "70", "--seconds", "4"])
        .set("CORPROF_CPU_INTERVAL", "5ms")
        .run()?;
    let mut checks = run.checks();
    let of = |method: &str| run.view.of(|row| row.has(method));
    let a = of("Corprof.TestApps.Split.MethodA(");
    let b = of("Corprof.TestApps.Split.MethodB(");
    let share = |one: u64, other: u64| one as f64 / (one + other).max(1) as f64;
    let truth = share(run.number("cpu_a_ns")?, run.number("cpu_b_ns")?);
    checks.share("MethodA", share(a.cpu_ns, b.cpu_ns), truth, a.count + b.count);
    let tid = u32::try_from(run.number("tid")?)?;
    let cpu_ns = run.view.thread(tid).cpu_ns;
    checks.within("CPU of the thread", cpu_ns, run.number("thread_cpu_ns")?, 0.02);
    checks.roots(0.99);
    checks.done()
}
