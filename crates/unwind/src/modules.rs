//! The ELF modules that are loaded in this process.
//!
//! They are read inside `dl_iterate_phdr`'s callback, which runs under the loader's lock: as long
//! as it runs, no `dlclose` can unmap what it reads. Whatever is needed later is copied there.
//! Copied through the kernel: a file that somebody truncated while it is mapped is still listed,
//! and touching its pages would be the end of the host (`SIGBUS`).

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::limits::{EH_FRAME_BYTES_MAX, NATIVE_MODULES_MAX};

use crate::bytes::{Bytes, ReadMemory};
use crate::eh_frame::{self, EhFrame, NoEhFrame};

pub use crate::cfi::blocks;
pub use crate::eh_frame::{EhFrame as UnwindData, NoEhFrame as NoUnwindData};
use crate::elf::{SEGMENT_BYTES, Segment};

/// How often the loader has added and removed modules since the process began. Equal counters mean
/// that the set of modules is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Modules ever loaded.
    pub adds: u64,
    /// Modules ever unloaded.
    pub subs: u64,
}

/// What kind of thing a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The program itself.
    Executable,
    /// A shared library.
    Library,
    /// The kernel's code page, which has no file.
    Vdso,
}

/// A loaded module. It stays what it was even if the module has been unloaded since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Where it was loaded from; `[vdso]` for the kernel's page.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// What to add to an address in the file to get one in this process.
    pub bias: u64,
    /// Its executable code, as addresses in this process, ascending.
    pub code: Vec<Range<u64>>,
    /// The linker's build id; empty if there is none.
    pub build_id: Vec<u8>,
    /// Address of `.eh_frame_hdr` in this process, 0 without. Part of the identity: it tells two
    /// builds apart that have no build id.
    pub eh_frame_hdr: u64,
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

/// A module that was not there at the last scan, with its unwind data.
#[derive(Debug)]
pub struct Fresh {
    /// The module.
    pub module: Arc<Module>,
    /// The copy of its unwind data.
    pub unwind_data: Result<EhFrame, NoEhFrame>,
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

/// The loader's counters now: one short call, no copying.
#[must_use]
pub fn counters() -> Counters {
    let mut counters = Counters::default();
    iterate(&mut |info| {
        counters = info.counters;
        Next::Stop
    });
    counters
}

/// Lists the loaded modules. Only those that are not in `previous` are copied.
#[must_use]
pub fn scan(previous: &[Arc<Module>], read_memory: ReadMemory) -> Scan {
    let executable = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let mut scan = Scan::default();
    let mut seen = 0usize;
    let whole = iterate(&mut |info| {
        scan.counters = info.counters;
        seen = seen.saturating_add(1);
        let image = Image::read(&info, read_memory).filter(|_| seen <= NATIVE_MODULES_MAX);
        let Some(image) = image else {
            scan.skipped = scan.skipped.saturating_add(1);
            return Next::Go;
        };
        let module = image.module(info.name, &executable, seen == 1);
        if module.code.is_empty() {
            return Next::Go;
        }
        match previous.iter().find(|known| ***known == module) {
            Some(known) => scan.kept.push(Arc::clone(known)),
            None => {
                scan.fresh.push(Fresh { module: Arc::new(module), unwind_data: image.eh_frame() })
            }
        }
        Next::Go
    });
    if !whole {
        scan.skipped = scan.skipped.saturating_add(1);
    }
    scan
}

/// Whether the iteration goes on.
enum Next {
    Go,
    Stop,
}

/// One module as the loader shows it, valid as long as the callback runs.
struct Info<'a> {
    counters: Counters,
    bias: u64,
    name: &'a [u8],
    /// Address and number of the program headers.
    segments: (u64, u16),
}

/// What the callback gets through its `void *`.
struct Visitor<'a> {
    visit: &'a mut dyn FnMut(Info<'_>) -> Next,
    panicked: bool,
}

