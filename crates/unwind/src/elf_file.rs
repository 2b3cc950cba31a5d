//! An ELF file, read in pieces of known size and never mapped: if somebody truncated it while it is
//! mapped, a page fault would kill the host.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use model::limits::SYMBOL_BYTES_MAX;

use crate::bytes::Bytes;
use crate::elf::{self, FileHeader, Headers, Section};
use crate::modules::build_id;
use crate::symbols::NoSymbols;

/// A file and where its tables are.
#[derive(Debug)]
pub struct ElfFile {
    source: Source,
    headers: Headers,
    /// The sections' names.
    names: Vec<u8>,
}

#[derive(Debug)]
enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl ElfFile {
    /// Opens a file.
    ///
    /// # Errors
    /// If it can't be had or is no ELF file.
    pub fn open(path: &Path) -> Result<Self, NoSymbols> {
        // A pipe that was put in the file's place must not make us wait.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => NoSymbols::Deleted,
                _ => NoSymbols::Unreadable,
            })?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(NoSymbols::BadFile);
        }
        Self::new(Source::File(file))
    }

    /// A file that is in memory.
    ///
    /// # Errors
    /// If it is no ELF file.
    pub fn of_bytes(bytes: Vec<u8>) -> Result<Self, NoSymbols> {
        Self::new(Source::Memory(bytes))
    }

    fn new(source: Source) -> Result<Self, NoSymbols> {
        let header =
            FileHeader::read(&source.read(0, elf::FILE_HEADER_BYTES)?).ok_or(NoSymbols::BadFile)?;
        let segments = source.read(header.segments_at, header.segments_bytes())?;
        let sections = match header.sections {
            0 => Vec::new(),
            _ => source.read(header.sections_at, header.sections_bytes())?,
        };
        let headers = Headers::read(&segments, &sections).ok_or(NoSymbols::BadFile)?;
        let mut file = Self { source, headers, names: Vec::new() };
        let names = file.headers.sections.get(usize::from(header.section_names)).copied();
        if let Some(names) = names {
            file.names = file.read(&names).unwrap_or_default();
        }
        Ok(file)
    }

    /// Where its tables are.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The first section of a type.
    #[must_use]
    pub fn section_of_kind(&self, kind: u32) -> Option<&Section> {
        self.headers.sections.iter().find(|section| section.kind == kind)
    }

    /// The section of a name, if it has contents.
    #[must_use]
    pub fn section_of_name(&self, name: &str) -> Option<&Section> {
        let is_named = |section: &&Section| {
            let text = Bytes(&self.names).tail(section.name as usize);
            let text = text.and_then(|text| text.strip_prefix(name.as_bytes()));
            section.kind != elf::SHT_NOBITS && text.is_some_and(|rest| rest.starts_with(&[0]))
        };
        self.headers.sections.iter().find(is_named)
    }

    /// A section's contents.
    ///
    /// # Errors
    /// If they are too large, or not there.
    pub fn read(&self, section: &Section) -> Result<Vec<u8>, NoSymbols> {
        if section.kind == elf::SHT_NOBITS {
            return Err(NoSymbols::BadFile);
        }
        self.source.read(section.offset, section.size)
    }

    /// The linker's build id, by the program headers; empty if there is none.
    ///
    /// # Errors
    /// If the notes can't be read.
    pub fn build_id(&self) -> Result<Vec<u8>, NoSymbols> {
        for note in &self.headers.notes {
            let len = note.end.saturating_sub(note.start);
            if let Some(id) = build_id(&self.source.read(note.start, len)?) {
                return Ok(id.to_vec());
            }
        }
        Ok(Vec::new())
    }

    /// The same by the sections: in a debug file the program headers are those of the file that it
    /// was taken from.
    #[must_use]
    pub fn build_id_of_sections(&self) -> Option<Vec<u8>> {
        let notes = self.headers.sections.iter().filter(|section| section.kind == elf::SHT_NOTE);
        notes
            .filter_map(|section| self.read(section).ok())
            .find_map(|notes| build_id(&notes).map(<[u8]>::to_vec))
    }
}

impl Source {
    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, NoSymbols> {
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len <= SYMBOL_BYTES_MAX)
            .ok_or(NoSymbols::TooLarge)?;
        match self {
            Self::Memory(bytes) => {
                let at = usize::try_from(offset).ok();
                let slice = at.and_then(|at| Bytes(bytes).slice(at, len));
                slice.map(<[u8]>::to_vec).ok_or(NoSymbols::BadFile)
            }
            Self::File(file) => {
                // Asked before the memory is taken: a damaged header may promise what isn't there.
                let size = file.metadata().map_err(|_| NoSymbols::Unreadable)?.len();
                if offset.checked_add(len as u64).is_none_or(|end| end > size) {
                    return Err(NoSymbols::BadFile);
                }
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, offset).map_err(|_| NoSymbols::Unreadable)?;
                Ok(bytes)
            }
        }
    }
}
