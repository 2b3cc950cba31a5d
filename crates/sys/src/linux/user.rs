//! The user that the process acts for; it may change while it runs.

/// The user's number, by which files are made and opened.
#[must_use]
pub fn effective_id() -> u32 {
    // SAFETY: no argument, can't fail.
    unsafe { libc::geteuid() }
}
