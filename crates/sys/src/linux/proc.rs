//! `/proc/self/task/<tid>/…`, read with plain system calls into a buffer on the stack: no
//! allocation a read, no descriptor kept (the host may have few left; see [`super::thread_files`]
//! for the one thread that keeps some).

use std::io;

/// Room for what `stat`, `syscall`, `schedstat` and `comm` say: `stat` has up to about 350 bytes.
const LINE_BYTES_MAX: usize = 512;
/// Longest path: `/proc/self/task/` + ten digits + the longest file name + NUL.
const PATH_BYTES_MAX: usize = 48;

/// Reads a file of a thread of this process, as far as there is room for it. The room is the
/// caller's, so that nothing is copied: the wall sampler reads hundreds of these each second.
pub(super) fn read_file<'a>(tid: u32, file: &str, room: &'a mut [u8]) -> Option<&'a [u8]> {
    let fd = open_file(tid, file)?;
    // SAFETY: the kernel writes at most as many bytes as there is room.
    let read = unsafe { libc::read(fd, room.as_mut_ptr().cast(), room.len()) };
    // SAFETY: opened above, closed once.
    unsafe { libc::close(fd) };
    room.get(..usize::try_from(read).ok()?)
}

/// Opens a file of a thread of this process, to be closed by the caller; `None` if it can't be.
pub(super) fn open_file(tid: u32, file: &str) -> Option<libc::c_int> {
    let mut path = [0_u8; PATH_BYTES_MAX];
    write_path(&mut path, tid, file)?;
    // SAFETY: the path ends with NUL: it was written into zeroes that are one longer at least.
    let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
    (fd >= 0).then_some(fd)
}

/// Writes `/proc/self/task/<tid>/<file>`; `None` if it doesn't fit with its NUL.
fn write_path(path: &mut [u8; PATH_BYTES_MAX], tid: u32, file: &str) -> Option<()> {
    let mut digits = [0_u8; 10];
    let mut rest = tid;
    let mut count = 0_usize;
    for place in digits.iter_mut().rev() {
        *place = b'0'.wrapping_add(u8::try_from(rest % 10).ok()?);
        rest /= 10;
        count = count.saturating_add(1);
        if rest == 0 {
            break;
        }
    }
    let number = digits.get(digits.len().checked_sub(count)?..)?;
    let mut room = path.iter_mut().rev().skip(1).rev();
    for byte in b"/proc/self/task/".iter().chain(number).chain(b"/").chain(file.as_bytes()) {
        *room.next()? = *byte;
    }
    Some(())
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim_ascii().parse().ok()
}

fn hex(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_ascii();
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// What `stat` says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The state's letter: `R` running or runnable, `S` sleeping, `D` in uninterruptible wait …
    pub state: u8,
    /// User and system time, in the kernel's ticks (usually 10 ms).
    pub cpu_ticks: u64,
    /// When it began, in the kernel's ticks since boot: tells it from an earlier thread of the same
    /// id.
    pub start_ticks: u64,
}

impl Stat {
    /// Reads `stat`; `None` once the thread has ended.
    #[must_use]
    pub fn read(tid: u32) -> Option<Self> {
        Self::parse(read_file(tid, "stat", &mut [0; LINE_BYTES_MAX])?)
    }

    /// Whether the thread is running or ready to run.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == b'R'
    }

    /// The name in parentheses can hold anything, parentheses too: fields count from the last one.
    fn parse(text: &[u8]) -> Option<Self> {
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let mut fields = text.get(name_end.checked_add(2)?..)?.split(|byte| *byte == b' ');
        let state = *fields.next()?.first()?;
        // utime is field 14 of the file, hence the tenth after the state, which is field 3.
        let user = number(fields.nth(10)?)?;
        let system = number(fields.next()?)?;
        // starttime is field 22, hence the seventh after stime.
        let start_ticks = number(fields.nth(6)?)?;
        Some(Self { state, cpu_ticks: user.saturating_add(system), start_ticks })
    }
}

