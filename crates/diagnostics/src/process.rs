//! A process, as `/proc` tells of it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use config::control::temporary_folder;

use crate::status::Status;

/// Lines of `/proc/<pid>/maps` that are looked at; a process may have 65,530 by default.
const MAPS_MAX: usize = 1 << 20;
/// Bytes of an environment or a command line that are read; the kernel allows 6 MiB by default.
const TEXT_BYTES_MAX: u64 = 8 << 20;

/// Why something of a process can't be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// There is no such process, or no longer.
    Gone,
    /// The system refuses it: another user's, or `/proc` is mounted with `hidepid`.
    Denied,
    /// Some other error.
    Failed(io::ErrorKind),
}

impl From<io::Error> for Hidden {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Gone,
            io::ErrorKind::PermissionDenied => Self::Denied,
            kind => match error.raw_os_error() {
                Some(nix::libc::ESRCH) => Self::Gone,
                _ => Self::Failed(kind),
            },
        }
    }
}

/// A process, which may end at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pid: u32,
    folder: PathBuf,
}

impl Process {
    /// The process with this number, whether it is there or not.
    #[must_use]
    pub fn new(pid: u32) -> Self {
        Self { pid, folder: Path::new("/proc").join(pid.to_string()) }
    }

    /// The process whose files are in a folder, as a test may lay it out.
    #[must_use]
    pub fn in_folder(pid: u32, folder: PathBuf) -> Self {
        Self { pid, folder }
    }

    /// All processes that can be seen, in order.
    ///
    /// # Errors
    /// If `/proc` can't be read.
    pub fn all() -> io::Result<Vec<Self>> {
        let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
        let mut pids: Vec<u32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        Ok(pids.into_iter().map(Self::new).collect())
    }

    /// Its number here.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A file of its folder in `/proc`.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where a path of the process is for us: it may have another root.
    #[must_use]
    pub fn outside(&self, path: &Path) -> PathBuf {
        let mut all = self.folder.join("root");
        let kept = path.components().filter(|part| matches!(part, Component::Normal(_)));
        all.extend(kept);
        all
    }

    /// `/proc/<pid>/status`.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn status(&self) -> Result<Status, Hidden> {
        let bytes = fs::read(self.file("status"))?;
        Ok(Status::new(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The process, if the number is that of one of its other threads: `/proc` answers for these
    /// numbers, too.
    #[must_use]
    pub fn of_thread(&self) -> Option<u32> {
        let process = self.status().ok()?.process()?;
        (process != self.pid()).then_some(process)
    }

    /// When it was started, in clock ticks since the boot, and its state's letter.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn started(&self) -> Result<(u64, char), Hidden> {
        let bytes = fs::read(self.file("stat"))?;
        let text = String::from_utf8_lossy(&bytes);
        // The name, in parentheses, may have blanks and parentheses.
        let after = text.rsplit_once(')').map(|(_, after)| after);
        let fields: Vec<&str> = after.unwrap_or_default().split_whitespace().collect();
        let state = fields.first().and_then(|state| state.chars().next());
        let start = fields.get(19).and_then(|start| start.parse().ok());
        start.zip(state).ok_or(Hidden::Failed(io::ErrorKind::InvalidData))
    }

    /// The variables that it was started with.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn environment(&self) -> Result<Vec<(String, String)>, Hidden> {
        let variable = |entry: String| {
            let (name, value) = entry.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        Ok(self.strings("environ")?.into_iter().filter_map(variable).collect())
    }

    /// The temporary folder of a process with these variables, absolute, as it sees it: there the
    /// runtime and the agent have their sockets.
    #[must_use]
    pub fn temporary_folder(&self, environment: &[(String, String)]) -> PathBuf {
        let named = environment.iter().find(|(name, _)| name == "TMPDIR");
        let named = temporary_folder(named.map(|(_, value)| OsStr::new(value)));
        // As the runtime takes a relative one. The link is absolute for whom it is looked up.
        let work = fs::read_link(self.file("cwd"));
        work.map_or_else(|_| named.clone(), |work| work.join(&named))
    }

    /// The program and its arguments; none for the kernel's own threads.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn command_line(&self) -> Result<Vec<String>, Hidden> {
        self.strings("cmdline")
    }

    fn strings(&self, name: &str) -> Result<Vec<String>, Hidden> {
        let mut bytes = Vec::new();
        File::open(self.file(name))?.take(TEXT_BYTES_MAX).read_to_end(&mut bytes)?;
        if bytes.last() == Some(&0) {
            bytes.pop();
        }
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let entries = bytes.split(|byte| *byte == 0);
        Ok(entries.map(|entry| String::from_utf8_lossy(entry).into_owned()).collect())
    }

    /// The files that it has mapped, each once, as it sees their paths.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn mapped_files(&self) -> Result<Vec<PathBuf>, Hidden> {
        let file = BufReader::new(File::open(self.file("maps"))?);
        let mut files: Vec<PathBuf> = Vec::new();
        for line in file.split(b'\n').take(MAPS_MAX) {
            let line = line?;
            let Some(start) = line.iter().position(|byte| *byte == b'/') else { continue };
            let path = OsString::from_vec(line.get(start..).unwrap_or_default().to_vec());
            if files.last().is_none_or(|last| last.as_os_str() != path) {
                files.push(path.into());
            }
        }
        files.sort_unstable();
        files.dedup();
        Ok(files)
    }

    /// Where a file is mapped, by the kernel's words for its path: the first range of addresses, as
    /// `map_files` names it.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn mapped_at(&self, path: &Path) -> Result<Option<String>, Hidden> {
        let file = BufReader::new(File::open(self.file("maps"))?);
        for line in file.split(b'\n').take(MAPS_MAX) {
            let line = line?;
            if !line.ends_with(path.as_os_str().as_bytes()) {
                continue;
            }
            let range = line.split(|byte| *byte == b' ').next().unwrap_or_default();
            let range = String::from_utf8_lossy(range);
            let plain = range.split('-').map(|end| end.trim_start_matches('0'));
            return Ok(Some(plain.collect::<Vec<_>>().join("-")));
        }
        Ok(None)
    }

    /// The program's file, as the process sees its path.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn program(&self) -> Result<PathBuf, Hidden> {
        Ok(fs::read_link(self.file("exe"))?)
    }

    /// The names of its first threads, at most so many.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn thread_names(&self, count: usize) -> Result<Vec<String>, Hidden> {
        let tasks = fs::read_dir(self.file("task"))?.flatten().take(count);
        let names = tasks.filter_map(|task| fs::read(task.path().join("comm")).ok());
        Ok(names.map(|name| String::from_utf8_lossy(name.trim_ascii_end()).into_owned()).collect())
    }

    /// Whether two processes have the same namespace of this kind, such as `mnt`; `None` if it
    /// can't be seen.
    #[must_use]
    pub fn shares_namespace(&self, other: &Self, kind: &str) -> Option<bool> {
        let link = |process: &Self| fs::read_link(process.file("ns").join(kind)).ok();
        Some(link(self)?.as_os_str().as_bytes() == link(other)?.as_os_str().as_bytes())
    }
}
