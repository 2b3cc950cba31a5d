//! `cargo xtask bench latency`: how long a web service's answers take at a constant load of half of
//! what it can, with the agent, with its startup hook too, and without.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::peers::Place;
use super::service::MIX;
use super::setting::Setting;
use super::statistics::{Estimate, median};
use super::subject::Subject;
use super::workload::Workload;

const WARM_UP: Duration = Duration::from_secs(8);
const WINDOW: Duration = Duration::from_secs(3);
const CLIENTS: usize = 8;
/// Of what the service answers at most.
const SHARE: f64 = 0.4;

/// Whose services take turns; the others are compared with the first.
const SETTINGS: [Setting; 3] = [Setting::Bare, Setting::Timer, Setting::Spans];

/// Measures in so many rounds.
pub fn measure(rounds: usize, place: Place<'_>) -> Result<Value> {
    let workload = Workload::named("web").context("no web service")?;
    let start = |setting: Setting| -> Result<Subject> {
        let folder = place.folder.join("latency").join(setting.name());
        std::fs::create_dir_all(&folder)?;
        let program = workload.command(place.rig, &folder)?;
        let command = setting.command(program, place.product, &folder);
        Subject::start(&workload, command, &folder)
    };
    let subjects = SETTINGS.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    let services: Vec<_> = subjects.iter().filter_map(Subject::service).collect();
    ensure!(services.len() == SETTINGS.len(), "no web service");
    for agent in &services[1..] {
        agent.load(WARM_UP, CLIENTS, &MIX)?;
    }
    let most = services[0].load(WARM_UP, CLIENTS, &MIX)? as f64 / WARM_UP.as_secs_f64();
    let a_second = most * SHARE;
    let mut windows = SETTINGS.map(|_| Vec::new());
    for round in 0..rounds {
        eprintln!("bench: latency, round {} of {rounds}", round + 1);
        let mut order: Vec<usize> = (0..SETTINGS.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for which in order {
            windows[which].push(services[which].latencies(WINDOW, CLIENTS, a_second)?);
        }
    }
    let mut told = json!({ "answers_a_second": a_second });
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        told[name] = compared(&windows, share)?;
    }
    Ok(told)
}

/// Times of that share of the answers in each setting, and how they compare round by round.
fn compared(windows: &[Vec<Vec<f64>>; SETTINGS.len()], share: f64) -> Result<Value> {
    let of = |windows: &Vec<Vec<f64>>| -> Result<Vec<f64>> {
        windows.iter().map(|window| percentile(window, share)).collect()
    };
    let bare = of(&windows[0])?;
    let mut told = json!({});
    for (setting, windows) in SETTINGS.into_iter().zip(windows) {
        let times = of(windows)?;
        let ratios: Vec<f64> = bare.iter().zip(&times).map(|(bare, time)| time / bare).collect();
        let ratio = Estimate::of(&ratios).context("no round")?;
        told[setting.name()] = json!({
            "us": median(&times),
            "ratio": ratio.median, "low": ratio.low, "high": ratio.high,
        });
    }
    Ok(told)
}

fn percentile(numbers: &[f64], share: f64) -> Result<f64> {
    ensure!(!numbers.is_empty(), "no answer");
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    Ok(sorted[((sorted.len() - 1) as f64 * share) as usize])
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles() {
        let numbers: Vec<f64> = (0..1000).rev().map(f64::from).collect();
        assert_eq!(percentile(&numbers, 0.5).unwrap(), 499.0);
        assert_eq!(percentile(&numbers, 0.99).unwrap(), 989.0);
        assert!(percentile(&[], 0.5).is_err());
    }
}
