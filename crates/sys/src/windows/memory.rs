//! Memory that may go away while it is read, and other threads' stacks.

use super::api;
use super::proc::Blocked;
use super::suspension::{self, Seen};

/// Copies from this process's own memory into `buffer`, as much as is there. Returns the bytes
/// copied; 0 if the first page is gone.
pub fn copy_own(address: u64, buffer: &mut [u8]) -> usize {
    const PAGE_BYTES: u64 = 4096;
    let mut done = 0_usize;
    // All at once; if that fails, page by page up to the one that is not there.
    let mut whole = true;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let from = address.saturating_add(done as u64);
        let in_page = PAGE_BYTES.saturating_sub(from % PAGE_BYTES);
        let wanted = if whole { rest.len() } else { rest.len().min(in_page as usize) };
        let mut read = 0;
        // SAFETY: the system checks the source and writes at most so many bytes to the buffer.
        let ok = unsafe {
            api::ReadProcessMemory(
                api::GetCurrentProcess(),
                from,
                rest.as_mut_ptr(),
                wanted,
                &raw mut read,
            )
        };
        if ok == 0 {
            if !std::mem::replace(&mut whole, false) {
                break;
            }
            continue;
        }
        done = done.saturating_add(read);
        if read == 0 {
            break;
        }
    }
    done
}

/// Where others have a system call's number: what a thread waits for is told by its stack.
const UNKNOWN_CALL: u32 = u32::MAX;

/// A thread's stack, copied while it was suspended.
#[derive(Default)]
pub struct StackWindow {
    start: u64,
    words: Vec<u64>,
}

impl StackWindow {
    /// Whether the thread stood still while its stack was copied: it was suspended.
    pub const STOOD_STILL: bool = true;

    /// Where a thread stands, and its stack up to that end to be read from here. `None` once it has
    /// ended, or if it can't be suspended. Suspends it for as long as the copy takes.
    pub fn look(&mut self, tid: u32, _end_of_stack: u64) -> Option<Blocked> {
        self.words.clear();
        let known = suspension::state(tid);
        if known == Some(false) {
            return Some(Blocked::Running);
        }
        suspension::with(|seen: &mut Seen| {
            let suspended = seen.of(tid, 0)?;
            if known.is_none() && !seen.is_in_call() {
                return Some(Blocked::Running);
            }
            self.start = suspended.sp;
            self.words.extend_from_slice(seen.words());
            Some(Blocked::At {
                call: Some(UNKNOWN_CALL),
                sp: suspended.sp,
                ip: suspended.ip,
                bp: Some(suspended.bp),
            })
        })
    }

    /// The eight bytes at an address; `None` if they were not copied.
    pub fn read(&mut self, address: u64) -> Option<u64> {
        let index = usize::try_from(address.checked_sub(self.start)?.checked_div(8)?).ok()?;
        self.words.get(index).copied()
    }
}
