//! Memory that is taken once and never given back: zeroed, and touched only where it is used.

use std::io;

use super::api;

/// Takes room for `count` values that are valid when all their bytes are zero, for the life of the
/// process.
///
/// # Safety
/// A `T` of zero bytes is valid.
///
/// # Errors
/// If there is no memory left.
pub unsafe fn map_zeroed<T>(count: usize) -> io::Result<&'static mut [T]> {
    let bytes = count.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: a fresh allocation touches nothing that exists.
    let place =
        unsafe { api::VirtualAlloc(0, bytes, api::MEM_RESERVE_COMMIT, api::PAGE_READWRITE) };
    if place.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the allocation has `bytes` zeroed bytes, page-aligned, which are valid values (the
    // caller's promise), nobody else knows it, and it is never freed.
    Ok(unsafe { std::slice::from_raw_parts_mut(place.cast::<T>(), count) })
}
