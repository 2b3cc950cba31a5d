//! Who handles a signal in this process, and sending one to a thread.

use std::ffi::c_void;
use std::io;

/// A handler with `SA_SIGINFO`'s arguments.
pub type Handler = unsafe extern "C" fn(libc::c_int, *mut c_void, *mut c_void);

/// The signal that POSIX made for profilers. CoreCLR does not use it.
pub const PROFILING_SIGNAL: i32 = libc::SIGPROF;

/// Whom a signal goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The kernel, which ends the process if the signal is one for that.
    Default,
    /// Nobody.
    Ignored,
    /// A handler at this address.
    Handler(usize),
}

fn disposition(action: &libc::sigaction) -> Disposition {
    match action.sa_sigaction {
        libc::SIG_DFL => Disposition::Default,
        libc::SIG_IGN => Disposition::Ignored,
        address => Disposition::Handler(address),
    }
}

/// Whether code in this process may run on stacks that have no room for a signal's frame. The one
/// such runtime that is met as a library is Go's: it switches to stacks of a few KiB, and asks of
/// all handlers that they run on an alternate stack, which ours doesn't. It has a handler for
/// `SIGURG` in whatever it is linked into, and hardly anybody else does.
#[must_use]
pub fn has_small_stacks() -> bool {
    matches!(current(libc::SIGURG), Ok(Disposition::Handler(_)))
}

/// An action of no handler and an empty mask.
fn empty_action() -> libc::sigaction {
    // SAFETY: all fields of the structure are numbers, null-able pointers and bit sets.
    unsafe { std::mem::zeroed() }
}

/// Who handles a signal now.
///
/// # Errors
/// `EINVAL` for a number that is no signal.
pub fn current(signal: i32) -> io::Result<Disposition> {
    let mut action = empty_action();
    // SAFETY: with a null new action the call only writes the old one, to a valid place.
    let answer = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    if answer == 0 { Ok(disposition(&action)) } else { Err(io::Error::last_os_error()) }
}

/// Installs a handler that gets a siginfo, lets system calls go on where they can, and runs on the
/// interrupted stack (the alternate one belongs to the runtime's crash handling).
/// Returns who had the signal before.
///
/// # Safety
/// `handler` is async-signal-safe and lives as long as it is installed.
///
/// # Errors
/// `EINVAL` for a number that is no signal or can't be caught.
pub unsafe fn install(signal: i32, handler: Handler) -> io::Result<Disposition> {
    let mut action = empty_action();
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    let mut old = empty_action();
    // SAFETY: both point to valid structures; the handler is the caller's promise.
    let answer = unsafe { libc::sigaction(signal, &raw const action, &raw mut old) };
    if answer == 0 { Ok(disposition(&old)) } else { Err(io::Error::last_os_error()) }
}

/// Takes a handler back: signals that are pending vanish, and from then on it goes to whom it went
/// `before`, if that was no handler; else it is ignored.
///
/// # Errors
/// `EINVAL` for a number that is no signal or can't be caught.
pub fn withdraw(signal: i32, before: Disposition) -> io::Result<()> {
    // First this, which drops what is pending on all threads: the default would end the process.
    set(signal, libc::SIG_IGN)?;
    match before {
        Disposition::Default => set(signal, libc::SIG_DFL),
        Disposition::Ignored | Disposition::Handler(_) => Ok(()),
    }
}

fn set(signal: i32, action: libc::sighandler_t) -> io::Result<()> {
    let mut new = empty_action();
    new.sa_sigaction = action;
    // SAFETY: the new action is valid; a null old one is allowed.
    let answer = unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's siginfo as a sender fills it: 128 bytes.
#[repr(C)]
struct QueuedInfo {
    signal: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    pad: libc::c_int,
    pid: libc::c_int,
    uid: libc::c_uint,
    value: u64,
    rest: [u8; 96],
}

const _: () = assert!(size_of::<QueuedInfo>() == 128, "the kernel reads 128 bytes");

/// Sends a signal with a value to one thread of this process.
///
/// # Errors
/// `ESRCH` if the thread has ended, `EAGAIN` if the queue of signals is full.
pub fn send(tid: u32, signal: i32, value: u64) -> io::Result<()> {
    // SAFETY: these two have no arguments and can't fail.
    let (pid, uid) = unsafe { (libc::getpid(), libc::getuid()) };
    let info = QueuedInfo {
        signal,
        errno: 0,
        code: libc::SI_QUEUE,
        pad: 0,
        pid,
        uid,
        value,
        rest: [0; 96],
    };
    // SAFETY: the kernel reads 128 bytes of the info.
    let sent =
        unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, &raw const info) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
