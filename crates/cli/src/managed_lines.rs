//! Source lines of managed code, from portable PDBs on this machine: beside the assembly, in it, or
//! in a folder that was named. By the places that the profiler wrote: a method's token and the
//! offset in its IL.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
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
    let read = |offset, buffer: &mut [u8]| read_exact_at(&file, buffer, offset).is_ok();
    let (offset, bytes) = DebugDirectory::read(read)?.embedded?;
    // No more than the file has: the size may be anything.
    let bytes = u64::from(bytes).min(file.metadata().ok()?.len());
    let mut packed = vec![0; usize::try_from(bytes).ok()?];
    read_exact_at(&file, &mut packed, offset).ok()?;
    let data = packed.strip_prefix(&EMBEDDED_MAGIC)?.get(4..)?;
    let mut pdb = Vec::new();
    DeflateDecoder::new(data).take(PDB_BYTES_MAX).read_to_end(&mut pdb).ok()?;
    Some(pdb)
}

/// Fills the buffer from there on.
fn read_exact_at(mut file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}

/// Opens a regular file: one looks before, since a pipe would make us wait.
fn regular(path: &Path) -> Option<File> {
    path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    File::open(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdb::tests::pdb;
    use profile::{Aggregate, Frame, ModuleInfo, Period, SampleKey, ThreadKey, Values};
    use std::fs;

    /// The id of `pdb`: its bytes count up.
    const ID: &str = "03020100050407060809 0a0b0c0d0e0f 13121110";
    const METHOD: u64 = 0x0600_0001 << 32;

    /// A folder that goes with the test.
    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("corprof-lines-{}", std::process::id()));
            let path = path.join(name);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, bytes: &[u8]) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    /// What is found of a place in an assembly of that folder.
    fn look(dir: &Dir, build_id: &str, address: u64, folders: &[&str]) -> Result<String, NoLine> {
        let mut aggregate = Aggregate::default();
        let file = dir.0.join("bin/Shop.dll").to_string_lossy().into_owned();
        let build_id = build_id.replace(' ', "");
        let module = ModuleInfo { file: &file, build_id: &build_id, start: 0, limit: 0 };
        let module = aggregate.module(&module);
        let frame = aggregate.frame(&Frame {
            name: "Shop.Run()",
            raw_name: "",
            module,
            address,
            kind: FrameKind::Managed,
            file: None,
            line: None,
        });
        let stack = aggregate.stack([frame]);
        let key = SampleKey { stack, thread: ThreadKey::NONE, state: None, span: None, labels: 0 };
        let _kept = aggregate.add(&key, Values { count: 1, cpu_ns: 1, ..Values::default() });
        let profile = aggregate.take(Period::default()).profile;
        let folders: Vec<_> = folders.iter().map(|folder| dir.0.join(folder)).collect();
        let found = find(&profile, &folders);
        match (found.places.first(), found.missing.into_values().next()) {
            (Some((0, place)), None) => Ok(place.clone()),
            (None, Some(reason)) => Err(reason),
            other => panic!("{other:?}"),
        }
    }

    fn line(text: &str) -> Result<String, NoLine> {
        Ok(text.to_owned())
    }

    fn no_pdb() -> Result<String, NoLine> {
        Err(NoLine::NoPdb("Shop.dll".to_owned()))
    }

    #[test]
    fn a_pdb_beside_the_assembly() {
        let dir = Dir::new("beside");
        assert_eq!(look(&dir, ID, METHOD | 3, &[]), no_pdb());
        dir.write("bin/Shop.pdb", &pdb());
        assert_eq!(look(&dir, ID, METHOD | 3, &[]), line("a.cs:10"));
        assert_eq!(look(&dir, ID, METHOD | 200, &[]), line("ö.cs:9"));
        assert_eq!(look(&dir, ID, METHOD | 7, &[]), Err(NoLine::Hidden));
        assert_eq!(look(&dir, ID, 0, &[]), Err(NoLine::NoPlace));
        // An address of something else.
        assert_eq!(look(&dir, ID, 0x7f00_0000_1234, &[]), Err(NoLine::NoPlace));
    }

    #[test]
    fn a_pdb_of_another_build_is_none() {
        let dir = Dir::new("other");
        let other = || Err(NoLine::OtherBuild("Shop.dll".to_owned()));
        dir.write("bin/Shop.pdb", &pdb());
        assert_eq!(look(&dir, &ID.replace("13", "14"), METHOD | 3, &[]), other());
        dir.write("bin/Shop.pdb", b"Microsoft C/C++ MSF 7.00");
        assert_eq!(look(&dir, ID, METHOD | 3, &[]), other());
        // Nobody knows which is the right one.
        assert_eq!(look(&dir, "", METHOD | 3, &[]), no_pdb());
        // The right one elsewhere counts.
        dir.write("symbols/Shop.pdb", &pdb());
        assert_eq!(look(&dir, ID, METHOD | 3, &["symbols"]), line("a.cs:10"));
    }

    #[test]
    fn folders_of_symbols() {
        let dir = Dir::new("folders");
        dir.write("flat/Shop.pdb", &pdb());
        let guid: String = ID.replace(' ', "").chars().take(GUID_DIGITS).collect();
        dir.write(&format!("store/Shop.pdb/{guid}ffffffff/Shop.pdb"), &pdb());
        for folder in ["flat", "store"] {
            assert_eq!(look(&dir, ID, METHOD | 3, &["none", folder]), line("a.cs:10"), "{folder}");
        }
        assert_eq!(look(&dir, ID, METHOD | 3, &["none"]), no_pdb());
    }
}
