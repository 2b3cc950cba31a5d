//! Unwind data of code that is in no file: compilers at run time register theirs with the system.

use super::api;

/// A function's unwind data, as the system has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// First address of the function.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// What other addresses in its data are counted from.
    pub base: u64,
    /// Where its unwind data is.
    pub unwind: u64,
}

/// The function that holds an address, in a module or compiled at run time; `None` if the system
/// knows none there. May call the runtime back: not to be called while a thread is suspended.
#[must_use]
pub fn describe(address: u64) -> Option<Described> {
    let mut base = 0;
    // SAFETY: the base is written to a valid place; without a history nothing else is written.
    let entry =
        unsafe { api::RtlLookupFunctionEntry(address, &raw mut base, std::ptr::null_mut()) };
    // SAFETY: the entry is the system's or the runtime's, and stays while the code does: the caller
    // knows the method and has it kept.
    let entry = *unsafe { entry.as_ref() }?;
    let at = |offset: u32| base.checked_add(u64::from(offset));
    Some(Described {
        start: at(entry.begin)?,
        end: at(entry.end)?,
        base,
        unwind: at(entry.unwind)?,
    })
}
