//! What was measured, in a file: a part at a time, since all of it takes an hour.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// Beside all else, the commit that each value was measured at, by its place.
const COMMITS: &str = "commits";

/// The file, and what is in it.
pub struct Results {
    path: PathBuf,
    all: Value,
    /// The places of what was put since it was loaded.
    new: Vec<Vec<String>>,
}

impl Results {
    /// What was measured before, if anything.
    pub fn load(path: &Path) -> Result<Self> {
        let all = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("{} is not JSON; remove it", path.display()))?,
            Err(_) => Value::Object(Map::new()),
        };
        Ok(Self { path: path.to_owned(), all, new: Vec::new() })
    }

    /// Puts a value that was measured at a commit in its place, and writes the file.
    pub fn put(&mut self, place: &[&str], value: Value, commit: &str) -> Result<()> {
        self.set(place, value, commit);
        self.new.push(place.iter().map(|key| (*key).to_owned()).collect());
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut text = serde_json::to_string_pretty(&self.all)?;
        text.push('\n');
        fs::write(&self.path, text).with_context(|| format!("{}", self.path.display()))
    }

    fn set(&mut self, place: &[&str], value: Value, commit: &str) {
        let mut at = &mut self.all;
        for key in place {
            at = &mut at[*key];
        }
        *at = value;
        self.all[COMMITS][place.join("/")] = commit.into();
    }

    /// Only what has been put since it was loaded.
    pub fn measured(&self) -> Self {
        let mut measured = Self { path: self.path.clone(), all: json!({}), new: Vec::new() };
        for (place, value, commit) in self.news() {
            measured.set(&place, value, &commit);
        }
        measured
    }

    /// Takes in what has been put into another: what that doesn't have stays.
    pub fn take(&mut self, other: &Self) -> Result<()> {
        for (place, value, commit) in other.news() {
            self.put(&place, value, &commit)?;
        }
        Ok(())
    }

    fn news(&self) -> impl Iterator<Item = (Vec<&str>, Value, String)> {
        self.new.iter().map(|place| {
            let place: Vec<&str> = place.iter().map(String::as_str).collect();
            let commit = self.all[COMMITS][place.join("/")].as_str().unwrap_or_default();
            let value = self.get(&place).clone();
            (place, value, commit.to_owned())
        })
    }

    /// The commits that what is in a place was measured at.
    pub fn commits(&self, place: &[&str]) -> BTreeSet<&str> {
        let name = place.join("/");
        let is_in = |other: &str| {
            let rest = other.strip_prefix(&name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let all = self.all[COMMITS].as_object().into_iter().flatten();
        all.filter(|(other, _)| is_in(other)).filter_map(|(_, commit)| commit.as_str()).collect()
    }

    /// What is in a place; null if nothing is.
    pub fn get(&self, place: &[&str]) -> &Value {
        place.iter().fold(&self.all, |at, key| &at[*key])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_added() {
        let folder = std::env::temp_dir().join(format!("results-{}", std::process::id()));
        let path = folder.join("deep/costs.json");
        let mut results = Results::load(&path).unwrap();
        results.put(&["peers", "cpu", "perf"], 1.into(), "a1").unwrap();
        results.put(&["peers", "cpu", "scan"], 2.into(), "b2").unwrap();
        let again = Results::load(&path).unwrap();
        assert_eq!(again.get(&["peers", "cpu"]), &json!({ "perf": 1, "scan": 2 }));
        assert!(again.get(&["nothing", "there"]).is_null());
        // What was measured elsewhere takes the place of its own kind only.
        let mut documents = Results::load(&folder.join("documents.json")).unwrap();
        documents.put(&["memory"], 3.into(), "c3").unwrap();
        documents.put(&["peers", "cpu", "perf"], 4.into(), "c3").unwrap();
        documents.take(&results).unwrap();
        let documents = Results::load(&folder.join("documents.json")).unwrap();
        assert_eq!(documents.get(&["memory"]), &json!(3));
        assert_eq!(documents.get(&["peers"]), again.get(&["peers"]));
        let commits = |place: &[&str]| documents.commits(place).into_iter().collect::<Vec<_>>();
        assert_eq!(commits(&["memory"]), ["c3"]);
        assert_eq!(commits(&["peers"]), ["a1", "b2"]);
        assert_eq!(commits(&["peers", "cpu", "perf"]), ["a1"]);
        assert!(commits(&["peer"]).is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_an_earlier_run_measured_is_not_this_ones() {
        let folder = std::env::temp_dir().join(format!("measured-{}", std::process::id()));
        let path = folder.join("costs.json");
        let mut earlier = Results::load(&path).unwrap();
        earlier.put(&["peers", "cpu"], 1.into(), "a1").unwrap();
        let mut results = Results::load(&path).unwrap();
        assert!(results.measured().get(&["peers"]).is_null());
        results.put(&["peers", "web"], 2.into(), "b2").unwrap();
        assert_eq!(results.measured().get(&["peers"]), &json!({ "web": 2 }));
        assert_eq!(results.get(&["peers"]), &json!({ "cpu": 1, "web": 2 }));
        fs::remove_dir_all(folder).unwrap();
    }
}
