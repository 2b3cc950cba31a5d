//! Function names of one native module, from its file, from what is packed in it, or from the
//! separate file that distributions put such names in.
//!
//! The files are read once, when the first address in the module is asked for, by whoever keeps the
//! [`Symbols`].

use model::limits::{PACKED_SYMBOL_BYTES_MAX, SYMBOL_BYTES_MAX};

use crate::bytes::{Bytes, ReadMemory};
use crate::debug_file;
use crate::elf::{SHT_DYNSYM, SHT_SYMTAB};
use crate::elf_file::ElfFile;
use crate::modules::{Kind, Module};
use crate::symbol_tables::SymbolTables;
use crate::xz::{self, NotXz};

/// Functions that an address can lie in at once, as far as they are looked through: parts that were
/// moved out, entries within assembly routines.
const NESTED_MAX: usize = 16;
/// The kernel's page of code, as large as it is read; it has two pages.
const VDSO_BYTES_MAX: usize = 64 << 10;

/// Why a module has no symbols. Each is worth a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoSymbols {
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
    /// The functions' names, each with a NUL.
    names: Vec<u8>,
}

/// One function, as compact as can be: big libraries have a hundred thousand.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Address in the file.
    pub address: u32,
    /// Bytes.
    pub size: u32,
    /// Offset in the names.
    pub name: u32,
}

impl Symbols {
    /// Reads a module's symbols: all functions if its file or its debug file has them, or those
    /// that are packed in it; and the exported ones.
    ///
    /// # Errors
    /// A cause if there are none to be had; asking again won't help.
    pub fn open(module: &Module, read_memory: ReadMemory) -> Result<Self, NoSymbols> {
        let file = match module.kind {
            Kind::Vdso => vdso(module, read_memory)?,
            Kind::Executable | Kind::Library => ElfFile::open(&module.path)?,
        };
        check_identity(&file, module)?;
        let mut tables = SymbolTables::default();
        let all = tables
            .add(&file, SHT_SYMTAB)
            .or_else(|cause| {
                let debug = debug_file::find(module, &file).ok_or(cause)?;
                tables.add(&debug, SHT_SYMTAB)
            })
            .or_else(|_| tables.add(&packed(&file)?, SHT_SYMTAB));
        let exported = tables.add(&file, SHT_DYNSYM);
        let (functions, names) = tables.finish();
        if functions.is_empty() {
            // Of several causes, the one that isn't just "there is nothing" says more.
            let mut causes = [all, exported].into_iter().filter_map(Result::err);
            let telling = causes.find(|cause| *cause != NoSymbols::Stripped);
            return Err(telling.unwrap_or(NoSymbols::Stripped));
        }
        Ok(Self { bias: module.bias, functions, names })
    }

    /// The function that holds an address of this process, the innermost if there are several.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let address = u32::try_from(address.wrapping_sub(self.bias)).ok()?;
        let after = self.functions.partition_point(|function| function.address <= address);
        let before = self.functions.get(..after)?.iter().rev().take(NESTED_MAX);
        let (name, offset) = before
            .map(|function| (function, address.wrapping_sub(function.address)))
            .find(|(function, offset)| *offset < function.size)
            .map(|(function, offset)| (function.name, offset))?;
        let name = Bytes(&self.names).tail(name as usize)?;
        let name = name.split(|byte| *byte == 0).next()?;
        Some(Symbol { name: str::from_utf8(name).ok()?, offset: u64::from(offset) })
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

/// The symbols that distributions pack into a file that they have stripped.
fn packed(file: &ElfFile) -> Result<ElfFile, NoSymbols> {
    let section = file.section_of_name(".gnu_debugdata").ok_or(NoSymbols::Stripped)?;
    let bytes = file.read(section)?;
    let bytes = xz::decompress(&bytes, PACKED_SYMBOL_BYTES_MAX).map_err(|error| match error {
        NotXz::Bad => NoSymbols::BadFile,
        NotXz::TooLarge => NoSymbols::TooLarge,
    })?;
    ElfFile::of_bytes(bytes)
}

/// The kernel maps all of the vDSO's file.
fn vdso(module: &Module, read_memory: ReadMemory) -> Result<ElfFile, NoSymbols> {
    let mut bytes = vec![0; VDSO_BYTES_MAX];
    let read = read_memory(module.bias, &mut bytes);
    bytes.truncate(read);
    ElfFile::of_bytes(bytes)
}

fn check_identity(file: &ElfFile, module: &Module) -> Result<(), NoSymbols> {
    let loaded = module
        .code
        .iter()
        .map(|range| range.start.wrapping_sub(module.bias)..range.end.wrapping_sub(module.bias));
    let same_code = loaded.eq(file.headers().code.iter().cloned());
    let same = same_code && file.build_id()? == module.build_id;
    if same { Ok(()) } else { Err(NoSymbols::Replaced) }
}

const _: () = assert!(SYMBOL_BYTES_MAX < u32::MAX as usize, "names have offsets of 32 bits");
