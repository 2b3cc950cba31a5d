//! How much of the processors this process may use.

use std::fs;
use std::path::Path;

/// Where the kernel shows control groups: the one tree of version 2, and version 1's of processors.
const TREE: &str = "/sys/fs/cgroup";
const TREE_1: &str = "/sys/fs/cgroup/cpu";

/// Processors that this process may use at once, which may be less than one: what its affinity and
/// the quota of its control group allow.
#[must_use]
pub fn allowed() -> f64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let read = |path: &Path| fs::read_to_string(path).ok();
    let affinity = affinity();
    quota(&groups, read).map_or(affinity, |quota| quota.min(affinity))
}

fn affinity() -> f64 {
    // SAFETY: a set of processors is plain bits.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the size of the set, which is valid.
    let answer = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    // SAFETY: reads a valid set.
    let count = unsafe { libc::CPU_COUNT(&set) };
    if answer == 0 && count > 0 { f64::from(count) } else { 1.0 }
}

/// The smallest quota of the process's group and of those around it.
fn quota(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<f64> {
    let mut smallest: Option<f64> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let is_first = controllers.split(',').any(|name| name == "cpu");
        if !controllers.is_empty() && !is_first {
            continue;
        }
        let tree = Path::new(if is_first { TREE_1 } else { TREE });
        // In a container the group's path is one outside of it, and the tree's root is its own.
        let inside = Path::new(group.trim_start_matches('/'));
        for folder in inside.ancestors().map(|folder| tree.join(folder)) {
            let found = if is_first { quota_1(&folder, &read) } else { quota_2(&folder, &read) };
            smallest = [smallest, found].into_iter().flatten().reduce(f64::min);
        }
    }
    smallest
}

/// Version 2: `cpu.max` has the quota, or `max`, and the period.
fn quota_2(folder: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<f64> {
    let text = read(&folder.join("cpu.max"))?;
    let (quota, period) = text.trim().split_once(' ')?;
    share(quota, period)
}

fn quota_1(folder: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<f64> {
    let quota = read(&folder.join("cpu.cfs_quota_us"))?;
    share(quota.trim(), read(&folder.join("cpu.cfs_period_us"))?.trim())
}

fn share(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota_of(groups: &str, files: &[(&str, &str)]) -> Option<f64> {
        let read = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        quota(groups, read)
    }

    #[test]
    fn the_smallest_quota_counts() {
        for (groups, files, expected) in [
            ("0::/\n", &[][..], None),
            ("0::/\n", &[("/sys/fs/cgroup/cpu.max", "10000 100000\n")], Some(0.1)),
            ("0::/\n", &[("/sys/fs/cgroup/cpu.max", "max 100000\n")], None),
            (
                "0::/a/b\n",
                &[
                    ("/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n"),
                    ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
                    ("/sys/fs/cgroup/cpu.max", "max 100000\n"),
                ],
                Some(1.5),
            ),
            (
                "5:memory:/m\n4:cpu,cpuacct:/docker/1\n",
                &[
                    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
                    ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
                    ("/sys/fs/cgroup/cpu.max", "1 100000\n"),
                ],
                Some(0.5),
            ),
            (
                "4:cpu:/\n",
                &[
                    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
                    ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
                ],
                None,
            ),
            ("nonsense", &[("/sys/fs/cgroup/cpu.max", "1")], None),
        ] {
            assert_eq!(quota_of(groups, files), expected, "{groups} {files:?}");
        }
    }

    #[test]
    fn some_processor_may_be_used() {
        assert!(allowed() > 0.0);
    }
}
