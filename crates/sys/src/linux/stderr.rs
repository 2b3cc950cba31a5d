//! Standard error of the host: never waited for.

/// Writes a line to standard error if there is room for it at once; returns whether it was. Without
/// the standard library's lock, which a thread of the host may hold while it waits for room.
pub fn say(line: &[u8]) -> bool {
    /// What a pipe takes at once if it takes anything: POSIX's `PIPE_BUF` on Linux.
    const AT_ONCE_BYTES: usize = 4096;
    let mut error = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one pollfd, at a valid place; a timeout of 0 does not wait.
    let ready = unsafe { libc::poll(&raw mut error, 1, 0) };
    if ready != 1 || error.revents & libc::POLLOUT == 0 {
        return false;
    }
    let bytes = line.len().min(AT_ONCE_BYTES);
    // SAFETY: reads so many bytes of the line.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), bytes) >= 0 }
}
