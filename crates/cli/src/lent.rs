//! The agent that an earlier attach copied for a process: its code stays mapped though its file is
//! gone, and glibc's loader gives it again to whoever names the path it came from. Another copy
//! would be kept in memory beside it until the process ends.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use config::control::is_lent;
use diagnostics::{Libc, Process, libc_of};

use crate::agent::LIBRARY;

/// How the kernel marks a file that was deleted.
const GONE: &str = " (deleted)";
/// Bytes that are compared at a time.
const CHUNK: usize = 1 << 16;

/// The path by which a process can load the agent that it has already, if that is the same as ours.
pub fn again(process: &Process, temporary: &Path, agent: &Path) -> Option<PathBuf> {
    let mapped = process.mapped_files().unwrap_or_default();
    // Musl's loader wants to see the file.
    if !matches!(libc_of(&mapped).0, Libc::Glibc(..)) {
        return None;
    }
    mapped.iter().find_map(|gone| {
        let folder = folder_of(gone)?;
        let range = process.mapped_at(gone).ok()??;
        let file = File::open(process.file("map_files").join(range)).ok()?;
        // By the name that was given to the loader: a link may have led there.
        is_same(file, agent).ok()?.then(|| temporary.join(folder).join(LIBRARY))
    })
}

/// Whether a path of the agent is one that was lent.
pub fn is_lent_path(agent: &Path) -> bool {
    agent.parent().is_some_and(is_lent)
}

/// The folder that a deleted agent was lent in, by its name.
fn folder_of(mapped: &Path) -> Option<&std::ffi::OsStr> {
    let path = Path::new(mapped.to_str()?.strip_suffix(GONE)?);
    let folder = path.parent()?;
    (path.file_name()? == LIBRARY && is_lent(folder)).then(|| folder.file_name())?
}

/// Whether two files have the same in them.
fn is_same(one: File, other: &Path) -> io::Result<bool> {
    let (about, length) = (one.metadata()?, fs::metadata(other)?.len());
    if !about.is_file() || about.len() != length {
        return Ok(false);
    }
    let (mut one, mut other) = (one.take(length), File::open(other)?.take(length));
    let (mut first, mut second) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let read = other.read(&mut second)?;
        let Some((first, second)) = first.get_mut(..read).zip(second.get(..read)) else {
            return Ok(false);
        };
        one.read_exact(first)?;
        if first != second {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_lent_and_deleted_is_taken() {
        let folder = |path: &str| folder_of(Path::new(path)).map(|name| name.to_owned());
        let lent = "/tmp/corprof-attach-5-6";
        assert_eq!(
            folder(&format!("{lent}/libcorprof.so (deleted)")),
            Some("corprof-attach-5-6".into())
        );
        for other in [
            format!("{lent}/libcorprof.so"),
            format!("{lent}/other.so (deleted)"),
            "/opt/corprof/libcorprof.so (deleted)".to_owned(),
        ] {
            assert_eq!(folder(&other), None, "{other}");
        }
    }

    #[test]
    fn another_build_is_not_the_same() {
        let top = std::env::temp_dir().join(format!("corprof-lent-same-{}", std::process::id()));
        fs::create_dir_all(&top).unwrap();
        let (one, other) = (top.join("one"), top.join("other"));
        let bytes = vec![7; 3 * CHUNK / 2];
        fs::write(&one, &bytes).unwrap();
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() = 8;
        for (bytes, same) in [(&bytes, true), (&changed, false), (&vec![7; CHUNK], false)] {
            fs::write(&other, bytes).unwrap();
            assert_eq!(is_same(File::open(&one).unwrap(), &other).unwrap(), same);
        }
        fs::remove_dir_all(&top).unwrap();
    }
}
