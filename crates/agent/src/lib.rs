//! The library that CoreCLR loads: its two exports, and the wiring of the runtime to the engine.

mod agent;
mod assemblies;
mod control;
mod names;
#[cfg(feature = "oracle")]
mod oracle;
mod otel;
mod runtime;
mod session;
mod spans;
mod unloading;

use std::ffi::c_void;
use std::panic::catch_unwind;

use clr::{Guid, HResult};

/// How CoreCLR gets the profiler's class factory.
///
/// # Safety
/// Called by the runtime, with COM's pointers.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn DllGetClassObject(
    class: *const Guid,
    interface: *const Guid,
    out: *mut *mut c_void,
) -> HResult {
    catch_unwind(|| {
        // SAFETY: the runtime's own pointers, passed on.
        unsafe { clr::class_object(&agent::AGENT, class, interface, out) }
    })
    .unwrap_or(HResult::FAIL)
}

/// Whether the library may be unloaded: never, since a handler may still be called.
#[unsafe(no_mangle)]
pub extern "system" fn DllCanUnloadNow() -> HResult {
    const S_FALSE: HResult = HResult(1);
    S_FALSE
}
