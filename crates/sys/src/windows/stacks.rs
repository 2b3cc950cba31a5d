//! Stacks of other threads, found without their help: the system keeps their limits in each
//! thread's block.

use super::api::{self, ThreadBasic};
use super::handles::{self, ThreadHandle};
use super::memory::copy_own;
use crate::thread::StackRange;

/// What is known of threads' stacks.
#[derive(Clone, Debug)]
pub struct Stacks {
    /// The threads' stacks, in their order; `None` for one that can't be known.
    pub of_threads: Vec<Option<StackRange>>,
    /// How many mappings the process has; not counted here.
    pub mappings: usize,
}

/// The stacks of these threads.
#[must_use]
pub fn stacks_of(tids: &[u32]) -> Stacks {
    Stacks { of_threads: tids.iter().map(|tid| handles::of(*tid)?.stack()).collect(), mappings: 0 }
}

/// How many mappings a process may have; there is no such limit.
#[must_use]
pub fn mappings_max() -> Option<usize> {
    None
}

/// A thread's stack, all of it that is reserved.
pub(super) fn stack_of(thread: &ThreadHandle) -> Option<StackRange> {
    /// Of the block's fields `StackBase`, `StackLimit` (`NT_TIB`) and `DeallocationStack`.
    const BASE: u64 = 8;
    const ALLOCATION: u64 = 0x1478;
    let teb = teb_of(thread)?;
    let word = |offset: u64| {
        let mut bytes = [0; 8];
        let read = copy_own(teb.checked_add(offset)?, &mut bytes);
        (read == bytes.len()).then(|| u64::from_le_bytes(bytes))
    };
    let (start, end) = (word(ALLOCATION)?, word(BASE)?);
    (start != 0 && start < end).then_some(StackRange { start, end })
}

/// Where a thread's block is.
fn teb_of(thread: &ThreadHandle) -> Option<u64> {
    const BASIC: u32 = 0;
    let mut basic = ThreadBasic::default();
    let bytes = u32::try_from(size_of_val(&basic)).ok()?;
    // SAFETY: an open handle, and a structure of the size that is said.
    let status = unsafe {
        api::NtQueryInformationThread(
            thread.raw(),
            BASIC,
            (&raw mut basic).cast(),
            bytes,
            std::ptr::null_mut(),
        )
    };
    (status >= 0 && basic.teb != 0).then_some(basic.teb)
}
