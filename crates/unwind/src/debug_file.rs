//! The separate file that holds a module's symbols, where distributions and debuggers put it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::elf_file::ElfFile;
use crate::modules::Module;

/// Where debug files are installed.
const ROOT: &str = "/usr/lib/debug";

/// The debug file of a module whose own file is at hand, if it is on this machine. Only one of the
/// same build id: the checksum that a link has instead would mean reading all of a large file.
#[must_use]
pub fn find(module: &Module, file: &ElfFile) -> Option<ElfFile> {
    if module.build_id.is_empty() {
        return None;
    }
    candidates(&module.path, &module.build_id, link(file).as_deref())
        .into_iter()
        .filter(|path| *path != module.path)
        .filter_map(|path| ElfFile::open(&path).ok())
        .find(|debug| debug.build_id_of_sections().as_ref() == Some(&module.build_id))
}

/// The name in `.gnu_debuglink`: of a file, with no folders.
fn link(file: &ElfFile) -> Option<PathBuf> {
    let contents = file.read(file.section_of_name(".gnu_debuglink")?).ok()?;
    let name = contents.split(|byte| *byte == 0).next()?;
    let path = PathBuf::from(OsStr::from_bytes(name));
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Some(path),
        _ => None,
    }
}

/// All places, in the order in which debuggers look.
fn candidates(module: &Path, build_id: &[u8], link: Option<&Path>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let [first, rest @ ..] = build_id
        && !rest.is_empty()
    {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        paths.push(PathBuf::from(format!("{ROOT}/.build-id/{first:02x}/{rest}.debug")));
    }
    if let (Some(link), Some(folder)) = (link, module.parent()) {
        paths.push(folder.join(link));
        paths.push(folder.join(".debug").join(link));
        let under_root = folder.strip_prefix("/").map(|folder| Path::new(ROOT).join(folder));
        paths.extend(under_root.map(|folder| folder.join(link)));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let module = Path::new("/opt/app/libx.so");
        let all = candidates(module, &[0xab, 0xcd, 0x0e], Some(Path::new("libx.so.dbg")));
        let all: Vec<_> = all.iter().map(|path| path.to_str().unwrap_or_default()).collect();
        assert_eq!(
            all,
            [
                "/usr/lib/debug/.build-id/ab/cd0e.debug",
                "/opt/app/libx.so.dbg",
                "/opt/app/.debug/libx.so.dbg",
                "/usr/lib/debug/opt/app/libx.so.dbg",
            ]
        );
        assert_eq!(candidates(module, &[0xab], None), Vec::<PathBuf>::new());
    }
}
