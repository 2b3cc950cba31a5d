//! Clocks, in nanoseconds.
//!
//! A thread's processor time is its cycles, where the system counts them: to the instruction, and
//! not by ticks of 10 to 16 ms. They are counted by the processor's time stamp counter, whose rate
//! is measured once. Where cycles are not told (Wine), there are the ticks.

use std::arch::x86_64::_rdtsc;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::time::Duration;

use super::api::{self, FileTime, Handle};
use super::handles;

/// For how long the time stamp counter's rate is measured: the performance counter has steps of
/// 100 ns, so it is right to 20 millionths.
const MEASURED: Duration = Duration::from_millis(5);

type QueryCycles = unsafe extern "system" fn(Handle, *mut u64) -> i32;

/// How cycles are asked for, and how long they take.
struct Cycles {
    of_thread: QueryCycles,
    of_process: QueryCycles,
    /// Nanoseconds a cycle, times 2^32.
    scale: u64,
}

static CYCLES: OnceLock<Option<Cycles>> = OnceLock::new();

impl Cycles {
    /// `None` if the system doesn't count them.
    fn find() -> Option<Self> {
        let find = |name| {
            let found = api::optional(c"kernel32.dll", name);
            // SAFETY: both functions have that type (processthreadsapi.h, realtimeapiset.h).
            (!found.is_null())
                .then(|| unsafe { std::mem::transmute::<*const c_void, QueryCycles>(found) })
        };
        let of_thread = find(c"QueryThreadCycleTime")?;
        let of_process = find(c"QueryProcessCycleTime")?;
        // SAFETY: the calling thread's and the process's own handles; valid places.
        let (thread, process) = unsafe {
            (ask(of_thread, api::GetCurrentThread())?, ask(of_process, api::GetCurrentProcess())?)
        };
        (thread > 0 && process > 0).then(|| Self { of_thread, of_process, scale: scale() })
    }

    fn ns(&self, cycles: u64) -> u64 {
        let ns = u128::from(cycles).saturating_mul(u128::from(self.scale)) >> 32;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// # Safety
/// The function is one of the two that tell cycles.
unsafe fn ask(query: QueryCycles, handle: Handle) -> Option<u64> {
    let mut cycles = 0;
    // SAFETY: the caller's promise; the answer is written to a valid place.
    let told = unsafe { query(handle, &raw mut cycles) };
    (told != 0).then_some(cycles)
}

/// Nanoseconds a cycle of the time stamp counter, times 2^32.
fn scale() -> u64 {
    // SAFETY: reads a counter.
    let stamp = || unsafe { _rdtsc() };
    let (start_ns, start) = (monotonic_ns(), stamp());
    std::thread::sleep(MEASURED);
    let (ns, cycles) = (monotonic_ns().saturating_sub(start_ns), stamp().saturating_sub(start));
    let scaled = (u128::from(ns) << 32).checked_div(u128::from(cycles)).unwrap_or(0);
    u64::try_from(scaled).unwrap_or(0)
}

fn cycles() -> Option<&'static Cycles> {
    CYCLES.get_or_init(Cycles::find).as_ref()
}

/// Whether a thread whose clock has not moved has not run: so it is with cycles. With ticks it may
/// have run for less than one.
#[must_use]
pub fn is_exact() -> bool {
    cycles().is_some()
}

/// Processor time that a look at a thread may cost the thread itself, in nanoseconds: one that
/// waits is woken to be suspended, and then goes on waiting.
#[must_use]
pub const fn look_cost_ns() -> u64 {
    50_000
}

/// Since boot, never stepped.
#[must_use]
pub fn monotonic_ns() -> u64 {
    static FREQUENCY: OnceLock<u64> = OnceLock::new();
    let frequency = *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: writes to a valid place; it can't fail.
        unsafe { api::QueryPerformanceFrequency(&raw mut frequency) };
        u64::try_from(frequency).unwrap_or(1).max(1)
    });
    let mut count = 0;
    // SAFETY: writes to a valid place; it can't fail.
    unsafe { api::QueryPerformanceCounter(&raw mut count) };
    let count = u64::try_from(count).unwrap_or(0);
    let ns = u128::from(count).saturating_mul(1_000_000_000) / u128::from(frequency);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Since 1970.
