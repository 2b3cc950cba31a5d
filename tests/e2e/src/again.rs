//! Measuring again what a busy machine has spoilt.

use anyhow::Result;

use crate::checks::Checks;
use crate::run::Run;

/// How often something is measured.
const TRIES: u32 = 3;
/// Of the processor time that it wanted: a program that got less says nothing by its numbers.
const ENOUGH: f64 = 0.5;

/// Runs a program and makes its checks. If numbers are off, and the program got hardly any
/// processor since the machine has other work, that is said and it is measured again; at the end it
/// is said that these numbers were not judged. All other checks hold however busy the machine is.
///
/// `run` gives `None` if there is nothing to run.
///
/// # Errors
/// Those of the checks, or of the run.
pub fn measured(
    run: impl Fn() -> Result<Option<Run>>,
    check: impl for<'a> Fn(&'a Run) -> Result<Checks<'a>>,
) -> Result<()> {
    for left in (0..TRIES).rev() {
        let Some(run) = run()? else { return Ok(()) };
        let got = run.tasks.share_got();
        let checks = check(&run)?;
        let Some(off) = checks.off().filter(|_| got < ENOUGH) else { return checks.done() };
        let what = match left {
            0 => "NOT JUDGED: the machine is too busy",
            _ => "the machine is busy, so it is measured again",
        };
        println!(
            "{}: {what}: it got {:.0} % of the processor time that it wanted, and\n{off}",
            run.name,
            got * 100.0
        );
        if left == 0 {
            return checks.done_but_for_numbers();
        }
    }
    Ok(())
}
