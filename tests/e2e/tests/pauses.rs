//! Pauses.
use anyhow::Result;
use e2e::Session;
use rig::Net8;

#[test]
fn a_first_look() -> Result<()> {
    let Some(session) = Session::new("gc-first", "gc", Net8)? else { return Ok(()) };
    let run = session.args(["--seconds", "4"]).run()?;
    println!("{}", run.outcome.truth()?);
    println!("{}", run.report.to_comments().join("\n"));
    println!("{}", run.view.top(40));
    for row in &run.view.rows {
        if row.values.gc_ns > 0 {
            println!("{:?} {}", row.frames, row.values.gc_ns);
        }
    }
    Ok(())
}
