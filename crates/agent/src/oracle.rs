//! The second opinion: the runtime's stack walker, asked in the signal handler. For a test.

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use clr::{FunctionId, HResult};
use signal::oracle::{Answer, set_ask};

use crate::runtime::Clr;

/// Bytes of a Windows-style context of x86-64, as the runtime has it on Linux without its tail of
/// vector registers.
const CONTEXT_BYTES: usize = 1232;
const CONTEXT_FLAGS_OFFSET: usize = 0x30;
/// `CONTEXT_AMD64 | CONTEXT_CONTROL | CONTEXT_INTEGER`.
const CONTEXT_FLAGS: u32 = 0x0010_0003;
/// Where general register n of the kernel's context goes (in the kernel's order, r8 first).
const REGISTER_OFFSETS: [usize; 17] = [
    0xb8, 0xc0, 0xc8, 0xd0, 0xd8, 0xe0, 0xe8, 0xf0, 0xb0, 0xa8, 0xa0, 0x90, 0x88, 0x78, 0x80, 0x98,
    0xf8,
];
/// Where the registers are in the kernel's context.
const GREGS_OFFSET: usize = 40;

/// Whom a handler asks: it can take no lock.
static CLR: OnceLock<Arc<Clr>> = OnceLock::new();

/// Has each sample ask.
pub fn install(clr: &Arc<Clr>) {
    CLR.get_or_init(|| Arc::clone(clr));
    set_ask(ask);
}

unsafe extern "C" fn ask(context: *const c_void, out: *mut Answer) {
    // SAFETY: the signal crate passes a valid answer.
    let out = unsafe { &mut *out };
    let Some(info) = CLR.get().map(|clr| clr.info()) else { return };
    let mut windows = [0_u8; CONTEXT_BYTES];
    windows[CONTEXT_FLAGS_OFFSET..][..4].copy_from_slice(&CONTEXT_FLAGS.to_ne_bytes());
    let mut ip = 0_u64;
    for (index, offset) in REGISTER_OFFSETS.iter().enumerate() {
        let place = GREGS_OFFSET + index * 8;
        // SAFETY: the kernel's context has 23 registers of 8 bytes there.
        ip = unsafe { context.byte_add(place).cast::<u64>().read() };
        windows[*offset..][..8].copy_from_slice(&ip.to_ne_bytes());
    }
    // From native code, the runtime starts at the place where managed code was left.
    let seed = info.function_at(ip).is_some().then_some(&windows[..]);
    let data = std::ptr::from_mut(out).cast();
    // SAFETY: `frame` takes an answer; the context is this thread's own, of this instant.
    out.result = unsafe { info.stack_snapshot(frame, data, seed) }.0;
}

unsafe extern "system" fn frame(
    function: FunctionId,
    ip: usize,
    _frame: usize,
    _bytes: u32,
    _context: *const u8,
    data: *mut c_void,
) -> HResult {
    if function.0 != 0 {
        // SAFETY: `ask` passed its answer.
        unsafe { &mut *data.cast::<Answer>() }.push(ip as u64);
    }
    HResult::OK
}
