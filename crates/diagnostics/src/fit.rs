//! Whether a process could load a library, as far as that can be seen from outside.

use std::path::{Path, PathBuf};

use crate::access::unreadable_part;
use crate::runtime::libc_of;
use crate::{AttachError, Hidden, Libc, Library, NotALibrary, Process};

/// How the kernel marks a file that was deleted.
const GONE: &str = " (deleted)";

/// Checks that a process with these files mapped could load a library. What can't be seen is taken
/// for good: the runtime has the last word.
///
/// # Errors
/// If it could not, with the reason.
pub fn check_fit(process: &Process, mapped: &[PathBuf], path: &Path) -> Result<(), AttachError> {
    if !path.is_absolute() || path.to_str().is_none() {
        return Err(AttachError::BadPath(path.to_owned()));
    }
    let outside = process.outside(path);
    match std::fs::metadata(&outside).map_err(Hidden::from) {
        Ok(_) => {}
        // The loader looks at what it has loaded before it looks for a file.
        Err(Hidden::Gone) if gone_ones(mapped).any(|gone| is_same_end(gone, path)) => return Ok(()),
        Err(Hidden::Gone) if process.started().is_ok() => {
            return Err(AttachError::NotVisible(path.to_owned()));
        }
        Err(_) => return Ok(()),
    }
    check_readable(process, path, &outside)?;
    check_system(process, mapped, path, &outside)
}

/// The same of processor and C library alone, of a library that is to be put where the process sees
/// it: `shown` is its path for messages, `place` where it is for us.
///
/// # Errors
/// If the process could not load it, with the reason.
pub fn check_system(
    process: &Process,
    mapped: &[PathBuf],
    shown: &Path,
    place: &Path,
) -> Result<(), AttachError> {
    let library = match Library::read(place) {
        Ok(library) if library.is_shared => library,
        Ok(_) => return Err(AttachError::NotALibrary(shown.to_owned(), NotALibrary::NotElf)),
        Err(error) => return Err(AttachError::NotALibrary(shown.to_owned(), error)),
    };
    if let Ok(program) = Library::read(&process.file("exe"))
        && program.machine != library.machine
    {
        return Err(AttachError::OtherMachine(library.machine, program.machine));
    }
    check_libc(process, mapped, library.needs)
}

/// The files of which a process has mapped what nobody finds any more, by their last path.
fn gone_ones(mapped: &[PathBuf]) -> impl Iterator<Item = &Path> {
    mapped.iter().filter_map(|path| path.to_str()?.strip_suffix(GONE)).map(Path::new)
}

/// Whether two paths are of the same file in the same folder, however one gets to that.
fn is_same_end(one: &Path, other: &Path) -> bool {
    let end =
        |path: &Path| Some((path.file_name()?.to_owned(), path.parent()?.file_name()?.to_owned()));
    end(one).is_some() && end(one) == end(other)
}

fn check_readable(process: &Process, path: &Path, outside: &Path) -> Result<(), AttachError> {
    let Ok(status) = process.status() else { return Ok(()) };
    let Some(user) = status.user() else { return Ok(()) };
    let Ok(Some(part)) = unreadable_part(outside, user, &status.groups()) else { return Ok(()) };
    // The folders above the process's root are none of its business.
    let root = process.outside(Path::new("/"));
    match part.strip_prefix(&root) {
        Ok(inside) if inside.as_os_str().is_empty() => Ok(()),
        Ok(inside) => Err(AttachError::NotReadable(Path::new("/").join(inside), user)),
        Err(_) if part == outside => Err(AttachError::NotReadable(path.to_owned(), user)),
        Err(_) => Ok(()),
    }
}

fn check_libc(process: &Process, mapped: &[PathBuf], needs: Libc) -> Result<(), AttachError> {
    let has = match libc_of(mapped) {
        (Libc::Glibc(..), Some(file)) => {
            let offers = Library::read(&process.outside(file)).ok().and_then(|libc| libc.offers);
            let Some((major, minor)) = offers else { return Ok(()) };
            Libc::Glibc(major, minor)
        }
        (Libc::Musl, _) => Libc::Musl,
        _ => return Ok(()),
    };
    let fits = match (needs, has) {
        (Libc::Glibc(major, minor), Libc::Glibc(has_major, has_minor)) => {
            (major, minor) <= (has_major, has_minor)
        }
        (Libc::None, _) => true,
        (needs, has) => needs == has,
    };
    if fits { Ok(()) } else { Err(AttachError::OtherLibc(needs, has)) }
}
