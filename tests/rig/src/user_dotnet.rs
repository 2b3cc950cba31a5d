//! The user's own .NET: an installed `dotnet` comes before anything that would be downloaded.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// A dotnet root that was on the machine already.
#[derive(Clone, Debug)]
pub(crate) struct UserDotnet {
    root: PathBuf,
}

impl UserDotnet {
    /// The one of `DOTNET_ROOT`, else the one on the `PATH`.
    pub fn find() -> Option<Self> {
        let named = std::env::var_os("DOTNET_ROOT").map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        named.into_iter().chain(on_path(&path)).find_map(|root| Self::at(&root))
    }

    fn at(root: &Path) -> Option<Self> {
        let is_root = root.join("dotnet").is_file() && root.join("shared").is_dir();
        is_root.then(|| Self { root: root.to_owned() })
    }

    /// The root's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The newest patch of `major_minor` ("8.0") that the root has of all the frameworks.
    pub fn newest(&self, major_minor: &str, frameworks: &[&str]) -> Option<String> {
        let (first, others) = frameworks.split_first()?;
        let has = |framework: &str, version: &str| {
            self.root.join("shared").join(framework).join(version).is_dir()
        };
        let entries = fs::read_dir(self.root.join("shared").join(first)).ok()?;
        entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|version| Some((patch(&version, major_minor)?, version)))
            .filter(|(_, version)| others.iter().all(|framework| has(framework, version)))
            .max()
            .map(|(_, version)| version)
    }
}

/// The patch number of a released version; previews are not taken.
fn patch(version: &str, major_minor: &str) -> Option<u32> {
    version.strip_prefix(major_minor)?.strip_prefix('.')?.parse().ok()
}

/// `dotnet` on the path is often a link into the real root.
fn on_path(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(path)
        .filter_map(|dir| fs::canonicalize(dir.join("dotnet")).ok())
        .filter_map(|launcher| Some(launcher.parent()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_patch_with_all_frameworks_is_taken() {
        let root = std::env::temp_dir().join(format!("rig-user-dotnet-{}", std::process::id()));
        for dir in ["N/8.0.9", "N/8.0.10", "N/8.0.11-preview", "N/9.0.1", "A/8.0.9"] {
            fs::create_dir_all(root.join("shared").join(dir)).unwrap();
        }
        assert!(UserDotnet::at(&root).is_none(), "there is no launcher yet");
        fs::write(root.join("dotnet"), "").unwrap();
        let dotnet = UserDotnet::at(&root).unwrap();
        assert_eq!(dotnet.newest("8.0", &["N"]).as_deref(), Some("8.0.10"));
        assert_eq!(dotnet.newest("8.0", &["N", "A"]).as_deref(), Some("8.0.9"));
        assert_eq!(dotnet.newest("9.0", &["N", "A"]), None);
        assert_eq!(dotnet.newest("10.0", &["N"]), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
