//! The class factory: how the runtime gets the one profiler object.

use std::ffi::c_void;

use crate::callback::{self, Events};
use crate::com::{Guid, HResult, IID_IUNKNOWN};

/// The profiler's class: `{8A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41}`.
pub const PROFILER_CLASS: Guid = Guid::new(0x8A3F1C52_6B0D_4E57_9C1E_2D7C0F9B5A41);

const IID_ICLASSFACTORY: Guid = Guid::new(0x00000001_0000_0000_C000_000000000046);

#[repr(C)]
struct Factory {
    table: &'static FactoryTable,
}

#[repr(C)]
struct FactoryTable {
    query: unsafe extern "system" fn(*mut c_void, *const Guid, *mut *mut c_void) -> HResult,
    add_ref: extern "system" fn(*mut c_void) -> u32,
    release: extern "system" fn(*mut c_void) -> u32,
    create: unsafe extern "system" fn(
        *mut c_void,
        *mut c_void,
        *const Guid,
        *mut *mut c_void,
    ) -> HResult,
    lock: extern "system" fn(*mut c_void, i32) -> HResult,
}

static FACTORY: Factory = Factory {
    table: &FactoryTable {
        query: factory_query,
        add_ref: count_nothing,
        release: count_nothing,
        create: factory_create,
        lock: factory_lock,
    },
};

/// Answers `DllGetClassObject`: the factory of the profiler's class.
///
/// # Safety
/// The pointers are those that the runtime gave to `DllGetClassObject`.
pub unsafe fn class_object(
    events: &'static dyn Events,
    class: *const Guid,
    interface: *const Guid,
    out: *mut *mut c_void,
) -> HResult {
    // SAFETY: the runtime's pointer to a class identifier, or null.
    match unsafe { class.as_ref() } {
        Some(class) if *class == PROFILER_CLASS => {}
        Some(_) => return HResult::CLASS_NOT_AVAILABLE,
        None => return HResult::POINTER,
    }
    callback::set_events(events);
    let factory = std::ptr::from_ref(&FACTORY).cast_mut().cast();
    // SAFETY: the runtime's own pointers, passed on.
    unsafe { factory_query(factory, interface, out) }
}

/// Objects here are static: references are not counted.
pub(crate) extern "system" fn count_nothing(_this: *mut c_void) -> u32 {
    1
}

unsafe extern "system" fn factory_query(
    this: *mut c_void,
    interface: *const Guid,
    out: *mut *mut c_void,
) -> HResult {
    // SAFETY: COM's caller gives a valid identifier, or null.
    let known = unsafe { interface.as_ref() }
        .is_some_and(|id| *id == IID_IUNKNOWN || *id == IID_ICLASSFACTORY);
    // SAFETY: COM's caller gives a valid place for the answer, or null.
    unsafe { answer(out, known.then_some(this)) }
}

/// Writes what a query found.
///
/// # Safety
/// `out` is null or a valid place for a pointer.
pub(crate) unsafe fn answer(out: *mut *mut c_void, found: Option<*mut c_void>) -> HResult {
    if out.is_null() {
        return HResult::POINTER;
    }
    // SAFETY: not null, and valid by the caller's promise.
    unsafe { out.write(found.unwrap_or(std::ptr::null_mut())) };
    if found.is_some() { HResult::OK } else { HResult::NO_INTERFACE }
}

unsafe extern "system" fn factory_create(
    _this: *mut c_void,
    outer: *mut c_void,
    interface: *const Guid,
    out: *mut *mut c_void,
) -> HResult {
    if !outer.is_null() {
        return HResult::NO_AGGREGATION;
    }
    // SAFETY: COM's own pointers, passed on.
    unsafe { callback::query(callback::object(), interface, out) }
}

extern "system" fn factory_lock(_this: *mut c_void, _lock: i32) -> HResult {
    HResult::OK
}
