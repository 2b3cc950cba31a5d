//! Function names of one native module, from its file.
//!
//! The file is read, not mapped: if somebody truncated it while it is mapped, a page fault would
//! kill the host. Only the symbol table and its names are read, once, when the first address in the
//! module is asked for, by whoever keeps the [`Symbols`].

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use model::limits::SYMBOL_BYTES_MAX;

use crate::bytes::Bytes;
use crate::elf::{self, Headers, Section};
use crate::modules::{Kind, Module};

/// Why a module has no symbols. Each is worth a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoSymbols {
    /// It has no file: the vDSO.
    NoFile,
    /// The file is gone.
    Deleted,
    /// The file can't be opened or read.
    Unreadable,
    /// It is not a 64-bit little-endian ELF file with section headers that make sense.
    BadFile,
    /// The file has been replaced since it was loaded: its build id, or without one its segments,
    /// are not those in memory.
    Replaced,
    /// The file has no table of symbols, not even of exported ones.
    Stripped,
    /// Its tables are larger than `limits::SYMBOL_BYTES_MAX`.
    TooLarge,
}

/// A function's name, and how far into the function an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The name as the file has it, mangled.
    pub name: &'a str,
    /// Bytes from the function's first instruction.
    pub offset: u64,
}

/// The functions of one module, by address.
#[derive(Debug)]
pub struct Symbols {
    bias: u64,
    /// Sorted by address; one for each address.
    functions: Vec<Function>,
    /// The file's string table.
    names: Vec<u8>,
}

/// One function, as compact as can be: big libraries have a hundred thousand.
#[derive(Clone, Copy, Debug)]
struct Function {
    /// Address in the file.
    address: u32,
    /// Bytes; 0 if the file doesn't say.
    size: u32,
    /// Offset in the string table.
    name: u32,
    /// Which name is shown where several have one address: the lowest.
    rank: u8,
}

impl Symbols {
    /// Reads a module's symbols: the full table if it has one, else that of exported functions.
    ///
    /// # Errors
    /// A cause if there are none to be had; asking again won't help.
    pub fn open(module: &Module) -> Result<Self, NoSymbols> {
        if module.kind == Kind::Vdso {
            return Err(NoSymbols::NoFile);
        }
        let file = File::open(&module.path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => NoSymbols::Deleted,
            _ => NoSymbols::Unreadable,
        })?;
        let source = Source { file: &file };
        let headers = source.headers()?;
        source.check_identity(&headers, module)?;
        let table = headers
            .sections
            .iter()
            .find(|section| section.kind == elf::SHT_SYMTAB)
            .or_else(|| headers.sections.iter().find(|section| section.kind == elf::SHT_DYNSYM))
            .ok_or(NoSymbols::Stripped)?;
        let names = headers.sections.get(table.link as usize).ok_or(NoSymbols::BadFile)?;
        if table.size.saturating_add(names.size) > SYMBOL_BYTES_MAX as u64 {
            return Err(NoSymbols::TooLarge);
        }
        let functions = functions(&source.section(table)?);
        if functions.is_empty() {
            return Err(NoSymbols::Stripped);
        }
        Ok(Self { bias: module.bias, functions, names: source.section(names)? })
    }

    /// The function that holds an address of this process. One of unknown size holds all up to the
    /// next.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let address = u32::try_from(address.wrapping_sub(self.bias)).ok()?;
        let after = self.functions.partition_point(|function| function.address <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        let offset = address.wrapping_sub(function.address);
        if function.size != 0 && offset >= function.size {
            return None;
        }
        let name = Bytes(&self.names).tail(function.name as usize)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        let name = name.get(..end).and_then(|name| str::from_utf8(name).ok())?;
        Some(Symbol { name, offset: u64::from(offset) })
    }

    /// How many functions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Heap bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let functions = self.functions.capacity().saturating_mul(size_of::<Function>());
        functions.saturating_add(self.names.capacity())
    }
}

/// The file, read in pieces of known size.
struct Source<'a> {
    file: &'a File,
}

impl Source<'_> {
    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, NoSymbols> {
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len <= SYMBOL_BYTES_MAX)
            .ok_or(NoSymbols::TooLarge)?;
        // Asked before the memory is taken: a damaged header may promise what isn't there.
        let size = self.file.metadata().map_err(|_| NoSymbols::Unreadable)?.len();
        if offset.checked_add(len as u64).is_none_or(|end| end > size) {
            return Err(NoSymbols::BadFile);
        }
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, offset).map_err(|_| NoSymbols::Unreadable)?;
        Ok(bytes)
    }

    fn section(&self, section: &Section) -> Result<Vec<u8>, NoSymbols> {
        self.read(section.offset, section.size)
    }

    fn headers(&self) -> Result<Headers, NoSymbols> {
        let file = elf::FileHeader::read(&self.read(0, elf::FILE_HEADER_BYTES)?)
            .ok_or(NoSymbols::BadFile)?;
        let segments = self.read(file.segments_at, file.segments_bytes())?;
        let sections = match file.sections {
            0 => Vec::new(),
            _ => self.read(file.sections_at, file.sections_bytes())?,
        };
        Headers::read(&segments, &sections).ok_or(NoSymbols::BadFile)
    }

    fn check_identity(&self, headers: &Headers, module: &Module) -> Result<(), NoSymbols> {
        let mut in_file = Vec::new();
        for note in &headers.notes {
            let notes = self.read(note.start, note.end.saturating_sub(note.start))?;
            if let Some(id) = crate::modules::build_id(&notes) {
                in_file = id.to_vec();
                break;
            }
        }
        let loaded = module.code.iter().map(|range| {
            range.start.wrapping_sub(module.bias)..range.end.wrapping_sub(module.bias)
        });
        let same_code = loaded.eq(headers.code.iter().cloned());
        if in_file == module.build_id && same_code { Ok(()) } else { Err(NoSymbols::Replaced) }
    }
}

/// The functions of a symbol table, sorted.
fn functions(table: &[u8]) -> Vec<Function> {
    let (symbols, _) = table.as_chunks::<{ elf::SYMBOL_BYTES }>();
    let mut functions: Vec<Function> = symbols.iter().filter_map(function).collect();
    functions.sort_unstable_by_key(|function| (function.address, function.rank, function.name));
    functions.dedup_by_key(|function| function.address);
    functions.shrink_to_fit();
    functions
}

fn function(symbol: &[u8; elf::SYMBOL_BYTES]) -> Option<Function> {
    const STT_FUNC: u8 = 2;
    const STT_GNU_IFUNC: u8 = 10;
    const STB_GLOBAL: u8 = 1;
    const STB_WEAK: u8 = 2;
    let symbol = Bytes(symbol);
    let info = symbol.u8(4)?;
    let defined = symbol.u16(6)? != 0;
    let address = symbol.u64(8)?;
    if !matches!(info & 15, STT_FUNC | STT_GNU_IFUNC) || !defined || address == 0 {
        return None;
    }
    let rank = match info >> 4 {
        STB_GLOBAL => 0,
        STB_WEAK => 1,
        _ => 2,
    };
    Some(Function {
        address: u32::try_from(address).ok()?,
        size: u32::try_from(symbol.u64(16)?).unwrap_or(u32::MAX),
        name: symbol.u32(0)?,
        rank,
    })
}
