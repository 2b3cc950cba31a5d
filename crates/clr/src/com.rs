//! COM as far as it is needed: identifiers, results, counted pointers, and calls by slot number.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// An interface's or class's identifier, as it lies in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guid {
    data1: u32,
    data2: u16,
    data3: u16,
    data4: [u8; 8],
}

impl Guid {
    /// From the number that the usual writing gives: `28B5557D-3F3F-48B4-…` without the dashes.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the parts of the number are what is wanted"
    )]
    pub const fn new(number: u128) -> Self {
        Self {
            data1: (number >> 96) as u32,
            data2: (number >> 80) as u16,
            data3: (number >> 64) as u16,
            data4: (number as u64).to_be_bytes(),
        }
    }
}

/// A call's result: negative is a failure.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HResult(pub i32);

impl HResult {
    /// Success.
    pub const OK: Self = Self(0);
    /// The object has no such interface.
    pub const NO_INTERFACE: Self = Self(0x8000_4002_u32.cast_signed());
    /// A null or otherwise impossible pointer.
    pub const POINTER: Self = Self(0x8000_4003_u32.cast_signed());
    /// Failure without a reason; also what a caught panic becomes where failing is allowed.
    pub const FAIL: Self = Self(0x8000_4005_u32.cast_signed());
    /// The class factory makes no such class.
    pub const CLASS_NOT_AVAILABLE: Self = Self(0x8004_0111_u32.cast_signed());
    /// The class can't be part of another object.
    pub const NO_AGGREGATION: Self = Self(0x8004_0110_u32.cast_signed());
    /// The profiler declines to be loaded; the runtime goes on without it.
    pub const CANCEL_ACTIVATION: Self = Self(0x8013_1375_u32.cast_signed());

    /// `Ok` unless negative.
    ///
    /// # Errors
    /// The result itself.
    pub fn ok(self) -> Result<(), Self> {
        if self.0 >= 0 { Ok(()) } else { Err(self) }
    }
}

impl std::fmt::Display for HResult {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "HRESULT {:#010x}", self.0)
    }
}

pub(crate) const IID_IUNKNOWN: Guid = Guid::new(0x00000000_0000_0000_C000_000000000046);

/// A counted pointer to a COM object.
pub(crate) struct ComPtr(NonNull<c_void>);

// SAFETY: the runtime's profiling and metadata objects are free-threaded: any thread may call them.
unsafe impl Send for ComPtr {}
// SAFETY: as above.
unsafe impl Sync for ComPtr {}

/// The function in a slot of an object's table.
///
/// # Safety
/// `object` is a live COM object whose interface has that slot.
pub(crate) unsafe fn slot(object: *mut c_void, index: usize) -> *const c_void {
    // SAFETY: a COM object's first word is the address of its table (the caller's promise).
    let table = unsafe { object.cast::<*const *const c_void>().read() };
    // SAFETY: the table has that slot (the caller's promise).
    unsafe { table.add(index).read() }
}

/// Calls a slot: `call!(pointer, index, (types), (values))`. To be used inside an `unsafe` block
/// whose proof names the interface, the slot and the validity of the arguments.
macro_rules! call {
    ($pointer:expr, $index:expr, ($($type:ty),* $(,)?), ($($value:expr),* $(,)?)) => {{
        let object = $pointer.as_raw();
        let function = $crate::com::slot(object, $index);
        let function: unsafe extern "system" fn(*mut std::ffi::c_void $(, $type)*)
            -> $crate::com::HResult = std::mem::transmute(function);
        function(object $(, $value)*)
    }};
}
pub(crate) use call;

impl ComPtr {
    /// Takes over a reference that was counted for us; `None` if null.
    ///
    /// # Safety
    /// `raw` is null or a live COM object with one reference that is ours.
    pub(crate) unsafe fn from_raw(raw: *mut c_void) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// Gives the reference back and then calls the object once more; gets it back if that fails.
    ///
    /// # Safety
    /// Somebody else keeps the object alive during the call, and after it if it fails.
    pub(crate) unsafe fn last_call(
        self,
        call: impl FnOnce(&ManuallyDrop<Self>) -> HResult,
    ) -> Result<(), (HResult, Self)> {
        let raw = self.as_raw();
        drop(self);
        let Some(pointer) = NonNull::new(raw).map(|raw| ManuallyDrop::new(Self(raw))) else {
            return Ok(());
        };
        call(&pointer).ok().map_err(|error| {
            // SAFETY: slot 1 of every COM object is AddRef; it lives, by the caller's promise.
            let function = unsafe { slot(raw, 1) };
            // SAFETY: that is AddRef's signature.
            let add_ref: unsafe extern "system" fn(*mut c_void) -> u32 =
                unsafe { std::mem::transmute(function) };
            // SAFETY: a live object.
            unsafe { add_ref(raw) };
            (error, ManuallyDrop::into_inner(pointer))
        })
    }

    pub(crate) fn as_raw(&self) -> *mut c_void {
        self.0.as_ptr()
    }

    /// Asks an object for another interface.
    ///
    /// # Safety
    /// `object` is a live COM object.
    pub(crate) unsafe fn query(object: *mut c_void, interface: &Guid) -> Result<Self, HResult> {
        let mut out: *mut c_void = std::ptr::null_mut();
        // SAFETY: slot 0 of every COM object is QueryInterface (the caller's promise).
        let function = unsafe { slot(object, 0) };
        type Query =
            unsafe extern "system" fn(*mut c_void, *const Guid, *mut *mut c_void) -> HResult;
        // SAFETY: that is QueryInterface's signature.
        let function: Query = unsafe { std::mem::transmute(function) };
        // SAFETY: both places are valid for the call.
        unsafe { function(object, interface, &raw mut out) }.ok()?;
        // SAFETY: on success the object counted a reference for the caller.
        unsafe { Self::from_raw(out) }.ok_or(HResult::POINTER)
    }
}

impl Drop for ComPtr {
    fn drop(&mut self) {
        // SAFETY: slot 2 of every COM object is Release, and this pointer holds one reference.
        let function = unsafe { slot(self.as_raw(), 2) };
        // SAFETY: that is Release's signature.
        let release: unsafe extern "system" fn(*mut c_void) -> u32 =
            unsafe { std::mem::transmute(function) };
        // SAFETY: the reference is given back once.
        unsafe { release(self.as_raw()) };
    }
}

/// Text as the runtime writes it: UTF-16 with a NUL, and a length that counts the NUL.
pub(crate) fn text(buffer: &[u16], length: u32) -> String {
    let length = usize::try_from(length).unwrap_or(0).min(buffer.len());
    let units = buffer.get(..length).unwrap_or_default();
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    String::from_utf16_lossy(units.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_lies_in_memory_as_com_has_it() {
        let guid = Guid::new(0x28B5557D_3F3F_48B4_90B2_5F9EEA2F6C48);
        assert_eq!((guid.data1, guid.data2, guid.data3), (0x28B5_557D, 0x3F3F, 0x48B4));
        assert_eq!(guid.data4, [0x90, 0xB2, 0x5F, 0x9E, 0xEA, 0x2F, 0x6C, 0x48]);
    }

    #[test]
    fn text_ends_at_its_nul_or_length() {
        let buffer: Vec<u16> = "abc\0def".encode_utf16().collect();
        assert_eq!(text(&buffer, 4), "abc");
        assert_eq!(text(&buffer, 2), "ab");
        assert_eq!(text(&buffer, 100), "abc");
        assert_eq!(text(&[], 4), "");
    }
}
