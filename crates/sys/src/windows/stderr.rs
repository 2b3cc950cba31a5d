//! Standard error of the host.

use super::api;

/// Writes a line to standard error; returns whether it could. Without the standard library's lock,
/// which a thread of the host may hold while it waits for room.
///
/// Where Linux is asked first whether there is room, this waits for it: what Windows tells of a
/// pipe's room is less than there is while its reader waits, and then most lines would be lost.
pub fn say(line: &[u8]) -> bool {
    // SAFETY: only asks.
    let error = unsafe { api::GetStdHandle(api::STD_ERROR_HANDLE) };
    if error == 0 || error == api::INVALID_HANDLE {
        return false;
    }
    let count = u32::try_from(line.len()).unwrap_or(0);
    let mut written = 0;
    // SAFETY: reads so many bytes of the line, and writes to a valid place.
    let ok = unsafe {
        api::WriteFile(error, line.as_ptr(), count, &raw mut written, std::ptr::null_mut())
    };
    ok != 0
}
