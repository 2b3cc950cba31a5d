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
    /// It is cut off, and so are those behind it.
    Bad,
}

/// The entries that are left.
pub struct Entries<'a> {
    section: Section<'a>,
    bases: BaseAddresses,
    bytes: Bytes<'a>,
    /// Where the bytes were, in this process.
    address: u64,
    at: usize,
    /// What is common to the entries that name the place; `None` if that is not plain.
    commons: FxHashMap<usize, Option<Common>>,
    /// The last one: entries of one object file follow each other.
    last: (usize, Option<Common>),
}

impl<'a> Entries<'a> {
    /// All entries of a section.
    pub fn new(section: Section<'a>, bases: BaseAddresses, frames: &'a EhFrame) -> Self {
        Self {
            section,
            bases,
            bytes: Bytes(&frames.bytes),
            address: frames.address,
            at: 0,
            commons: FxHashMap::default(),
            last: (usize::MAX, None),
        }
    }

    /// The next entry for a function, whose rows are appended if it is plain; `None` after the
    /// last.
    pub fn next(&mut self, rows: &mut Vec<(u64, Rule)>) -> Option<Entry> {
        loop {
            let (at, bytes) = (self.at, self.bytes);
            let rest = bytes.tail(at)?;
            let length = entry_bytes(rest)?;
            let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
            let Some(end) = end.filter(|end| *end <= bytes.0.len()) else {
                self.at = bytes.0.len();
                return Some(Entry::Bad);
            };
            self.at = end;
            // The length has four bytes, or twelve if the first four are full.
            let head = if rest.starts_with(&[0xff; 4]) { 12 } else { 4 };
            let names_at = at.saturating_add(head);
            match bytes.u32(names_at) {
                // Common to others.
                Some(0) => continue,
                Some(back) if head == 4 => {
                    if let Some(range) = self.plain(names_at, back, end, rows) {
                        return Some(Entry::Plain(range));
                    }
                    rows.clear();
                }
                _ => {}
            }
            return Some(Entry::Other(at));
        }
    }

    /// The function of an entry that names what it has in common with others so many bytes before
    /// `names_at`, and ends at `end`.
    fn plain(
        &mut self,
        names_at: usize,
        back: u32,
        end: usize,
        rows: &mut Vec<(u64, Rule)>,
    ) -> Option<Range<u64>> {
        let common = self.common(names_at.checked_sub(usize::try_from(back).ok()?)?)?;
        let bytes = Bytes(self.bytes.0.get(..end)?);
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
