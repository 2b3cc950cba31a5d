//! The modules that are loaded in this process.
//!
//! Each is held while it is read, so that nobody can unload it meanwhile.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use model::limits::{EH_FRAME_BYTES_MAX, NATIVE_MODULES_MAX};
use signal::rule::Rule;
use signal::table::Row;
use sys::modules::{self as system, Loaded};

use super::image::{CLR_BYTES, HEADER_BYTES, Headers, code_view, is_managed, pdb_id};
use super::unwind_info::{FUNCTION_BYTES, Function, INFO_BYTES, steps};
use crate::blocks::{Block, Blocks, Losses, tidy};
use crate::bytes::ReadMemory;
use crate::rules::Rules;

/// How often the loader has added and removed modules since the process began. Equal counters mean
/// that the set of modules is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Modules loaded.
    pub adds: u64,
    /// Modules unloaded.
    pub subs: u64,
}

/// What kind of thing a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The program itself.
    Executable,
    /// A library.
    Library,
}

/// A loaded module. It stays what it was even if the module has been unloaded since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Where it was loaded from.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Where it lies: what to add to an offset in the image to get an address in this process.
    pub bias: u64,
    /// Its code, as addresses in this process, ascending.
    pub code: Vec<Range<u64>>,
    /// The id of its PDB; empty if it names none.
    pub build_id: Vec<u8>,
}

impl Module {
    /// The file's name without its folders, for display.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Whether an address lies in its code.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        self.code.iter().any(|range| range.contains(&address))
    }
}

/// Why a module has no unwind data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoUnwindData {
    /// It has no table of functions.
    NoTable,
    /// The table or what it points to can't be read.
    Unreadable,
    /// More than `limits::EH_FRAME_BYTES_MAX`.
    TooLarge,
}

/// A copy of one module's unwind data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwindData {
    base: u64,
    functions: Vec<Function>,
    /// Where the data of the functions begins in the image.
    start: u32,
    data: Vec<u8>,
}

impl UnwindData {
    /// Heap bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        let functions = self.functions.capacity().saturating_mul(size_of::<Function>());
        functions.saturating_add(self.data.capacity())
    }
}

/// A module that was not there at the last scan, with its unwind data.
#[derive(Debug)]
pub struct Fresh {
    /// The module.
    pub module: Arc<Module>,
    /// The copy of its unwind data.
    pub unwind_data: Result<UnwindData, NoUnwindData>,
}

/// The modules of one moment.
#[derive(Debug, Default)]
pub struct Scan {
    /// Those that were in the previous list and still are: the same `Arc`s.
    pub kept: Vec<Arc<Module>>,
    /// The others.
    pub fresh: Vec<Fresh>,
    /// The loader's counters at that moment.
    pub counters: Counters,
    /// Modules left out because there were more than `limits::NATIVE_MODULES_MAX`, or because
    /// reading them failed.
    pub skipped: u32,
}

/// The loader's counters now.
#[must_use]
pub fn counters() -> Counters {
    let (adds, subs) = system::counters();
    Counters { adds, subs }
}

/// Lists the loaded modules. Only the unwind data of those that are not in `previous` is copied.
#[must_use]
pub fn scan(previous: &[Arc<Module>], _read_memory: ReadMemory) -> Scan {
    // Before the list: what comes or goes meanwhile is seen at the next scan.
    let mut scan = Scan { counters: counters(), ..Scan::default() };
    for (number, base) in system::bases(NATIVE_MODULES_MAX).into_iter().enumerate() {
        let read = system::hold(base).and_then(|loaded| Image::read(loaded, number == 0));
        let Some(image) = read else {
            scan.skipped = scan.skipped.saturating_add(1);
            continue;
        };
        if image.module.code.is_empty() {
            continue;
        }
        match previous.iter().find(|known| ***known == image.module) {
            Some(known) => scan.kept.push(Arc::clone(known)),
            None => {
                let unwind_data = image.unwind_data();
                scan.fresh.push(Fresh { module: Arc::new(image.module), unwind_data });
            }
        }
    }
    scan
}

/// A module that is held.
struct Image {
    loaded: Loaded,
    headers: Headers,
    module: Module,
}

impl Image {
    fn read(loaded: Loaded, is_first: bool) -> Option<Self> {
        let headers = Headers::parse(&loaded.bytes(0, HEADER_BYTES))?;
        let address = |offset: u32| loaded.base.saturating_add(offset.into());
        // The runtime tells of its methods: of an image that is all theirs nothing is native.
        let clr = loaded.bytes(headers.clr.start, CLR_BYTES);
        let is_managed = headers.clr.start != 0 && is_managed(&clr);
        let code = if is_managed { Vec::new() } else { headers.code() };
        let code = code.into_iter().map(|range| address(range.start)..address(range.end));
        let build_id = build_id(&loaded, &headers).unwrap_or_default();
        let kind = if is_first { Kind::Executable } else { Kind::Library };
        let module = Module {
            path: loaded.path.clone(),
            kind,
            bias: loaded.base,
            code: code.collect(),
            build_id,
        };
        Some(Self { loaded, headers, module })
    }

