//! A second opinion on each stack, for a test: the runtime's own walker, called in the handler.
//!
//! Never in production: it takes locks, and in a stress it hung and crashed the process. On a quiet
//! program it answers, and the test compares.

use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Frames taken of the other walker.
pub const ORACLE_FRAMES: usize = 256;

/// What the other walker said.
#[repr(C)]
pub struct Answer {
    /// Its result; negative if it refused.
    pub result: i32,
    /// The thread's CPU clock when the handler began, in nanoseconds.
    pub cpu_clock_ns: u64,
    /// Whether the thread was interrupted in native code.
    pub native_leaf: bool,
    /// Managed frames.
    pub length: u32,
    /// Their instruction pointers, leaf first.
    pub addresses: [u64; ORACLE_FRAMES],
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            result: 0,
            cpu_clock_ns: 0,
            native_leaf: false,
            length: 0,
            addresses: [0; ORACLE_FRAMES],
        }
    }
}

impl Answer {
    /// Adds a frame.
    pub fn push(&mut self, address: u64) {
        if let Some(place) = self.addresses.get_mut(self.length as usize) {
            *place = address;
            self.length = self.length.saturating_add(1);
        }
    }
}

/// Asks for the calling thread's managed frames; the context is a signal handler's.
pub type Ask = unsafe extern "C" fn(context: *const c_void, out: *mut Answer);

static ASK: AtomicUsize = AtomicUsize::new(0);

/// Sets whom to ask.
pub fn set_ask(ask: Ask) {
    ASK.store(ask as *const () as usize, Ordering::SeqCst);
}

/// Asks, if there is anybody to ask.
///
/// # Safety
/// `context` is the third argument of the running signal handler.
pub unsafe fn ask(context: *const c_void, out: &mut Answer) {
    out.length = 0;
    out.result = -1;
    let ask = ASK.load(Ordering::SeqCst);
    if ask != 0 {
        // SAFETY: only `set_ask` writes it, with a function of that type.
        let ask: Ask = unsafe { core::mem::transmute(ask) };
        // SAFETY: the context is the caller's promise, the answer is valid.
        unsafe { ask(context, out) };
    }
}
