//! The `.xz` container, as far as distributions use it for `.gnu_debugdata`: LZMA2 and no other
//! filter. Decompressed at once into memory, which is LZMA's dictionary at the same time.
//!
//! The checksums are not looked at: the ELF file inside is taken for damaged anyway.

use crate::bytes::Bytes;
use crate::lzma::{Decoder, Properties};

/// Why something could not be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotXz {
    /// It is no `.xz` file, is damaged, or uses what we don't know.
    Bad,
    /// It would be larger than the caller wants.
    TooLarge,
}

/// Decompresses a file to at most `bytes_max` bytes.
///
/// # Errors
/// The cause.
pub fn decompress(file: &[u8], bytes_max: usize) -> Result<Vec<u8>, NotXz> {
    const MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
    const HEADER_BYTES: usize = 12;
    let view = Bytes(file);
    if view.slice(0, MAGIC.len()) != Some(&MAGIC) {
        return Err(NotXz::Bad);
    }
    let check_bytes = view.u8(7).and_then(check_bytes).ok_or(NotXz::Bad)?;
    let mut output = Output { bytes: Vec::new(), bytes_max };
    let mut at = HEADER_BYTES;
    while let Some(header_bytes) = block_header(view, at)? {
        let mut input = Input { bytes: view, at: at.saturating_add(header_bytes) };
        chunks(&mut input, &mut output)?;
        // Header and contents are padded together to four bytes; all blocks begin on such.
        let end = input.at.checked_next_multiple_of(4).ok_or(NotXz::Bad)?;
        at = end.checked_add(check_bytes).ok_or(NotXz::Bad)?;
    }
    Ok(output.bytes)
}

/// Size of a block's checksum by its kind.
fn check_bytes(kind: u8) -> Option<usize> {
    match kind {
        0 => Some(0),
        1..=3 => Some(4),
        4..=6 => Some(8),
        7..=9 => Some(16),
        10..=12 => Some(32),
        13..=15 => Some(64),
        _ => None,
    }
}

/// The size of a block's header; `None` where the index begins, which is the end.
fn block_header(file: Bytes<'_>, at: usize) -> Result<Option<usize>, NotXz> {
    const LZMA2: u64 = 0x21;
    let size = match file.u8(at).ok_or(NotXz::Bad)? {
        0 => return Ok(None),
        size => usize::from(size).saturating_add(1).saturating_mul(4),
    };
    let mut header = Input { bytes: Bytes(file.slice(at, size).ok_or(NotXz::Bad)?), at: 1 };
    let flags = header.byte()?;
    for size_is_there in [flags & 0x40 != 0, flags & 0x80 != 0] {
        if size_is_there {
            header.number()?;
        }
    }
    let is_lzma2_alone = flags & 3 == 0 && header.number()? == LZMA2;
    if is_lzma2_alone { Ok(Some(size)) } else { Err(NotXz::Bad) }
}

/// The chunks of one block.
fn chunks(input: &mut Input<'_>, output: &mut Output) -> Result<(), NotXz> {
    let mut dictionary_start = None;
    let mut decoder: Option<Decoder> = None;
    loop {
        let control = input.byte()?;
        if control == 0 {
            return Ok(());
        }
        if control == 1 || control >= 0xe0 {
            dictionary_start = Some(output.bytes.len());
        }
        let start = dictionary_start.ok_or(NotXz::Bad)?;
        if control < 0x80 {
            let len = usize::from(input.big_endian()?).saturating_add(1);
            if control > 2 {
                return Err(NotXz::Bad);
            }
            output.reserve(len)?;
            output.bytes.extend_from_slice(input.slice(len)?);
            continue;
        }
        let high = usize::from(control & 0x1f) << 16;
        let len = usize::from(input.big_endian()?).saturating_add(high).saturating_add(1);
        let packed = usize::from(input.big_endian()?).saturating_add(1);
        match (control >> 5) & 3 {
            0 => {}
            1 => decoder.as_mut().ok_or(NotXz::Bad)?.reset(),
            _ => {
                let properties = Properties::read(input.byte()?).ok_or(NotXz::Bad)?;
                decoder = Some(Decoder::new(properties));
            }
        }
        output.reserve(len)?;
        let decoder = decoder.as_mut().ok_or(NotXz::Bad)?;
        let chunk = input.slice(packed)?;
        decoder.decode(chunk, &mut output.bytes, start, len).ok_or(NotXz::Bad)?;
    }
}

struct Output {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Output {
    fn reserve(&mut self, len: usize) -> Result<(), NotXz> {
        if self.bytes.len().saturating_add(len) > self.bytes_max {
            return Err(NotXz::TooLarge);
        }
        self.bytes.reserve(len);
        Ok(())
    }
}

struct Input<'a> {
    bytes: Bytes<'a>,
    at: usize,
}

impl<'a> Input<'a> {
    fn slice(&mut self, len: usize) -> Result<&'a [u8], NotXz> {
        let slice = self.bytes.slice(self.at, len).ok_or(NotXz::Bad)?;
        self.at = self.at.saturating_add(len);
        Ok(slice)
    }

    fn byte(&mut self) -> Result<u8, NotXz> {
        self.slice(1)?.first().copied().ok_or(NotXz::Bad)
    }

    fn big_endian(&mut self) -> Result<u16, NotXz> {
        let bytes = self.slice(2)?.first_chunk().ok_or(NotXz::Bad)?;
        Ok(u16::from_be_bytes(*bytes))
    }

    /// Seven bits a byte, the lowest first; nine bytes at most.
    fn number(&mut self) -> Result<u64, NotXz> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(NotXz::Bad)
    }
}