    fn unwind_data(&self) -> Result<UnwindData, NoUnwindData> {
        let table = self.copy(&self.headers.functions)?;
        let functions: Vec<Function> =
            table.chunks_exact(FUNCTION_BYTES).filter_map(Function::parse).collect();
        let places = || functions.iter().map(|function| function.unwind & !3);
        let (Some(start), Some(last)) = (places().min(), places().max()) else {
            return Err(NoUnwindData::NoTable);
        };
        let room = u32::try_from(INFO_BYTES).unwrap_or(0);
        let end = last.saturating_add(room).min(self.headers.bytes);
        let data = self.copy(&(start..end))?;
        Ok(UnwindData { base: self.loaded.base, functions, start, data })
    }

    fn copy(&self, range: &Range<u32>) -> Result<Vec<u8>, NoUnwindData> {
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        match length {
            0 => Err(NoUnwindData::NoTable),
            1..=EH_FRAME_BYTES_MAX => {
                let bytes = self.loaded.bytes(range.start, length);
                if bytes.is_empty() { Err(NoUnwindData::Unreadable) } else { Ok(bytes) }
            }
            _ => Err(NoUnwindData::TooLarge),
        }
    }
}

fn build_id(loaded: &Loaded, headers: &Headers) -> Option<Vec<u8>> {
    /// A table of more is not of a debugger.
    const BYTES_MAX: usize = 4096;
    let bytes = |range: &Range<u32>| {
        let length = usize::try_from(range.end.saturating_sub(range.start)).ok()?.min(BYTES_MAX);
        Some(loaded.bytes(range.start, length))
    };
    pdb_id(&bytes(&code_view(&bytes(&headers.debug)?)?)?)
}

/// Turns the data of all functions into rows of the module's code.
#[must_use]
pub fn blocks(
    data: &UnwindData,
    code: &[Range<u64>],
    rules: &mut Rules,
    _read_memory: ReadMemory,
) -> Blocks {
    let leaf = rules.intern(Rule::ENTRY);
    let mut losses = Losses::default();
    let mut blocks: Vec<Block> = code
        .iter()
        // What has no unwind data pushes nothing, by Windows' convention.
        .map(|range| Block { range: range.clone(), rows: vec![Row { offset: 0, rule: leaf }] })
        .collect();
    for function in &data.functions {
        let start = data.base.saturating_add(function.start.into());
        let Some(block) = blocks.iter_mut().find(|block| block.range.contains(&start)) else {
            losses.outside = losses.outside.saturating_add(1);
            continue;
        };
        let offset = |address: u64| u32::try_from(address.saturating_sub(block.range.start)).ok();
        let end = data.base.saturating_add(function.end.into());
        let (Some(start), Some(end)) = (offset(start), offset(end)) else { continue };
        match data.steps(*function) {
            Ok(steps) => {
                for (step, rule) in steps {
                    let unsupported = u32::from(rule == Rule::UNSUPPORTED);
                    losses.unsupported = losses.unsupported.saturating_add(unsupported);
                    let row = Row { offset: start.saturating_add(step), rule: rules.intern(rule) };
                    block.rows.push(row);
                }
            }
            Err(_) => {
                losses.bad_programs = losses.bad_programs.saturating_add(1);
                block.rows.push(Row { offset: start, rule: Row::NO_RULE });
            }
        }
        // The next function's start wins where it begins here.
        block.rows.push(Row { offset: end, rule: leaf });
    }
    for block in &mut blocks {
        order(&mut block.rows, leaf);
    }
    Blocks { blocks, losses, hijack: None }
}

/// Sorts rows; where a function ends and the next begins, the beginning counts.
fn order(rows: &mut Vec<Row>, leaf: u32) {
    rows.sort_by_key(|row| (row.offset, row.rule != leaf));
    tidy(rows);
}

impl UnwindData {
    fn steps(&self, function: Function) -> Result<Vec<(u32, Rule)>, super::unwind_info::Bad> {
        steps(function, |offset, room: &mut [u8]| {
            let at = offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
            let rest = at.and_then(|at| self.data.get(at..)).unwrap_or_default();
            let length = rest.len().min(room.len());
            room.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            length
        })
    }
}
