//! Bytes that may be too short, and memory that may be gone.

/// Fills a buffer from this process's memory at an address; returns how many bytes it could, which
/// is fewer where memory ends or can't be had. It must never fault.
pub type ReadMemory = fn(u64, &mut [u8]) -> usize;

/// Reads at an offset in a slice; `None` past its end.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// The `len` bytes at `offset`.
    #[must_use]
    pub fn slice(self, offset: usize, len: usize) -> Option<&'a [u8]> {
        self.0.get(offset..offset.checked_add(len)?)
    }

    /// All bytes from `offset` on.
    #[must_use]
    pub fn tail(self, offset: usize) -> Option<&'a [u8]> {
        self.0.get(offset..)
    }

    /// One byte.
    #[must_use]
    pub fn u8(self, offset: usize) -> Option<u8> {
        self.0.get(offset).copied()
    }

    /// Two bytes.
    #[must_use]
    pub fn u16(self, offset: usize) -> Option<u16> {
        self.array(offset).map(u16::from_le_bytes)
    }

    /// Four bytes.
    #[must_use]
    pub fn u32(self, offset: usize) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    /// Four bytes, signed.
    #[must_use]
    pub fn i32(self, offset: usize) -> Option<i32> {
        self.array(offset).map(i32::from_le_bytes)
    }

    /// One byte, sign-extended.
    #[must_use]
    pub fn i8(self, offset: usize) -> Option<i32> {
        self.array(offset).map(|byte| i32::from(i8::from_le_bytes(byte)))
    }

    /// Eight bytes.
    #[must_use]
    pub fn u64(self, offset: usize) -> Option<u64> {
        self.array(offset).map(u64::from_le_bytes)
    }

    fn array<const N: usize>(self, offset: usize) -> Option<[u8; N]> {
        self.tail(offset)?.first_chunk().copied()
    }
}
