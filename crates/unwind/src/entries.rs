//! The entries of `.eh_frame`, one after the other: plain ones run at once, the others by their
//! place.

use std::ops::Range;

use gimli::constants::{DW_EH_PE_pcrel, DW_EH_PE_sdata4};
use gimli::{BaseAddresses, EndianSlice, LittleEndian, UnwindSection, X86_64};
use rustc_hash::FxHashMap;
use signal::rule::Rule;

use crate::bytes::Bytes;
use crate::eh_frame::{EhFrame, entry_bytes};
use crate::program::Common;

type Section<'a> = gimli::EhFrame<EndianSlice<'a, LittleEndian>>;

/// An entry for one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is plain, of a function at these addresses, and its rows have been made.
    Plain(Range<u64>),
    /// It is not; this is its offset.
    Other(usize),
}

/// The entries that are left, mostly by rising addresses of their functions: linkers put the parts
/// of one object file at several places, and there are several times as many rows to sort as
/// entries.
pub struct Entries<'a> {
    section: Section<'a>,
    bases: BaseAddresses,
    bytes: Bytes<'a>,
    /// Where the bytes were, in this process.
    address: u64,
    places: std::vec::IntoIter<Place>,
    /// Whether the last of them were cut off.
    pub is_cut: bool,
    /// What is common to the entries that name the place; `None` if that is not plain.
    commons: FxHashMap<usize, Option<Common>>,
    /// The last one: entries of one object file follow each other.
    last: (usize, Option<Common>),
}

/// Where an entry is, and before that, if it is plain, where its function begins, from the
/// section's beginning.
type Place = (i32, u32);

impl<'a> Entries<'a> {
    /// All entries of a section.
    pub fn new(section: Section<'a>, bases: BaseAddresses, frames: &'a EhFrame) -> Self {
        let bytes = Bytes(&frames.bytes);
        let (mut places, is_cut) = places(bytes);
        if !places.is_sorted() {
            places.sort_unstable();
        }
        Self {
            section,
            bases,
            bytes,
            address: frames.address,
            places: places.into_iter(),
            is_cut,
            commons: FxHashMap::default(),
            last: (usize::MAX, None),
        }
    }

    /// The next entry for a function, whose rows are appended if it is plain; `None` after the
    /// last.
    pub fn next(&mut self, rows: &mut Vec<(u64, Rule)>) -> Option<Entry> {
        let (_, at) = self.places.next()?;
        let at = at as usize;
        match self.plain(at, rows) {
            Some(range) => Some(Entry::Plain(range)),
            None => {
                rows.clear();
                Some(Entry::Other(at))
            }
        }
    }

    /// The function of the entry there, if it is plain.
    fn plain(&mut self, at: usize, rows: &mut Vec<(u64, Rule)>) -> Option<Range<u64>> {
        // Four bytes of length; one of more bytes has others here.
        let length = self.bytes.u32(at).filter(|length| *length != u32::MAX)?;
        let names_at = at.checked_add(4)?;
        let bytes = Bytes(self.bytes.0.get(..names_at.checked_add(length as usize)?)?);
        // It names what it has in common with others so many bytes before.
        let common = self.common(names_at.checked_sub(bytes.u32(names_at)? as usize)?)?;
        let place = names_at.checked_add(4)?;
        let offset = i64::from(bytes.i32(place)?);
        let start = self.address.wrapping_add(place as u64).wrapping_add_signed(offset);
        let size = u64::try_from(bytes.i32(place.checked_add(4)?)?).ok()?;
        // Nothing of the language's own data is wanted; its length hardly ever takes two bytes.
        let own = place.checked_add(8)?;
        let own_bytes = bytes.u8(own).filter(|length| *length < 0x80)?;
        let program = bytes.tail(own.checked_add(1)?.checked_add(own_bytes.into())?)?;
        common.run(program, start, rows)?;
        Some(start..start.checked_add(size)?)
    }

    /// What is common to the entries that name that place.
    fn common(&mut self, at: usize) -> Option<Common> {
        if self.last.0 != at {
            let (section, bases) = (self.section, &self.bases);
            let common = *self.commons.entry(at).or_insert_with(|| read(section, bases, at));
            self.last = (at, common);
        }
        self.last.1
    }
}

/// The places of all entries for functions, and whether there are more that are cut off.
fn places(bytes: Bytes<'_>) -> (Vec<Place>, bool) {
    /// An entry of few rows; most have more.
    const ENTRY_BYTES: usize = 24;
    let mut places = Vec::with_capacity(bytes.0.len() / ENTRY_BYTES);
    let mut at = 0_usize;
    while let Some(length) = bytes.tail(at).and_then(entry_bytes) {
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
        let Some(end) = end.filter(|end| *end <= bytes.0.len()) else { return (places, true) };
        // The length has four bytes, or twelve if the first four are full.
        let head = if bytes.u32(at) == Some(u32::MAX) { 12 } else { 4 };
        let names_at = at.saturating_add(head);
        // What is common to others names nothing.
        if bytes.u32(names_at) != Some(0) {
            let start = bytes.i32(names_at.saturating_add(4)).unwrap_or_default();
            let start = i32::try_from(names_at).unwrap_or_default().saturating_add(start);
            places.push((start, u32::try_from(at).unwrap_or(u32::MAX)));
        }
        at = end;
    }
    (places, false)
}

/// What is common to entries; `None` if it is not plain: then neither are they.
fn read(section: Section<'_>, bases: &BaseAddresses, at: usize) -> Option<Common> {
    let cie = section.cie_from_offset(bases, at.into()).ok()?;
    let relative = DW_EH_PE_pcrel.0 | DW_EH_PE_sdata4.0;
    let is_plain = cie.fde_address_encoding().is_some_and(|encoding| encoding.0 == relative)
        && cie.return_address_register() == X86_64::RA
        && !cie.is_signal_trampoline();
    if !is_plain {
        return None;
    }
    let mut instructions = cie.instructions(&section, bases);
    let mut initial = Vec::new();
    while let Some(instruction) = instructions.next().ok()? {
        initial.push(instruction);
    }
    Common::new(cie.code_alignment_factor(), cie.data_alignment_factor(), initial)
}
