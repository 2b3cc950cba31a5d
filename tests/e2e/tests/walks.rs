//! Walks reach their thread's first frame, in programs that wait in every way and in programs that
//! call a great deal; those that do not say why.

use anyhow::Result;
use e2e::{Session, on_both};

#[test]
fn waits_are_walked_to_the_root() -> Result<()> {
    check("waits", "8")
}

#[test]
fn calls_are_walked_to_the_root() -> Result<()> {
    check("calls", "8")
}

fn check(app: &str, seconds: &str) -> Result<()> {
    on_both(|version| {
        let Some(session) = Session::new(&format!("{app}-walks"), app, version)? else {
            return Ok(());
        };
        let run = session
            .args(["--seconds", seconds])
            .set("CORPROF_CPU_INTERVAL", "2ms")
            .set("CORPROF_WALL_INTERVAL", "2ms")
            .run()?;
        let mut checks = run.checks();
        checks.roots(0.99);
        checks.done()
    })
}
