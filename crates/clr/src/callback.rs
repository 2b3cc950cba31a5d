//! The profiler object that the runtime calls: one table for all versions of
//! `ICorProfilerCallback`, since each only adds slots to the one before.
//!
//! Every slot that does something is a shim that catches panics: one that crossed into the runtime
//! would end the host. A caught one is counted and the runtime is told that all went well.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::com::{Guid, HResult, IID_IUNKNOWN, text};
use crate::factory::{answer, count_nothing};
use crate::info::{FunctionId, Info, ModuleId, ThreadId, copied};
use crate::suspension::SuspendReason;

/// What the profiler wants to hear. Called on the runtime's threads; quick, and never blocking.
pub trait Events: Sync {
    /// The runtime starts, with the profiler named in its environment. An error makes it go on
    /// without the profiler.
    ///
    /// # Errors
    /// Why the profiler doesn't start.
    fn initialize(&'static self, info: Info) -> Result<(), HResult>;
    /// Somebody attaches the profiler to a process that runs, and has given it these bytes.
    ///
    /// # Errors
    /// Why the profiler doesn't start.
    fn attach(&'static self, info: Info, data: &[u8]) -> Result<(), HResult>;
    /// After [`Events::attach`]: from now on callbacks come.
    fn attached(&'static self);
    /// After [`Info::request_detach`]: no callback comes any more, and the interface is gone.
    fn detached(&self);
    /// The runtime ends; the last call.
    fn shutdown(&self);
    /// A managed thread exists; on that thread itself in all cases seen.
    fn thread_created(&self, thread: ThreadId);
    /// A managed thread's system thread is known.
    fn thread_assigned(&self, thread: ThreadId, tid: u32);
    /// A managed thread is gone; its system thread may be gone already.
    fn thread_destroyed(&self, thread: ThreadId);
    /// A thread got a name; may come before it was created, from the creating thread.
    fn thread_named(&self, thread: ThreadId, name: String);
    /// A module is about to go: nothing of it may be asked for after this returns.
    fn module_unloading(&self, module: ModuleId);
    /// A dynamic method is gone, its code may be reused.
    fn dynamic_method_unloaded(&self, function: FunctionId);
    /// The runtime begins to stop all managed threads; on the thread that stops them, which holds a
    /// lock of the runtime until they run again: no other stop begins before.
    fn suspending(&self, reason: SuspendReason);
    /// Managed threads are about to be let go; on the thread that stopped them.
    fn resuming(&self);
    /// They have been; the next stop may have begun.
    fn resumed(&self);
    /// The calling thread is about to wait until managed threads may run again. The thread that
    /// stops the others says it, too, if it is a managed one. It may come from the runtime's signal
    /// handler: no lock, no allocation.
    fn thread_suspended(&self);
    /// The calling thread runs again. As `thread_suspended`.
    fn thread_resumed(&self);
    /// A garbage collection begins, of this generation (0 to 2) and the younger ones; all managed
    /// threads are stopped. Whether it is `induced`: asked for by the program, or by the system
    /// because memory is low.
    fn collection_started(&self, generation: u8, induced: bool);
    /// A garbage collection has ended. Those that went on in the background end without a stop, and
    /// others may have begun and ended before.
    fn collection_finished(&self);
    /// A panic was caught at the border.
    fn panicked(&self);
}

static EVENTS: OnceLock<&'static dyn Events> = OnceLock::new();

pub(crate) fn set_events(events: &'static dyn Events) {
    // The runtime may ask for the class more than once; the events are the same.
    let _same = EVENTS.set(events);
}

/// Interfaces that the one object answers to: IUnknown and all versions of the callback.
const INTERFACES: [Guid; 12] = [
    IID_IUNKNOWN,
    Guid::new(0x176FBED1_A55C_4796_98CA_A9DA0EF883E7),
    Guid::new(0x8A8CC829_CCF2_49FE_BBAE_0F022228071A),
    Guid::new(0x4FD2ED52_7731_4B8D_9469_03D2CC3086C5),
    Guid::new(0x7B63B2E3_107D_4D48_B2F6_F61E229470D2),
    Guid::new(0x8DFBA405_8C9F_45F8_BFFA_83B14CEF78B5),
    Guid::new(0xFC13DF4B_4448_4F4F_950C_BA8D19D00C36),
    Guid::new(0xF76A2DBA_1D52_4539_866C_2AA518F9EFC3),
    Guid::new(0x5BED9B15_C079_4D47_BFE2_215A140C07E0),
    Guid::new(0x27583EC3_C8F5_482F_8052_194B8CE4705A),
    Guid::new(0xCEC5B60E_C69C_495F_87F6_84D28EE16FFB),
    Guid::new(0x42350846_AAED_47F7_B128_FD0C98881CDE),
];

/// Slots of `ICorProfilerCallback11`, the newest.
const SLOTS: usize = 98;

#[repr(C)]
struct Object {
    table: &'static Table,
}

#[repr(transparent)]
struct Table(
    #[allow(dead_code, reason = "read by the runtime, through the object's first word")]
    [*const c_void; SLOTS],
);

// SAFETY: the table holds addresses of functions and is never written.
unsafe impl Sync for Table {}

static OBJECT: Object = Object { table: &TABLE };

static TABLE: Table = Table({
    let mut slots = [ignore as *const c_void; SLOTS];
    slots[0] = query as *const c_void;
    slots[1] = count_nothing as *const c_void;
    slots[2] = count_nothing as *const c_void;
    slots[3] = initialize as *const c_void;
    slots[4] = shutdown as *const c_void;
    slots[15] = module_unload_started as *const c_void;
    slots[25] = cached_function_search_started as *const c_void;
    slots[29] = thread_created as *const c_void;
    slots[30] = thread_destroyed as *const c_void;
    slots[31] = thread_assigned as *const c_void;
    slots[42] = runtime_suspend_started as *const c_void;
    slots[44] = runtime_resume_started as *const c_void;
    slots[45] = runtime_resume_started as *const c_void;
    slots[46] = runtime_resume_finished as *const c_void;
    slots[47] = runtime_thread_suspended as *const c_void;
    slots[48] = runtime_thread_resumed as *const c_void;
    slots[72] = thread_name_changed as *const c_void;
    slots[73] = garbage_collection_started as *const c_void;
    slots[75] = garbage_collection_finished as *const c_void;
    slots[80] = initialize_for_attach as *const c_void;
    slots[81] = attach_complete as *const c_void;
    slots[82] = detach_succeeded as *const c_void;
    slots[94] = dynamic_method_unloaded as *const c_void;
    slots[97] = load_as_notification_only as *const c_void;
    slots
});

/// The profiler object.
pub(crate) fn object() -> *mut c_void {
    std::ptr::from_ref(&OBJECT).cast_mut().cast()
}

/// Runs a callback's body; a panic is counted and gives `on_panic`.
fn guarded(on_panic: HResult, body: impl FnOnce(&'static dyn Events) -> HResult) -> HResult {
    let Some(events) = EVENTS.get().copied() else { return HResult::FAIL };
    catch_unwind(AssertUnwindSafe(|| body(events))).unwrap_or_else(|_| {
        events.panicked();
        on_panic
    })
}

/// As `guarded`, for callbacks that can't fail.
fn notified(body: impl FnOnce(&'static dyn Events)) -> HResult {
    guarded(HResult::OK, |events| {
        body(events);
        HResult::OK
    })
}

/// Every slot that is not listened to. The caller cleans up its arguments on all 64-bit platforms,
/// so one function without any serves them all.
extern "system" fn ignore() -> HResult {
    HResult::OK
}

pub(crate) unsafe extern "system" fn query(
    this: *mut c_void,
    interface: *const Guid,
    out: *mut *mut c_void,
) -> HResult {
    // SAFETY: COM's caller gives a valid identifier, or null.
    let known = unsafe { interface.as_ref() }.is_some_and(|id| INTERFACES.contains(id));
    // SAFETY: COM's caller gives a valid place for the answer, or null.
    unsafe { answer(out, known.then_some(this)) }
}

unsafe extern "system" fn initialize(_this: *mut c_void, unknown: *mut c_void) -> HResult {
    guarded(HResult::CANCEL_ACTIVATION, |events| {
        // SAFETY: the runtime passes a live object to Initialize.
        let started = unsafe { Info::query(unknown) }.and_then(|info| events.initialize(info));
        started.err().map_or(HResult::OK, |_| HResult::CANCEL_ACTIVATION)
    })
}

unsafe extern "system" fn initialize_for_attach(
    _this: *mut c_void,
    unknown: *mut c_void,
    data: *const c_void,
    length: u32,
) -> HResult {
    guarded(HResult::CANCEL_ACTIVATION, |events| {
        // SAFETY: the runtime gives `length` bytes at `data`, or null.
        let data = unsafe { copied(data.cast(), length) };
        // SAFETY: the runtime passes a live object to InitializeForAttach.
        let started = unsafe { Info::query(unknown) }.and_then(|info| events.attach(info, &data));
        started.err().map_or(HResult::OK, |_| HResult::CANCEL_ACTIVATION)
    })
}

extern "system" fn attach_complete(_this: *mut c_void) -> HResult {
    notified(Events::attached)
}

extern "system" fn detach_succeeded(_this: *mut c_void) -> HResult {
    notified(Events::detached)
}

/// Leaves the place of the one main profiler to others: nothing that needs it is asked for. Not
/// asked before .NET 6; there, the profiler is the main one.
unsafe extern "system" fn load_as_notification_only(
    _this: *mut c_void,
    notification_only: *mut i32,
) -> HResult {
    if !notification_only.is_null() {
        // SAFETY: the runtime gives a place for the answer.
        unsafe { notification_only.write(i32::from(!cfg!(feature = "oracle"))) };
    }
    HResult::OK
}

extern "system" fn shutdown(_this: *mut c_void) -> HResult {
    notified(Events::shutdown)
}

extern "system" fn module_unload_started(_this: *mut c_void, module: ModuleId) -> HResult {
    notified(|events| events.module_unloading(module))
}

/// Precompiled code is to be used: not writing the answer would refuse it.
unsafe extern "system" fn cached_function_search_started(
    _this: *mut c_void,
    _function: FunctionId,
    use_cached: *mut i32,
) -> HResult {
    if !use_cached.is_null() {
        // SAFETY: the runtime gives a place for the answer.
        unsafe { use_cached.write(1) };
    }
    HResult::OK
}

extern "system" fn thread_created(_this: *mut c_void, thread: ThreadId) -> HResult {
    notified(|events| events.thread_created(thread))
}

extern "system" fn thread_destroyed(_this: *mut c_void, thread: ThreadId) -> HResult {
    notified(|events| events.thread_destroyed(thread))
}

extern "system" fn thread_assigned(_this: *mut c_void, thread: ThreadId, tid: u32) -> HResult {
    notified(|events| events.thread_assigned(thread, tid))
}

unsafe extern "system" fn thread_name_changed(
    _this: *mut c_void,
    thread: ThreadId,
    length: u32,
    name: *const u16,
) -> HResult {
    notified(|events| {
        let length_units = usize::try_from(length).unwrap_or(0);
        let units: &[u16] = if name.is_null() {
            &[]
        } else {
            // SAFETY: the runtime gives `length` units of UTF-16 at `name` (without a NUL).
            unsafe { std::slice::from_raw_parts(name, length_units) }
        };
        events.thread_named(thread, text(units, length));
    })
}

extern "system" fn runtime_suspend_started(_this: *mut c_void, reason: i32) -> HResult {
    notified(|events| events.suspending(SuspendReason::of_number(reason)))
}

/// Also where a stop was given up.
extern "system" fn runtime_resume_started(_this: *mut c_void) -> HResult {
    notified(Events::resuming)
}

extern "system" fn runtime_resume_finished(_this: *mut c_void) -> HResult {
    notified(Events::resumed)
}

/// On Linux threads stop themselves, so the thread that it is about is the calling one.
extern "system" fn runtime_thread_suspended(_this: *mut c_void, _thread: ThreadId) -> HResult {
    notified(Events::thread_suspended)
}

extern "system" fn runtime_thread_resumed(_this: *mut c_void, _thread: ThreadId) -> HResult {
    notified(Events::thread_resumed)
}

unsafe extern "system" fn garbage_collection_started(
    _this: *mut c_void,
    count: i32,
    collected: *const i32,
    reason: i32,
) -> HResult {
    const INDUCED: i32 = 1;
    notified(|events| {
        // Behind the three generations are the heaps of large and of pinned objects.
        let count = usize::try_from(count).unwrap_or(0).min(3);
        let flags: &[i32] = if collected.is_null() {
            &[]
        } else {
            // SAFETY: the runtime gives one BOOL for each generation, at least as many as are read.
            unsafe { std::slice::from_raw_parts(collected, count) }
        };
        let oldest = flags.iter().rposition(|flag| *flag != 0).unwrap_or(0);
        events.collection_started(u8::try_from(oldest).unwrap_or(0), reason == INDUCED);
    })
}

extern "system" fn garbage_collection_finished(_this: *mut c_void) -> HResult {
    notified(Events::collection_finished)
}

extern "system" fn dynamic_method_unloaded(_this: *mut c_void, function: FunctionId) -> HResult {
    notified(|events| events.dynamic_method_unloaded(function))
}
