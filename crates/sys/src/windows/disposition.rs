//! Who takes samples: on Windows no signal interrupts a thread. To send one is to suspend the
//! thread, to copy its registers and stack, to let it go on, and to call the handler with that.
//! While the thread stands still the handler is called as well, to note what the thread says of
//! itself.

use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::suspended::Whose;

use super::{modules, suspension};

/// A handler with the arguments of one for signals: the second is a `model::suspended::Whose`, the
/// third a `model::suspended::Suspended`, or null while the thread stands still.
pub type Handler = unsafe extern "C" fn(i32, *mut c_void, *mut c_void);

/// A number where others have a signal's.
pub const PROFILING_SIGNAL: i32 = 27;

/// Who takes samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Nobody.
    Default,
    /// Nobody, and that is meant.
    Ignored,
    /// A handler at this address.
    Handler(usize),
}

/// The handler of this library; nobody else can take its place.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Whether code in this process may run on stacks without room for a signal: there are none.
#[must_use]
pub fn has_small_stacks() -> bool {
    false
}

/// Who takes samples now.
///
/// # Errors
/// None.
pub fn current(_signal: i32) -> io::Result<Disposition> {
    Ok(match HANDLER.load(Ordering::Acquire) {
        0 => Disposition::Default,
        address => Disposition::Handler(address),
    })
}

/// Installs the handler, and what watches over suspensions. Returns who was there before.
///
/// # Safety
/// `handler` allocates nothing, waits for nobody, and lives as long as it is installed.
///
/// # Errors
/// If there is no thread or no memory for it.
pub unsafe fn install(signal: i32, handler: Handler) -> io::Result<Disposition> {
    modules::stay();
    suspension::watch()?;
    let before = current(signal)?;
    HANDLER.store(handler as *const () as usize, Ordering::Release);
    Ok(before)
}

/// Takes the handler back.
///
/// # Errors
/// None.
pub fn withdraw(_signal: i32, _before: Disposition) -> io::Result<()> {
    HANDLER.store(0, Ordering::Release);
    suspension::unwatch();
    Ok(())
}

/// Has the handler called with what is seen of one thread of this process, and that value. Not by
/// two threads at a time.
///
/// # Errors
/// If the thread has ended, or can't be suspended.
pub fn send(tid: u32, signal: i32, value: u64) -> io::Result<()> {
    let address = HANDLER.load(Ordering::Acquire);
    if address == 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    // SAFETY: `install` put it there, from a `Handler`.
    let handler = unsafe { std::mem::transmute::<usize, Handler>(address) };
    suspension::with(|seen| {
        let mut whose = Whose { value, tid, context: None };
        let whose = (&raw mut whose).cast();
        // SAFETY: a whole `Whose`, which is the handler's alone; the handler is what `install` was
        // promised: it neither allocates nor waits.
        let note = || unsafe { handler(signal, whose, std::ptr::null_mut()) };
        let mut suspended = seen.of(tid, note)?;
        // Without the kernel's word it may have waited all the time: what it used is carried by a
        // sample that finds it at work.
        if !suspension::states_are_told() && seen.is_in_call() {
            return None;
        }
        // SAFETY: as above, and a whole `Suspended`, whose words and bytes are `seen`'s and stay
        // until the end of this call.
        unsafe { handler(signal, whose, (&raw mut suspended).cast()) };
        Some(())
    })
    .ok_or_else(|| io::ErrorKind::NotFound.into())
}
