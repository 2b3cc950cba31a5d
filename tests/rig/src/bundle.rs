//! Single-file bundles: the files that `dotnet publish` put behind a program's executable.
//!
//! The executable holds a signature, before it the offset of a header, and there the list of files.
//! <https://github.com/dotnet/designs/blob/main/accepted/2020/single-file/bundler.md>

use std::io::Read;

use anyhow::{Context, Result, ensure};
use flate2::read::DeflateDecoder;

/// The signature of a bundle, which the host compares with as well.
/// <https://github.com/dotnet/runtime/blob/v8.0.4/src/native/corehost/apphost/bundle_marker.cpp>
const SIGNATURE: [u8; 32] = [
    0x8b, 0x12, 0x02, 0xb9, 0x6a, 0x61, 0x20, 0x38, 0x72, 0x7b, 0x93, 0x02, 0x14, 0xd7, 0xa0, 0x32,
    0x13, 0xf5, 0xb9, 0xe6, 0xef, 0xae, 0x33, 0x18, 0xee, 0x3b, 0x2d, 0xce, 0x24, 0xb3, 0x6a, 0xae,
];

/// More files than any publish folder has; guards the allocation against a wrong offset.
const FILES_MAX: u32 = 10_000;

/// Where deps.json and runtimeconfig.json are, and flags: fields that version 2 added.
const VERSION_2_FIELDS: usize = 5 * 8;

/// One file in a bundle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BundledFile<'a> {
    /// The path below the program's folder.
    pub path: String,
    size: usize,
    stored: &'a [u8],
    compressed: bool,
}

impl BundledFile<'_> {
    /// The file's content, inflated where it was compressed.
    pub fn content(&self) -> Result<Vec<u8>> {
        if !self.compressed {
            return Ok(self.stored.to_vec());
        }
        let mut content = Vec::new();
        DeflateDecoder::new(self.stored).take(self.size as u64).read_to_end(&mut content)?;
        ensure!(content.len() == self.size, "{} is cut short in the bundle", self.path);
        Ok(content)
    }
}

/// The files of the bundle in an executable.
pub(crate) fn files(executable: &[u8]) -> Result<Vec<BundledFile<'_>>> {
    let signature = find(executable, &SIGNATURE).context("no bundle signature")?;
    let mut offset = signature.checked_sub(8).context("no room for the header's offset")?;
    let header = Cursor { bytes: executable, offset: &mut offset }.size()?;
    ensure!(header != 0, "the executable has the signature, but no bundle");

    let mut offset = header;
    let mut cursor = Cursor { bytes: executable, offset: &mut offset };
    let major = cursor.u32()?;
    let _minor = cursor.u32()?;
    let count = cursor.u32()?;
    ensure!(count <= FILES_MAX, "a bundle of {count} files");
    let _id = cursor.string()?;
    if major >= 2 {
        cursor.take(VERSION_2_FIELDS)?;
    }
    (0..count).map(|_| cursor.file(major)).collect()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

struct Cursor<'a, 'o> {
    bytes: &'a [u8],
    offset: &'o mut usize,
}

impl<'a> Cursor<'a, '_> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.offset.checked_add(count).context("a size beyond all bounds")?;
        let taken = self.bytes.get(*self.offset..end).context("the bundle is cut short")?;
        *self.offset = end;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into()?))
    }

    fn size(&mut self) -> Result<usize> {
        Ok(usize::try_from(i64::from_le_bytes(self.take(8)?.try_into()?))?)
    }

    /// A string as .NET's BinaryWriter writes it: the length in groups of seven bits.
    fn string(&mut self) -> Result<String> {
        let mut length = 0_usize;
        for shift in [0, 7, 14, 21] {
            let byte = self.u8()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(String::from_utf8(self.take(length)?.to_vec())?);
            }
        }
        anyhow::bail!("a string longer than any path")
    }

    fn file(&mut self, major: u32) -> Result<BundledFile<'a>> {
        let offset = self.size()?;
        let size = self.size()?;
        // Version 6 added compression; a compressed size of 0 stands for a file stored as it is.
        let compressed_size = if major >= 6 { self.size()? } else { 0 };
        let _kind = self.u8()?;
        let path = self.string()?;
        let stored_size = if compressed_size == 0 { size } else { compressed_size };
        let mut start = offset;
        let stored = Cursor { bytes: self.bytes, offset: &mut start }
            .take(stored_size)
            .with_context(|| format!("{path} lies outside of the bundle"))?;
        Ok(BundledFile { path, size, stored, compressed: compressed_size != 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::DeflateEncoder};

    use super::*;

    /// An executable with the files behind it, as version `major` lays them out.
    fn bundle(major: u32, entries: &[(&str, &[u8], bool)]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend(SIGNATURE);
        let mut header = Vec::new();
        header.extend(major.to_le_bytes());
        header.extend(0_u32.to_le_bytes());
        header.extend((entries.len() as u32).to_le_bytes());
        header.extend(b"\x02id");
        if major >= 2 {
            header.extend([0; VERSION_2_FIELDS]);
        }
        for (path, content, compress) in entries {
            let mut stored = content.to_vec();
            if *compress {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(content).unwrap();
                stored = encoder.finish().unwrap();
            }
            header.extend((bytes.len() as u64).to_le_bytes());
            header.extend((content.len() as u64).to_le_bytes());
            if major >= 6 {
                let size = if *compress { stored.len() } else { 0 };
                header.extend((size as u64).to_le_bytes());
            }
            header.push(1);
            header.push(path.len() as u8);
            header.extend(path.as_bytes());
            bytes.extend(stored);
        }
        let offset = bytes.len() as u64;
        bytes[..8].copy_from_slice(&offset.to_le_bytes());
        bytes.extend(header);
        bytes
    }

    fn listing(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        let files = files(bytes).unwrap();
        files.iter().map(|file| (file.path.clone(), file.content().unwrap())).collect()
    }

    #[test]
    fn all_versions_give_their_files() {
        let expected = vec![("a.dll".into(), b"first".to_vec()), ("b/c.so".into(), vec![7; 900])];
        for major in [1, 2, 6] {
            let bytes =
                bundle(major, &[("a.dll", b"first", false), ("b/c.so", &[7; 900], major == 6)]);
            assert_eq!(listing(&bytes), expected, "version {major}");
        }
    }

    #[test]
    fn an_empty_bundle_has_no_files() {
        assert_eq!(files(&bundle(6, &[])).unwrap(), []);
    }

    #[test]
    fn an_executable_without_bundle_is_an_error() {
        assert!(files(b"ELF").is_err());
        let mut bare = vec![0; 8];
        bare.extend(SIGNATURE);
        assert!(files(&bare).unwrap_err().to_string().contains("no bundle"));
    }

    #[test]
    fn a_bundle_cut_anywhere_is_an_error_and_no_crash() {
        let whole = bundle(6, &[("a.dll", b"content", true)]);
        for length in 0..whole.len() {
            assert!(files(&whole[..length]).is_err(), "cut at {length}");
        }
    }
}
