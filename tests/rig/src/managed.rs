//! The product's own assemblies: C# in `managed`, compiled as the test programs are.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::compile::{CompileOptions, Job, OutputKind};
use crate::layout::{self, workspace};
use crate::rig::Rig;
use crate::runtime::{Frameworks, RuntimeVersion::Net31};

/// An assembly of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// The startup hook that tells the agent of spans.
    Spans,
    /// What programs set labels with.
    Labels,
}

impl Managed {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Spans, Self::Labels];

    /// The assembly's name, which is its folder's, too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spans => "Corprof.Spans",
            Self::Labels => "Corprof",
        }
    }

    /// Its sources.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn sources(self) -> Result<Vec<PathBuf>> {
        let folder = workspace().join("managed").join(self.name());
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {folder:?}"))?;
        let mut sources = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "cs") {
                sources.push(path);
            }
        }
        sources.sort();
        Ok(sources)
    }
}

/// Copies an assembly and its PDB into a folder, each at one stroke: programs may start with it at
/// this moment.
pub(crate) fn copy(assembly: &Path, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {folder:?}"))?;
    let name = assembly.file_name().context("a path without a name")?;
    for extension in ["pdb", "dll"] {
        let from = assembly.with_extension(extension);
        let to = folder.join(name).with_extension(extension);
        let new = folder.join(layout::unique());
        fs::copy(&from, &new).with_context(|| format!("cannot copy {from:?}"))?;
        fs::rename(&new, &to).with_context(|| format!("cannot write {to:?}"))?;
    }
    Ok(folder.join(name))
}

/// Compiles what is stale of them; their paths are in the order of [`Managed::ALL`].
pub(crate) fn compile_all(rig: &Rig) -> Result<[PathBuf; 2]> {
    let folder = rig.root().join("managed");
    let jobs: Result<Vec<_>> = Managed::ALL.iter().map(|managed| job(*managed, &folder)).collect();
    rig.toolchain()?.compile_all("the product's assemblies", jobs?)?;
    Ok(Managed::ALL.map(|managed| output(managed, &folder)))
}

/// Against the oldest version, whose assemblies all later ones can do as well.
fn job(managed: Managed, folder: &Path) -> Result<Job> {
    let options = CompileOptions {
        kind: OutputKind::Library,
        against: Net31,
        frameworks: Frameworks::NetCore,
        ..CompileOptions::default()
    };
    Ok(Job { sources: managed.sources()?, out: output(managed, folder), options })
}

/// Not in folders of their own: users have them side by side, too.
fn output(managed: Managed, folder: &Path) -> PathBuf {
    folder.join(format!("{}.dll", managed.name()))
}
