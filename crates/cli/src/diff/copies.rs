//! Copies: files of the same period of the same process, wherever they lie. They are no repetitions
//! of each other, and what is on both sides can't differ.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use profile::Profile;

/// What tells a profile from all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The period of a process.
    Period {
        /// The process, by a word that no other process has.
        instance: String,
        /// The period's number.
        seq: u64,
        /// When it began, in nanoseconds since 1970.
        start_unix_ns: u64,
    },
    /// Where it lies, of files that tell no process.
    File(PathBuf),
}

impl Identity {
    /// That of the profile in a file.
    pub fn of(path: &Path, profile: &Profile) -> Self {
        match &profile.report {
            Some(report) if !report.instance.is_empty() => Self::Period {
                instance: report.instance.clone(),
                seq: report.seq,
                start_unix_ns: profile.period.start_unix_ns,
            },
            _ => Self::File(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())),
        }
    }
}

/// The profiles of a side, and the runs that they are of.
#[derive(Debug, Default)]
pub struct Known {
    runs: HashMap<Identity, usize>,
    copies: usize,
}

impl Known {
    /// The run of which this profile was seen before, if it was: then it is a copy, and counted as
    /// one.
    pub fn copied_from(&mut self, profile: &Identity) -> Option<usize> {
        let run = self.runs.get(profile).copied();
        self.copies += usize::from(run.is_some());
        run
    }

    /// Learns of a profile of a run.
    pub fn learn(&mut self, profile: Identity, run: usize) {
        self.runs.insert(profile, run);
    }

    /// Profiles, copies not counted.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// What is to be said of copies in this path.
    pub fn told_of_copies(&self, path: &Path) -> Option<String> {
        let which = match self.copies {
            0 => return None,
            1 => "1 file is a copy of another".to_owned(),
            n => format!("{n} files are copies of others"),
        };
        let path = path.display();
        Some(format!(
            "{path}: {which}, of the same period of the same process; each profile counts once, \
             and a copy is no repetition of a run"
        ))
    }

    /// Profiles that another side has, too.
    fn shared_with(&self, other: &Self) -> usize {
        self.runs.keys().filter(|profile| other.runs.contains_key(profile)).count()
    }
}

/// What is to be said of profiles that both sides have.
pub fn told([base, new]: [&Known; 2], [base_path, new_path]: [&Path; 2]) -> Option<String> {
    let shared = base.shared_with(new);
    let (base_path, new_path) = (base_path.display(), new_path.display());
    match shared {
        0 => None,
        _ if shared == base.len() && shared == new.len() => Some(format!(
            "{base_path} and {new_path} are the same profiles: compared with itself nothing \
             differs, whatever the program does; name profiles of another run"
        )),
        _ => Some(format!(
            "{shared} of {} profiles of {new_path} are in {base_path}, too: what both sides have \
             can't differ, and hides what does; name each run on one side alone",
            new.len()
        )),
    }
}
