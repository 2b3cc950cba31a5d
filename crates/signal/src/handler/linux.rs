//! Linux: a signal interrupts the thread, and the handler reads the stack that it runs on.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use model::Loss;

use super::{Origin, Shared, shared, take_sample};
use crate::arch::{self, Clock};
use crate::epilogue::EPILOGUE_BYTES;
use crate::record::ThreadRef;
use crate::tables::Tables;

/// A timer made the signal.
const SI_TIMER: i32 = -2;
/// `rt_tgsigqueueinfo` made the signal.
const SI_QUEUE: i32 = -1;
/// `kill` made the signal; with no sender, the kernel had no room to say who did.
const SI_USER: i32 = 0;
/// Offsets in the kernel's `siginfo` on 64-bit machines.
const SI_CODE_OFFSET: usize = 8;
const SI_PID_OFFSET: usize = 16;
const SI_OVERRUN_OFFSET: usize = 20;
const SI_VALUE_OFFSET: usize = 24;
/// An instruction's page: code is read forward from the instruction pointer only inside it.
const PAGE_BYTES: u64 = 4096;
/// `-EINTR` in the result register.
const INTERRUPTED: u64 = (-4_i64) as u64;

impl Shared {
    /// The thread that a signal was meant for, if it was one of ours. When the user's queue of
    /// pending signals is full (`RLIMIT_SIGPENDING`), the kernel delivers a signal all the same,
    /// but without its value and as if nobody had sent it; then it is this very thread.
    ///
    /// # Signal safety
    /// Reads atomics.
    fn whose(&self, code: i32, sender: i32, value: u64, tid: u32) -> Option<ThreadRef> {
        match code {
            SI_TIMER | SI_QUEUE => Some(ThreadRef::from_value(value)),
            SI_USER if sender == 0 => {
                let place = self.by_tid.get(tid as usize)?;
                let index = place.load(Ordering::Acquire).checked_sub(1)?;
                let generation = self.records.get(index as usize)?.generation();
                Some(ThreadRef { index, generation })
            }
            _ => None,
        }
    }
}

/// A field of the `siginfo`.
///
/// # Safety
/// `info` is the second argument of an `SA_SIGINFO` handler; `offset` is that of an aligned `T`.
unsafe fn field<T: Copy>(info: *const c_void, offset: usize) -> T {
    // SAFETY: a siginfo has 128 bytes, more than any offset used here (the caller's promise).
    let place = unsafe { info.byte_add(offset) }.cast::<T>();
    // SAFETY: the kernel filled it in, and it is aligned (the caller's promise).
    unsafe { place.read() }
}

