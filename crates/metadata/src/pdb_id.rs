//! Which PDB belongs to an assembly, and where it is if it is inside: the debug directory of a PE
//! file (PE format, "Debug Directory"; for .NET's part of it see `PE-COFF.md` among the
//! specifications of dotnet/runtime).

use std::fmt;

/// The directory's number among the data directories.
const DEBUG_DIRECTORY: u64 = 6;
/// Entries and sections that are looked at; compilers write four and three, the runtime's own
/// images have some ten.
const ENTRIES_MAX: u32 = 32;
const SECTIONS_MAX: u16 = 96;
/// `IMAGE_DEBUG_TYPE_*`.
const CODE_VIEW: u32 = 2;
const EMBEDDED: u32 = 17;
/// The minor version of a CodeView entry whose PDB is portable: "PM".
const PORTABLE: u16 = 0x504d;
const CODE_VIEW_MAGIC: [u8; 4] = *b"RSDS";

/// What tells one PDB from all others: the first field of its `#Pdb` stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PdbId {
    /// The GUID, as it lies in the file.
    pub guid: [u8; 16],
    /// What follows it: a time, or four more bytes of a checksum.
    pub stamp: u32,
}

impl PdbId {
    /// From the 20 bytes in a PDB.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 20]) -> Self {
        let [guid @ .., a, b, c, d] = *bytes;
        Self { guid, stamp: u32::from_le_bytes([a, b, c, d]) }
    }

    /// The GUID as it is written, without dashes: 32 hexadecimal digits.
    #[must_use]
    pub fn guid_text(&self) -> String {
        let [a, b, c, d, e, f, g, h, rest @ ..] = self.guid;
        // The first three parts are numbers of the little end.
        let all = [d, c, b, a, f, e, h, g].into_iter().chain(rest);
        all.map(|byte| format!("{byte:02x}")).collect()
    }
}

/// 40 hexadecimal digits: the GUID, then the stamp.
impl fmt::Display for PdbId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:08x}", self.guid_text(), self.stamp)
    }
}

/// What an assembly's file says of its PDB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugDirectory {
    /// The id of its portable PDB.
    pub id: Option<PdbId>,
    /// Offset and bytes of the PDB inside, compressed.
    pub embedded: Option<(u64, u32)>,
}

impl DebugDirectory {
    /// Reads it from a file, or from memory: `read` fills a buffer from an offset, and says whether
    /// it could. In memory the sections may lie as in the file, or where the file says they belong;
    /// both are tried, since an entry shows by itself whether it is one.
    #[must_use]
    pub fn read(read: impl Fn(u64, &mut [u8]) -> bool) -> Option<Self> {
        let file = Pe { read: &read };
        let (rva, bytes) = file.directory()?;
        let in_file = file.offset_of(rva);
        let layouts = in_file.map(|offset| (offset, false)).into_iter().chain([(rva.into(), true)]);
        let mut found = layouts.map(|(offset, is_mapped)| file.entries(offset, bytes, is_mapped));
        found.find(|directory| directory.id.is_some())
    }
}

struct Pe<'a, R: Fn(u64, &mut [u8]) -> bool> {
    read: &'a R,
}

