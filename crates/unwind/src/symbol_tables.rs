//! The functions of several symbol tables, put together: the best name for each address.

use std::ffi::CStr;

use model::limits::{SYMBOL_BYTES_MAX, SYMBOL_NAME_BYTES_MAX};

use crate::bytes::Bytes;
use crate::elf::{SYMBOL_BYTES, Section};
use crate::elf_file::ElfFile;
use crate::symbols::{Function, NoSymbols};

/// Bytes of names that are looked at in one table. Symbols can share names, and a damaged table can
/// have millions that share a long one.
const NAME_BYTES_MAX: usize = 4 * SYMBOL_BYTES_MAX;

/// What is gathered.
#[derive(Debug, Default)]
pub struct SymbolTables {
    candidates: Vec<Candidate>,
    /// The string tables that the candidates' names are in.
    names: Vec<Vec<u8>>,
}

/// A function that one of the tables has.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Address in the file.
    address: u32,
    /// Bytes; 0 if the table doesn't say.
    size: u32,
    /// Where its section ends: as far as a function of unknown size can go.
    section_end: u32,
    /// Offset in the string table.
    name: u32,
    /// Which string table.
    table: u8,
    /// Which one is shown where several have one address: the lowest.
    rank: u8,
}

impl SymbolTables {
    /// Adds a file's table of a type. A limited number of files can be added.
    ///
    /// # Errors
    /// If there is none, or it can't be read.
    pub fn add(&mut self, file: &ElfFile, kind: u32) -> Result<(), NoSymbols> {
        let table = file.section_of_kind(kind).ok_or(NoSymbols::Stripped)?;
        let sections = &file.headers().sections;
        let names = sections.get(table.link as usize).ok_or(NoSymbols::BadFile)?;
        if table.size.saturating_add(names.size) > SYMBOL_BYTES_MAX as u64 {
            return Err(NoSymbols::TooLarge);
        }
        let number = u8::try_from(self.names.len()).map_err(|_| NoSymbols::TooLarge)?;
        let names = file.read(names)?;
        let symbols = file.read(table)?;
        let (symbols, _) = symbols.as_chunks();
        let before = self.candidates.len();
        let mut name_bytes = 0_usize;
        for symbol in symbols {
            let Some((function, name)) = candidate(symbol, sections) else { continue };
            if name_bytes > NAME_BYTES_MAX {
                break;
            }
            let text = text(&names, name);
            name_bytes = name_bytes.saturating_add(text.map_or(SYMBOL_NAME_BYTES_MAX, str::len));
            let Some(text) = text else { continue };
            let rank = function.rank | underscores(text);
            self.candidates.push(Candidate { table: number, rank, ..function });
        }
        if self.candidates.len() == before {
            return Err(NoSymbols::Stripped);
        }
        self.names.push(names);
        Ok(())
    }

    /// The functions, sorted by address, one for each; and their names, each with a NUL.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Function>, Vec<u8>) {
        let candidates = &mut self.candidates;
        candidates.sort_unstable_by_key(|one| (one.address, one.rank, one.table, one.name));
        candidates.dedup_by_key(|one| one.address);
        let nexts = candidates.iter().skip(1).map(|next| next.address);
        let ends = nexts.chain([u32::MAX]).collect::<Vec<_>>();
        let mut functions = Vec::with_capacity(candidates.len());
        let mut pool = Vec::new();
        for (one, next) in candidates.iter().zip(ends) {
            let name =
                self.names.get(usize::from(one.table)).and_then(|names| text(names, one.name));
            let Some(name) = name else { continue };
            // Names can share bytes in the file: a damaged one can hold more than its size.
            if pool.len().saturating_add(name.len()) >= SYMBOL_BYTES_MAX {
                break;
            }
            let size = match one.size {
                0 => one.section_end.min(next).saturating_sub(one.address),
                size => size,
            };
            let Ok(at) = u32::try_from(pool.len()) else { break };
            pool.extend_from_slice(name.as_bytes());
            pool.push(0);
            functions.push(Function { address: one.address, size, name: at });
        }
        functions.shrink_to_fit();
        pool.shrink_to_fit();
        (functions, pool)
    }
}

/// A function with the offset of its name, which is not looked at yet.
fn candidate(symbol: &[u8; SYMBOL_BYTES], sections: &[Section]) -> Option<(Candidate, u32)> {
    const STT_FUNC: u8 = 2;
    const STT_GNU_IFUNC: u8 = 10;
    const STB_LOCAL: u8 = 0;
    const UNDEFINED: u16 = 0;
    let symbol = Bytes(symbol);
    let info = symbol.u8(4)?;
    let section = symbol.u16(6)?;
    let address = symbol.u64(8)?;
    let is_function = matches!(info & 15, STT_FUNC | STT_GNU_IFUNC);
    if !is_function || section == UNDEFINED || address == 0 {
        return None;
    }
    let section = sections.get(usize::from(section));
    let end = section.map(|section| section.address.saturating_add(section.size));
    let size = u32::try_from(symbol.u64(16)?).unwrap_or(u32::MAX);
    let name = symbol.u32(0)?;
    let function = Candidate {
        address: u32::try_from(address).ok()?,
        size,
        section_end: end.and_then(|end| u32::try_from(end).ok()).unwrap_or(u32::MAX),
        name,
        table: 0,
        rank: u8::from(size == 0) << 3 | u8::from(info >> 4 == STB_LOCAL) << 2,
    };
    Some((function, name))
}

/// The lower part of a rank. What a person would call the function comes first: a name that others
/// use, as in `poll` and not `__poll` or `__GI___poll`.
fn underscores(name: &str) -> u8 {
    let is_mangled = name.starts_with("_Z") || name.starts_with("_R");
    let underscores = name.bytes().take(3).take_while(|byte| *byte == b'_').count();
    if is_mangled { 0 } else { u8::try_from(underscores).unwrap_or(3) }
}

/// The name at an offset, without the version that linkers append (`qsort@@GLIBC_2.2.5`).
fn text(names: &[u8], at: u32) -> Option<&str> {
    let name = names.get(at as usize..)?;
    let name = name.get(..name.len().min(SYMBOL_NAME_BYTES_MAX))?;
    let name = CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?;
    let name = name.split('@').next().unwrap_or(name);
    (!name.is_empty()).then_some(name)
}
