//! `ICorProfilerInfo` where it speaks of threads, and of the profiler's own stay.

use std::ffi::c_void;
use std::time::Duration;

use crate::com::{ComPtr, HResult, call};
use crate::info::{Info, ThreadId, filled};

/// Threads asked for at once.
const THREADS_AT_ONCE: usize = 64;

impl Info {
    /// The managed threads that there are. Those that come or go meanwhile may be missing, or be
    /// gone.
    #[must_use]
    pub fn threads(&self) -> Vec<ThreadId> {
        let mut out = std::ptr::null_mut();
        // SAFETY: slot 71 is EnumThreads(ICorProfilerThreadEnum**).
        let answer = unsafe { call!(self.pointer, 71, (*mut *mut c_void), (&raw mut out)) };
        if answer.ok().is_err() {
            return Vec::new();
        }
        // SAFETY: on success the runtime counted a reference for the caller.
        let Some(list) = (unsafe { ComPtr::from_raw(out) }) else { return Vec::new() };
        let mut found = Vec::new();
        loop {
            let (mut count, mut some) = (0_u32, [ThreadId(0); THREADS_AT_ONCE]);
            // SAFETY: slot 7 is Next(ULONG, ThreadID[], ULONG*); the array is as long as said.
            let answer = unsafe {
                call!(
                    list,
                    7,
                    (u32, *mut ThreadId, *mut u32),
                    (THREADS_AT_ONCE as u32, some.as_mut_ptr(), &raw mut count)
                )
            };
            let some = filled(answer, &some, count);
            if some.is_empty() {
                return found;
            }
            found.extend(some);
        }
    }

    /// Asks the runtime to let the profiler go, and gives this interface back: with the profiler it
    /// goes too, at an instant that nobody tells. `expected` is how long the profiler may take to
    /// leave its callbacks: the runtime looks whether it has after that time.
    ///
    /// # Errors
    /// The runtime's answer, and the interface, since the profiler stays.
    pub fn request_detach(self, expected: Duration) -> Result<(), (HResult, Self)> {
        let millis = u32::try_from(expected.as_millis()).unwrap_or(u32::MAX);
        let Self { pointer, version } = self;
        // SAFETY: slot 58 is RequestProfilerDetach(DWORD); the runtime itself keeps the object
        // while the profiler is loaded, which it is until this call has asked for the opposite.
        let answer = unsafe { pointer.last_call(|pointer| call!(pointer, 58, (u32), (millis))) };
        answer.map_err(|(error, pointer)| (error, Self { pointer, version }))
    }

    /// The system thread that a managed thread runs on.
    #[must_use]
    pub fn thread_tid(&self, thread: ThreadId) -> Option<u32> {
        let mut tid = 0_u32;
        // SAFETY: slot 12 is GetThreadInfo(ThreadID, DWORD*).
        unsafe { call!(self.pointer, 12, (ThreadId, *mut u32), (thread, &raw mut tid)) }
            .ok()
            .ok()?;
        (tid != 0).then_some(tid)
    }
}
