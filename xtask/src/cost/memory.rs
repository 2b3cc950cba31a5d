//! `cargo xtask bench memory`: the memory of a program that compiles new methods without an end,
//! with the agent and without, over time.
//!
//! Both compile the same at the same time. What the agent needs is what is resident of mappings
//! that only it has: its library, what it has mapped, the arenas in which its threads allocate; and
//! what the one has more than the other of the first heap and of other memory, where the agent has
//! large tables and what was allocated before its threads began. The program's arenas differ by
//! more than all that, by chance. The agent also says what it has in each profile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rig::Net9;
use serde_json::{Value, json};

use super::mappings::Mappings;
use super::peers::Place;
use super::setting::Setting;
use super::statistics::median;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// A batch of new types of each thread so often, in milliseconds: on a processor of the usual kind
/// they are compiled in a fraction of it.
const PACE_MILLIS: &str = "500";
const THREADS: &str = "2";
/// Between two profiles.
const PERIOD: &str = "10s";
/// Into how many parts of equal length the run is divided for the table.
const PARTS: usize = 6;

/// A program, with its memory at each look.
struct Watched {
    child: Child,
    /// The agent's log, if it is there.
    log: PathBuf,
    looks: Vec<Mappings>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        // It has ended, unless something failed; there is nobody to tell.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Measures for that long.
pub fn measure(time: Duration, place: Place<'_>) -> Result<Value> {
    let folder = place.folder.join("memory");
    // Profiles of an earlier run would be taken for this one's.
    let _gone = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("log"))?;
    let start = |setting: Setting| Watched::start(setting, time, place, &folder);
    let mut both = [start(Setting::Bare)?, start(Setting::Timer)?];
    let begin = Instant::now();
    let mut next = begin;
    while begin.elapsed() < time {
        next += LOOK;
        sleep(next.saturating_duration_since(Instant::now()));
        for watched in &mut both {
            watched.look()?;
        }
    }
    for watched in &mut both {
        let status = watched.child.wait()?;
        ensure!(status.success(), "the program failed: {status}");
    }
    let own = own(place, &folder)?;
    ensure!(!own.is_empty(), "there is no profile in {}", folder.display());
    let [bare, agent] = both.each_ref().map(|watched| &watched.looks[..]);
    let knows_arenas = agent.iter().any(|look| look.own_arenas > 0.0);
    ensure!(
        knows_arenas,
        "the agent's log ({}) told no arena of its threads",
        both[1].log.display()
    );
    let only = |look: &Mappings| look.library + look.mapped + look.own_arenas;
    let shared = |look: &Mappings| look.heap + look.anonymous;
    let sum = |look: &Mappings| only(look) + shared(look);
    Ok(json!({
        "seconds": time.as_secs(),
        "bare_mib": parts(&of_each(bare, |look| look.all)),
        "agent_mib": parts(&of_each(agent, |look| look.all)),
        "arenas_more_mib": parts(&more(agent, bare, |look| look.arenas)),
        "library_mib": parts(&of_each(agent, |look| look.library)),
        "mapped_mib": parts(&of_each(agent, |look| look.mapped)),
        "own_arenas_mib": parts(&of_each(agent, |look| look.own_arenas)),
        "shared_more_mib": parts(&more(agent, bare, shared)),
        "sum_mib": parts(&more(agent, bare, sum)),
        "own_mib": parts(&own),
        "own_most_mib": own.iter().copied().fold(0.0, f64::max),
    }))
}

impl Watched {
    fn start(setting: Setting, time: Duration, place: Place<'_>, folder: &Path) -> Result<Self> {
        let mut program = place.rig.app("whole")?.command(Net9)?;
        program.args(["--jit", "--pace", PACE_MILLIS, "--threads", THREADS]);
        // Both are looked at to the end.
        program.args(["--seconds", &(time.as_secs() + 5).to_string()]);
        program.env("CORPROF_SPANS", "false").env("CORPROF_UPLOAD_PERIOD", PERIOD);
        let log = folder.join("log").join(setting.name());
        program.env("CORPROF_LOG", "debug").env("CORPROF_LOG_FILE", &log);
        let mut command = match setting {
            Setting::Bare => place.product.without_agent(&program, folder),
            _ => place.product.with_agent(&program, folder),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child, log, looks: Vec::new() })
    }

    fn look(&mut self) -> Result<()> {
        // Without the agent there is none; and none before it has begun.
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        self.looks.push(Mappings::of(self.child.id(), &allocates_at(&log))?);
        Ok(())
    }
}

/// Where the agent's threads have their memory, by its log.
fn allocates_at(log: &str) -> Vec<u64> {
    let address = |line: &str| {
        let (_, hex) = line.split_once(" allocates at 0x")?;
        u64::from_str_radix(hex.trim(), 16).ok()
    };
    log.lines().filter_map(address).collect()
}

fn of_each(looks: &[Mappings], kind: impl Fn(&Mappings) -> f64) -> Vec<f64> {
    looks.iter().map(kind).collect()
}

/// What the one has more at each look.
fn more(agent: &[Mappings], bare: &[Mappings], kind: impl Fn(&Mappings) -> f64) -> Vec<f64> {
    agent.iter().zip(bare).map(|(agent, bare)| kind(agent) - kind(bare)).collect()
}

/// What the agent said of itself in each profile, in MiB, in order.
fn own(place: Place<'_>, folder: &Path) -> Result<Vec<f64>> {
    let mut names: Vec<_> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    names.sort();
    names.iter().map(|path| own_of(&place.product.corprof, path)).collect()
}

fn own_of(corprof: &Path, profile: &Path) -> Result<f64> {
    let output = Command::new(corprof).args(["top", "--json"]).arg(profile).output()?;
    let told: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("corprof top said nothing of {}", profile.display()))?;
    let bytes = told["profiler"]["own_memory_bytes"].as_f64();
    Ok(bytes.context("no memory of its own in the profile")? / f64::from(1 << 20))
}

/// The medians of equal parts.
fn parts(values: &[f64]) -> Vec<f64> {
    let begin = |part: usize| values.len() * part / PARTS;
    let each = (0..PARTS).map(|part| &values[begin(part)..begin(part + 1)]);
    each.filter_map(median).collect()
}

#[cfg(test)]
mod tests {
    use super::{Mappings, allocates_at, more, parts};

    #[test]
    fn the_log_tells_arenas() {
        let log = "corprof: debug: corprof-tick allocates at 0x7f10\ncorprof: debug: x\n";
        assert_eq!(allocates_at(log), [0x7f10]);
    }

    #[test]
    fn one_has_more_than_the_other() {
        let looks = |mib: [f64; 2]| mib.map(|heap| Mappings { heap, ..Mappings::default() });
        let more = more(&looks([3.0, 7.0]), &looks([1.0, 8.0]), |look| look.heap);
        assert_eq!(more, [2.0, -1.0]);
    }

    #[test]
    fn a_run_has_parts() {
        let values: Vec<f64> = (0..18).map(f64::from).collect();
        assert_eq!(parts(&values), [1.0, 4.0, 7.0, 10.0, 13.0, 16.0]);
        assert_eq!(parts(&values[..13]), [0.5, 2.5, 4.5, 6.5, 8.5, 11.0]);
        assert_eq!(parts(&[5.0, 7.0]), [5.0, 7.0]);
        assert!(parts(&[]).is_empty());
    }
}
