//! `cargo xtask bench attach`: what is left of the profiler in a service that it was attached to
//! and has left. Two processes of the same service run side by side; one is attached and left many
//! times, the other never. They are put under load in turns, for a few seconds each, every other
//! time the other way round: what the machine or the runtime does to both cancels out.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rig::{Net9, Rig};

use crate::cost::service::Service;
use crate::product::Product;

/// How often the one is attached and left before it is measured.
const CYCLES: usize = 20;
/// How long a process is under load at a time.
const WINDOW: Duration = Duration::from_secs(5);
/// For how long it is first: the runtime compiles what is often called once more.
const WARM_UP: Duration = Duration::from_secs(10);
/// Who asks, and for what; also in `export_cost`.
pub const CLIENTS: usize = 4;
pub const PATHS: [&str; 1] = ["/cpu/10"];

/// Measures in so many rounds, and prints a table.
pub fn run(rounds: usize, rig: &Rig, product: &Product, target: &Path) -> Result<()> {
    let never = Service::start(rig.app("web")?.command(Net9)?)?;
    let left = Service::start(rig.app("web")?.command(Net9)?)?;
    for service in [&never, &left] {
        service.load(WARM_UP, CLIENTS, &PATHS)?;
    }
    // What two processes of the same program differ by anyhow.
    let before = turns(rounds, &never, &left)?;
    let folder = target.join("bench/attach");
    eprintln!("bench: attach, {CYCLES} times attached and left");
    for _ in 0..CYCLES {
        let words = ["--for", "100ms", "--json=-"];
        let status = attach(&left, product, &folder, &words).status().context("corprof attach")?;
        ensure!(status.success(), "corprof attach failed ({status})");
    }
    let after = turns(rounds, &never, &left)?;
    let mut attached = attach(&left, product, &folder, &["--upload-period", "60s"]);
    let mut attached = attached.spawn().context("cannot start corprof attach")?;
    let during = turns(rounds, &never, &left);
    // It may have ended; the service is killed next.
    let _ended = attached.kill().and_then(|()| attached.wait());
    println!(
        "\nAnswers in {} s of a service that is never attached, and of another that is ({rounds} \
         rounds):\n",
        WINDOW.as_secs()
    );
    println!("| | the one | the other | ratio of a round's |\n|---|---|---|---|");
    println!("{}", row("before", &before)?);
    println!("{}", row(&format!("after {CYCLES} times attached and left"), &after)?);
    println!("{}", row("while attached", &during?)?);
    Ok(())
}

/// Answers of both, in each round.
fn turns(rounds: usize, never: &Service, other: &Service) -> Result<Vec<(u64, u64)>> {
    let mut answers = Vec::new();
    for round in 0..rounds {
        eprintln!("bench: attach, round {} of {rounds}", round + 1);
        let pair = if round % 2 == 0 {
            (never.load(WINDOW, CLIENTS, &PATHS)?, other.load(WINDOW, CLIENTS, &PATHS)?)
        } else {
            let others = other.load(WINDOW, CLIENTS, &PATHS)?;
            (never.load(WINDOW, CLIENTS, &PATHS)?, others)
        };
        answers.push(pair);
    }
    Ok(answers)
}

/// A row of the table: medians, from the least to the most.
pub fn row(what: &str, rounds: &[(u64, u64)]) -> Result<String> {
    let never = rounds.iter().map(|(never, _)| *never as f64).collect();
    let other = rounds.iter().map(|(_, other)| *other as f64).collect();
    let ratio = rounds.iter().map(|(never, other)| *other as f64 / *never as f64).collect();
    let mut text = format!("| {what} |");
    for (numbers, digits) in [(never, 0), (other, 0), (ratio, 3)] {
        let mut numbers: Vec<f64> = numbers;
        numbers.sort_by(f64::total_cmp);
        let (least, most) = numbers.first().zip(numbers.last()).context("no round")?;
        let median = numbers[numbers.len() / 2];
        write!(text, " {median:.digits$} ({least:.digits$} to {most:.digits$}) |")?;
    }
    Ok(text)
}

/// `corprof attach` to the service's process.
fn attach(service: &Service, product: &Product, folder: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(&product.corprof);
    command.args(["attach", &service.pid().to_string()]).args(options);
    command.arg("--out").arg(folder).arg("--agent").arg(&product.agent);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_medians_and_the_median_of_the_ratios() {
        let text = row("so", &[(100, 50), (200, 200), (300, 330)]).unwrap();
        let expected = "| so | 200 (100 to 300) | 200 (50 to 330) | 1.000 (0.500 to 1.100) |";
        assert_eq!(text, expected);
    }
}
