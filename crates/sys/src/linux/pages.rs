//! Memory that is mapped once and never given back: zeroed, and touched only where it is used.

use std::io;

/// Maps room for `count` values that are valid when all their bytes are zero, for the life of the
/// process.
///
/// # Safety
/// A `T` of zero bytes is valid.
///
/// # Errors
/// `ENOMEM` if the address space or a limit is used up.
pub unsafe fn map_zeroed<T>(count: usize) -> io::Result<&'static mut [T]> {
    let bytes = count.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh private mapping touches nothing that exists.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Where a machine gives huge pages to all, one value would have 2 MiB. A kernel that has none
    // refuses. The mark also tells these mappings from malloc's, in `/proc/<pid>/smaps`.
    // SAFETY: advice for the mapping that was just made, whose contents it leaves as they are.
    unsafe { libc::madvise(place, bytes, libc::MADV_NOHUGEPAGE) };
    // SAFETY: the mapping has `bytes` zeroed bytes, page-aligned, which are valid values (the
    // caller's promise), nobody else knows it, and it is never unmapped.
    Ok(unsafe { std::slice::from_raw_parts_mut(place.cast::<T>(), count) })
}
