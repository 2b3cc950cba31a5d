//! A module's `.eh_frame`: a copy of its bytes, where they were, and how many there are.
//!
//! Program headers name `.eh_frame_hdr` only. It points to the start of `.eh_frame`, whose length
//! is nowhere: it ends at a zero length word that the C runtime's last object file contributes, or
//! without one (the vDSO, some hand-linked libraries) after the last entry that the header's search
//! table names.

use gimli::{BaseAddresses, EhFrameHdr, EndianSlice, LittleEndian, Pointer};
use model::limits::EH_FRAME_BYTES_MAX;

use crate::bytes::Bytes;

/// Why a module has no unwind data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEhFrame {
    /// It has no `.eh_frame_hdr`.
    NoHeader,
    /// The header can't be read.
    BadHeader,
    /// The header or what it points to lies outside the loaded segments.
    OutsideSegments,
    /// More than `limits::EH_FRAME_BYTES_MAX`.
    TooLarge,
}

/// A copy of one module's unwind data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EhFrame {
    /// Where the bytes were, in this process.
    pub address: u64,
    /// The entries, without the terminator.
    pub bytes: Vec<u8>,
    /// Where `.eh_frame_hdr` was, in this process.
    pub hdr_address: u64,
    /// The bytes of `.eh_frame_hdr`.
    pub hdr_bytes: Vec<u8>,
}

impl EhFrame {
    /// The address that a `.eh_frame_hdr` at `hdr_address` names.
    ///
    /// # Errors
    /// `BadHeader` if it is not a header of version 1 with a direct pointer.
    pub fn address(hdr: &[u8], hdr_address: u64) -> Result<u64, NoEhFrame> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(hdr_address);
        let parsed = EhFrameHdr::new(hdr, LittleEndian)
            .parse(&bases, 8)
            .map_err(|_| NoEhFrame::BadHeader)?;
        match parsed.eh_frame_ptr() {
            Pointer::Direct(address) => Ok(address),
            Pointer::Indirect(_) => Err(NoEhFrame::BadHeader),
        }
    }

    /// Keeps the entries at the start of `bytes`, which were at `address` and may go on beyond.
    ///
    /// # Errors
    /// `TooLarge` if there are more than `limits::EH_FRAME_BYTES_MAX` bytes of entries or header.
    pub fn new(
        hdr_bytes: Vec<u8>,
        hdr_address: u64,
        mut bytes: Vec<u8>,
        address: u64,
    ) -> Result<Self, NoEhFrame> {
        let last = last_entry(&hdr_bytes, hdr_address)
            .and_then(|last| usize::try_from(last.checked_sub(address)?).ok());
        bytes.truncate(length(&bytes, last));
        if bytes.len() > EH_FRAME_BYTES_MAX || hdr_bytes.len() > EH_FRAME_BYTES_MAX {
            return Err(NoEhFrame::TooLarge);
        }
        bytes.shrink_to_fit();
        Ok(Self { address, bytes, hdr_address, hdr_bytes })
    }

    /// Heap bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        self.bytes.capacity().saturating_add(self.hdr_bytes.capacity())
    }
}

/// The length of the entries at the start of `bytes`: to the terminator, to the end of the last
/// entry that is known, or as far as the entries fit.
#[must_use]
pub fn length(bytes: &[u8], last: Option<usize>) -> usize {
    let mut at = 0usize;
    loop {
        if last.is_some_and(|last| at > last) {
            return at;
        }
        let next = bytes
            .get(at..)
            .and_then(entry_bytes)
            .and_then(|len| at.checked_add(usize::try_from(len).ok()?))
            .filter(|next| *next <= bytes.len());
        match next {
            Some(next) => at = next,
            None => return at,
        }
    }
}

/// Enough of an entry to know its length.
pub const HEAD_BYTES: usize = 12;

/// The length of the entry that begins so; `None` for the terminator.
#[must_use]
pub fn entry_bytes(head: &[u8]) -> Option<u64> {
    const EXTENDED: u32 = u32::MAX;
    let head = Bytes(head);
    match head.u32(0)? {
        0 => None,
        EXTENDED => head.u64(4)?.checked_add(12),
        len => u64::from(len).checked_add(4),
    }
}

/// The highest address of an FDE in the header's search table, if it has one.
#[must_use]
pub fn last_entry(hdr: &[u8], hdr_address: u64) -> Option<u64> {
    plain_last_entry(hdr, hdr_address).or_else(|| parsed_last_entry(hdr, hdr_address))
}

/// The same for the table that all linkers write: pairs of a function and its entry, each by its
/// distance from the header, in four bytes.
fn plain_last_entry(hdr: &[u8], hdr_address: u64) -> Option<u64> {
    // Version 1; the encodings of the pointer to `.eh_frame`, of the count, and of the table.
    const HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let count = Bytes(hdr.strip_prefix(&HEAD)?).u32(4)?;
    let pairs = hdr.get(12..)?.as_chunks::<8>().0;
    let pairs = pairs.get(..usize::try_from(count).ok()?)?;
    let entries = pairs.iter().map(|[.., a, b, c, d]| i32::from_le_bytes([*a, *b, *c, *d]));
    Some(hdr_address.wrapping_add_signed(entries.max()?.into()))
}

fn parsed_last_entry(hdr: &[u8], hdr_address: u64) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(hdr_address);
    let parsed = EhFrameHdr::<EndianSlice<'_, LittleEndian>>::new(hdr, LittleEndian)
        .parse(&bases, 8)
        .ok()?;
    let table = parsed.table()?;
    let mut rows = table.iter(&bases);
    let mut last = None;
    while let Ok(Some((_, entry))) = rows.next() {
        let Pointer::Direct(address) = entry else { return None };
        last = last.max(Some(address));
    }
    last
}
