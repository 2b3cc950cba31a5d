//! What the test rig has installed: .NET runtimes and programs.

use std::path::{Path, PathBuf};

/// Folders of the rig: `target/rig`, or those that `CORPROF_TEST_RIG` names, with `:` between.
fn folders() -> Vec<PathBuf> {
    match std::env::var_os("CORPROF_TEST_RIG") {
        Some(folders) => std::env::split_paths(&folders).collect(),
        None => vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/rig")],
    }
}

/// All files of the given names, wherever they lie in the rig. Says so if there are none.
pub fn files(test: &str, names: &[&str]) -> Vec<PathBuf> {
    let mut folders = folders();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) if names.iter().any(|name| entry.file_name() == **name) => {
                    found.push(entry.path());
                }
                _ => {}
            }
        }
    }
    if found.is_empty() {
        eprintln!("SKIPPED {test}: the rig has none of {names:?}");
    }
    found.sort();
    found
}
