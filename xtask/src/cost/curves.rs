//! `cargo xtask bench curves`: how the cost grows with idle threads, the depth of stacks, and the
//! rate of samples.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use super::event_pipe::Session;
use super::peers::{self, Place, Plan};
use super::process::{self, OwnThreads};
use super::setting::{RATE, Setting};
use super::subject::Subject;
use super::workload::{Kind, Workload};

const THREADS: [usize; 5] = [1, 10, 100, 1_000, 10_000];
const DEPTHS: [usize; 5] = [10, 30, 100, 300, 1_000];
const RATES: [u32; 5] = [10, 30, 100, 300, 1_000];
/// How many threads the agent gets to know in a second: until it has looked at each twice, which
/// makes 500 a second, it has more to do than afterwards. And what time it has besides.
const KNOWN_A_SECOND: usize = 200;
const SETTLE: Duration = Duration::from_secs(4);
/// For how long idle processes are watched: one profile is made in that time, whenever it begins.
const IDLE: Duration = Duration::from_secs(60);
/// The same in a quick run: several of the agent's rounds.
const QUICK_IDLE: Duration = Duration::from_secs(12);
const PEERS_IDLE: Duration = Duration::from_secs(3);

/// A curve's name, and what makes it.
pub type Curve = (&'static str, fn(Place<'_>, bool) -> Result<Value>);

/// All of them. The flag is for a quick run, with fewer turns.
pub const ALL: [Curve; 3] = [("threads", threads), ("depth", depth), ("rate", rate)];

fn line(setting: Setting, points: Vec<Value>) -> Value {
    json!({ "setting": setting.name(), "points": points })
}

fn point(x: f64, y: f64, low: f64, high: f64) -> Value {
    json!([x, y, low, high])
}

/// CPU time that idle threads cost, in percent of a processor.
fn threads(place: Place<'_>, quick: bool) -> Result<Value> {
    let (mut agent, mut event_pipe) = (Vec::new(), Vec::new());
    let (counts, time) = if quick { (&THREADS[..4], QUICK_IDLE) } else { (&THREADS[..], IDLE) };
    for count in counts {
        eprintln!("bench: {count} idle threads");
        let own = idle(place, Setting::Timer, *count, |pid| {
            sleep(SETTLE + Duration::from_secs((count / KNOWN_A_SECOND) as u64));
            let own = OwnThreads::of(pid)?;
            percent(time, || own.cpu_ns())
        })?;
        agent.push(point(*count as f64, own, own, own));
        let all = idle(place, Setting::EventPipe, *count, |pid| {
            sleep(SETTLE);
            let before = percent(PEERS_IDLE, || process::cpu_ns(pid))?;
            let session = Session::start(pid)?;
            let with = percent(PEERS_IDLE, || process::cpu_ns(pid))?;
            session.stop()?;
            Ok(with - before)
        })?;
        event_pipe.push(point(*count as f64, all, all, all));
    }
    Ok(json!([line(Setting::Timer, agent), line(Setting::EventPipe, event_pipe)]))
}

/// Starts so many idle threads, and measures them.
fn idle(
    place: Place<'_>,
    setting: Setting,
    idle: usize,
    measure: impl FnOnce(u32) -> Result<f64>,
) -> Result<f64> {
    let kind = Kind::Work { what: "cpu", threads: 0, idle, depth: 1 };
    let workload = Workload { name: "threads", text: "idle threads", kind };
    let folder = place.folder.join("threads").join(setting.name());
    std::fs::create_dir_all(&folder)?;
    let counters = folder.join("counters");
    let program = workload.command(place.rig, &counters)?;
    let command = setting.command(program, place.product, &folder.join("profiles"));
    let subject = Subject::start(&workload, command, &counters)?;
    measure(subject.pid())
}

/// What a clock of CPU time gains in that time, in percent of a processor.
fn percent(time: Duration, clock: impl Fn() -> Result<u64>) -> Result<f64> {
    let (before, began) = (clock()?, Instant::now());
    sleep(time);
    Ok((clock()? - before) as f64 / began.elapsed().as_nanos() as f64 * 100.0)
}

/// CPU time for an operation at the bottom of deep stacks.
fn depth(place: Place<'_>, quick: bool) -> Result<Value> {
    let settings = [Setting::Timer, Setting::Perf, Setting::EventPipe];
    over(place, quick, &settings, &DEPTHS.map(|depth| (depth as f64, depth, RATE)))
}

/// CPU time for an operation at so many samples a second.
fn rate(place: Place<'_>, quick: bool) -> Result<Value> {
    over(place, quick, &[Setting::Timer, Setting::Perf], &RATES.map(|rate| (rate.into(), 30, rate)))
}

/// For each setting the extra CPU time in percent, over what each of `points` begins with; then
/// come its depth and its rate.
fn over(
    place: Place<'_>,
    quick: bool,
    settings: &[Setting],
    points: &[(f64, usize, u32)],
) -> Result<Value> {
    let mut lines: Vec<Vec<Value>> = vec![Vec::new(); settings.len()];
    for (x, depth, sampling) in points {
        let kind = Kind::Work { what: "deep", threads: 2, idle: 0, depth: *depth };
        let workload = Workload { name: "curve", text: "deep stacks", kind };
        let plan = Plan {
            settings: settings.to_vec(),
            series: 1,
            rounds: if quick { 1 } else { 6 },
            window: Duration::from_millis(500),
            sampling: *sampling,
        };
        for cost in peers::measure(&workload, &plan, place)? {
            let extra = cost.cpu.map(|ratio| (ratio - 1.0) * 100.0);
            let position = settings.iter().position(|setting| *setting == cost.setting);
            if let Some(line) = position.and_then(|position| lines.get_mut(position)) {
                line.push(point(*x, extra.median, extra.low, extra.high));
            }
        }
    }
    Ok(settings.iter().zip(lines).map(|(setting, points)| line(*setting, points)).collect())
}
