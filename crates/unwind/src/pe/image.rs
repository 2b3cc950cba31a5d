//! The headers and tables of a Windows image (PE32+), as it lies in memory.

use std::ops::Range;

use crate::bytes::Bytes;

/// Bytes that hold the headers of any image that makes sense.
pub const HEADER_BYTES: usize = 4096;
/// Directories, by number.
const EXPORTS: usize = 0;
const FUNCTIONS: usize = 3;
const DEBUG: usize = 6;
const CLR: usize = 14;
/// Bytes of what .NET says of an image.
pub const CLR_BYTES: usize = 72;

/// A range of the image, as offsets from its base.
pub type Offsets = Range<u32>;

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Where it lies.
    pub range: Offsets,
    /// Whether it is code.
    pub is_code: bool,
}

/// What the headers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// How large the image is.
    pub bytes: u32,
    /// Its sections, as they are in the headers.
    pub sections: Vec<Section>,
    /// The table of exported names.
    pub exports: Offsets,
    /// The table of functions with unwind data.
    pub functions: Offsets,
    /// The table of what debuggers want.
    pub debug: Offsets,
    /// What .NET says of the image; empty if it is none of its.
    pub clr: Offsets,
}

impl Headers {
    /// Reads them; `None` if this is no 64-bit image.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        const OPTIONAL_64: u16 = 0x20b;
        const X86_64: u16 = 0x8664;
        let bytes = Bytes(bytes);
        if bytes.slice(0, 2)? != b"MZ" {
            return None;
        }
        let at = usize::try_from(bytes.u32(0x3c)?).ok()?;
        let nt = Bytes(bytes.tail(at)?);
        if nt.slice(0, 4)? != b"PE\0\0" || nt.u16(4)? != X86_64 || nt.u16(24)? != OPTIONAL_64 {
            return None;
        }
        let section_count = usize::from(nt.u16(6)?);
        let optional_bytes = usize::from(nt.u16(20)?);
        let directories = nt.u32(24 + 108)?;
        let directory = |number: usize| {
            let entry = number.checked_mul(8)?.checked_add(24 + 112)?;
            let has = u32::try_from(number).is_ok_and(|number| number < directories);
            let start = if has { nt.u32(entry)? } else { 0 };
            let length = if has { nt.u32(entry.checked_add(4)?)? } else { 0 };
            Some(start..start.checked_add(length)?)
        };
        let table = Bytes(nt.tail(optional_bytes.checked_add(24)?)?);
        let sections = (0..section_count).map_while(|n| section(table, n)).collect();
        Some(Self {
            bytes: nt.u32(24 + 56)?,
            sections,
            exports: directory(EXPORTS)?,
            functions: directory(FUNCTIONS)?,
            debug: directory(DEBUG)?,
            clr: directory(CLR)?,
        })
    }

    /// The sections with code, ascending.
    #[must_use]
    pub fn code(&self) -> Vec<Offsets> {
        let code = self.sections.iter().filter(|section| section.is_code);
        let mut code: Vec<Offsets> = code.map(|section| section.range.clone()).collect();
        code.sort_by_key(|range| range.start);
        code
    }
}

/// Whether an image with that header of .NET has managed code only, compiled ahead or not, and none
/// that a C++ compiler mixed in.
#[must_use]
pub fn is_managed(clr: &[u8]) -> bool {
    const IL_ONLY: u32 = 1;
    let bytes = Bytes(clr);
    let is_il = bytes.u32(16).is_some_and(|flags| flags & IL_ONLY != 0);
    let is_precompiled = bytes.u32(68).is_some_and(|bytes| bytes != 0);
    is_il || is_precompiled
}

fn section(table: Bytes<'_>, number: usize) -> Option<Section> {
    const BYTES: usize = 40;
    const EXECUTE: u32 = 0x2000_0000;
    let entry = Bytes(table.slice(number.checked_mul(BYTES)?, BYTES)?);
    let start = entry.u32(12)?;
    let end = start.checked_add(entry.u32(8)?)?;
    Some(Section { range: start..end, is_code: entry.u32(36)? & EXECUTE != 0 })
}

/// Where the debugging data of a table says that the id of the image's PDB is, and how long.
#[must_use]
pub fn code_view(debug: &[u8]) -> Option<Offsets> {
    const ENTRY_BYTES: usize = 28;
    const CODE_VIEW: u32 = 2;
    let entry =
        debug.chunks_exact(ENTRY_BYTES).map(Bytes).find(|e| e.u32(12) == Some(CODE_VIEW))?;
    let start = entry.u32(20)?;
    Some(start..start.checked_add(entry.u32(16)?)?)
}

/// The id of a PDB as symbol servers have it: its GUID, most significant byte first, and its age.
#[must_use]
pub fn pdb_id(code_view: &[u8]) -> Option<Vec<u8>> {
    let bytes = Bytes(code_view);
    if bytes.slice(0, 4)? != b"RSDS" {
        return None;
    }
    let mut id = bytes.u32(4)?.to_be_bytes().to_vec();
    id.extend(bytes.u16(8)?.to_be_bytes());
    id.extend(bytes.u16(10)?.to_be_bytes());
    id.extend(bytes.slice(12, 8)?);
    id.extend(bytes.u32(20)?.to_be_bytes());
    Some(id)
}

/// An exported function: where it is in the image, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Offset of its first byte.
    pub start: u32,
    /// Where its name is in the bytes of the table.
    pub name: Range<usize>,
}

/// The exports of a table whose bytes begin at `start` in the image, ascending by address. What is
/// passed on to another module is left out.
#[must_use]
pub fn exports(table: &[u8], start: u32, limit: usize) -> Vec<Export> {
    let bytes = Bytes(table);
    let at = |offset: u32| usize::try_from(offset.checked_sub(start)?).ok();
    let list = || {
        let count = usize::try_from(bytes.u32(24)?).ok()?.min(limit);
        let functions = at(bytes.u32(28)?)?;
        let names = at(bytes.u32(32)?)?;
        let ordinals = at(bytes.u32(36)?)?;
        let one = |n: usize| {
            let name = at(bytes.u32(names.checked_add(n.checked_mul(4)?)?)?)?;
            let ordinal = bytes.u16(ordinals.checked_add(n.checked_mul(2)?)?)?;
            let function = functions.checked_add(usize::from(ordinal).checked_mul(4)?)?;
            let function = bytes.u32(function)?;
            // Within the table it is no code but another module's name.
            if function == 0 || at(function).is_some_and(|inside| inside < table.len()) {
                return None;
            }
            let length = bytes.tail(name)?.iter().position(|byte| *byte == 0)?;
            Some(Export { start: function, name: name..name.checked_add(length)? })
        };
        Some((0..count).filter_map(one).collect::<Vec<_>>())
    };
    let mut found = list().unwrap_or_default();
    found.sort_by_key(|export| export.start);
    found.dedup_by_key(|export| export.start);
    found
}

#[cfg(test)]
mod tests;
