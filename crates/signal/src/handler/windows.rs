//! Windows: the sampler suspends a thread, copies what it needs, lets it go on, and then has the
//! copy walked here.

use core::ffi::{c_int, c_void};

use model::Loss;
use model::suspended::{Suspended, word_at};

use super::{Origin, Shared, shared, take_sample};
use crate::arch::Registers;
use crate::record::ThreadRef;

/// The handler to install, with the arguments of one for signals. The third is what was seen of the
/// thread; the second is not used.
///
/// # Safety
/// The third argument is a [`Suspended`] that nobody changes before this returns, and its pointers
/// are to as many words and bytes as it says.
///
/// # Signal safety
/// Runs while no thread is suspended, but keeps the handler's rules: it allocates nothing and waits
/// for nobody.
pub unsafe extern "C" fn on_signal(_signal: c_int, _info: *mut c_void, context: *mut c_void) {
    let Some(shared) = shared() else { return };
    let Some(_inside) = shared.gate.enter() else { return };
    // SAFETY: the caller's promise.
    let Some(seen) = (unsafe { context.cast::<Suspended>().as_ref() }) else { return };
    // SAFETY: the caller's promise; inside the gate, until `_inside` is dropped.
    unsafe { sample(shared, seen) };
}

/// # Safety
/// The caller is inside the gate; what was seen has as many words and bytes as it says.
unsafe fn sample(shared: &Shared, seen: &Suspended) {
    let thread = ThreadRef::from_value(seen.value);
    let record = shared.records.get(thread.index as usize);
    let Some(record) = record.filter(|record| record.is(thread.generation, seen.tid)) else {
        return shared.count(Loss::StaleThread);
    };
    // SAFETY: so many words are there (the caller's promise).
    let words = unsafe { core::slice::from_raw_parts(seen.words, seen.words_len) };
    // SAFETY: so many bytes are there (the caller's promise).
    let code = unsafe { core::slice::from_raw_parts(seen.code, seen.code_len) };
    let origin = Origin {
        thread,
        tid: seen.tid,
        overruns: 0,
        time_ns: seen.time_ns,
        cpu_clock_ns: seen.cpu_clock_ns,
        signal_stack: None,
    };
    let registers = Registers { ip: seen.ip, sp: seen.sp, bp: Some(seen.bp) };
    let read = |address: u64| word_at(words, seen.sp, address);
    // SAFETY: inside the gate (the caller's promise).
    unsafe { take_sample(shared, record, &origin, registers, |_| code, read) };
}
