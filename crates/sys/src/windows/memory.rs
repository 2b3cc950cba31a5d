//! Memory that may go away while it is read, and other threads' stacks.

use model::suspended::word_at;

use super::api;
use super::proc::Blocked;
use super::suspension::{self, Seen};
use super::thread_files::ThreadFiles;

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
    ///
    /// `note` reads what else the thread changes, while it stands still: it allocates nothing,
    /// waits for nobody, and calls neither the system nor the runtime.
    pub fn look(
        &mut self,
        _files: &mut ThreadFiles,
        tid: u32,
        _end_of_stack: u64,
        note: impl FnOnce(),
    ) -> Option<Blocked> {
        self.words.clear();
        let known = suspension::state(tid);
        if known == Some(false) {
            return Some(Blocked::Running);
        }
        suspension::with(|seen: &mut Seen| {
            let suspended = seen.of(tid, note)?;
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
        word_at(&self.words, self.start, address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_copied() {
        let bytes: Vec<u8> = (0..=255).cycle().take(20_000).collect();
        let mut copy = vec![0; bytes.len()];
        assert_eq!(copy_own(bytes.as_ptr() as u64, &mut copy), bytes.len());
        assert_eq!(copy, bytes);
        assert_eq!(copy_own(8, &mut copy), 0);
    }

    #[test]
    fn a_copy_ends_where_memory_does() {
        const PAGE: usize = 4096;
        // Two pages, of which one is there.
        let reserved = |address: u64, bytes: usize, kind: u32| {
            // SAFETY: reserves pages that nobody has, or commits some of those.
            unsafe { api::VirtualAlloc(address, bytes, kind, api::PAGE_READWRITE) as u64 }
        };
        let start = reserved(0, 16 * PAGE, 0x2000);
        assert_eq!(reserved(start, PAGE, 0x1000), start);
        let mut copy = vec![1; 2 * PAGE];
        assert_eq!(copy_own(start, &mut copy), PAGE);
        assert!(copy[..PAGE].iter().all(|byte| *byte == 0) && copy[PAGE] == 1);
        assert_eq!(copy_own(start + PAGE as u64, &mut copy), 0);
    }
}
