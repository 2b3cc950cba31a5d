//! Bytes that may be too short, and memory that may be gone.

/// Fills a buffer from this process's memory at an address; returns how many bytes it could, which
/// is fewer where memory ends or can't be had. It must never fault.
pub type ReadMemory = fn(u64, &mut [u8]) -> usize;

/// Code that is read some pages at a time. Unwind data has functions in about the order in which
/// they lie, and a system call for each of tens of thousands would cost more than all else.
#[derive(Debug)]
pub struct Window {
    read_memory: ReadMemory,
    start: u64,
    bytes: Vec<u8>,
    /// How many of the bytes could be read.
    length: usize,
}

impl Window {
    const BYTES: usize = 16 << 10;

    /// A window that reads by that function.
    #[must_use]
    pub fn new(read_memory: ReadMemory) -> Self {
        Self { read_memory, start: 0, bytes: vec![0; Self::BYTES], length: 0 }
    }

    /// Up to so many bytes at an address; fewer where memory ends or can't be had.
    pub fn at(&mut self, address: u64, count: usize) -> &[u8] {
        if self.place(address, count).is_none() {
            self.start = address;
            self.length = (self.read_memory)(address, &mut self.bytes).min(self.bytes.len());
        }
        let offset = self.place(address, count).unwrap_or(0);
        let read = self.bytes.get(..self.length).unwrap_or_default();
        let rest = read.get(offset..).unwrap_or_default();
        rest.get(..count).unwrap_or(rest)
    }

    /// Where in the window an address is, if so many bytes from there on were read.
    fn place(&self, address: u64, count: usize) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        (offset.checked_add(count)? <= self.length).then_some(offset)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory from 1,000 to 101,000, whose bytes are their addresses' last digits.
    fn memory(address: u64, buffer: &mut [u8]) -> usize {
        let count = if address < 1_000 { 0 } else { 101_000_u64.saturating_sub(address) };
        let count = buffer.len().min(count as usize);
        for (byte, at) in buffer.iter_mut().take(count).zip(address..) {
            *byte = at as u8;
        }
        count
    }

    #[test]
    fn a_window_shows_what_is_there_wherever_it_stands() {
        let mut window = Window::new(memory);
        let mut random = testing::Random(7);
        for _ in 0..10_000 {
            let address = random.below(102_000);
            let mut expected = [0; 24];
            let count = memory(address, &mut expected);
            assert_eq!(window.at(address, 24), &expected[..count], "{address}");
        }
    }
}
