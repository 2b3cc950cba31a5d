//! Source lines of managed code, from portable PDBs on this machine: beside the assembly, in it, or
//! in a folder that was named. By the places that the profiler wrote: a method's token and the
//! offset in its IL.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use metadata::DebugDirectory;
use model::FrameKind;
use profile::{Module, Profile};

use crate::pdb::{Pdb, Place};

/// The largest PDB that is read, in bytes, unpacked.
const PDB_BYTES_MAX: u64 = 1 << 30;
/// The digits of a build id that are the PDB's GUID.
const GUID_DIGITS: usize = 32;
/// What a PDB inside of an assembly begins with, before its size.
const EMBEDDED_MAGIC: [u8; 4] = *b"MPDB";
/// The table of methods, as the upper byte of a token.
const METHOD_TABLE: u64 = 0x06;

/// Why a frame of managed code has no line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NoLine {
    /// The profile doesn't say where in the method it is.
    NoPlace,
    /// No PDB of the assembly was found.
    NoPdb(String),
    /// One was found that belongs to another build, or is none that is portable.
    OtherBuild(String),
    /// It is code that the compiler made, or that the source says is to have no line.
    Hidden,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Frames with their `file:line`.
    pub places: Vec<(usize, String)>,
    /// Frames without.
    pub missing: HashMap<usize, NoLine>,
}

/// The places of all managed frames; PDBs are also looked for in these folders.
pub fn find(profile: &Profile, folders: &[PathBuf]) -> Found {
    let mut found = Found::default();
    let mut pdbs: HashMap<usize, Result<Pdb, NoLine>> = HashMap::new();
    for (position, frame) in profile.frames.iter().enumerate() {
        let function = profile.functions.get(frame.function.get());
        if function.and_then(|function| function.kind) != Some(FrameKind::Managed) {
            continue;
        }
        let pdb = frame.module.and_then(|at| {
            let module = profile.modules.get(at.get())?;
            Some(pdbs.entry(at.get()).or_insert_with(|| open(profile, module, folders)))
        });
        match pdb.map_or(Err(NoLine::NoPlace), |pdb| line(pdb, frame.address)) {
            Ok(place) => found.places.push((position, place)),
            Err(reason) => {
                found.missing.insert(position, reason);
            }
        }
    }
    found
}

/// `file:line` of a place, without the file's folders.
fn line(pdb: &Result<Pdb, NoLine>, address: u64) -> Result<String, NoLine> {
    let (token, il) = (address >> 32, address & u64::from(u32::MAX));
    if token >> 24 != METHOD_TABLE {
        return Err(NoLine::NoPlace);
    }
    let pdb = pdb.as_ref().map_err(Clone::clone)?;
    let row = u32::try_from(token & 0x00ff_ffff).unwrap_or(0);
    match pdb.place(row, u32::try_from(il).unwrap_or(0)) {
        // The path may be one of Windows.
        Place::Line(path, line) => {
            let file = path.rsplit(['/', '\\']).next().unwrap_or(&path);
            Ok(format!("{file}:{line}"))
        }
        Place::Hidden | Place::Unknown => Err(NoLine::Hidden),
    }
}

/// The PDB of a module's build.
fn open(profile: &Profile, module: &Module, folders: &[PathBuf]) -> Result<Pdb, NoLine> {
    let path = Path::new(profile.text(module.file));
    let build_id = profile.text(module.build_id);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut has_other = false;
    if !build_id.is_empty() {
        for pdb in candidates(path, build_id, folders) {
            match pdb {
                Some(pdb) if pdb.id.to_string() == build_id => return Ok(pdb),
                _ => has_other = true,
            }
        }
    }
    Err(if has_other { NoLine::OtherBuild(name) } else { NoLine::NoPdb(name) })
}

/// All files that may be a module's PDB, or have it inside; `None` for one that is no portable PDB.
fn candidates<'a>(
    module: &'a Path,
    build_id: &'a str,
    folders: &'a [PathBuf],
) -> impl Iterator<Item = Option<Pdb>> + 'a {
    let folder = module.parent().unwrap_or(Path::new(""));
    let stem = module.file_stem().unwrap_or_default();
    let mut name = stem.to_owned();
    name.push(".pdb");
    let guid = build_id.get(..GUID_DIGITS).unwrap_or_default();
    // As symbol servers keep portable PDBs ("SSQP key conventions" of dotnet/symstore).
    let key = format!("{guid}ffffffff");
    let files =
        std::iter::once(folder.join(&name)).chain(folders.iter().flat_map(move |folder| {
            [folder.join(&name), folder.join(&name).join(&key).join(&name)]
        }));
    let assemblies = folders
        .iter()
        .filter_map(|folder| Some(folder.join(module.file_name()?)))
        .chain(std::iter::once(module.to_owned()));
    let beside = files.filter_map(|path| contents(&path)).map(Pdb::read);
    beside.chain(assemblies.filter_map(|path| embedded(&path)).map(Pdb::read))
}

/// A file, if it is one.
fn contents(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    regular(path)?.take(PDB_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The PDB inside of an assembly, unpacked.
fn embedded(path: &Path) -> Option<Vec<u8>> {
    let file = regular(path)?;
    let read = |offset, buffer: &mut [u8]| file.read_exact_at(buffer, offset).is_ok();
    let (offset, bytes) = DebugDirectory::read(read)?.embedded?;
    // No more than the file has: the size may be anything.
    let bytes = u64::from(bytes).min(file.metadata().ok()?.len());
    let mut packed = vec![0; usize::try_from(bytes).ok()?];
    file.read_exact_at(&mut packed, offset).ok()?;
    let data = packed.strip_prefix(&EMBEDDED_MAGIC)?.get(4..)?;
    let mut pdb = Vec::new();
    DeflateDecoder::new(data).take(PDB_BYTES_MAX).read_to_end(&mut pdb).ok()?;
    Some(pdb)
}

/// Opens a regular file: one looks before, since a pipe would make us wait.
fn regular(path: &Path) -> Option<File> {
    path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    File::open(path).ok()
}
