//! The modules that are loaded in this process.

use std::ffi::c_void;
use std::os::windows::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::api;

/// A loaded module, kept loaded as long as this lives.
#[derive(Debug)]
pub struct Loaded {
    /// Where its image begins.
    pub base: u64,
    /// Where it was loaded from.
    pub path: PathBuf,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: its count of users was raised when it was listed.
        unsafe { api::FreeLibrary(self.handle()) };
    }
}

impl Loaded {
    fn handle(&self) -> usize {
        usize::try_from(self.base).unwrap_or(0)
    }

    fn hold(base: usize) -> Option<Self> {
        let mut handle = 0;
        // SAFETY: asks for the module at an address, and writes its handle to a valid place. One
        // that was unloaded since is not found.
        let found = unsafe {
            api::GetModuleHandleExW(api::FROM_ADDRESS, base as *const u16, &raw mut handle)
        };
        if found == 0 {
            return None;
        }
        let mut loaded = Self { base: handle as u64, path: PathBuf::new() };
        let mut name = vec![0_u16; NAME_UNITS_MAX];
        let room = u32::try_from(name.len()).unwrap_or(0);
        // SAFETY: a module that is held, and a buffer of that size.
        let length = unsafe { api::GetModuleFileNameW(handle, name.as_mut_ptr(), room) };
        name.truncate(length as usize);
        loaded.path = PathBuf::from(std::ffi::OsString::from_wide(&name));
        Some(loaded)
    }

    /// The image's bytes at an offset, as far as they are there: the module is held, so its memory
    /// stays.
    #[must_use]
    pub fn bytes(&self, offset: u32, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = super::memory::copy_own(self.base.saturating_add(offset.into()), &mut bytes);
        bytes.truncate(read);
        bytes
    }
}

/// Longest name of a module's file, in units of 16 bits.
const NAME_UNITS_MAX: usize = 32 * 1024;

/// How often a module was loaded and unloaded since this was first asked; zeros where the loader
/// doesn't tell.
#[must_use]
pub fn counters() -> (u64, u64) {
    static TOLD: OnceLock<bool> = OnceLock::new();
    if !*TOLD.get_or_init(listen) {
        return (0, 0);
    }
    (ADDS.load(Ordering::Acquire), SUBS.load(Ordering::Acquire))
}

/// Modules loaded since the loader tells of them, and one.
static ADDS: AtomicU64 = AtomicU64::new(1);
/// Modules unloaded since then.
static SUBS: AtomicU64 = AtomicU64::new(0);

/// Keeps this library loaded until the process ends: the runtime unloads a profiler that it has let
/// go, and the loader would still call what it was told to.
pub(super) fn stay() {
    let mut own = 0;
    let here = told as *const () as *const u16;
    // SAFETY: an address in this library, and a valid place for its handle.
    unsafe { api::GetModuleHandleExW(api::FROM_ADDRESS | api::PIN, here, &raw mut own) };
}

/// Has the loader tell of modules; returns whether it will.
fn listen() -> bool {
    stay();
    type Told = unsafe extern "system" fn(u32, *const c_void, *mut c_void);
    type Register = unsafe extern "system" fn(u32, Told, *mut c_void, *mut *mut c_void) -> i32;
    let found = api::optional(c"ntdll.dll", c"LdrRegisterDllNotification");
    if found.is_null() {
        return false;
    }
    // SAFETY: the function has that type (Microsoft's documentation of it).
    let register = unsafe { std::mem::transmute::<*const c_void, Register>(found) };
    let mut cookie = std::ptr::null_mut();
    // SAFETY: a function of that type in a library that is never unloaded, and a valid place.
    unsafe { register(0, told, std::ptr::null_mut(), &raw mut cookie) >= 0 }
}

/// Called under the loader's lock: counts, and nothing else.
unsafe extern "system" fn told(reason: u32, _data: *const c_void, _context: *mut c_void) {
    const LOADED: u32 = 1;
    let counter = if reason == LOADED { &ADDS } else { &SUBS };
    counter.fetch_add(1, Ordering::AcqRel);
}

/// The addresses of all modules, at most so many: what a list is compared by.
#[must_use]
pub fn bases(limit: usize) -> Vec<u64> {
    let mut handles = vec![0_usize; limit];
    let bytes = u32::try_from(size_of_val(handles.as_slice())).unwrap_or(0);
    let mut needed = 0;
    // SAFETY: the process's own handle, and a buffer of that size.
    let told = unsafe {
        api::K32EnumProcessModules(
            api::GetCurrentProcess(),
            handles.as_mut_ptr(),
            bytes,
            &raw mut needed,
        )
    };
    let count = if told == 0 { 0 } else { needed as usize / size_of::<usize>() };
    handles.truncate(count);
    handles.into_iter().map(|handle| handle as u64).collect()
}

/// The module at an address that was listed; `None` if it is gone.
#[must_use]
pub fn hold(base: u64) -> Option<Loaded> {
    Loaded::hold(usize::try_from(base).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_first_and_holds_this_code() {
        let listed = bases(1000);
        assert!(listed.len() > 2, "{listed:?}");
        let own = hold(*listed.first().expect("a module")).expect("held");
        assert_eq!(own.bytes(0, 2), b"MZ");
        assert_eq!(Some(own.path.as_path()), std::env::current_exe().ok().as_deref());
        let here = super::super::code::describe(bases as fn(usize) -> Vec<u64> as usize as u64);
        let here = here.expect("a function with unwind data");
        assert_eq!(here.base, own.base);
        assert!(here.start < here.end && here.unwind > here.base);
        assert_eq!(super::super::code::describe(0), None);
        assert!(hold(8).is_none());
    }
}