#[must_use]
pub fn wall_clock_ns() -> u64 {
    /// From 1601 to 1970, in steps of 100 ns.
    const EPOCH_STEPS: u64 = 116_444_736_000_000_000;
    let mut time = FileTime::default();
    // SAFETY: writes to a valid place.
    unsafe { api::GetSystemTimePreciseAsFileTime(&raw mut time) };
    time.steps().saturating_sub(EPOCH_STEPS).saturating_mul(100)
}

/// A thread's times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// When it was made, in steps of 100 ns since 1601.
    pub created_steps: u64,
    /// Whether it has ended.
    pub has_ended: bool,
    /// Processor time, in ticks of the system.
    pub cpu_ns: u64,
}

/// The times of a thread's handle.
pub(super) fn times(thread: Handle) -> Option<Times> {
    // SAFETY: the function has that type and is of threads.
    unsafe { ask_times(api::GetThreadTimes, thread) }
}

type QueryTimes = unsafe extern "system" fn(
    Handle,
    *mut FileTime,
    *mut FileTime,
    *mut FileTime,
    *mut FileTime,
) -> i32;

/// # Safety
/// The function is one of the two that tell times, and the handle is of what it is about.
unsafe fn ask_times(query: QueryTimes, handle: Handle) -> Option<Times> {
    let [mut created, mut ended, mut kernel, mut user] = [FileTime::default(); 4];
    // SAFETY: the caller's promise; four valid places.
    let told =
        unsafe { query(handle, &raw mut created, &raw mut ended, &raw mut kernel, &raw mut user) };
    (told != 0).then(|| Times {
        created_steps: created.steps(),
        has_ended: ended.steps() != 0,
        cpu_ns: kernel.ns().saturating_add(user.ns()),
    })
}

/// Processor time of a thread's handle.
pub(super) fn handle_cpu_ns(thread: Handle) -> Option<u64> {
    match cycles() {
        // SAFETY: the function that was found.
        Some(cycles) => unsafe { ask(cycles.of_thread, thread) }.map(|count| cycles.ns(count)),
        None => times(thread).map(|times| times.cpu_ns),
    }
}

/// Processor time of a thread of this process; `None` once it has ended.
#[must_use]
pub fn thread_cpu_ns(tid: u32) -> Option<u64> {
    let thread = handles::of(tid)?;
    if thread.has_ended() {
        handles::close(tid);
        return None;
    }
    handle_cpu_ns(thread.raw())
}

/// Processor time of the calling thread.
#[must_use]
pub fn own_cpu_ns() -> u64 {
    // SAFETY: no argument, can't fail.
    handle_cpu_ns(unsafe { api::GetCurrentThread() }).unwrap_or(0)
}

/// Processor time of this process, all threads, ended ones too.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    // SAFETY: no argument, can't fail.
    let process = unsafe { api::GetCurrentProcess() };
    if let Some(cycles) = cycles() {
        // SAFETY: the function that was found.
        return unsafe { ask(cycles.of_process, process) }.map_or(0, |count| cycles.ns(count));
    }
    // SAFETY: the function has that type and is of processes.
    unsafe { ask_times(api::GetProcessTimes, process) }.map_or(0, |times| times.cpu_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_moves_the_clocks() {
        let (cpu_ns, process_ns, now_ns) = (own_cpu_ns(), process_cpu_ns(), monotonic_ns());
        // Several ticks, where there are ticks.
        while own_cpu_ns().saturating_sub(cpu_ns) < 50_000_000 {
            std::hint::black_box(0);
        }
        assert!(process_cpu_ns() - process_ns >= 50_000_000);
        assert!(monotonic_ns() > now_ns);
        let tid = super::super::thread::own_id();
        assert!(thread_cpu_ns(tid).is_some_and(|own_ns| own_ns >= cpu_ns + 50_000_000));
        // Since 2020, and not since 1601.
        assert!(wall_clock_ns() > 1_577_836_800_000_000_000);
    }

    #[test]
    fn cycles_are_nanoseconds() {
        unsafe extern "system" fn refuses(_: Handle, _: *mut u64) -> i32 {
            0
        }
        // Four billion cycles a second.
        let cycles = Cycles { of_thread: refuses, of_process: refuses, scale: 1 << 30 };
        assert_eq!(cycles.ns(4_000_001), 1_000_000);
        assert_eq!(cycles.ns(u64::MAX), u64::MAX / 4);
        // SAFETY: a function of that type, which looks at no handle.
        assert_eq!(unsafe { ask(cycles.of_thread, 0) }, None);
    }
}
