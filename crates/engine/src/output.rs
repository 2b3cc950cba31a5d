//! Profiles as files: each written whole, or not at all.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use config::control::is_lent;
use model::limits::UNWRITTEN_PROFILES_MAX;
use profile::FileName;

/// A finished profile's file.
#[derive(Clone, Debug)]
struct Unwritten {
    name: String,
    bytes: Vec<u8>,
}

/// What a write did.
#[derive(Debug)]
pub enum Written {
    /// All is on disk.
    All,
    /// Some could not be written and are tried again with the next profile; `dropped` were too old.
    Later {
        /// Why.
        error: io::Error,
        /// Profiles given up for good.
        dropped: u64,
    },
}

/// The output folder.
#[derive(Debug)]
pub struct Output {
    folder: PathBuf,
    unwritten: VecDeque<Unwritten>,
}

/// Whether profiles can be written to a folder, which is made if it is not there.
///
/// # Errors
/// Why not.
pub fn check_folder(folder: &Path) -> io::Result<()> {
    let name = format!("corprof-{}.check", std::process::id());
    write_whole(folder, &name, &[])?;
    fs::remove_file(folder.join(name))
}

impl Output {
    /// The folder, made when something is written or checked.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, unwritten: VecDeque::new() }
    }

    /// Where files go.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The number after those of the files that are there of this service and process id: in a
    /// container each start is process 1, and would write over what the one before has left.
    #[must_use]
    pub fn next_number(&self, service: &str, pid: u32) -> u64 {
        let service = profile::service_part(service);
        // Where nothing can be read there is nothing to be written over, or it can't be helped.
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| {
            let name = entry.file_name();
            let found = FileName::parse(name.to_str()?)?;
            let is_ours = found.service == service && found.pid == pid;
            is_ours.then(|| found.seq.saturating_add(1))
        });
        numbers.max().unwrap_or(0)
    }

    /// Writes a profile, and those that could not be written before.
    pub fn write(&mut self, name: String, bytes: Vec<u8>) -> Written {
        self.unwritten.push_back(Unwritten { name, bytes });
        while let Some(next) = self.unwritten.front() {
            if let Err(error) = write_whole(&self.folder, &next.name, &next.bytes) {
                let mut dropped = 0;
                while self.unwritten.len() > UNWRITTEN_PROFILES_MAX {
                    self.unwritten.pop_front();
                    dropped += 1;
                }
                return Written::Later { error, dropped };
            }
            self.unwritten.pop_front();
        }
        Written::All
    }
}

/// Writes a file under another name and renames it, so that no reader sees half of one.
fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    if !is_lent(folder) {
        fs::create_dir_all(folder)?;
    }
    let hidden = folder.join(format!(".{name}.tmp"));
    // What an earlier process of that number left; or a link that somebody else laid there, in a
    // folder that all may write to, to have us write elsewhere: hence a new file or none.
    let _left = fs::remove_file(&hidden);
    let result = sys::files::create_own(&hidden)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&hidden, folder.join(name)));
    if result.is_err() {
        // Half a file is of no use to anybody; if it can't be removed either, it stays hidden.
        let _gone = fs::remove_file(&hidden);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_is_written_later() {
        let base = std::env::temp_dir().join(format!("corprof-output-{}", std::process::id()));
        fs::create_dir_all(&base).expect("temporary folder");
        let folder = base.join("profiles");
        fs::write(&folder, "in the way").expect("a file where the folder should be");
        let mut output = Output::new(folder.clone());
        assert!(check_folder(&output.folder).is_err());
        for n in 0..UNWRITTEN_PROFILES_MAX as u64 + 2 {
            let written = output.write(format!("{n}.pb.gz"), vec![1; 10]);
            let expected = u64::from(n >= UNWRITTEN_PROFILES_MAX as u64);
            assert!(
                matches!(written, Written::Later { dropped, .. } if dropped == expected),
                "{n}"
            );
        }
        fs::remove_file(&folder).expect("out of the way");
        assert!(matches!(output.write("last.pb.gz".to_owned(), vec![2]), Written::All));
        check_folder(&output.folder).expect("it can be written now");
        let names: Vec<_> = fs::read_dir(&folder).expect("folder").flatten().collect();
        assert_eq!(names.len(), UNWRITTEN_PROFILES_MAX + 1);
        assert!(names.iter().all(|name| !name.file_name().to_string_lossy().starts_with('.')));
        fs::remove_dir_all(&base).expect("cleaned up");
    }

    #[test]
    fn numbers_go_on_after_those_that_are_there() {
        let base = std::env::temp_dir().join(format!("corprof-number-{}", std::process::id()));
        let output = Output::new(base.clone());
        assert_eq!(output.next_number("a", 1), 0);
        fs::create_dir_all(&base).expect("temporary folder");
        for name in ["a-b_1_0009.pb.gz", "a-b_1_0010.pb.gz", "a-b_2_0077.pb.gz", "c_1_0078.pb.gz"] {
            fs::write(base.join(name), []).expect("a file");
        }
        fs::write(base.join(".a-b_1_0099.pb.gz.tmp"), []).expect("half a file");
        assert_eq!(output.next_number("a b", 1), 11);
        assert_eq!(output.next_number("a b", 3), 0);
        fs::remove_dir_all(&base).expect("cleaned up");
    }

    #[test]
    fn a_lent_folder_that_was_taken_away_is_not_made_anew() {
        let base = std::env::temp_dir().join(format!("corprof-lent-{}", std::process::id()));
        fs::create_dir_all(&base).expect("temporary folder");
        let folder = base.join("corprof-attach-1-2");
        let mut output = Output::new(folder.clone());
        assert!(check_folder(&folder).is_err());
        fs::create_dir(&folder).expect("a folder");
        check_folder(&folder).expect("it is there");
        assert!(matches!(output.write("a.pb.gz".to_owned(), vec![1]), Written::All));
        fs::remove_dir_all(&folder).expect("taken away");
        let written = output.write("b.pb.gz".to_owned(), vec![1]);
        assert!(matches!(written, Written::Later { dropped: 0, .. }), "{written:?}");
        assert!(!folder.exists());
        fs::remove_dir_all(&base).expect("cleaned up");
    }

    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let base = std::env::temp_dir().join(format!("corprof-link-{}", std::process::id()));
        fs::create_dir_all(&base).expect("temporary folder");
        let (other, hidden) = (base.join("other"), base.join(".a.pb.gz.tmp"));
        fs::write(&other, "somebody's").expect("another file");
        std::os::unix::fs::symlink(&other, &hidden).expect("a link");
        let mut output = Output::new(base.clone());
        assert!(matches!(output.write("a.pb.gz".to_owned(), vec![1]), Written::All));
        // What a process of the same number left behind is no hindrance.
        fs::write(&hidden, "half").expect("a file");
        assert!(matches!(output.write("a.pb.gz".to_owned(), vec![2]), Written::All));
        assert_eq!(fs::read(&other).expect("read"), b"somebody's");
        assert_eq!(fs::read(base.join("a.pb.gz")).expect("read"), [2]);
        fs::remove_dir_all(&base).expect("cleaned up");
    }
}
