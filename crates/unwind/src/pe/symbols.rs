//! Names of functions of one native module: those that it exports. Others are in its PDB, which is
//! not read here.

use model::limits::SYMBOL_BYTES_MAX;

use super::image::{Export, HEADER_BYTES, Headers, exports};
use super::unwind_info::{FUNCTION_BYTES, Function};
use crate::bytes::ReadMemory;
use crate::modules::Module;

/// How far an exported function without unwind data goes at the most: those are stubs.
const STUB_BYTES_MAX: u32 = 64;
/// Exports of a module that are looked at.
const EXPORTS_MAX: usize = 200_000;

/// Why a module has no symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoSymbols {
    /// It is gone, or has no headers.
    BadFile,
    /// It exports nothing.
    Stripped,
    /// Its tables are larger than `limits::SYMBOL_BYTES_MAX`.
    TooLarge,
}

/// A function's name, and how far into the function an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The name as the file has it.
    pub name: &'a str,
    /// Bytes from the function's first instruction.
    pub offset: u64,
}

/// The exported functions of one module, by address.
#[derive(Debug)]
pub struct Symbols {
    bias: u64,
    exports: Vec<Export>,
    /// The bytes that the names are in.
    table: Vec<u8>,
    /// First and one-past-last byte of all functions with unwind data, ascending.
    functions: Vec<(u32, u32)>,
}

impl Symbols {
    /// Reads a module's exports.
    ///
    /// # Errors
    /// A cause if there are none to be had; asking again won't help.
    pub fn open(module: &Module, _read_memory: ReadMemory) -> Result<Self, NoSymbols> {
        let loaded = sys::modules::hold(module.bias).ok_or(NoSymbols::BadFile)?;
        let headers = Headers::parse(&loaded.bytes(0, HEADER_BYTES)).ok_or(NoSymbols::BadFile)?;
        let copy = |range: &std::ops::Range<u32>| {
            let length =
                usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
            if length > SYMBOL_BYTES_MAX {
                return Err(NoSymbols::TooLarge);
            }
            Ok(loaded.bytes(range.start, length))
        };
        let table = copy(&headers.exports)?;
        let exports = exports(&table, headers.exports.start, EXPORTS_MAX);
        if exports.is_empty() {
            return Err(NoSymbols::Stripped);
        }
        let functions = copy(&headers.functions)?;
        let functions = functions.chunks_exact(FUNCTION_BYTES).filter_map(Function::parse);
        let mut functions: Vec<(u32, u32)> = functions.map(|f| (f.start, f.end)).collect();
        functions.sort_unstable();
        Ok(Self { bias: module.bias, exports, table, functions })
    }

    /// The function that holds an address of this process.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let at = u32::try_from(address.checked_sub(self.bias)?).ok()?;
        let after = self.exports.partition_point(|export| export.start <= at);
        let export = self.exports.get(after.checked_sub(1)?)?;
        let offset = at.saturating_sub(export.start);
        let after = self.functions.partition_point(|(start, _)| *start <= at);
        let function = after.checked_sub(1).and_then(|index| self.functions.get(index));
        let is_its = match function.filter(|(_, end)| at < *end) {
            Some((start, _)) => *start <= export.start,
            None => offset < STUB_BYTES_MAX,
        };
        let name = self.table.get(export.name.clone()).filter(|_| is_its)?;
        Some(Symbol { name: str::from_utf8(name).ok()?, offset: u64::from(offset) })
    }

    /// How many functions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.exports.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exports.is_empty()
    }

    /// Heap bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let exports = self.exports.capacity().saturating_mul(size_of::<Export>());
        let functions = self.functions.capacity().saturating_mul(size_of::<(u32, u32)>());
        exports.saturating_add(functions).saturating_add(self.table.capacity())
    }
}
