//! The layout: where the rig's files stand, in the repository and under `target/rig`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The folders of one rig.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout in cargo's target directory.
    pub fn of_workspace() -> Self {
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            // Cargo reads a relative one from its own working directory; ours may be a package's.
            Some(dir) if !dir.is_empty() => workspace().join(dir),
            _ => workspace().join("target"),
        };
        Self { root: target.join("rig") }
    }

    #[cfg(test)]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// `target/rig` itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The dotnet root that holds all runtimes in folder form.
    pub fn dotnet_root(&self) -> PathBuf {
        self.root.join("dotnet")
    }

    /// What is known of the component: installed, or failed.
    pub fn state(&self, id: &str, suffix: &str) -> PathBuf {
        self.root.join("state").join(format!("{id}.{suffix}"))
    }

    /// A folder for half-done work; anything found in it is rubbish of a killed process.
    pub fn staging(&self, id: &str) -> PathBuf {
        self.root.join("staging").join(id)
    }

    /// The compiled test program of that name.
    pub fn app_dir(&self, name: &str) -> PathBuf {
        self.root.join("apps").join(name)
    }

    /// The list of tests that were skipped.
    pub fn skipped(&self) -> PathBuf {
        self.root.join("skipped.txt")
    }
}

/// A part of a file's name that no other process and no other thread of this one uses: tests of
/// one process prepare the same program at the same time.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}.new", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The root of the repository.
pub(crate) fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

/// The sources of the test programs.
pub(crate) fn apps() -> PathBuf {
    workspace().join("tests").join("apps")
}
