//! Publishes OpenTelemetry's process context: a mapping named `OTEL_CTX` that others find in
//! `/proc/<pid>/maps`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const SIGNATURE: [u8; 8] = *b"OTEL_CTX";
const NAME: &std::ffi::CStr = c"OTEL_CTX";
const VERSION: u32 = 2;

/// The header at the mapping's start; the payload follows it.
#[repr(C)]
struct Header {
    signature: AtomicU64,
    version: u32,
    payload_bytes: u32,
    /// On the clock that counts suspended time, too; not 0 once all is there.
    published_ns: AtomicU64,
    payload: u64,
}

/// Publishes a payload, for the life of the process. Children don't inherit it.
///
/// # Errors
/// If there is no memory, or if the mapping could have no name, so that nobody would find it.
pub fn publish(payload: &[u8]) -> io::Result<()> {
    let payload_bytes = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let bytes = size_of::<Header>().checked_add(payload.len()).ok_or(io::ErrorKind::OutOfMemory)?;
    let (place, is_named) = map(bytes)?;
    // SAFETY: the mapping is `bytes` long, which is more than the header.
    let after = unsafe { place.cast::<u8>().add(size_of::<Header>()) };
    // SAFETY: the rest of the mapping is as long as the payload, and nobody else knows it yet.
    unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), after, payload.len()) };
    let header = Header {
        signature: AtomicU64::new(0),
        version: VERSION,
        payload_bytes,
        published_ns: AtomicU64::new(0),
        payload: after.addr() as u64,
    };
    // SAFETY: the mapping is page-aligned, and long enough.
    unsafe { place.cast::<Header>().write(header) };
    // SAFETY: written just now, and never unmapped.
    let header = unsafe { &*place.cast::<Header>() };
    fence(Ordering::SeqCst);
    header.published_ns.store(boot_ns(), Ordering::SeqCst);
    // Last: whoever sees it may read all the rest.
    header.signature.store(u64::from_ne_bytes(SIGNATURE), Ordering::SeqCst);
    // SAFETY: names a range that is this function's own.
    let named = unsafe {
        libc::prctl(libc::PR_SET_VMA, libc::PR_SET_VMA_ANON_NAME, place, bytes, NAME.as_ptr())
    };
    if named != 0 && !is_named {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A fresh mapping that children don't get, and whether its name can be seen already: that of the
/// file in memory behind it, if such files may be made.
fn map(bytes: usize) -> io::Result<(*mut libc::c_void, bool)> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a NUL-terminated name.
    let file = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: a descriptor of our own, or -1, which is refused.
    let has_file = file >= 0 && unsafe { libc::ftruncate(file, length) } == 0;
    let (flags, descriptor) = if has_file {
        (libc::MAP_PRIVATE, file)
    } else {
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    };
    // SAFETY: a fresh private mapping touches nothing that exists.
    let place =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, descriptor, 0) };
    let mapped = if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) };
    if file >= 0 {
        // SAFETY: opened above, closed once; the mapping keeps the file.
        unsafe { libc::close(file) };
    }
    mapped?;
    // SAFETY: the range was mapped just now.
    if unsafe { libc::madvise(place, bytes, libc::MADV_DONTFORK) } != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: the range is this function's own, and nobody knows it.
        unsafe { libc::munmap(place, bytes) };
        return Err(error);
    }
    Ok((place, has_file))
}

/// Nanoseconds since the machine was started, suspended time included; at least 1.
fn boot_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_find_it_in_maps_and_can_read_it() {
        let payload: Vec<u8> = (0..200).collect();
        publish(&payload).expect("published");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("own maps");
        let line = maps
            .lines()
            .find(|line| {
                ["[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]", "/memfd:OTEL_CTX"]
                    .iter()
                    .any(|name| line.contains(name))
            })
            .expect("a mapping of that name");
        let start = line.split('-').next().expect("an address");
        let start = u64::from_str_radix(start, 16).expect("hexadecimal");
        let memory = std::fs::File::open("/proc/self/mem").expect("own memory");
        let read = |address: u64, bytes: usize| {
            let mut buffer = vec![0; bytes];
            std::os::unix::fs::FileExt::read_exact_at(&memory, &mut buffer, address)
                .expect("readable");
            buffer
        };
        let number = |offset: u64| {
            u64::from_ne_bytes(read(start + offset, 8).try_into().expect("eight bytes"))
        };
        assert_eq!(read(start, 8), SIGNATURE);
        assert_eq!(number(8), 200 << 32 | 2, "version 2, then the size");
        assert!(number(16) > 0);
        assert_eq!(read(number(24), 200), payload);
    }
}
