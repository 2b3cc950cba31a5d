//! On a machine that is busy with other threads, delays go to the threads and methods that were
//! late, and not to the last work that was seen: pool threads spin for work most of the time.

use anyhow::Result;
use e2e::{Checks, Run, Session, on_both};
use rig::Net9;

/// A thread's elapsed time, whatever it did.
const FRACTION: f64 = 0.02;

#[test]
fn delays_of_idle_pool_threads_are_not_their_last_works() -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new("pool", "pool", version)? else { return Ok(()) };
        let run = session.args(["--seconds", "8", "--hogs", "4"]).run()?;
        let mut checks = run.checks();
        hogs(&run, &mut checks)?;
        // The work takes a tenth of a second of the program's eight, and the pool's threads are
        // there all the time, spinning or late. Before delays were told apart, the work had nearly
        // all of their lives; how little it should have can't be told from samples at ticks.
        let pool = run.view.of(|row| row.thread.starts_with(".NET TP Worker")).wall_ns;
        let burn = run.view.of(|row| row.has("Pool.Burn("));
        checks.between("wall of the work", burn.wall_ns, burn.cpu_ns, pool * 2 / 5);
        checks.done()
    })
}

/// Who wakes takes the processor from who computes: its turns are as short as those of one that
/// spins, and it has not spun.
#[test]
fn work_among_threads_that_wake_all_the_time_has_its_delays() -> Result<()> {
    let Some(session) = Session::new("pool-wakers", "pool", Net9)? else { return Ok(()) };
    let run = session.args(["--seconds", "8", "--hogs", "4", "--wakers", "3"]).run()?;
    let mut checks = run.checks();
    hogs(&run, &mut checks)?;
    checks.done()
}

/// Threads that compute from beginning to end have all of their lives in that.
fn hogs(run: &Run, checks: &mut Checks) -> Result<()> {
    let threads = run.threads()?;
    for hog in threads.iter().filter(|thread| thread.name().starts_with("hog-")) {
        let name = hog.name();
        let wall = run.view.of(|row| row.tid == hog.tid().unwrap_or(0) && row.has("Pool.Hog("));
        checks.within(format!("wall of {name}"), wall.wall_ns, hog.number("wall_ns")?, FRACTION);
    }
    Ok(())
}
