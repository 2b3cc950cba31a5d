//! The system around a process: signals, timers, filters of system calls, `/proc`.

use std::io::IoSliceMut;

use diagnostics::Status;
use nix::errno::Errno;
use nix::sys::signal::{SigEvent, SigevNotify};
use nix::sys::timer::Timer;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::time::ClockId;
use nix::unistd::Pid;

use super::check::{Check, Level, Topic};

/// SIGPROF's number, the same on all Linux systems of ours.
const SIGPROF: u32 = 27;
/// Threads that a program is thought to have if it does not run yet.
const THREADS_EXPECTED: u64 = 256;
/// Threads that a running program may still start.
const THREADS_MORE: u64 = 32;

/// The signal that the agent uses.
pub fn signal(status: &Status, has_agent: bool) -> Check {
    if status.catches(SIGPROF) && !has_agent {
        return Check::bad(
            Topic::Signal,
            Level::Prevents,
            "SIGPROF has a handler already, of another profiler or of the program itself: the \
             agent needs it, and does not start",
            "switch off what uses it; see \"Signals\" in docs/troubleshooting.md",
        );
    }
    Check::fine(Topic::Signal, if has_agent { "SIGPROF is ours" } else { "SIGPROF is free" })
}

/// Timers, which the kernel counts as pending signals. `threads` is known of a running process.
pub fn timers(status: &Status, threads: Option<u64>) -> Check {
    let Some((used, limit)) = status.pending_signals() else {
        return Check::fine(Topic::Timers, "no limit of pending signals is known");
    };
    let left = limit.saturating_sub(used);
    let needed = threads.map_or(THREADS_EXPECTED, |threads| threads + THREADS_MORE);
    if left < needed {
        return Check::bad(
            Topic::Timers,
            Level::Degrades,
            format!(
                "{left} of {limit} timers and pending signals are left to the user, and each \
                 thread needs one (about {needed}): the others are found by scanning"
            ),
            "raise the limit: `ulimit -i`, LimitSIGPENDING= of systemd, --ulimit sigpending= of \
             docker",
        );
    }
    Check::fine(Topic::Timers, format!("{left} timers and pending signals are left to the user"))
}

/// Filters of system calls, by the mode of the process, and by trying if it is us.
pub fn seccomp(status: &Status, is_own: bool) -> Vec<Check> {
    let mode = status.field("Seccomp").unwrap_or("0");
    if mode == "1" {
        return vec![Check::bad(
            Topic::Seccomp,
            Level::Prevents,
            "the process is in seccomp's strict mode, in which nothing but reading works",
            "start it without",
        )];
    }
    if is_own {
        let refused = refused_calls();
        if !refused.is_empty() {
            return refused;
        }
        return vec![Check::fine(Topic::Seccomp, "timers and reading of own memory work here")];
    }
    if mode == "2" {
        return vec![Check::bad(
            Topic::Seccomp,
            Level::Note,
            "a filter of system calls is on, as containers have it; which calls it refuses can't \
             be seen from outside",
            "if stacks are cut off as unreadable, or no_timer counts: allow process_vm_readv and \
             timer_create; `corprof doctor` inside the container tries both",
        )];
    }
    vec![Check::fine(Topic::Seccomp, "no filter of system calls")]
}

/// Tries what the agent does.
fn refused_calls() -> Vec<Check> {
    let bad = |call: &str, error: nix::Error, consequence: &str| {
        Check::bad(
            Topic::Seccomp,
            Level::Degrades,
            format!("{call} does not work here ({error}): {consequence}"),
            format!("allow {call} in the seccomp profile of the container or of the service"),
        )
    };
    let mut checks = Vec::new();
    let event = SigEvent::new(SigevNotify::SigevNone);
    match Timer::new(ClockId::CLOCK_THREAD_CPUTIME_ID, event) {
        // With EAGAIN the limit is used up, which `timers` tells of.
        Ok(_) | Err(Errno::EAGAIN) => {}
        Err(error) => checks.push(bad("timer_create", error, "threads are found by scanning")),
    }
    let source = [7_u8; 8];
    let mut target = [0_u8; 8];
    let remote = [RemoteIoVec { base: source.as_ptr().addr(), len: source.len() }];
    let read = process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut target)], &remote);
    if let Err(error) = read {
        let consequence = "stacks of waiting threads end after their first frame";
        checks.push(bad("process_vm_readv", error, consequence));
    }
    checks
}