impl<R: Fn(u64, &mut [u8]) -> bool> Pe<'_, R> {
    fn bytes<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.read)(offset, &mut bytes).then_some(bytes)
    }

    fn u16(&self, offset: u64) -> Option<u16> {
        self.bytes(offset).map(u16::from_le_bytes)
    }

    fn u32(&self, offset: u64) -> Option<u32> {
        self.bytes(offset).map(u32::from_le_bytes)
    }

    /// Where the file header begins, behind its signature.
    fn header(&self) -> Option<u64> {
        const LFANEW: u64 = 0x3c;
        if self.bytes(0)? != *b"MZ" {
            return None;
        }
        let start = u64::from(self.u32(LFANEW)?);
        (self.bytes(start)? == *b"PE\0\0").then_some(start.saturating_add(4))
    }

    /// Address (relative to the image) and size of the debug directory.
    fn directory(&self) -> Option<(u32, u32)> {
        let optional = self.header()?.saturating_add(20);
        let directories = match self.u16(optional)? {
            0x10b => 96,
            0x20b => 112,
            _ => return None,
        };
        let count = self.u32(optional.saturating_add(directories).saturating_sub(4))?;
        let at = optional.saturating_add(directories).saturating_add(8 * DEBUG_DIRECTORY);
        let (rva, bytes) = (self.u32(at)?, self.u32(at.saturating_add(4))?);
        (u64::from(count) > DEBUG_DIRECTORY && rva != 0).then_some((rva, bytes))
    }

    /// Where an address of the image lies in the file.
    fn offset_of(&self, rva: u32) -> Option<u64> {
        let header = self.header()?;
        let (sections, optional) =
            (self.u16(header.saturating_add(2))?, self.u16(header.saturating_add(16))?);
        let first = header.saturating_add(20).saturating_add(optional.into());
        (0..sections.min(SECTIONS_MAX)).find_map(|number| {
            let at = first.saturating_add(40 * u64::from(number));
            let field = |offset| self.u32(at.saturating_add(offset));
            let (size, start, file_size, file) = (field(8)?, field(12)?, field(16)?, field(20)?);
            let inside = rva.checked_sub(start)?;
            let offset = u64::from(file).saturating_add(inside.into());
            (inside < size.max(file_size)).then_some(offset)
        })
    }

    fn entries(&self, start: u64, bytes: u32, is_mapped: bool) -> DebugDirectory {
        let mut found = DebugDirectory::default();
        for number in 0..(bytes / 28).min(ENTRIES_MAX) {
            let at = start.saturating_add(28 * u64::from(number));
            let field = |offset| self.u32(at.saturating_add(offset));
            let (Some(kind), Some(size), Some(data)) =
                (field(12), field(16), field(if is_mapped { 20 } else { 24 }))
            else {
                break;
            };
            match kind {
                CODE_VIEW if found.id.is_none() => found.id = self.code_view(at, data.into()),
                EMBEDDED if data != 0 => found.embedded = Some((data.into(), size)),
                _ => {}
            }
        }
        found
    }

    fn code_view(&self, entry: u64, data: u64) -> Option<PdbId> {
        if self.u16(entry.saturating_add(10))? != PORTABLE || self.bytes(data)? != CODE_VIEW_MAGIC {
            return None;
        }
        let guid = self.bytes(data.saturating_add(4))?;
        Some(PdbId { guid, stamp: self.u32(entry.saturating_add(4))? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUID: [u8; 16] =
        [0x33, 0x22, 0x11, 0, 0x55, 0x44, 0x77, 0x66, 8, 9, 10, 11, 12, 13, 14, 15];
    const RVA: u32 = 0x2000;
    const FILE: u32 = 0x400;

    fn put(image: &mut [u8], at: u32, bytes: &[u8]) {
        image[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// An image with one section, which begins with the debug directory; as a file or in memory.
    fn image(is_mapped: bool, minor: u16) -> Vec<u8> {
        let mut image = vec![0; 0x3000];
        put(&mut image, 0, b"MZ");
        put(&mut image, 0x3c, &0x80_u32.to_le_bytes());
        put(&mut image, 0x80, b"PE\0\0");
        put(&mut image, 0x86, &1_u16.to_le_bytes());
        put(&mut image, 0x94, &240_u16.to_le_bytes());
        put(&mut image, 0x98, &0x20b_u16.to_le_bytes());
        put(&mut image, 0x98 + 108, &16_u32.to_le_bytes());
        put(&mut image, 0x98 + 112 + 48, &RVA.to_le_bytes());
        put(&mut image, 0x98 + 112 + 52, &56_u32.to_le_bytes());
        let section = 0x98 + 240;
        for (field, value) in [(8, 0x800_u32), (12, RVA), (16, 0x800), (20, FILE)] {
            put(&mut image, section + field, &value.to_le_bytes());
        }
        let base = if is_mapped { RVA } else { FILE };
        let entries = [(CODE_VIEW, 0xaabb_ccdd_u32, 0x100, 24), (EMBEDDED, 0, 0x200, 77)];
        for (number, (kind, stamp, place, size)) in (0_u32..).zip(entries) {
            let at = base + 28 * number;
            put(&mut image, at + 4, &stamp.to_le_bytes());
            put(&mut image, at + 10, &minor.to_le_bytes());
            put(&mut image, at + 12, &kind.to_le_bytes());
            put(&mut image, at + 16, &u32::to_le_bytes(size));
            put(&mut image, at + 20, &(RVA + place).to_le_bytes());
            put(&mut image, at + 24, &(FILE + place).to_le_bytes());
        }
        put(&mut image, base + 0x100, b"RSDS");
        put(&mut image, base + 0x104, &GUID);
        image
    }

    fn read(image: &[u8]) -> Option<DebugDirectory> {
        DebugDirectory::read(|offset, buffer| {
            let from = usize::try_from(offset).ok().and_then(|offset| image.get(offset..));
            let bytes = from.and_then(|bytes| bytes.get(..buffer.len()));
            bytes.inspect(|bytes| buffer.copy_from_slice(bytes)).is_some()
        })
    }

    #[test]
    fn files_and_images_in_memory_say_the_same() {
        let in_file = read(&image(false, PORTABLE)).unwrap();
        let in_memory = read(&image(true, PORTABLE)).unwrap();
        assert_eq!(in_file.id, in_memory.id);
        assert_eq!(in_file.embedded, Some((u64::from(FILE) + 0x200, 77)));
        assert_eq!(in_memory.embedded, Some((u64::from(RVA) + 0x200, 77)));
        let text = "00112233445566770809".to_owned() + "0a0b0c0d0e0f" + "aabbccdd";
        assert_eq!(in_file.id.unwrap().to_string(), text);
        let bytes = [&GUID[..], &[0xdd, 0xcc, 0xbb, 0xaa]].concat();
        assert_eq!(Some(PdbId::from_bytes(&bytes.try_into().unwrap())), in_file.id);
    }

    #[test]
    fn a_pdb_that_is_not_portable_is_none() {
        assert_eq!(read(&image(false, 0)), None);
    }

    #[test]
    fn damage_is_no_pdb() {
        let whole = image(false, PORTABLE);
        for length in 0..whole.len() {
            if length % 7 == 0 || length < 0x600 {
                let _any = read(&whole[..length]);
            }
        }
        for at in 0..0x600 {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            let _any = read(&damaged);
        }
        assert_eq!(read(b"MZ"), None);
        assert_eq!(read(&[]), None);
    }
}