/// Visits all modules; whether that went well.
fn iterate(visit: &mut dyn FnMut(Info<'_>) -> Next) -> bool {
    let mut visitor = Visitor { visit, panicked: false };
    // SAFETY: `callback` has the type that dl_iterate_phdr wants and gets our own `Visitor`, which
    // outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(callback), (&raw mut visitor).cast()) };
    !visitor.panicked
}

unsafe extern "C" fn callback(
    info: *mut libc::dl_phdr_info,
    size: libc::size_t,
    data: *mut c_void,
) -> c_int {
    if info.is_null() || data.is_null() {
        return 0;
    }
    // SAFETY: both come from the loader just now, and `visit` can't keep the result.
    let Some(info) = (unsafe { Info::new(info, size) }) else { return 0 };
    // SAFETY: `data` is the `Visitor` that `iterate` passed, borrowed by nobody else meanwhile.
    let visitor = unsafe { &mut *data.cast::<Visitor<'_>>() };
    // A panic must not cross the loader's C frames. There is no known one.
    match catch_unwind(AssertUnwindSafe(|| (visitor.visit)(info))) {
        Ok(Next::Go) => 0,
        Ok(Next::Stop) => 1,
        Err(_) => {
            visitor.panicked = true;
            1
        }
    }
}

impl<'a> Info<'a> {
    /// Reads the loader's structure: older loaders leave out the counters at its end.
    ///
    /// # Safety
    /// `info` and `size` are what the loader passed to the callback that is running, and the result
    /// is not used after it.
    unsafe fn new(info: *const libc::dl_phdr_info, size: usize) -> Option<Self> {
        type Raw = libc::dl_phdr_info;
        if size < std::mem::offset_of!(Raw, dlpi_adds) {
            return None;
        }
        // SAFETY: the loader passes a valid structure, and the field lies before `dlpi_adds`.
        let bias = unsafe { (*info).dlpi_addr };
        // SAFETY: as above.
        let name = unsafe { (*info).dlpi_name };
        // SAFETY: as above.
        let headers = unsafe { (*info).dlpi_phdr };
        // SAFETY: as above.
        let count = unsafe { (*info).dlpi_phnum };
        let mut counters = Counters::default();
        if size >= std::mem::offset_of!(Raw, dlpi_tls_modid) {
            // SAFETY: `size` reaches beyond both counters.
            counters.adds = unsafe { (*info).dlpi_adds };
            // SAFETY: as above.
            counters.subs = unsafe { (*info).dlpi_subs };
        }
        let name = if name.is_null() {
            &[][..]
        } else {
            // SAFETY: the loader's name is a C string that lives until the module is unloaded.
            unsafe { CStr::from_ptr(name) }.to_bytes()
        };
        Some(Self { counters, bias, name, segments: (headers.addr() as u64, count) })
    }
}

/// A module in memory.
struct Image {
    bias: u64,
    segments: Vec<Segment>,
    read_memory: ReadMemory,
}

impl Image {
    /// `None` if not even its headers can be read.
    fn read(info: &Info<'_>, read_memory: ReadMemory) -> Option<Self> {
        let (address, count) = info.segments;
        let mut bytes = vec![0; usize::from(count).checked_mul(SEGMENT_BYTES)?];
        if read_memory(address, &mut bytes) != bytes.len() {
            return None;
        }
        Some(Self { bias: info.bias, segments: Segment::all(&bytes), read_memory })
    }

    fn module(&self, name: &[u8], executable: &Path, first: bool) -> Module {
        let mut code: Vec<Range<u64>> = self
            .loads()
            .filter(|segment| segment.is_executable())
            .filter_map(|segment| self.range(segment))
            .collect();
        code.sort_by_key(|range| range.start);
        let kind = if self.is_vdso() {
            Kind::Vdso
        } else if first || name.is_empty() {
            Kind::Executable
        } else {
            Kind::Library
        };
        let path = match kind {
            Kind::Executable if !executable.as_os_str().is_empty() => executable.to_path_buf(),
            Kind::Executable | Kind::Library => PathBuf::from(OsStr::from_bytes(name)),
            Kind::Vdso => PathBuf::from("[vdso]"),
        };
        let hdr = self.eh_frame_hdr().map_or(0, |range| range.start);
        Module {
            path,
            kind,
            bias: self.bias,
            code,
            build_id: self.build_id().unwrap_or_default(),
            eh_frame_hdr: hdr,
        }
    }

    /// Copies the unwind data.
    fn eh_frame(&self) -> Result<EhFrame, NoEhFrame> {
        let hdr = self.eh_frame_hdr().ok_or(NoEhFrame::NoHeader)?;
        let hdr_bytes = self.memory(hdr.clone())?;
        let start = EhFrame::address(&hdr_bytes, hdr.start)?;
        let segment = self.segment(start).ok_or(NoEhFrame::OutsideSegments)?;
        let last = eh_frame::last_entry(&hdr_bytes, hdr.start).filter(|last| *last >= start);
        let end = last
            .and_then(|last| self.end_of_entry(last))
            .unwrap_or_else(|| segment.end.min(start.saturating_add(EH_FRAME_BYTES_MAX as u64)));
        let entries = self.memory(start..end)?;
        EhFrame::new(hdr_bytes, hdr.start, entries, start)
    }

    /// One past the last address of an entry of `.eh_frame`.
    fn end_of_entry(&self, at: u64) -> Option<u64> {
        let mut head = [0; eh_frame::HEAD_BYTES];
        let read = (self.read_memory)(at, &mut head);
        at.checked_add(eh_frame::entry_bytes(head.get(..read)?)?)
    }

    fn eh_frame_hdr(&self) -> Option<Range<u64>> {
        self.range(self.segments.iter().find(|segment| segment.kind == libc::PT_GNU_EH_FRAME)?)
    }

    fn build_id(&self) -> Option<Vec<u8>> {
        let notes = self.segments.iter().filter(|segment| segment.kind == libc::PT_NOTE);
        notes
            .filter_map(|segment| self.memory(self.range(segment)?).ok())
            .find_map(|notes| build_id(&notes).map(<[u8]>::to_vec))
    }

    fn is_vdso(&self) -> bool {
        // SAFETY: getauxval only reads the auxiliary vector.
        let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
        vdso != 0 && self.segment(vdso).is_some()
    }

    fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == libc::PT_LOAD)
    }

    fn range(&self, segment: &Segment) -> Option<Range<u64>> {
        let start = self.bias.wrapping_add(segment.address);
        Some(start..start.checked_add(segment.memory_bytes)?)
    }

    /// The readable segment that holds an address. Only what came from the file counts: nothing
    /// that we read lies in the zero-filled rest.
    fn segment(&self, address: u64) -> Option<Range<u64>> {
        self.loads()
            .filter(|segment| segment.is_readable())
            .filter_map(|segment| {
                let start = self.bias.wrapping_add(segment.address);
                let bytes = segment.file_bytes.min(segment.memory_bytes);
                Some(start..start.checked_add(bytes)?)
            })
            .find(|range| range.contains(&address))
    }

    /// A copy of a range that lies wholly in one readable segment; of as much of it as is there.
    fn memory(&self, range: Range<u64>) -> Result<Vec<u8>, NoEhFrame> {
        let segment = self.segment(range.start).ok_or(NoEhFrame::OutsideSegments)?;
        if !(range.start..=segment.end).contains(&range.end) {
            return Err(NoEhFrame::OutsideSegments);
        }
        let len = usize::try_from(range.end.saturating_sub(range.start))
            .ok()
            .filter(|len| *len <= EH_FRAME_BYTES_MAX)
            .ok_or(NoEhFrame::TooLarge)?;
        let mut bytes = vec![0; len];
        let read = (self.read_memory)(range.start, &mut bytes);
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// Finds the GNU build id among notes.
pub(crate) fn build_id(notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let bytes = Bytes(notes);
    let mut at = 0usize;
    loop {
        let name_len = usize::try_from(bytes.u32(at)?).ok()?;
        let id_len = usize::try_from(bytes.u32(at.checked_add(4)?)?).ok()?;
        let kind = bytes.u32(at.checked_add(8)?)?;
        let name_at = at.checked_add(12)?;
        let id_at = name_at.checked_add(name_len.checked_next_multiple_of(4)?)?;
        let name = bytes.slice(name_at, name_len)?;
        let id = bytes.slice(id_at, id_len)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(id);
        }
        at = id_at.checked_add(id_len.checked_next_multiple_of(4)?)?;
    }
}
