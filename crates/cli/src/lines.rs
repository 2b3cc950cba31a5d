//! Source lines of frames, and what is said where there are none.

use std::collections::HashMap;
use std::path::PathBuf;

use model::FrameKind;
use profile::{FrameIndex, Profile};

use crate::focus::{Focus, Scope};
use crate::managed_lines::{self, NoLine};
use crate::units::percent;
use crate::{native_lines, note, warn};

/// Assemblies that are named where they have no PDB; the rest is counted.
const ASSEMBLIES_NAMED: usize = 3;

/// The lines of a profile's frames; none by default.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// By frame: `function file:line`.
    names: HashMap<usize, String>,
    /// By frame of managed code: why there is no line.
    missing: HashMap<usize, NoLine>,
    has_native: bool,
}

impl Lines {
    /// Looks for the lines of all frames, also in these folders.
    pub fn find(profile: &Profile, folders: &[PathBuf]) -> Self {
        let native = native_lines::find(profile, folders);
        let managed = managed_lines::find(profile, folders);
        let has_native = !native.is_empty();
        let named = |(frame, place): (usize, String)| {
            let function = profile.functions.get(profile.frames.get(frame)?.function.get())?;
            Some((frame, format!("{} {place}", profile.text(function.name))))
        };
        let names = native.into_iter().chain(managed.places).filter_map(named).collect();
        Self { names, missing: managed.missing, has_native }
    }

    /// Says which folders of debug information are none.
    pub fn check(folders: &[PathBuf]) {
        for folder in folders.iter().filter(|folder| !folder.is_dir()) {
            let what = if folder.exists() { "is a file, and no folder" } else { "is not there" };
            let folder = folder.display();
            warn(format!("--symbols {folder} {what}; name the folder that the files lie in"));
        }
    }

    /// The name of a frame with its line.
    pub fn name(&self, frame: FrameIndex) -> Option<&str> {
        self.names.get(&frame.get()).map(String::as_str)
    }

    /// Says for how much of the time there are no lines, and why.
    pub fn tell(&self, profile: &Profile) {
        if !self.has_native {
            warn("no debug information of the native code was found on this machine");
        }
        if let Some(text) = Coverage::of(profile, &self.missing).text() {
            note(text);
        }
    }
}

/// How much of the managed methods' own time has no lines.
#[derive(Debug, Default)]
struct Coverage<'a> {
    clock: &'static str,
    total_ns: u64,
    missing_ns: HashMap<&'a NoLine, u64>,
}

