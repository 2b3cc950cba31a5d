//! What was measured, in a file: a part at a time, since all of it takes an hour.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, Value};

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

    /// Puts a value in its place, and writes the file.
    pub fn put(&mut self, place: &[&str], value: Value) -> Result<()> {
        let mut at = &mut self.all;
        for key in place {
            at = &mut at[*key];
        }
        *at = value;
        self.new.push(place.iter().map(|key| (*key).to_owned()).collect());
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut text = serde_json::to_string_pretty(&self.all)?;
        text.push('\n');
        fs::write(&self.path, text).with_context(|| format!("{}", self.path.display()))
    }

    /// Takes in what has been put into another: what that doesn't have stays.
    pub fn take(&mut self, other: &Self) -> Result<()> {
        for place in &other.new {
            let place: Vec<&str> = place.iter().map(String::as_str).collect();
            self.put(&place, other.get(&place).clone())?;
        }
        Ok(())
    }

    /// What is in a place; null if nothing is.
    pub fn get(&self, place: &[&str]) -> &Value {
        place.iter().fold(&self.all, |at, key| &at[*key])
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
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
        results.put(&["peers", "cpu", "perf"], 1.into()).unwrap();
        results.put(&["peers", "cpu", "scan"], 2.into()).unwrap();
        let again = Results::load(&path).unwrap();
        assert_eq!(again.get(&["peers", "cpu"]), &serde_json::json!({ "perf": 1, "scan": 2 }));
        assert!(again.get(&["nothing", "there"]).is_null());
        // What was measured elsewhere takes the place of its own kind only.
        let mut documents = Results::load(&folder.join("documents.json")).unwrap();
        documents.put(&["memory"], 3.into()).unwrap();
        documents.put(&["peers", "cpu", "perf"], 4.into()).unwrap();
        documents.take(&results).unwrap();
        let documents = Results::load(&folder.join("documents.json")).unwrap();
        assert_eq!(documents.get(&["memory"]), &serde_json::json!(3));
        assert_eq!(documents.get(&["peers"]), again.get(&["peers"]));
        fs::remove_dir_all(folder).unwrap();
    }
}
