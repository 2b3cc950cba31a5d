//! The runtime's own stack walker, for a test.

use std::ffi::c_void;

use crate::com::{HResult, call};
use crate::info::{EventMask, FunctionId, Info};

/// Called for each frame, leaf first; a function of 0 stands for a run of native frames.
pub type Frame = unsafe extern "system" fn(
    function: FunctionId,
    ip: usize,
    frame: usize,
    context_bytes: u32,
    context: *const u8,
    data: *mut c_void,
) -> HResult;

impl EventMask {
    /// As `SAMPLING`, and stack snapshots are allowed.
    pub const SNAPSHOTS: Self = Self { low: Self::SAMPLING.low | 0x1000_0000, ..Self::SAMPLING };
}

impl Info {
    /// Walks the calling thread's stack, from `context` (a Windows-style context of the processor)
    /// or, without one, from the last place where managed code was left.
    ///
    /// # Safety
    /// `frame` accepts `data`; a context is one of this thread, now.
    pub unsafe fn stack_snapshot(
        &self,
        frame: Frame,
        data: *mut c_void,
        context: Option<&[u8]>,
    ) -> HResult {
        let (start, bytes) = context.map_or((std::ptr::null(), 0), |context| {
            (context.as_ptr(), u32::try_from(context.len()).unwrap_or(0))
        });
        // SAFETY: slot 36 is DoStackSnapshot(ThreadID, StackSnapshotCallback*, ULONG32, void*,
        // BYTE[], ULONG32); thread 0 is the calling one.
        unsafe {
            call!(
                self.pointer,
                36,
                (usize, Frame, u32, *mut c_void, *const u8, u32),
                (0, frame, 0, data, start, bytes)
            )
        }
    }

    /// The method with metadata at an address: those are what the runtime's walker reports.
    #[must_use]
    pub fn reported(&self, ip: u64) -> Option<FunctionId> {
        let mut function = FunctionId(0);
        // SAFETY: slot 7 is GetFunctionFromIP(LPCBYTE, FunctionID*).
        let answer = unsafe {
            call!(
                self.pointer,
                7,
                (*const u8, *mut FunctionId),
                (ip as *const u8, &raw mut function)
            )
        };
        (answer.ok().is_ok() && function.0 != 0).then_some(function)
    }
}
