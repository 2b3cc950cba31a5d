//! Windows: the sampler suspends a thread, copies what it needs, lets it go on, and then has the
//! copy walked here. What the thread itself changes has to be read while it stands still: for that
//! the handler is called twice.

use core::ffi::{c_int, c_void};

use model::Loss;
use model::suspended::{Suspended, Whose, word_at};

use super::{Origin, Shared, shared, take_sample};
use crate::arch::Registers;
use crate::record::{Record, ThreadRef};

/// The handler to install, with the arguments of one for signals. The second is whose sample it is,
/// the third what was seen of the thread; null while the thread stands still, when the handler
/// notes which request it works for.
///
/// # Safety
/// The second argument is a [`Whose`] that is the handler's alone; the third is null, or a
/// [`Suspended`] that nobody changes before this returns, and its pointers are to as many words and
/// bytes as it says.
///
/// # Signal safety
/// Its first run is while a thread is suspended, which may hold any lock; it allocates nothing and
/// waits for nobody.
pub unsafe extern "C" fn on_signal(_signal: c_int, info: *mut c_void, context: *mut c_void) {
    let Some(shared) = shared() else { return };
    let Some(_inside) = shared.gate.enter() else { return };
    // SAFETY: the caller's promise.
    let Some(whose) = (unsafe { info.cast::<Whose>().as_mut() }) else { return };
    // SAFETY: the caller's promise.
    let Some(seen) = (unsafe { context.cast::<Suspended>().as_ref() }) else {
        return note(shared, whose);
    };
    // SAFETY: the caller's promise; inside the gate, until `_inside` is dropped.
    unsafe { sample(shared, whose, seen) };
}

/// Notes which request the thread works for.
fn note(shared: &Shared, whose: &mut Whose) {
    whose.context = record_of(shared, whose).and_then(|record| record.context().read());
}

/// The record of a thread; `None` if it is another's by now.
fn record_of<'a>(shared: &'a Shared, whose: &Whose) -> Option<&'a Record> {
    let thread = ThreadRef::from_value(whose.value);
    let record = shared.records.get(thread.index as usize)?;
    record.is(thread.generation, whose.tid).then_some(record)
}

/// # Safety
/// The caller is inside the gate; what was seen has as many words and bytes as it says.
unsafe fn sample(shared: &Shared, whose: &Whose, seen: &Suspended) {
    let Some(record) = record_of(shared, whose) else {
        return shared.count(Loss::StaleThread);
    };
    // SAFETY: so many words are there (the caller's promise).
    let words = unsafe { core::slice::from_raw_parts(seen.words, seen.words_len) };
    // SAFETY: so many bytes are there (the caller's promise).
    let code = unsafe { core::slice::from_raw_parts(seen.code, seen.code_len) };
    let origin = Origin {
        thread: ThreadRef::from_value(whose.value),
        tid: whose.tid,
        overruns: 0,
        time_ns: seen.time_ns,
        cpu_clock_ns: seen.cpu_clock_ns,
        span: whose.context,
        signal_stack: None,
    };
    let registers = Registers { ip: seen.ip, sp: seen.sp, bp: Some(seen.bp) };
    let read = |address: u64| word_at(words, seen.sp, address);
    // SAFETY: inside the gate (the caller's promise).
    unsafe { take_sample(shared, record, &origin, registers, |_| code, read) };
}