/// Whether a thread is running or ready to run.
#[must_use]
pub fn is_running(tid: u32) -> bool {
    Stat::read(tid).is_some_and(|stat| stat.is_running())
}

/// When this process began, in the kernel's ticks since boot; 0 if the kernel doesn't say.
#[must_use]
pub fn own_start_ticks() -> u64 {
    Stat::read(std::process::id()).map_or(0, |stat| stat.start_ticks)
}

/// When a process began, in the kernel's ticks since boot; `None` if there is none of that id.
/// Allocates.
#[must_use]
pub fn process_start_ticks(pid: u32) -> Option<u64> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    Stat::parse(&text).map(|stat| stat.start_ticks)
}

/// What `syscall` says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// It has a processor, or is ready for one.
    Running,
    /// It is blocked in a system call (or, with no number, in a page fault).
    At {
        /// The system call's number; `None` when blocked elsewhere in the kernel.
        call: Option<u32>,
        /// Its stack pointer.
        sp: u64,
        /// Its instruction pointer, just after the call instruction.
        ip: u64,
        /// Its frame pointer's register, where the system tells it.
        bp: Option<u64>,
    },
}

/// The kernel's number of the system call `futex`.
#[cfg(target_arch = "x86_64")]
const FUTEX: u32 = 202;
#[cfg(target_arch = "aarch64")]
const FUTEX: u32 = 98;

impl Blocked {
    /// Whether it waits in a futex, as for a lock or a condition.
    #[must_use]
    pub fn is_in_futex(&self) -> bool {
        matches!(self, Self::At { call: Some(FUTEX), .. })
    }

    /// Reads `syscall`; `None` once the thread has ended, or if the kernel refuses.
    #[must_use]
    pub fn read(tid: u32) -> Option<Self> {
        Self::parse(read_file(tid, "syscall", &mut [0; LINE_BYTES_MAX])?)
    }

    /// `running`, or `<number> <six arguments> <sp> <ip>`, or `-1 <sp> <ip>`.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        if text == b"running" {
            return Some(Self::Running);
        }
        let mut fields = text.split(|byte| *byte == b' ');
        let call = number(fields.next()?).and_then(|call| u32::try_from(call).ok());
        let ip = hex(fields.next_back()?)?;
        let sp = hex(fields.next_back()?)?;
        Some(Self::At { call, sp, ip, bp: None })
    }
}

/// What `schedstat` says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SchedStat {
    /// Time on a processor, in nanoseconds, up to the last switch or tick.
    pub run_ns: u64,
    /// Time that it was ready and another thread had the processor, in nanoseconds. A delay is
    /// counted when it ends.
    pub delay_ns: u64,
    /// How often it was given a processor: after waits and after delays.
    pub turns: u64,
}

impl SchedStat {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut fields = text.trim_ascii_end().split(|byte| *byte == b' ').map(number);
        let mut next = || fields.next().flatten();
        Some(Self { run_ns: next()?, delay_ns: next()?, turns: next()? })
    }
}

/// What `status` says of how often a thread has given up the processor by itself.
pub(super) fn switches_of(text: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"\nvoluntary_ctxt_switches:";
    // It is the last but one line.
    let start = text.windows(KEY.len()).rposition(|window| window == KEY)?;
    let rest = text.get(start.checked_add(KEY.len())?..)?;
    number(rest.split(|byte| *byte == b'\n').next()?)
}

/// A thread's name as the kernel has it, at most 15 bytes.
#[must_use]
pub fn thread_name(tid: u32) -> Option<String> {
    let mut room = [0; LINE_BYTES_MAX];
    let text = read_file(tid, "comm", &mut room)?;
    Some(String::from_utf8_lossy(text.trim_ascii_end()).into_owned())
}

