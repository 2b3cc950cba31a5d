//! Clocks, in nanoseconds.

/// The kernel's number for a thread's CPU clock: the complement of the id, and "per thread,
/// scheduler's count" in the low bits. Source: `CPUCLOCK_*` in the kernel's posix-timers header.
#[must_use]
pub fn thread_cpu_clock(tid: u32) -> libc::clockid_t {
    const PER_THREAD_SCHED: libc::clockid_t = 6;
    (!tid.cast_signed() << 3) | PER_THREAD_SCHED
}

/// A clock's reading; `None` if there is no such clock, as for a thread that has ended.
fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to a valid place.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u64::try_from(time.tv_nsec).ok()?;
    (answer == 0).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Whether a thread whose clock has not moved has not run: the kernel counts each nanosecond.
#[must_use]
pub const fn is_exact() -> bool {
    true
}

/// Processor time that a look at a thread may cost the thread itself, in nanoseconds: it is read
/// from outside.
#[must_use]
pub const fn look_cost_ns() -> u64 {
    0
}

/// Since boot, never stepped.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Since 1970.
#[must_use]
pub fn wall_clock_ns() -> u64 {
    read(libc::CLOCK_REALTIME).unwrap_or(0)
}

/// Processor time of a thread of this process; `None` once it has ended.
#[must_use]
pub fn thread_cpu_ns(tid: u32) -> Option<u64> {
    read(thread_cpu_clock(tid))
}

/// Processor time of the calling thread.
#[must_use]
pub fn own_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// Processor time of this process, all threads, ended ones too.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0)
}
