//! `cargo xtask bench peers`: programs with one profiler and another, and with none.
//!
//! Each setting has a process of its own, all are there at the same time, and one at a time works
//! for half a second. Between two others the one without a profiler has its turn, so that each is
//! compared with what the machine gave just before and just after. What a process is by chance
//! (where its code lies) is the same for all its windows: so processes are started anew for each
//! series, and there is a second one without a profiler, which should show no cost.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rig::Rig;
use serde_json::{Value, json};

use super::setting::{RATE, Setting, Switch};
use super::statistics::{Estimate, median};
use super::subject::{Reading, Subject};
use super::workload::Workload;
use crate::product::Product;

const WARM_UP: Duration = Duration::from_secs(10);
/// Until the agent has named what a program calls, and threads are known.
const SETTLE: Duration = Duration::from_secs(3);

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Those that are compared with no profiler.
    pub settings: Vec<Setting>,
    /// How often processes are started anew.
    pub series: usize,
    /// How often each has its turn in a series.
    pub rounds: usize,
    /// How long a turn is.
    pub window: Duration,
    /// Samples a second, of the agent and of `perf`.
    pub sampling: u32,
}

impl Plan {
    /// What the agent is told. At another rate without a budget, which would lower it.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("CORPROF_UPLOAD_PERIOD", "60s".to_owned())];
        if self.sampling != RATE {
            let interval = format!("{}ms", 1000 / self.sampling);
            for name in ["CORPROF_CPU_INTERVAL", "CORPROF_WALL_INTERVAL"] {
                variables.push((name, interval.clone()));
            }
            variables.push(("CORPROF_CPU_BUDGET", "100%".to_owned()));
        }
        variables
    }
}

/// What one setting came to.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The setting.
    pub setting: Setting,
    /// CPU time for an operation, as a part of that without a profiler.
    pub cpu: Estimate,
    /// Operations a second, likewise.
    pub rate: Estimate,
    /// CPU time of the profiler's threads for an operation, as a part of all without a profiler.
    pub own: f64,
    /// CPU nanoseconds for an operation without a profiler.
    pub bare_cpu_ns: f64,
    /// Operations a second without a profiler.
    pub bare_rate: f64,
}

/// Where programs and profilers come from, and where files go.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Runtimes and programs.
    pub rig: &'a Rig,
    /// The agent.
    pub product: &'a Product,
    /// A folder.
    pub folder: &'a Path,
}

/// A process in a setting.
struct Arm {
    setting: Setting,
    subject: Subject,
    switch: Switch,
    /// Ratios of CPU time, of rates, and of own CPU time to all.
    ratios: [Vec<f64>; 3],
}

/// Measures a workload.
pub fn measure(workload: &Workload, plan: &Plan, place: Place<'_>) -> Result<Vec<Cost>> {
    let mut all: Vec<(Setting, [Vec<f64>; 3])> = Vec::new();
    let mut bare: Vec<Reading> = Vec::new();
    for series in 0..plan.series {
        eprintln!("bench: {}, series {} of {}", workload.name, series + 1, plan.series);
        let mut arms = start(workload, plan, place)?;
        bare.extend(rounds(&mut arms, plan)?);
        for arm in arms.drain(1..) {
            match all.iter_mut().find(|(setting, _)| *setting == arm.setting) {
                None => all.push((arm.setting, arm.ratios)),
                Some((_, ratios)) => {
                    ratios.iter_mut().zip(arm.ratios).for_each(|(all, new)| all.extend(new));
                }
            }
        }
    }
    let of_bare = |of: fn(&Reading) -> f64| median(&bare.iter().map(of).collect::<Vec<_>>());
    let (bare_cpu_ns, bare_rate) =
        of_bare(|r| r.cpu_ns).zip(of_bare(|r| r.rate)).context("nothing was measured")?;
    let cost = |(setting, [cpu, rate, own]): (Setting, [Vec<f64>; 3])| {
        let cpu = Estimate::of(&cpu)?;
        let (rate, own) = (Estimate::of(&rate)?, median(&own)?);
        Some(Cost { setting, cpu, rate, own, bare_cpu_ns, bare_rate })
    };
    all.into_iter().map(|all| cost(all).context("nothing was measured")).collect()
}

