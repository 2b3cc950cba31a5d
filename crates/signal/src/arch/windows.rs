//! Windows: what the sampler hands over of a thread that it suspended, and resumed since.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the signal crate speaks x86-64 only");

use super::Registers;

/// Whether native code's unwind data tells of each instruction: Windows' says nothing of epilogues.
pub const EPILOGUES_HAVE_RULES: bool = false;

/// Offsets in the system's `CONTEXT` for x86-64. Source: `winnt.h`.
const CONTEXT_RSP: u64 = 0x98;
const CONTEXT_RBP: u64 = 0xa0;
const CONTEXT_RIP: u64 = 0xf8;

/// The interrupted registers in a `CONTEXT`, read through `read`.
///
/// # Signal safety
/// Calls nothing but `read`.
pub fn registers_at(context: u64, mut read: impl FnMut(u64) -> Option<u64>) -> Option<Registers> {
    let mut register = |offset| read(context.wrapping_add(offset));
    Some(Registers {
        ip: register(CONTEXT_RIP)?,
        sp: register(CONTEXT_RSP)?,
        bp: Some(register(CONTEXT_RBP)?),
    })
}