/// The ids of all threads of this process. Allocates.
///
/// # Errors
/// If `/proc` isn't mounted or no descriptor is left.
pub fn thread_ids() -> io::Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc/self/task")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// How many threads this process has, without a list of them: the links of the list's folder.
/// `None` where the kernel doesn't count them so.
#[must_use]
pub fn thread_count() -> Option<usize> {
    use std::os::unix::fs::MetadataExt;
    // A folder's own two links come on top.
    const OWN_LINKS: u64 = 2;
    let links = std::fs::metadata("/proc/self/task").ok()?.nlink();
    usize::try_from(links.checked_sub(OWN_LINKS)?).ok().filter(|count| *count > 0)
}

/// The executable memory of this process, as first and one-past-last addresses; empty if `/proc`
/// can't be read. Allocates.
#[must_use]
pub fn executable_ranges() -> Vec<(u64, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let range = |line: &str| {
        let (addresses, rest) = line.split_once(' ')?;
        let (start, end) = addresses.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        (rest.as_bytes().get(2) == Some(&b'x')).then_some((address(start)?, address(end)?))
    };
    maps.lines().filter_map(range).collect()
}

/// This process's resident memory in bytes.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_counted_from_the_last_parenthesis() {
        let text = b"12 (a ) R (b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20\n";
        let expected = Stat { state: b'S', cpu_ticks: 23, start_ticks: 19 };
        assert_eq!(Stat::parse(text), Some(expected));
        for length in 0..text.len() - 14 {
            assert!(!Stat::parse(&text[..length]).is_some_and(|s| s.is_running()));
        }
    }

    #[test]
    fn syscall_has_three_forms() {
        assert_eq!(Blocked::parse(b"running\n"), Some(Blocked::Running));
        let blocked = Blocked::parse(b"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffe10 0x7f0020\n");
        assert_eq!(
            blocked,
            Some(Blocked::At { call: Some(202), sp: 0x7ffe10, ip: 0x7f0020, bp: None })
        );
        let fault = Blocked::parse(b"-1 0x7ffe10 0x7f0020\n");
        assert_eq!(fault, Some(Blocked::At { call: None, sp: 0x7ffe10, ip: 0x7f0020, bp: None }));
        assert_eq!(Blocked::parse(b""), None);
    }

    #[test]
    fn schedstat_has_three_numbers() {
        let expected = SchedStat { run_ns: 12, delay_ns: 3, turns: 45 };
        assert_eq!(SchedStat::parse(b"12 3 45\n"), Some(expected));
        for damaged in [&b""[..], b"12 3\n", b"12 x 45\n", b"12 3 -1\n"] {
            assert_eq!(SchedStat::parse(damaged), None);
        }
    }

    #[test]
    fn paths() {
        for (tid, expected) in [(0, "0"), (7, "7"), (1234, "1234"), (u32::MAX, "4294967295")] {
            let mut path = [0; PATH_BYTES_MAX];
            write_path(&mut path, tid, "schedstat").expect("fits");
            let end = path.iter().position(|byte| *byte == 0).expect("ends with NUL");
            let expected = format!("/proc/self/task/{expected}/schedstat");
            assert_eq!(std::str::from_utf8(&path[..end]), Ok(expected.as_str()));
        }
        assert_eq!(write_path(&mut [0; PATH_BYTES_MAX], u32::MAX, &"x".repeat(22)), None);
    }

    #[test]
    fn reads_this_very_thread() {
        let tid = crate::thread::own_id();
        assert!(Stat::read(tid).expect("own stat").is_running());
        // A thread that reads its own file is seen in that very read.
        assert!(matches!(Blocked::read(tid), Some(Blocked::At { call: Some(0), .. })));
        assert!(thread_ids().expect("task list").contains(&tid));
        assert!(thread_count().is_some_and(|count| count >= 1));
        assert_eq!(Stat::read(u32::MAX), None);
        let here = write_path as *const () as u64;
        let holds = |(start, end): &(u64, u64)| (*start..*end).contains(&here);
        assert!(executable_ranges().iter().any(holds));
    }
}