/// A process for each setting, the first without a profiler; all have worked for a while.
fn start(workload: &Workload, plan: &Plan, place: Place<'_>) -> Result<Vec<Arm>> {
    let mut arms = Vec::new();
    for setting in [Setting::Bare].iter().chain(&plan.settings) {
        let folder: PathBuf = place.folder.join(workload.name).join(setting.name());
        fs::create_dir_all(&folder)?;
        let counters = folder.join("counters");
        let program = workload.command(place.rig, &counters)?;
        let mut command = setting.command(program, place.product, &folder.join("profiles"));
        if setting.is_agent() {
            command.envs(plan.variables());
        }
        let subject = Subject::start(workload, command, &counters)?;
        let Some(switch) = Switch::of(*setting, plan.sampling, &folder) else {
            eprintln!("bench: no {} here: it is left out", setting.name());
            continue;
        };
        arms.push(Arm { setting: *setting, subject, switch, ratios: Default::default() });
    }
    thread::scope(|scope| {
        let begin = |arm: &'_ mut Arm| arm.subject.warm_up(WARM_UP);
        let at_work: Vec<_> = arms.iter_mut().map(|arm| scope.spawn(move || begin(arm))).collect();
        at_work.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a panic"))?)
    })?;
    thread::sleep(SETTLE);
    arms.retain_mut(|arm| {
        // `perf` opens a file for each thread and processor, which may be more than is allowed.
        let tried = arm.tries();
        if let Err(error) = &tried {
            eprintln!("bench: {} is left out of this: {error:#}", arm.setting.name());
        }
        tried.is_ok()
    });
    Ok(arms)
}

/// All turns; returns the readings of the process without a profiler.
fn rounds(arms: &mut [Arm], plan: &Plan) -> Result<Vec<Reading>> {
    let (first, others) = arms.split_first_mut().context("no process")?;
    let mut before = first.turn(plan.window)?;
    let mut bare = vec![before];
    for round in 0..plan.rounds {
        let mut order: Vec<&mut Arm> = others.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for arm in order {
            let reading = arm.turn(plan.window)?;
            let after = first.turn(plan.window)?;
            let cpu_ns = f64::midpoint(before.cpu_ns, after.cpu_ns);
            let rate = f64::midpoint(before.rate, after.rate);
            let new = [reading.cpu_ns / cpu_ns, reading.rate / rate, reading.own_ns / cpu_ns];
            arm.ratios.iter_mut().zip(new).for_each(|(ratios, new)| ratios.push(new));
            bare.push(after);
            before = after;
        }
    }
    Ok(bare)
}

impl Arm {
    /// Begins to profile, and ends it.
    fn tries(&mut self) -> Result<()> {
        let pid = self.subject.pid();
        self.switch.set(pid, true)?;
        self.switch.set(pid, false)
    }

    fn turn(&mut self, window: Duration) -> Result<Reading> {
        let pid = self.subject.pid();
        self.switch.set(pid, true)?;
        let switch = &self.switch;
        let reading = self.subject.work(window, &|| switch.cpu_ns())?;
        self.switch.set(pid, false)?;
        Ok(reading)
    }
}

impl Cost {
    /// For a file.
    pub fn json(&self) -> Value {
        let estimate = |estimate: Estimate| {
            json!({ "median": estimate.median, "low": estimate.low, "high": estimate.high,
                    "windows": estimate.count })
        };
        json!({
            "cpu": estimate(self.cpu), "rate": estimate(self.rate), "own_threads": self.own,
            "bare_cpu_ns": self.bare_cpu_ns, "bare_rate": self.bare_rate,
        })
    }
}
