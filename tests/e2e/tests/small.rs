//! A tenth of a processor: the profiler keeps within its share of that, and its sums stay what the
//! kernel counts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use e2e::Session;
use rig::{Net8, Rig, Unavailable};

/// What the group may use in a period, in microseconds: a tenth of a processor.
const QUOTA_US: u64 = 10_000;
const PERIOD_US: u64 = 100_000;
/// How far sums may be off.
const FRACTION: f64 = 0.02;

/// A control group that is there for one test.
struct Group {
    folder: PathBuf,
}

impl Group {
    /// A group with that quota; else why there can be none here.
    fn new() -> Result<Self> {
        let name = format!("corprof-e2e-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/cpu");
        let is_first = first.join("cpu.cfs_quota_us").exists() || first.join("tasks").exists();
        let tree = if is_first { first } else { Path::new("/sys/fs/cgroup") };
        let group = Self { folder: tree.join(name) };
        fs::create_dir(&group.folder).context("no group can be made")?;
        if is_first {
            group.write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
            group.write("cpu.cfs_quota_us", &QUOTA_US.to_string())?;
        } else {
            group.write("cpu.max", &format!("{QUOTA_US} {PERIOD_US}"))?;
        }
        Ok(group)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))
    }

    /// How often it had to wait for its next period.
    fn throttled(&self) -> Result<u64> {
        let text = fs::read_to_string(self.folder.join("cpu.stat"))?;
        let number = text.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        Ok(number.context("the kernel doesn't count")?.trim().parse()?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nobody is in it any more, unless the test has failed: then it stays, and harms nobody.
        let _removed = fs::remove_dir(&self.folder);
    }
}

#[test]
fn in_a_tenth_of_a_processor() -> Result<()> {
    /// So little that the start alone uses up what may be used at once.
    const SHARE: f64 = 0.0025;
    /// At its slowest it costs what it costs, twice the share here: three times as much on a slower
    /// machine.
    const TIMES_MAX: f64 = 6.0;
    let group = match Group::new() {
        Ok(group) => group,
        Err(error) => {
            let (what, reason) = ("a control group".to_owned(), format!("{error:#}"));
            Rig::ensure()?.skip("small", &Unavailable { what, reason });
            return Ok(());
        }
    };
    let Some(session) = Session::new("small", "split", Net8)? else { return Ok(()) };
    let script = r#"echo $$ > "$0" && exec "$@""#;
    let procs = group.folder.join("cgroup.procs");
    let run = session
        .args(["--share", "90", "--seconds", "50"])
        .set("CORPROF_CPU_BUDGET", "0.25%")
        .set("CORPROF_UPLOAD_PERIOD", "20s")
        .behind("sh", ["-c", script, &procs.to_string_lossy()])
        .run()?;
    let mut checks = run.checks();
    checks.that(group.throttled()? > 100, "the group had no limit");
    let reports = run.profiles.iter().filter_map(|(_, profile)| {
        let report = profile.report.as_ref()?;
        Some((profile.period.duration_ns, report.own_cpu_ns, report.slowdown))
    });
    let reports: Vec<(u64, u64, u64)> = reports.collect();
    println!("periods, the profiler's time in them, slowdowns: {reports:?}");
    // What starting costs is more than the share of so short a time; after that it is kept.
    let (duration_ns, own_ns, slowdown) = reports[reports.len() - 2];
    let most_ns = duration_ns as f64 * SHARE * TIMES_MAX * QUOTA_US as f64 / PERIOD_US as f64;
    let is_kept = own_ns > 0 && own_ns as f64 <= most_ns;
    checks.that(is_kept, format!("{own_ns} ns used, {most_ns} ns allowed"));
    checks.that(slowdown > 8, format!("slowed by {slowdown} only"));
    let expected = run.report.process_cpu_ns.saturating_sub(run.report.own_cpu_ns);
    checks.within("CPU of the process", run.view.total().cpu_ns, expected, FRACTION);
    let (a, b) = (
        run.view.of(|row| row.has("Split.MethodA(")),
        run.view.of(|row| row.has("Split.MethodB(")),
    );
    let (cpu_a, cpu_b) = (run.number("cpu_a_ns")?, run.number("cpu_b_ns")?);
    let share = |one: u64, other: u64| one as f64 / (one + other).max(1) as f64;
    let found = share(a.cpu_ns, b.cpu_ns);
    checks.share("MethodA's share", found, share(cpu_a, cpu_b), a.count + b.count);
    checks.done()
}
