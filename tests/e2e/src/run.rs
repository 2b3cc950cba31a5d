//! A program that has run under the agent: what it said, and its profiles.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use profile::{FileName, Profile, SelfReport, read};
use rig::Outcome;
use serde_json::Value;

use crate::checks::Checks;
use crate::tasks::Tasks;
use crate::view::View;

/// A run that has ended.
#[derive(Debug)]
pub struct Run {
    /// The test's name.
    pub name: String,
    /// Where its profiles are.
    pub folder: PathBuf,
    /// How the program ended, and what it said.
    pub outcome: Outcome,
    /// Its profiles, in the order of their numbers, with these.
    pub profiles: Vec<(u64, Profile)>,
    /// All profiles in one.
    pub view: View,
    /// All reports in one.
    pub report: SelfReport,
    /// Its threads, as the kernel showed them.
    pub tasks: Tasks,
}

impl Run {
    pub(crate) fn read(
        name: String,
        folder: PathBuf,
        outcome: Outcome,
        tasks: Tasks,
    ) -> Result<Self> {
        let profiles = profiles_in(&folder)
            .with_context(|| format!("{name}: the program said {}", outcome.stderr))?;
        let mut reports = profiles.iter().filter_map(|(_, profile)| profile.report.as_ref());
        let mut report = reports.next().cloned().unwrap_or_default();
        reports.for_each(|other| report.merge(other));
        let merged = read::merge(profiles.iter().map(|(_, profile)| profile));
        let view = View::of_profile(&merged);
        Ok(Self { name, folder, outcome, profiles, view, report, tasks })
    }

    /// A number of the program's truth.
    ///
    /// # Errors
    /// If it told none of that name.
    pub fn number(&self, name: &str) -> Result<u64> {
        number(&self.outcome.truth()?, name)
    }

    /// The truths of the program's threads.
    ///
    /// # Errors
    /// If it told none.
    pub fn threads(&self) -> Result<Vec<Truth>> {
        let truth = self.outcome.truth()?;
        let threads = truth["threads"].as_array().context("no threads in the truth")?;
        Ok(threads.iter().map(|thread| Truth(thread.clone())).collect())
    }

    /// The truth of the thread of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn thread(&self, name: &str) -> Result<Truth> {
        let mut threads = self.threads()?.into_iter();
        let found = threads.find(|thread| thread.0["name"] == name);
        found.with_context(|| format!("no thread {name} in the truth"))
    }

    /// Checks of this run; it begins with what holds for every run of a healthy program.
    pub fn checks(&self) -> Checks<'_> {
        self.checks_of_code(0)
    }

    /// Checks of a run that had the agent for a part of its life.
    pub fn checks_of_attached(&self) -> Checks<'_> {
        let mut checks = Checks::new(self);
        checks.code(0);
        checks.sound();
        checks
    }

    /// The same, of a program that ends with another code.
    pub fn checks_of_code(&self, code: i32) -> Checks<'_> {
        let mut checks = Checks::new(self);
        checks.code(code);
        checks.sound();
        checks.without_own_threads();
        checks
    }
}

/// What a thread measured of itself.
#[derive(Clone, Debug)]
pub struct Truth(pub Value);

impl Truth {
    /// A number.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn number(&self, name: &str) -> Result<u64> {
        number(&self.0, name)
    }

    /// The kernel's id of the thread.
    ///
    /// # Errors
    /// If it told none.
    pub fn tid(&self) -> Result<u32> {
        Ok(u32::try_from(self.number("tid")?)?)
    }

    /// The thread's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }
}

fn number(truth: &Value, name: &str) -> Result<u64> {
    truth[name].as_u64().with_context(|| format!("no number {name} in {truth}"))
}

/// The profiles in a folder, by number.
///
/// # Errors
/// If a file is not what its name says.
pub fn profiles_in(folder: &Path) -> Result<Vec<(u64, Profile)>> {
    let mut profiles = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let Some(named) = name.to_str().and_then(FileName::parse) else { continue };
        let bytes = fs::read(&path).with_context(|| format!("cannot read {path:?}"))?;
        let decoded = read::decode(&bytes).with_context(|| format!("{path:?}"))?;
        anyhow::ensure!(decoded.report_error.is_none(), "{path:?}: {:?}", decoded.report_error);
        profiles.push((named.seq, decoded.profile));
    }
    profiles.sort_by_key(|(seq, _)| *seq);
    Ok(profiles)
}