/// The handler to install, with `SA_SIGINFO` and `SA_RESTART`.
///
/// # Safety
/// Called by the kernel as an `SA_SIGINFO` handler.
///
/// # Signal safety
/// This is the signal handler.
pub unsafe extern "C" fn on_signal(signal: c_int, info: *mut c_void, context: *mut c_void) {
    let Some(shared) = shared() else { return };
    let Some(_inside) = shared.gate.enter() else { return };
    // SAFETY: the kernel called this handler with a siginfo; si_code is an aligned i32.
    let code: i32 = unsafe { field(info, SI_CODE_OFFSET) };
    // SAFETY: all kinds of signal have an aligned i32 there: the sender's id, or a timer's.
    let sender: i32 = unsafe { field(info, SI_PID_OFFSET) };
    // SAFETY: a siginfo has eight aligned bytes at that place: the value, where it has one.
    let value: u64 = unsafe { field(info, SI_VALUE_OFFSET) };
    let tid = arch::thread_id();
    let Some(thread) = shared.whose(code, sender, value, tid) else {
        shared.count(Loss::ForeignSignal);
        // SAFETY: the arguments are the kernel's own.
        unsafe { pass_on(shared, signal, info, context) };
        return;
    };
    let overruns = if code == SI_TIMER {
        // SAFETY: a timer's signal has an aligned i32 there.
        u32::try_from(unsafe { field::<i32>(info, SI_OVERRUN_OFFSET) }).unwrap_or(0)
    } else {
        0
    };
    let record = shared.records.get(thread.index as usize);
    let Some(record) = record.filter(|record| record.is(thread.generation, tid)) else {
        shared.count(Loss::StaleThread);
        return;
    };
    if let Some(room) = record.wanted_room() {
        // SAFETY: the context is the kernel's own; a spare stack is the thread's for good.
        record.set_room(unsafe { arch::make_room(context, room) });
    }
    // SAFETY: the context is the kernel's own.
    let result = unsafe { arch::result_register(context) };
    // SAFETY: the context is the kernel's own.
    let registers = unsafe { arch::registers(context) };
    let cpu_clock_ns = arch::clock_ns(Clock::ThreadCpu);
    if let Some(timer) = record.timer() {
        let interval_ns = shared.cpu_interval_ns.load(Ordering::Relaxed);
        arch::set_timer(timer, record.next_due_ns(cpu_clock_ns, interval_ns), interval_ns);
    }
    let origin = Origin {
        thread,
        tid,
        overruns,
        time_ns: arch::clock_ns(Clock::Monotonic),
        cpu_clock_ns,
        span: record.context().read(),
        // SAFETY: the context is the kernel's own.
        signal_stack: unsafe { arch::signal_stack(context) },
        #[cfg(feature = "oracle")]
        context,
    };
    if ended_early(registers.ip, result) {
        shared.count(Loss::InterruptedCall);
    }
    let code = |tables: &Tables<'_>| leaf_code(tables, registers.ip);
    // SAFETY: inside the gate, until `_inside` is dropped.
    unsafe { take_sample(shared, record, &origin, registers, code, read_own) };
}

/// Hands a signal that is not ours to the handler that was there before.
///
/// # Safety
/// The arguments are those that the kernel gave to our handler.
// Not inlined: `signal-closure` knows the handler's one call through a pointer by its function.
#[cold]
#[inline(never)]
unsafe fn pass_on(shared: &Shared, signal: c_int, info: *mut c_void, context: *mut c_void) {
    type Handler = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void);
    let previous = shared.previous.load(Ordering::Relaxed);
    if previous != 0 {
        // SAFETY: it is the address of a handler that the kernel would have called with these
        // arguments (one without SA_SIGINFO ignores the last two).
        let handler: Handler = unsafe { core::mem::transmute(previous) };
        // SAFETY: as above.
        unsafe { handler(signal, info, context) };
    }
}

/// Eight bytes of the calling thread's stack.
#[expect(clippy::unnecessary_wraps, reason = "the walker's reader can fail elsewhere")]
fn read_own(address: u64) -> Option<u64> {
    // SAFETY: the walker asks only for aligned addresses inside the bounds, which lie between the
    // red zone below the interrupted stack pointer and the end of this thread's stack: mapped while
    // it runs, since the kernel wrote the signal's frame just below.
    Some(unsafe { (address as *const u64).read() })
}

/// The code that is about to run, for managed code only (native code has exact unwind data).
fn leaf_code<'a>(tables: &Tables<'_>, ip: u64) -> &'a [u8] {
    if tables.native.region(ip).is_some() {
        return &[];
    }
    let in_page = PAGE_BYTES.saturating_sub(ip & PAGE_BYTES.saturating_sub(1));
    let length = usize::try_from(in_page).unwrap_or(0).min(EPILOGUE_BYTES);
    // SAFETY: the thread was about to execute at `ip`, so its page is mapped and, on x86-64,
    // readable; the slice does not leave that page.
    unsafe { core::slice::from_raw_parts(ip as *const u8, length) }
}

/// Whether the interrupted instruction is the one after a system call that a signal ended early.
fn ended_early(ip: u64, result: u64) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    const SYSCALL_BYTES: u64 = 2;
    if result != INTERRUPTED || (ip & PAGE_BYTES.saturating_sub(1)) < SYSCALL_BYTES {
        return false;
    }
    let before = ip.wrapping_sub(SYSCALL_BYTES) as *const [u8; 2];
    // SAFETY: the two bytes lie in the page that the thread was executing, and have no alignment.
    let code = unsafe { before.read() };
    code == SYSCALL
}
