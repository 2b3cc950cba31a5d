//! What a control group allows: processor time and memory, of both versions of Linux's interface.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::check::{Check, Level, Topic};
use crate::units::memory;

/// With less than this share of a processor the profiler's own beat comes late.
const CPUS_SMALL: f64 = 0.2;
/// What the agent may need of memory: 12 MiB of a small program, and some times that of a large
/// one.
const MEMORY_BYTES: u64 = 64 << 20;
/// Version 1 has no word for "no limit", but a number near the largest one.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// What a process's control groups allow, the smallest of all levels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Processors; none if there is no limit.
    pub cpus: Option<f64>,
    /// Bytes that are left below the limit of memory.
    pub memory_left: Option<u64>,
}

impl Limits {
    /// Reads them: `groups` is `/proc/<pid>/cgroup`, `root` where control groups are mounted,
    /// usually `/sys/fs/cgroup`.
    pub fn read(groups: &str, root: &Path) -> Self {
        let mut limits = Self::default();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            if controllers.is_empty() {
                for folder in
                    levels(root, path).into_iter().chain(levels(&root.join("unified"), path))
                {
                    limits.lower(cpus_of_second(&folder), memory_of_second(&folder));
                }
            } else if controllers.split(',').any(|name| name == "cpu") {
                for folder in levels(&root.join(controllers), path) {
                    limits.lower(cpus_of_first(&folder), None);
                }
            } else if controllers == "memory" {
                for folder in levels(&root.join("memory"), path) {
                    limits.lower(None, memory_of_first(&folder));
                }
            }
        }
        limits
    }

    fn lower(&mut self, cpus: Option<f64>, memory_left: Option<u64>) {
        let cpus = self.cpus.into_iter().chain(cpus);
        self.cpus = cpus.min_by(f64::total_cmp);
        self.memory_left = self.memory_left.into_iter().chain(memory_left).min();
    }

    /// The checks.
    pub fn checks(&self) -> Vec<Check> {
        vec![self.check_cpus(), self.check_memory()]
    }

    fn check_cpus(&self) -> Check {
        match self.cpus {
            None => Check::fine(Topic::CpuLimit, "no limit of processor time"),
            Some(cpus) if cpus < CPUS_SMALL => Check::bad(
                Topic::CpuLimit,
                Level::Degrades,
                format!(
                    "the control group allows {cpus:.2} processors: the program is stopped for \
                     most of the time, and so is the profiler (waits are seen late, as runnable)"
                ),
                "allow more, or ask for less: --cpu-interval 20ms --wall-interval 50ms",
            ),
            Some(cpus) => Check::fine(Topic::CpuLimit, format!("{cpus:.2} processors are allowed")),
        }
    }

    fn check_memory(&self) -> Check {
        match self.memory_left {
            None => Check::fine(Topic::MemoryLimit, "no limit of memory"),
            Some(left) if left < MEMORY_BYTES => Check::bad(
                Topic::MemoryLimit,
                Level::Degrades,
                format!(
                    "{} are left below the control group's limit of memory, and the agent may \
                     need {}: the kernel could end the program",
                    memory(left),
                    memory(MEMORY_BYTES)
                ),
                "raise the limit by that much",
            ),
            Some(left) => Check::fine(Topic::MemoryLimit, format!("{} are left", memory(left))),
        }
    }
}

/// A group's folder and those above it, which limit it, too. In a container the path may be one of
/// the host's, which is not there: then the mount itself is the group.
fn levels(root: &Path, path: &str) -> Vec<PathBuf> {
    let parts = Path::new(path).components();
    let mut folder = root.to_owned();
    let mut folders = vec![folder.clone()];
    for part in parts.filter(|part| matches!(part, Component::Normal(_))) {
        folder.push(part);
        folders.push(folder.clone());
    }
    folders
}

fn text(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok()
}

fn number<T: std::str::FromStr>(folder: &Path, name: &str) -> Option<T> {
    text(folder, name)?.trim().parse().ok()
}

fn cpus_of_second(folder: &Path) -> Option<f64> {
    let text = text(folder, "cpu.max")?;
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (period > 0.0).then_some(quota / period)
}

fn memory_of_second(folder: &Path) -> Option<u64> {
    let limit: u64 = number(folder, "memory.max")?;
    let used: u64 = number(folder, "memory.current")?;
    Some(limit.saturating_sub(used.saturating_sub(reclaimable(folder, "inactive_file"))))
}

fn cpus_of_first(folder: &Path) -> Option<f64> {
    let quota: f64 = number(folder, "cpu.cfs_quota_us")?;
    let period: f64 = number(folder, "cpu.cfs_period_us")?;
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

fn memory_of_first(folder: &Path) -> Option<u64> {
    let limit: u64 = number(folder, "memory.limit_in_bytes")?;
    let used: u64 = number(folder, "memory.usage_in_bytes")?;
    let used = used.saturating_sub(reclaimable(folder, "total_inactive_file"));
    (limit < UNLIMITED_BYTES).then_some(limit.saturating_sub(used))
}

/// Bytes of files that the kernel gives up before anything else.
fn reclaimable(folder: &Path, name: &str) -> u64 {
    let text = text(folder, "memory.stat").unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Groups(PathBuf);

    impl Groups {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("cgroup-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Groups {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_smallest_limit_of_all_levels_counts() {
        let groups = Groups::new(
            "second",
            &[
                ("cpu.max", "max 100000\n"),
                ("pod/cpu.max", "10000 100000\n"),
                ("pod/app/cpu.max", "200000 100000\n"),
                ("pod/memory.max", "104857600\n"),
                ("pod/memory.current", "73400320\n"),
                ("pod/memory.stat", "anon 1\ninactive_file 10485760\n"),
                ("pod/app/memory.max", "max\n"),
                ("pod/app/memory.current", "1\n"),
            ],
        );
        let limits = Limits::read("0::/pod/app\n", &groups.0);
        assert_eq!(limits, Limits { cpus: Some(0.1), memory_left: Some(40 << 20) });
        let levels: Vec<_> = limits.checks().iter().map(|check| check.level).collect();
        assert_eq!(levels, [Level::Degrades, Level::Degrades]);
        assert_eq!(Limits::read("0::/other\n", &groups.0), Limits::default());
    }

    #[test]
    fn the_first_version_has_a_folder_for_each_controller() {
        let groups = Groups::new(
            "first",
            &[
                ("cpu,cpuacct/docker/x/cpu.cfs_quota_us", "150000\n"),
                ("cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n"),
                ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/memory.usage_in_bytes", "100\n"),
                ("memory/docker/x/memory.limit_in_bytes", "268435456\n"),
                ("memory/docker/x/memory.usage_in_bytes", "134217728\n"),
            ],
        );
        let text = "12:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n0::/\n";
        let limits = Limits::read(text, &groups.0);
        assert_eq!(limits, Limits { cpus: Some(1.5), memory_left: Some(128 << 20) });
        assert!(limits.checks().iter().all(|check| check.level == Level::Fine));
    }
}
