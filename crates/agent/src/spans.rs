//! What tracers call; `include/corprof.h` says how.

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use engine::Profiler;

use crate::agent::AGENT;
use crate::otel;

/// More bytes of a name or of labels than this make no sense, and are not looked at.
const BYTES_MAX: usize = 64 << 10;

/// The calling thread's context block.
#[unsafe(no_mangle)]
pub extern "C" fn corprof_thread_context() -> *mut c_void {
    ask(ptr::null_mut(), |profiler| {
        let Some(context) = profiler.spans().own_context() else { return ptr::null_mut() };
        if AGENT.session().publishes_otel() {
            otel::publish_record(context.record().cast_mut().cast());
        }
        ptr::from_ref(context).cast_mut().cast()
    })
}

/// The number of an endpoint's name.
///
/// # Safety
/// `name` points to `length` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corprof_endpoint(name: *const c_char, length: usize) -> u32 {
    // SAFETY: the caller's promise, passed on.
    let name = unsafe { bytes(name, length) };
    ask(0, |profiler| profiler.spans().endpoint(name))
}

/// A request is for an endpoint.
#[unsafe(no_mangle)]
pub extern "C" fn corprof_request(local_root_span_id: u64, endpoint: u32) {
    ask((), |profiler| profiler.spans().request(local_root_span_id, endpoint));
}

/// A request is over.
#[unsafe(no_mangle)]
pub extern "C" fn corprof_request_end(local_root_span_id: u64, duration_ns: u64) {
    ask((), |profiler| profiler.spans().request_ended(local_root_span_id, duration_ns));
}

/// The number of a set of labels.
///
/// # Safety
/// `pairs` points to `length` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corprof_labels(pairs: *const c_char, length: usize) -> u64 {
    // SAFETY: the caller's promise, passed on.
    let pairs = unsafe { bytes(pairs, length) };
    ask(0, |profiler| profiler.spans().labels(pairs))
}

/// Asks the profiler; `none` if there isn't one, or it panicked.
fn ask<T>(none: T, question: impl FnOnce(&Profiler) -> T) -> T {
    let Some(profiler) = AGENT.session().profiler() else { return none };
    // What a question changes is behind locks, and complete in itself after each step.
    let answer = catch_unwind(AssertUnwindSafe(|| question(profiler)));
    answer.unwrap_or_else(|_| {
        profiler.panicked();
        none
    })
}

/// The bytes that a tracer gave.
///
/// # Safety
/// `start` points to `length` bytes that stay unchanged for `'a`, or is null.
unsafe fn bytes<'a>(start: *const c_char, length: usize) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise; fewer bytes than promised are no less there.
    unsafe { std::slice::from_raw_parts(start.cast(), length.min(BYTES_MAX)) }
}
