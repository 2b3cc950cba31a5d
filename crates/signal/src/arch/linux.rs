//! Linux: registers out of a signal's context, and system calls made without libc, so that neither
//! `errno` nor a lazily bound stub is touched.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the signal crate speaks x86-64 only");

use core::arch::asm;
use core::ffi::c_void;

use super::Registers;

/// Whether native code's unwind data tells of each instruction: `.eh_frame` does.
pub const EPILOGUES_HAVE_RULES: bool = true;

const SYS_GETTID: u64 = 186;
const SYS_CLOCK_GETTIME: u64 = 228;
const SYS_TIMER_SETTIME: u64 = 223;
/// Offset of the general registers in the kernel's `ucontext`: flags, link and the stack's
/// description come first. Source: `struct ucontext` and `struct sigcontext_64` of the kernel.
const GREGS_OFFSET: u64 = 40;
/// Offsets of the description of the alternate stack (`stack_t`): its address and its size. The
/// flags between them are the kernel's settings, and do not tell whether it is in use.
const STACK_OFFSET: u64 = 16;
const STACK_FLAGS_OFFSET: u64 = 24;
const STACK_BYTES_OFFSET: u64 = 32;
const GREG_RBP: u64 = 10;
const GREG_RAX: u64 = 13;
const GREG_RSP: u64 = 15;
const GREG_RIP: u64 = 16;

/// Clock numbers of the kernel.
#[derive(Clone, Copy)]
#[repr(u64)]
pub enum Clock {
    /// Nanoseconds since boot, not stepped.
    Monotonic = 1,
    /// The calling thread's processor time.
    ThreadCpu = 3,
}

/// The address of a saved register in a `ucontext` at `context`.
const fn greg_address(context: u64, register: u64) -> u64 {
    context.wrapping_add(GREGS_OFFSET).wrapping_add(register.wrapping_mul(8))
}

/// The interrupted registers in a `ucontext` at `context`, read through `read`.
///
/// # Signal safety
/// Calls nothing but `read`.
pub fn registers_at(context: u64, mut read: impl FnMut(u64) -> Option<u64>) -> Option<Registers> {
    Some(Registers {
        ip: read(greg_address(context, GREG_RIP))?,
        sp: read(greg_address(context, GREG_RSP))?,
        bp: Some(read(greg_address(context, GREG_RBP))?),
    })
}

/// A register of a signal's context.
///
/// # Safety
/// `context` is the third argument of an `SA_SIGINFO` handler, `register` at most 16.
unsafe fn greg(context: *const c_void, register: u64) -> u64 {
    let address = greg_address(context as u64, register) as *const u64;
    // SAFETY: the kernel wrote a whole ucontext there and keeps it until the handler returns (the
    // caller's promise); its registers are eight bytes each and aligned.
    unsafe { address.read() }
}

/// The interrupted registers of a signal's context.
///
/// # Safety
/// `context` is the third argument of an `SA_SIGINFO` handler.
///
/// # Signal safety
/// Reads memory only.
#[must_use]
pub unsafe fn registers(context: *const c_void) -> Registers {
    // SAFETY: passed on from the caller.
    let ip = unsafe { greg(context, GREG_RIP) };
    // SAFETY: passed on from the caller.
    let sp = unsafe { greg(context, GREG_RSP) };
    // SAFETY: passed on from the caller.
    let bp = unsafe { greg(context, GREG_RBP) };
    Registers { ip, sp, bp: Some(bp) }
}

/// The result register of a signal's context: a system call's answer if one was interrupted.
///
/// # Safety
/// `context` is the third argument of an `SA_SIGINFO` handler.
///
/// # Signal safety
/// Reads memory only.
#[must_use]
pub unsafe fn result_register(context: *const c_void) -> u64 {
    // SAFETY: passed on from the caller.
    unsafe { greg(context, GREG_RAX) }
}

/// The alternate stack, from and to, if the code that the signal interrupted runs on it.
///
/// # Safety
/// `context` is the third argument of an `SA_SIGINFO` handler.
///
/// # Signal safety
/// Reads memory only.
#[must_use]
pub unsafe fn signal_stack(context: *const c_void) -> Option<(u64, u64)> {
    let word = |offset| (context as u64).wrapping_add(offset) as *const u64;
    // SAFETY: the kernel wrote a whole ucontext there, with an aligned `stack_t` at that place (the
    // caller's promise).
    let start = unsafe { word(STACK_OFFSET).read() };
    // SAFETY: as above; its third field is a size.
    let bytes = unsafe { word(STACK_BYTES_OFFSET).read() };
    // SAFETY: passed on from the caller.
    let sp = unsafe { greg(context, GREG_RSP) };
    let end = start.saturating_add(bytes);
    (sp >= start && sp < end).then_some((start, end))
}