impl<'a> Coverage<'a> {
    fn of(profile: &Profile, missing: &'a HashMap<usize, NoLine>) -> Self {
        let has_cpu = profile.total().cpu_ns > 0;
        let clock = if has_cpu { "CPU" } else { "wall" };
        let mut coverage = Self { clock, ..Self::default() };
        let mut focus = Focus::new(profile, Scope::Work);
        for sample in &profile.samples {
            let seen = focus.see(sample);
            let ns = if has_cpu { seen.values.cpu_ns } else { seen.values.wall_ns };
            let Some(own) = seen.own else { continue };
            let kind = profile.function_of(own).and_then(|function| function.kind);
            if kind != Some(FrameKind::Managed) {
                continue;
            }
            coverage.total_ns = coverage.total_ns.saturating_add(ns);
            if let Some(reason) = missing.get(&own.get()) {
                let sum = coverage.missing_ns.entry(reason).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
        coverage
    }

    /// `None` if all has lines.
    fn text(&self) -> Option<String> {
        let missing_ns = self.missing_ns.values().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        if missing_ns == 0 {
            return None;
        }
        let clock = self.clock;
        if self.missing_ns.get(&NoLine::NoPlace) == Some(&self.total_ns) {
            let why =
                "the profiles do not say where in a method a sample was (CORPROF_LINES=false)";
            return Some(format!("managed methods have no source lines: {why}"));
        }
        let share = percent(missing_ns, self.total_ns);
        let mut parts = Vec::new();
        let no_pdb = self.assemblies(|reason| match reason {
            NoLine::NoPdb(file) => Some(file),
            _ => None,
        });
        parts.extend(no_pdb.map(|files| format!("there is no PDB of {files}")));
        let other = self.assemblies(|reason| match reason {
            NoLine::OtherBuild(file) => Some(file),
            _ => None,
        });
        parts.extend(other.map(|files| format!("the PDB is of another build for {files}")));
        let wants_pdbs = !parts.is_empty();
        let own = |reason| self.missing_ns.get(&reason).map(|ns| percent(*ns, self.total_ns));
        let hidden = own(NoLine::Hidden);
        parts.extend(hidden.map(|share| format!("{share} is code that is no line's")));
        let no_place = own(NoLine::NoPlace);
        let why = "is of dynamic methods or code that the just-in-time compiler added";
        parts.extend(no_place.map(|share| format!("{share} {why}")));
        let advice = if wants_pdbs { ". Name a folder of PDBs with --symbols DIR" } else { "" };
        let what = format!("{share} of the managed methods' own {clock} time has no source lines");
        Some(format!("{what}: {}{advice}", parts.join("; ")))
    }

    /// The assemblies of a reason, the largest first, with their shares.
    fn assemblies(&self, of: impl Fn(&'a NoLine) -> Option<&'a String>) -> Option<String> {
        let mut files: Vec<(u64, &str)> = self
            .missing_ns
            .iter()
            .filter(|(_, ns)| **ns > 0)
            .filter_map(|(reason, ns)| Some((*ns, of(reason)?.as_str())))
            .collect();
        files.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let share = |(ns, file): &(u64, &str)| format!("{file} ({})", percent(*ns, self.total_ns));
        let mut named: Vec<_> = files.iter().take(ASSEMBLIES_NAMED).map(share).collect();
        let more = files.len().saturating_sub(ASSEMBLIES_NAMED);
        if more > 0 {
            named.push(format!("{more} more"));
        }
        (!named.is_empty()).then(|| named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(missing: &[(NoLine, u64)], text: Option<&str>) {
        let missing_ns = missing.iter().map(|(reason, ns)| (reason, *ns)).collect();
        let coverage = Coverage { clock: "CPU", total_ns: 1000, missing_ns };
        assert_eq!(coverage.text().as_deref(), text);
    }

    #[test]
    fn the_reasons_are_told_with_their_shares() {
        let no_pdb = |file: &str, ns| (NoLine::NoPdb(file.to_owned()), ns);
        check(&[], None);
        check(&[no_pdb("a.dll", 0)], None);
        check(
            &[no_pdb("a.dll", 100), no_pdb("b.dll", 200), (NoLine::Hidden, 50)],
            Some(
                "35.0 % of the managed methods' own CPU time has no source lines: there is no PDB \
                 of b.dll (20.0 %), a.dll (10.0 %); 5.0 % is code that is no line's. Name a folder \
                 of PDBs with --symbols DIR",
            ),
        );
        check(
            &[("a", 4), ("b", 3), ("c", 2), ("d", 1), ("e", 1)].map(|(f, ns)| no_pdb(f, ns)),
            Some(
                "1.1 % of the managed methods' own CPU time has no source lines: there is no PDB \
                 of a (0.4 %), b (0.3 %), c (0.2 %), 2 more. Name a folder of PDBs with --symbols \
                 DIR",
            ),
        );
        check(
            &[(NoLine::NoPlace, 1000)],
            Some(
                "managed methods have no source lines: the profiles do not say where in a method a \
                 sample was (CORPROF_LINES=false)",
            ),
        );
        check(
            &[(NoLine::OtherBuild("a.dll".to_owned()), 1000)],
            Some(
                "100.0 % of the managed methods' own CPU time has no source lines: the PDB is of \
                 another build for a.dll (100.0 %). Name a folder of PDBs with --symbols DIR",
            ),
        );
    }
}
