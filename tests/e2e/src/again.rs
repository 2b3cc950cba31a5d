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
        let text = format!("it got {:.0} % of the processor time that it wanted", got * 100.0);
        let checks = check(&run)?;
        let Some(off) = checks.off().filter(|_| got < ENOUGH) else {
            println!("{}: {text}", run.name);
            return checks.done();
        };
        let what = match left {
            0 => "NOT JUDGED: the machine is too busy",
            _ => "the machine is busy, so it is measured again",
        };
        println!("{}: {what}: {text}, and\n{off}", run.name);
        if left == 0 {
            return checks.done_but_for_numbers();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::PathBuf;
    use std::process::ExitStatus;
    use std::time::Duration;

    use profile::SelfReport;
    use rig::Outcome;

    use super::*;
    use crate::{Tasks, View};

    fn run(tasks: Tasks) -> Run {
        let outcome = Outcome {
            pid: 0,
            status: ExitStatus::from_raw(0),
            cpu: Duration::ZERO,
            stdout: String::new(),
            stderr: String::new(),
        };
        Run {
            name: "again".to_owned(),
            folder: PathBuf::from("/nowhere"),
            outcome,
            profiles: Vec::new(),
            view: View::of_profile(&profile::read::merge(std::iter::empty())),
            report: SelfReport::default(),
            tasks,
        }
    }

    /// How often it was run, and whether it is right: a number that is so from that run on, of a
    /// program that got half of what it wanted, or nearly nothing.
    fn tried(right_from: u32, is_starved: bool, is_sound: bool) -> (u32, bool) {
        let times = Cell::new(0);
        let tasks = || Tasks::of_one(1, if is_starved { 9 } else { 1 });
        let result = measured(
            || {
                times.set(times.get() + 1);
                Ok(Some(run(tasks())))
            },
            |run| {
                let mut checks = Checks::new(run);
                checks.at_least("a number", times.get().into(), right_from.into());
                checks.that(is_sound, "what holds however busy it is");
                Ok(checks)
            },
        );
        (times.get(), result.is_ok())
    }

    #[test]
    fn only_numbers_of_a_starved_program_are_measured_again() {
        assert_eq!(tried(1, false, true), (1, true));
        assert_eq!(tried(1, true, true), (1, true));
        assert_eq!(tried(2, false, true), (1, false), "it had a processor");
        assert_eq!(tried(2, true, true), (2, true));
        assert_eq!(tried(9, true, true), (TRIES, true), "not judged, and said so");
        assert_eq!(tried(9, true, false), (1, false), "not only numbers");
        assert_eq!(tried(1, true, false), (1, false));
        assert!(measured(|| Ok(None), |run| Ok(Checks::new(run))).is_ok());
    }
}