/// Sees that the thread has room for signals within signals: if its alternate stack is smaller than
/// a spare one, the thread has that when the handler returns, since the kernel then sets what the
/// context says. Returns whether there is room, from then on at the latest.
///
/// # Safety
/// `context` is the third argument of an `SA_SIGINFO` handler; the spare one is `bytes` of memory
/// from `start` on that nobody uses and that stay while the thread lives.
///
/// # Signal safety
/// Reads and writes the context only.
#[must_use]
pub unsafe fn make_room(context: *mut c_void, (start, bytes): (u64, u64)) -> bool {
    const DISABLED: i32 = 2;
    let word = |offset| (context as u64).wrapping_add(offset) as *mut u64;
    // SAFETY: a whole ucontext is there, with an aligned `stack_t` at that place (the caller's
    // promise).
    let has_bytes = unsafe { word(STACK_BYTES_OFFSET).read() };
    // SAFETY: as above; its second field is an int.
    let flags = unsafe { word(STACK_FLAGS_OFFSET).cast::<i32>().read() };
    if flags & DISABLED != 0 || has_bytes >= bytes {
        return true;
    }
    // SAFETY: the caller's promise. A thread that is on its alternate stack keeps it.
    if start == 0 || unsafe { signal_stack(context) }.is_some() {
        return false;
    }
    // SAFETY: the context is the handler's to change, as above.
    unsafe { word(STACK_OFFSET).write(start) };
    // SAFETY: as above.
    unsafe { word(STACK_FLAGS_OFFSET).cast::<i32>().write(0) };
    // SAFETY: as above.
    unsafe { word(STACK_BYTES_OFFSET).write(bytes) };
    true
}

/// The calling thread's id, as the kernel counts.
///
/// # Signal safety
/// One system call.
#[must_use]
pub fn thread_id() -> u32 {
    let answer: u64;
    // SAFETY: gettid takes no argument, touches no memory and can't fail; rcx and r11 are the two
    // registers that the instruction itself overwrites.
    unsafe {
        asm!("syscall", inlateout("rax") SYS_GETTID => answer, out("rcx") _, out("r11") _,
            options(nostack, preserves_flags));
    }
    u32::try_from(answer).unwrap_or(0)
}

/// A clock's reading in nanoseconds; 0 if the kernel refuses.
///
/// # Signal safety
/// One system call.
#[must_use]
pub fn clock_ns(clock: Clock) -> u64 {
    let mut time = [0_u64; 2];
    let answer: i64;
    // SAFETY: the kernel writes two eight-byte numbers to the array that rsi points to.
    unsafe {
        asm!("syscall", inlateout("rax") SYS_CLOCK_GETTIME => answer, in("rdi") clock as u64,
            in("rsi") time.as_mut_ptr(), out("rcx") _, out("r11") _,
            options(nostack, preserves_flags));
    }
    let [seconds, nanos] = time;
    if answer == 0 { seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos) } else { 0 }
}

/// Sets when a timer of this process next expires, on its own clock; after that it goes on with its
/// interval. Nanoseconds. A timer that is gone is not an error worth telling here.
///
/// # Signal safety
/// One system call.
pub fn set_timer(timer: i32, next_ns: u64, interval_ns: u64) {
    const TIMER_ABSTIME: u64 = 1;
    const SECOND_NS: u64 = 1_000_000_000;
    let split = |ns: u64| (ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
    let (interval_s, interval_rest) = split(interval_ns);
    let (next_s, next_rest) = split(next_ns);
    let times = [interval_s, interval_rest, next_s, next_rest];
    // SAFETY: the kernel reads four eight-byte numbers (an itimerspec) from the array that rdx
    // points to, and writes nothing since no old value is asked for.
    unsafe {
        asm!("syscall", inlateout("rax") SYS_TIMER_SETTIME => _, in("rdi") i64::from(timer),
            in("rsi") TIMER_ABSTIME, in("rdx") times.as_ptr(), in("r10") 0_u64,
            out("rcx") _, out("r11") _, options(nostack, preserves_flags));
    }
}
