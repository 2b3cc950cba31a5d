//! Source lines of native code, from the debug information on this machine: in the module's file,
//! in its debug file, by the addresses that the profiler wrote.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use addr2line::Context;
use addr2line::gimli::{self, DwarfSections, EndianSlice, RunTimeEndian};
use flate2::read::ZlibDecoder;
use model::FrameKind;
use object::read::{ReadCache, ReadCacheOps};
use object::{CompressionFormat, Object as _, ObjectSection as _};
use profile::{Module, Profile};

/// Where debug files are installed.
const ROOT: &str = "/usr/lib/debug";
/// The largest section of debug information that is read, unpacked.
const SECTION_BYTES_MAX: u64 = 4 << 30;

/// The places of native frames, as frame and `file:line`; debug files are also looked for in these
/// folders.
pub fn find(profile: &Profile, folders: &[PathBuf]) -> Vec<(usize, String)> {
    let mut places = Vec::new();
    for (module, frames) in native_frames(profile) {
        let module = profile.modules.get(module);
        let file = module.and_then(|module| with_lines(profile, module, folders));
        let Some(sections) = file.and_then(|path| sections(&path)) else { continue };
        let borrowed = sections.borrow(|bytes| EndianSlice::new(bytes, RunTimeEndian::Little));
        let Ok(context) = Context::from_dwarf(borrowed) else { continue };
        for (position, address) in frames {
            places.extend(place(&context, address).map(|place| (position, place)));
        }
    }
    places
}

/// Position and address of the frames that have an address, by module.
fn native_frames(profile: &Profile) -> HashMap<usize, Vec<(usize, u64)>> {
    let mut all: HashMap<usize, Vec<_>> = HashMap::new();
    for (position, frame) in profile.frames.iter().enumerate() {
        let function = profile.functions.get(frame.function.get());
        let (Some(function), Some(module)) = (function, frame.module) else { continue };
        if frame.address != 0 && function.kind == Some(FrameKind::Native) {
            all.entry(module.get()).or_default().push((position, frame.address));
        }
    }
    all
}

/// A file's debug information; `None` if it is damaged.
fn sections(path: &Path) -> Option<DwarfSections<Vec<u8>>> {
    let data = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&data).ok()?;
    DwarfSections::load(|id| Ok::<_, gimli::Error>(contents(&file, id.name()).unwrap_or_default()))
        .ok()
}

/// A section's contents, unpacked.
fn contents<'a, R: ReadCacheOps>(
    file: &object::File<'a, &'a ReadCache<R>>,
    name: &str,
) -> Option<Vec<u8>> {
    let data = file.section_by_name(name)?.compressed_data().ok()?;
    match data.format {
        CompressionFormat::None => Some(data.data.to_vec()),
        CompressionFormat::Zlib => {
            let mut bytes = Vec::new();
            let decoder = ZlibDecoder::new(data.data);
            decoder.take(SECTION_BYTES_MAX).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        }
        _ => None,
    }
}

/// `file:line`, without the file's folders.
fn place(context: &Context<EndianSlice<'_, RunTimeEndian>>, address: u64) -> Option<String> {
    let location = context.find_location(address).ok()??;
    let (path, line) = (location.file?, location.line.filter(|line| *line != 0)?);
    let file = Path::new(path).file_name()?.to_string_lossy();
    Some(format!("{file}:{line}"))
}

/// The file with a module's lines: one of the same build, that has any.
fn with_lines(profile: &Profile, module: &Module, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = PathBuf::from(profile.text(module.file));
    let build_id = bytes(profile.text(module.build_id))?;
    let file = Described::read(&path).filter(|file| file.build_id == build_id);
    if file.as_ref().is_some_and(|file| file.has_lines) {
        return Some(path);
    }
    let link = file.and_then(|file| file.link);
    debug_files(&path, &build_id, link, folders).into_iter().find(|path| {
        Described::read(path).is_some_and(|file| file.has_lines && file.build_id == build_id)
    })
}

/// All places of a debug file, in the order in which debuggers look.
fn debug_files(
    module: &Path,
    build_id: &[u8],
    link: Option<PathBuf>,
    folders: &[PathBuf],
) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Some((first, rest)) = build_id.split_first() {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        let roots = [Path::new(ROOT)].into_iter().chain(folders.iter().map(PathBuf::as_path));
        paths.extend(roots.map(|root| root.join(format!(".build-id/{first:02x}/{rest}.debug"))));
    }
    paths.extend(link.iter().flat_map(|link| folders.iter().map(move |root| root.join(link))));
    if let (Some(folder), Some(link)) = (module.parent(), link) {
        paths.extend([folder.join(&link), folder.join(".debug").join(&link)]);
        let below = folder.strip_prefix("/").map(|folder| Path::new(ROOT).join(folder).join(&link));
        paths.extend(below);
    }
    paths
}

/// What matters of an ELF file.
struct Described {
    build_id: Vec<u8>,
    has_lines: bool,
    /// The name of its debug file.
    link: Option<PathBuf>,
}

impl Described {
    fn read(path: &Path) -> Option<Self> {
        // Looked at before it is opened: a pipe would make us wait.
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        let data = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&data).ok()?;
        let link = file.gnu_debuglink().ok().flatten();
        let link = link.and_then(|(name, _)| Some(PathBuf::from(str::from_utf8(name).ok()?)));
        Some(Self {
            build_id: file.build_id().ok()??.to_vec(),
            has_lines: file.has_debug_symbols(),
            link: link.filter(|link| link.file_name() == Some(link.as_os_str())),
        })
    }
}

/// The bytes of hexadecimal text; `None` if it is none, or empty.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.map(byte).collect();
    bytes.filter(|bytes| !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids() {
        assert_eq!(bytes("00ff7a"), Some(vec![0, 0xff, 0x7a]));
        for text in ["", "xy", "ö", "0g"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn the_file_itself_has_lines() {
        let file = Described::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(file.has_lines && !file.build_id.is_empty());
        assert!(Described::read(Path::new("/proc/self/cmdline")).is_none());
        assert!(Described::read(&std::env::temp_dir()).is_none());
    }
}
