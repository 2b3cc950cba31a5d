//! The few fields of an ELF file that lead to its symbols.

use std::ops::Range;

use crate::bytes::Bytes;

/// Size of the file header, bytes.
pub const FILE_HEADER_BYTES: u64 = 64;
/// Size of an entry of a symbol table, bytes.
pub const SYMBOL_BYTES: usize = 24;
/// The section that holds all symbols.
pub const SHT_SYMTAB: u32 = 2;
/// The section that holds those that the dynamic linker needs.
pub const SHT_DYNSYM: u32 = 11;
/// A section with notes.
pub const SHT_NOTE: u32 = 7;
/// A section whose contents are not in the file.
pub const SHT_NOBITS: u32 = 8;

/// Size of a program header, bytes.
pub const SEGMENT_BYTES: usize = 56;
const SECTION_BYTES: usize = 64;

/// Where a file's tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Offset of the program headers, bytes.
    pub segments_at: u64,
    /// Their number.
    pub segments: u16,
    /// Offset of the section headers, bytes.
    pub sections_at: u64,
    /// Their number; 0 if the file was stripped of them.
    pub sections: u16,
    /// Index of the section that holds the sections' names.
    pub section_names: u16,
}

impl FileHeader {
    /// `None` if this is not a 64-bit little-endian file of the usual header sizes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        const IDENT: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];
        let header = Bytes(bytes);
        if header.slice(0, 6)? != IDENT
            || usize::from(header.u16(54)?) != SEGMENT_BYTES
            || !matches!(usize::from(header.u16(58)?), 0 | SECTION_BYTES)
        {
            return None;
        }
        Some(Self {
            segments_at: header.u64(32)?,
            segments: header.u16(56)?,
            sections_at: header.u64(40)?,
            sections: header.u16(60)?,
            section_names: header.u16(62)?,
        })
    }

    /// Size of the program headers, bytes.
    #[must_use]
    pub fn segments_bytes(&self) -> u64 {
        u64::from(self.segments).saturating_mul(SEGMENT_BYTES as u64)
    }

    /// Size of the section headers, bytes.
    #[must_use]
    pub fn sections_bytes(&self) -> u64 {
        u64::from(self.sections).saturating_mul(SECTION_BYTES as u64)
    }
}

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Address in the file.
    pub address: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
}

impl Segment {
    /// All of a table of program headers.
    #[must_use]
    pub fn all(table: &[u8]) -> Vec<Self> {
        table.as_chunks().0.iter().filter_map(Self::read).collect()
    }

    fn read(bytes: &[u8; SEGMENT_BYTES]) -> Option<Self> {
        let bytes = Bytes(bytes);
        Some(Self {
            kind: bytes.u32(0)?,
            flags: bytes.u32(4)?,
            offset: bytes.u64(8)?,
            address: bytes.u64(16)?,
            file_bytes: bytes.u64(32)?,
            memory_bytes: bytes.u64(40)?,
        })
    }

    /// Whether it holds code.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.flags & libc::PF_X != 0
    }

    /// Whether it is mapped to be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.flags & libc::PF_R != 0
    }
}

/// A section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Offset of its name in the table of section names.
    pub name: u32,
    /// Address in the file.
    pub address: u64,
    /// `sh_type`.
    pub kind: u32,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Index of the section that it refers to: of a symbol table, the names.
    pub link: u32,
}

/// What the two tables say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Executable segments, as addresses in the file, ascending.
    pub code: Vec<Range<u64>>,
    /// Note segments, as offsets in the file.
    pub notes: Vec<Range<u64>>,
    /// All sections.
    pub sections: Vec<Section>,
}

impl Headers {
    /// Reads program headers and section headers; `None` if a segment wraps around.
    #[must_use]
    pub fn read(segments: &[u8], sections: &[u8]) -> Option<Self> {
        let mut headers = Self::default();
        for segment in Segment::all(segments) {
            if segment.kind == libc::PT_LOAD && segment.is_executable() {
                let end = segment.address.checked_add(segment.memory_bytes)?;
                headers.code.push(segment.address..end);
            } else if segment.kind == libc::PT_NOTE {
                let end = segment.offset.checked_add(segment.file_bytes)?;
                headers.notes.push(segment.offset..end);
            }
        }
        headers.code.sort_by_key(|range| range.start);
        for section in sections.as_chunks::<SECTION_BYTES>().0 {
            let section = Bytes(section);
            headers.sections.push(Section {
                name: section.u32(0)?,
                address: section.u64(16)?,
                kind: section.u32(4)?,
                offset: section.u64(24)?,
                size: section.u64(32)?,
                link: section.u32(40)?,
            });
        }
        Some(headers)
    }
}
