//! Which process holds the lock of a file, as the kernel lists them.

#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The process that holds a file's lock; `None` if that can't be seen, as from another container.
#[cfg(unix)]
pub fn of_lock(path: &Path) -> Option<u32> {
    let inode = std::fs::metadata(path).ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    holder(&locks, inode)
}

/// No process is told here.
#[cfg(windows)]
pub fn of_lock(_path: &Path) -> Option<u32> {
    None
}

/// The process in lines such as `3: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF`. Of two file
/// systems with files of that number nothing is told: what `stat` calls a device may be another
/// one there.
#[cfg(unix)]
fn holder(locks: &str, inode: u64) -> Option<u32> {
    let pids = locks.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = words.as_slice() else { return None };
        let number = file.rsplit(':').next()?.parse::<u64>().ok()?;
        // Processes of another namespace are 0 here.
        (number == inode).then(|| pid.parse().ok()).flatten().filter(|pid| *pid > 0)
    });
    let pids: Vec<u32> = pids.collect();
    match pids.as_slice() {
        [pid] => Some(*pid),
        _ => None,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:131 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 4712 08:01:131 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 08:01:132 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 8 08:01:133 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE 9 08:02:133 0 EOF\n";
        let found = [131, 132, 133, 134].map(|inode| holder(locks, inode));
        assert_eq!(found, [Some(4711), None, None, None]);
    }
}
