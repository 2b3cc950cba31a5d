//! The linked library as a loader would see it: bytes by address, functions by symbol, and what
//! each relocated pointer will point to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use anyhow::{Context, Result, bail};
use object::elf;
use object::read::elf::ElfFile64;
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationFlags,
    RelocationTarget, SymbolKind,
};

/// What a relocated pointer points to once the library is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// An address in the library.
    Address(u64),
    /// A symbol of another library; `lazy` if it is looked up at the first call.
    Import { name: String, lazy: bool },
    /// Part of the access to a thread-local variable.
    ThreadLocal,
    /// Whatever a resolver function in the library answers.
    Resolved,
}

/// A function of the library, or a nameless run of code between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its addresses.
    pub range: Range<u64>,
    /// Its mangled names; none for a linkage stub.
    pub names: BTreeSet<String>,
}

/// The library.
pub struct Image {
    segments: Vec<(u64, Vec<u8>)>,
    code: Vec<Range<u64>>,
    functions: BTreeMap<u64, Function>,
    slots: HashMap<u64, Slot>,
}

impl Image {
    /// Reads a library.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let file = ElfFile64::<object::Endianness>::parse(bytes).context("not a 64-bit ELF")?;
        let mut image = Self {
            segments: Vec::new(),
            code: Vec::new(),
            functions: BTreeMap::new(),
            slots: HashMap::new(),
        };
        for segment in file.segments() {
            let data = segment.data().context("a segment's bytes")?.to_vec();
            image.segments.push((segment.address(), data));
        }
        for section in file.sections() {
            let object::SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            if sh_flags.contains(elf::SHF_EXECINSTR) {
                let start = section.address();
                image.code.push(start..start + section.size());
            }
        }
        if image.code.is_empty() {
            bail!("the library has no code");
        }
        image.read_functions(&file);
        image.read_packed_relocations(&file)?;
        image.read_relocations(&file)?;
        Ok(image)
    }

    fn read_functions(&mut self, file: &ElfFile64<'_>) {
        let mut labels = Vec::new();
        for symbol in file.symbols() {
            let address = symbol.address();
            let (true, Ok(name)) = (self.is_code(address), symbol.name()) else { continue };
            match symbol.kind() {
                SymbolKind::Text => self.add(address, symbol.size(), name),
                SymbolKind::Unknown | SymbolKind::Label => labels.push((address, name)),
                _ => {}
            }
        }
        // Hand-written code may have no type; a label inside a function is no function.
        for (address, name) in labels {
            if !name.is_empty() && self.named(address).is_none() {
                self.add(address, 0, name);
            }
        }
        // A function without a size ends where the next one, or its section, does.
        let starts: Vec<u64> = self.functions.keys().copied().collect();
        for start in starts {
            let end = self.next_border(start);
            if let Some(function) = self.functions.get_mut(&start)
                && function.range.is_empty()
            {
                function.range.end = end;
            }
        }
    }

    fn add(&mut self, address: u64, size: u64, name: &str) {
        let function = self
            .functions
            .entry(address)
            .or_insert_with(|| Function { range: address..address, names: BTreeSet::new() });
        function.range.end = function.range.end.max(address + size);
        function.names.insert(name.to_owned());
    }

    /// `.relr.dyn`: an even word is the address of a pointer, an odd one a bitmap of the 63 next.
    fn read_packed_relocations(&mut self, file: &ElfFile64<'_>) -> Result<()> {
        let Some(section) = file.section_by_name(".relr.dyn") else { return Ok(()) };
        let mut next = 0;
        for word in words(section.data().context(".relr.dyn")?) {
            if word & 1 == 0 {
                self.relocate_in_place(word);
                next = word + 8;
                continue;
            }
            for bit in 0..63 {
                if word >> (bit + 1) & 1 == 1 {
                    self.relocate_in_place(next + bit * 8);
                }
            }
            next += 63 * 8;
        }
        Ok(())
    }

    fn relocate_in_place(&mut self, place: u64) {
        if let Some(address) = self.word(place) {
            self.slots.insert(place, Slot::Address(address));
        }
    }

    fn read_relocations(&mut self, file: &ElfFile64<'_>) -> Result<()> {
        let eager = is_bound_at_load(file)?;
        let symbols = file.dynamic_symbol_table();
        for (place, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let addend = relocation.addend().cast_unsigned();
            let symbol = match (relocation.target(), &symbols) {
                (RelocationTarget::Symbol(index), Some(table)) => {
                    Some(table.symbol_by_index(index).context("a relocation's symbol")?)
                }
                _ => None,
            };
            let lazy = r_type == elf::R_X86_64_JUMP_SLOT && !eager;
            let slot = match r_type {
                elf::R_X86_64_RELATIVE => Slot::Address(addend),
                elf::R_X86_64_64 | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT => {
                    let Some(symbol) = symbol else { continue };
                    if symbol.is_undefined() {
                        let name = symbol.name().context("an import's name")?.to_owned();
                        Slot::Import { name, lazy }
                    } else {
                        Slot::Address(symbol.address().wrapping_add(addend))
                    }
                }
                elf::R_X86_64_DTPMOD64
                | elf::R_X86_64_DTPOFF64
                | elf::R_X86_64_TPOFF64
                | elf::R_X86_64_TLSDESC => Slot::ThreadLocal,
                elf::R_X86_64_IRELATIVE => Slot::Resolved,
                other => bail!("relocation type {other:?} at {place:#x} is not known here"),
            };
            self.slots.insert(place, slot);
        }
        Ok(())
    }

    /// Whether an address lies in a section of code.
    pub fn is_code(&self, address: u64) -> bool {
        self.code.iter().any(|range| range.contains(&address))
    }

    /// What the pointer at a place will be, if it is relocated.
    pub fn slot(&self, place: u64) -> Option<&Slot> {
        self.slots.get(&place)
    }

    /// The bytes from an address to the end of its segment.
    pub fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.segments.iter().find_map(|(start, data)| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            data.get(offset..).filter(|rest| !rest.is_empty())
        })
    }

    /// Eight bytes as they are in the file.
    fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address)?.first_chunk().copied().map(u64::from_le_bytes)
    }

    /// Four bytes as they are in the file, as jump tables have them.
    pub fn offset(&self, address: u64) -> Option<i32> {
        self.bytes(address)?.first_chunk().copied().map(i32::from_le_bytes)
    }

    /// All functions with a name.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.values()
    }

    fn named(&self, address: u64) -> Option<&Function> {
        let (_, function) = self.functions.range(..=address).next_back()?;
        function.range.contains(&address).then_some(function)
    }

    /// The function that an address lies in; nameless code counts up to the next function.
    pub fn function_at(&self, address: u64) -> Option<Function> {
        if !self.is_code(address) {
            return None;
        }
        Some(self.named(address).cloned().unwrap_or_else(|| Function {
            range: address..self.next_border(address),
            names: BTreeSet::new(),
        }))
    }

    /// The first function's start or section's end after an address of code.
    fn next_border(&self, address: u64) -> u64 {
        let section = self.code.iter().find(|range| range.contains(&address));
        let end = section.map_or(address, |range| range.end);
        let next = self.functions.range(address + 1..).next().map(|(start, _)| *start);
        next.map_or(end, |next| next.min(end))
    }
}

/// Whether all imports are looked up when the library is loaded, and none at its first call.
fn is_bound_at_load(file: &ElfFile64<'_>) -> Result<bool> {
    let Some(section) = file.section_by_name(".dynamic") else { return Ok(false) };
    let words: Vec<u64> = words(section.data().context(".dynamic")?).collect();
    let (entries, _) = words.as_chunks::<2>();
    Ok(entries.iter().any(|[tag, value]| match elf::DynamicTag(tag.cast_signed()) {
        elf::DT_BIND_NOW => true,
        elf::DT_FLAGS => value & DF_BIND_NOW != 0,
        elf::DT_FLAGS_1 => value & DF_1_NOW != 0,
        _ => false,
    }))
}

const DF_BIND_NOW: u64 = 8;
const DF_1_NOW: u64 = 1;

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
}
