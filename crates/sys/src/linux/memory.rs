//! Memory that may go away while it is read: other threads' stacks.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::proc::Blocked;
use super::thread_files::ThreadFiles;

/// Set once the kernel has refused `process_vm_readv`, as seccomp profiles of old container engines
/// do; from then on `/proc/self/mem` is read.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Copies from this process's own memory into `buffer`, as much as is mapped. Returns the bytes
/// copied; 0 if the first page is gone. Through the kernel, so that a stack that is unmapped
/// meanwhile is an answer and not a crash.
pub fn copy_own(address: u64, buffer: &mut [u8]) -> usize {
    if REFUSED.load(Ordering::Relaxed) {
        return copy_by_proc(address, buffer);
    }
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: getpid has no argument and can't fail.
    let pid = unsafe { libc::getpid() };
    // SAFETY: the kernel writes at most `buffer.len()` bytes to the buffer, and checks the remote
    // side.
    let copied =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    match usize::try_from(copied) {
        Ok(copied) => copied,
        Err(_) => {
            let error = std::io::Error::last_os_error().raw_os_error();
            if !matches!(error, Some(libc::EPERM | libc::ENOSYS)) {
                return 0;
            }
            REFUSED.store(true, Ordering::Relaxed);
            copy_by_proc(address, buffer)
        }
    }
}

/// The same by `/proc/self/mem`, opened each time: the host may have few descriptors left, and may
/// close them all.
fn copy_by_proc(address: u64, buffer: &mut [u8]) -> usize {
    let Ok(memory) = File::open("/proc/self/mem") else { return 0 };
    memory.read_at(buffer, address).unwrap_or(0)
}

/// A window of copied stack that follows the reader: most walks need one copy.
pub struct StackWindow {
    start: u64,
    length: usize,
    end_of_stack: u64,
    bytes: Box<[u8; StackWindow::BYTES]>,
}

impl Default for StackWindow {
    fn default() -> Self {
        Self { start: 0, length: 0, end_of_stack: 0, bytes: Box::new([0; Self::BYTES]) }
    }
}

impl StackWindow {
    /// The window's size. Wait stacks of 20 frames take 2 to 6 KiB.
    pub const BYTES: usize = 8192;

    /// Whether the thread stood still while its stack was copied: that is for its clock to tell.
    pub const STOOD_STILL: bool = false;

    /// Where a thread stands whose stack has that end, and its stack to be read from here.
    /// `None` once it has ended, or if the kernel refuses.
    ///
    /// `note` reads what else the thread changes. That it stood still all the time is for its clock
    /// to tell.
    pub fn look(
        &mut self,
        files: &mut ThreadFiles,
        tid: u32,
        end_of_stack: u64,
        note: impl FnOnce(),
    ) -> Option<Blocked> {
        self.reset(end_of_stack);
        let found = files.blocked(tid)?;
        if matches!(found, Blocked::At { .. }) {
            note();
        }
        Some(found)
    }

    /// Forgets the copy, and sets the stack's end, beyond which nothing is copied.
    pub fn reset(&mut self, end_of_stack: u64) {
        self.length = 0;
        self.end_of_stack = end_of_stack;
    }

    /// The eight bytes at an address; `None` if they can't be had.
    pub fn read(&mut self, address: u64) -> Option<u64> {
        self.cached(address).or_else(|| {
            let room = usize::try_from(self.end_of_stack.checked_sub(address)?).ok()?;
            let wanted = self.bytes.get_mut(..room.min(Self::BYTES))?;
            self.length = copy_own(address, wanted);
            self.start = address;
            self.cached(address)
        })
    }

    fn cached(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(..self.length)?.get(offset..offset.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_read_the_same() {
        let values: Vec<u8> = (0..=255).collect();
        for copy in [copy_own, copy_by_proc] {
            let mut bytes = [0; 256];
            assert_eq!(copy(values.as_ptr() as u64, &mut bytes), 256);
            assert_eq!(values, bytes);
            assert_eq!(copy(8, &mut bytes), 0, "the first page is never mapped");
        }
    }

    #[test]
    fn reads_what_is_there_and_refuses_what_is_not() {
        let values: Vec<u64> = (0..4096).collect();
        let start = values.as_ptr() as u64;
        let end = start + 8 * values.len() as u64;
        let mut window = StackWindow::default();
        window.reset(end);
        for index in [0_u64, 1, 5, 1023, 1024, 4095, 7] {
            assert_eq!(window.read(start + 8 * index), Some(index));
        }
        assert_eq!(window.read(end), None);
        window.reset(u64::MAX);
        assert_eq!(window.read(8), None, "the first page is never mapped");
    }
}
