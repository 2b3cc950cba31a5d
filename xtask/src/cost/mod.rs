//! What the profiler costs beside its peers: `cargo xtask bench peers`, `curves`, `latency`,
//! `start` and `memory`, and the tables and plots of what they came to.

mod curves;
mod document;
mod event_pipe;
mod latency;
mod mappings;
mod memory;
mod peers;
mod perf;
mod plot;
pub mod process;
mod report;
mod results;
pub mod service;
mod setting;
mod start;
pub mod statistics;
mod subject;
mod workload;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rig::Rig;

use self::peers::{Place, Plan};
use self::results::Results;
use self::setting::{RATE, Setting};
use self::workload::Workload;
use crate::product::Product;
use crate::workspace;

/// The benchmarks of this module.
pub const NAMES: [&str; 5] = ["peers", "curves", "latency", "start", "memory"];
/// The document that shows what was measured.
const DOCUMENT: &str = "docs/performance.md";
/// Where its numbers and plots are.
const NUMBERS: &str = "docs/performance";
const FILE: &str = "costs.json";
/// How long a turn is.
const WINDOW: Duration = Duration::from_millis(500);
/// For how long memory is watched, in minutes, and in a quick run.
const MINUTES: usize = 30;
const QUICK_MEMORY: Duration = Duration::from_secs(25);

/// What is asked for; empty lists are all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Names of workloads.
    pub workloads: Vec<String>,
    /// Names of settings.
    pub settings: Vec<String>,
    /// Names of curves.
    pub curves: Vec<String>,
    /// How often processes are started anew.
    pub series: Option<usize>,
    /// How often each has its turn.
    pub rounds: Option<usize>,
    /// For how long memory is watched.
    pub minutes: Option<usize>,
    /// Only enough to see that it works.
    pub quick: bool,
    /// Whether documents are to have what was measured.
    pub write: bool,
}

impl Wanted {
    /// The words that an option may have; `None` if it is none of these.
    pub fn words(option: &str) -> Option<Vec<&'static str>> {
        match option {
            "--workload" => Some(workload::ALL.iter().map(|workload| workload.name).collect()),
            "--setting" => Some(setting::ALL.iter().map(|setting| setting.name()).collect()),
            "--curve" => Some(curves::ALL.iter().map(|(name, _)| *name).collect()),
            _ => None,
        }
    }

    /// Takes in the value of such an option.
    pub fn add(&mut self, option: &str, word: &str) {
        let list = match option {
            "--workload" => &mut self.workloads,
            "--setting" => &mut self.settings,
            _ => &mut self.curves,
        };
        list.push(word.to_owned());
    }

    fn has(list: &[String], name: &str) -> bool {
        list.is_empty() || list.iter().any(|one| one == name)
    }

    fn plan(&self) -> Plan {
        let settings = setting::ALL.into_iter();
        let (series, rounds) = if self.quick { (1, 1) } else { (3, 6) };
        Plan {
            settings: settings.filter(|s| Self::has(&self.settings, s.name())).collect(),
            series: self.series.unwrap_or(series),
            rounds: self.rounds.unwrap_or(rounds),
            window: WINDOW,
            sampling: RATE,
        }
    }
}

/// Runs those of these benchmarks that are asked for, and prints what they came to.
pub fn run(
    names: &[&str],
    wanted: &Wanted,
    rig: &Rig,
    product: &Product,
    target: &Path,
) -> Result<()> {
    let folder = target.join("bench");
    let mut results = Results::load(&folder.join(FILE))?;
    let place = Place { rig, product, folder: &folder };
    let commit = workspace::commit();
    if names.contains(&"peers") {
        measure_peers(wanted, place, &mut results, &commit)?;
    }
    if names.contains(&"curves") {
        for (name, measure) in curves::ALL {
            if Wanted::has(&wanted.curves, name) {
                let value = measure(place, wanted.quick)?;
                results.put(&["curves", name], value, &commit)?;
            }
        }
    }
    if names.contains(&"latency") {
        let rounds = wanted.rounds.unwrap_or(if wanted.quick { 1 } else { 20 });
        let value = latency::measure(rounds, place)?;
        results.put(&["latency"], value, &commit)?;
    }
    if names.contains(&"start") {
        let rounds = wanted.rounds.unwrap_or(if wanted.quick { 1 } else { 15 });
        let value = start::measure(rounds, place)?;
        results.put(&["start"], value, &commit)?;
    }
    if names.contains(&"memory") {
        let minutes = wanted.minutes.unwrap_or(MINUTES) as u64;
        let is_short = wanted.quick && wanted.minutes.is_none();
        let time = if is_short { QUICK_MEMORY } else { Duration::from_secs(60 * minutes) };
        let value = memory::measure(time, place)?;
        results.put(&["memory"], value, &commit)?;
    }
    for table in report::tables(&results.measured()) {
        println!("\n{}", table.text.trim_end());
    }
    document::plots(&folder, &results)?;
    println!("\nnumbers, also of earlier runs, and plots: {}", folder.display());
    if wanted.write {
        let root = workspace::root();
        let (document, numbers) = (root.join(DOCUMENT), root.join(NUMBERS));
        let mut documents = Results::load(&numbers.join(FILE))?;
        documents.take(&results)?;
        document::write(&document, &numbers, &documents)?;
        println!("written into {DOCUMENT} and {NUMBERS}");
    }
    Ok(())
}

fn measure_peers(
    wanted: &Wanted,
    place: Place<'_>,
    results: &mut Results,
    commit: &str,
) -> Result<()> {
    // With so many threads six processes of a kind don't fit into the kernel's 32,768.
    const CROWD: usize = 5_000;
    let plan = wanted.plan();
    for workload in workload::ALL {
        if !Wanted::has(&wanted.workloads, workload.name) {
            continue;
        }
        let groups: Vec<Vec<Setting>> = if workload.threads() >= CROWD {
            plan.settings.iter().map(|setting| vec![*setting]).collect()
        } else {
            vec![plan.settings.clone()]
        };
        for settings in groups {
            for cost in peers::measure(&workload, &Plan { settings, ..plan.clone() }, place)? {
                let name = ["peers", workload.name, cost.setting.name()];
                results.put(&name, cost.json(), commit)?;
            }
        }
    }
    Ok(())
}

impl Workload {
    /// How many threads it has, about.
    fn threads(&self) -> usize {
        match self.kind {
            workload::Kind::Work { threads, idle, .. } => threads + idle,
            workload::Kind::Web => 20,
        }
    }
}