/// `/proc` as we see it: `mounts` is `/proc/self/mounts`.
pub fn proc_mount(mounts: &str, is_root: bool) -> Check {
    let is_proc = |line: &&str| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some("/proc") && words.next() == Some("proc")
    };
    // The last one that was mounted there is what is seen.
    let Some(line) = mounts.lines().rfind(is_proc) else {
        return Check::bad(
            Topic::Proc,
            Level::Degrades,
            "/proc is not mounted: stacks of waiting threads can't be read",
            "mount it: mount -t proc proc /proc",
        );
    };
    let options = line.split(' ').nth(3).unwrap_or_default();
    let hidden = options.split(',').find(|option| {
        option.strip_prefix("hidepid=").is_some_and(|how| how != "0" && how != "off")
    });
    match hidden {
        Some(option) if !is_root => Check::bad(
            Topic::Proc,
            Level::Note,
            format!("/proc is mounted with {option}: other users' processes can't be seen"),
            "run `corprof ps` as root; profiling itself does not need it",
        ),
        _ => Check::fine(Topic::Proc, "/proc is mounted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> Status {
        Status::new(text.to_owned())
    }

    #[test]
    fn a_signal_that_is_taken_prevents_unless_it_is_by_us() {
        // Bit 26 is SIGPROF.
        let taken = status("SigCgt:\t0000000004000000\n");
        assert_eq!(signal(&taken, false).level, Level::Prevents);
        assert_eq!(signal(&taken, true).level, Level::Fine);
        assert_eq!(signal(&status("SigCgt:\t00000000fbffffff\n"), false).level, Level::Fine);
    }

    #[test]
    fn each_thread_needs_a_timer() {
        let few = status("SigQ:\t40/100\n");
        assert_eq!(timers(&few, Some(29)).level, Level::Degrades);
        assert_eq!(timers(&few, Some(28)).level, Level::Fine);
        assert_eq!(timers(&few, None).level, Level::Degrades);
        assert_eq!(timers(&status("SigQ:\t0/62793\n"), None).level, Level::Fine);
        // More are pending than allowed, after the limit was lowered.
        assert_eq!(timers(&status("SigQ:\t9/0\n"), Some(1)).level, Level::Degrades);
    }

    #[test]
    fn filters_of_others_are_told_and_our_own_are_tried() {
        let level = |mode: &str| seccomp(&status(&format!("Seccomp:\t{mode}\n")), false)[0].level;
        assert_eq!(level("0"), Level::Fine);
        assert_eq!(level("1"), Level::Prevents);
        assert_eq!(level("2"), Level::Note);
        // Here both work, as the profiler's own tests need them.
        assert_eq!(seccomp(&status("Seccomp:\t2\n"), true)[0].level, Level::Fine);
    }

    #[test]
    fn a_proc_that_hides_processes_is_told_to_who_is_not_root() {
        let mounts = |options: &str| {
            format!("/dev/vda / ext4 rw 0 0\nproc /proc proc rw,nosuid{options} 0 0\n")
        };
        for (options, is_root, level) in [
            ("", false, Level::Fine),
            (",hidepid=0", false, Level::Fine),
            (",hidepid=invisible", false, Level::Note),
            (",hidepid=2", false, Level::Note),
            (",hidepid=2", true, Level::Fine),
        ] {
            assert_eq!(proc_mount(&mounts(options), is_root).level, level, "{options}");
        }
        assert_eq!(proc_mount("/dev/vda / ext4 rw 0 0\n", true).level, Level::Degrades);
    }
}
