//! The test programs: each a folder below `tests/apps`, compiled at first use.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::compile::{CompileOptions, Job};
use crate::layout::{self, Layout};
use crate::managed::Managed;
use crate::rig::Rig;
use crate::runtime::{
    Frameworks,
    RuntimeVersion::{self, Net8, Net9, Net10, Net31},
};
use crate::unavailable::Unavailable;
use crate::wine::{Dotnet, Wine};

/// The names of the test programs.
pub const APPS: [&str; 27] = [
    "plain",
    "split",
    "busy",
    "leaf",
    "wall",
    "single",
    "eintr",
    "short",
    "stress",
    "waits",
    "calls",
    "web",
    "names",
    "ends",
    "pool",
    "idle",
    "faults",
    "whole",
    "activities",
    "requests",
    "native",
    "gc",
    "lines",
    "lines-embedded",
    "cost",
    "relay",
    "early",
];

/// The programs that need ASP.NET Core.
const WEB: [&str; 3] = ["web", "requests", "early"];
/// A program that is another one again, with its PDB inside of the assembly.
const EMBEDDED: &str = "-embedded";
/// The programs that set labels.
const LABELLED: [&str; 2] = ["activities", "requests"];

/// A test program.
#[derive(Clone, Copy, Debug)]
pub struct App<'a> {
    rig: &'a Rig,
    name: &'static str,
}

impl<'a> App<'a> {
    pub(crate) fn find(rig: &'a Rig, name: &str) -> Result<Self> {
        match APPS.iter().find(|app| **app == name) {
            Some(name) => Ok(Self { rig, name }),
            None => bail!("there is no test program {name}, only {}", APPS.join(", ")),
        }
    }

    /// The program's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The command that runs the program on that version; environment and arguments may be added.
    ///
    /// # Errors
    /// If the version cannot be had here ([`Unavailable`](crate::Unavailable) in the chain), or the
    /// program does not compile.
    pub fn command(&self, version: RuntimeVersion) -> Result<Command> {
        let runtime = self.rig.runtime(version)?;
        let frameworks = frameworks(self.name);
        if !runtime.has(frameworks) {
            let what = format!("ASP.NET Core {}", version.major_minor());
            bail!(Unavailable::new(what, "no package of the registries was found to have it"));
        }
        let toolchain = self.rig.toolchain()?;
        if version == Net10 {
            toolchain.compile_hook()?;
        }
        let job = self.job(against(self.name, version));
        let program = job.out.clone();
        toolchain.compile_all(self.name, vec![job])?;
        runtime.command(&program, frameworks)
    }

    /// The program's assembly for that version, with its PDB beside it.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn assembly(&self, version: RuntimeVersion) -> Result<PathBuf> {
        let job = self.job(against(self.name, version));
        let path = job.out.clone();
        self.rig.toolchain()?.compile_all(self.name, vec![job])?;
        Ok(path)
    }

    /// How the program is run on that version for Windows.
    ///
    /// # Errors
    /// If there is no such version, or the program does not compile.
    pub fn on_windows(&self, wine: &Wine, version: RuntimeVersion) -> Result<Dotnet> {
        if version == Net10 {
            self.rig.toolchain()?.compile_hook()?;
        }
        wine.dotnet(&self.assembly(version)?, version)
    }

    fn job(&self, against: RuntimeVersion) -> Job {
        let is_embedded = self.name.ends_with(EMBEDDED);
        let options = CompileOptions {
            against,
            frameworks: frameworks(self.name),
            extra: is_embedded.then(|| "-debug:embedded".to_owned()).into_iter().collect(),
            ..Default::default()
        };
        let out = output(self.rig.layout(), self.name, against);
        Job { sources: sources(self.name), out, options }
    }
}

/// Compiles all test programs at once.
pub(crate) fn compile_all(rig: &Rig) -> Result<()> {
    let toolchain = rig.toolchain()?;
    toolchain.compile_hook()?;
    let jobs = APPS
        .iter()
        .map(|name| (App { rig, name }, against(name, Net8)))
        .filter(|(_, against)| rig.runtime(*against).is_ok())
        .map(|(app, against)| app.job(against))
        .collect();
    toolchain.compile_all("test programs", jobs)
}

fn frameworks(name: &str) -> Frameworks {
    if WEB.contains(&name) { Frameworks::AspNetCore } else { Frameworks::NetCore }
}

/// One assembly serves .NET 8 and all later versions; 3.1 lacks what that one refers to.
fn against(name: &str, version: RuntimeVersion) -> RuntimeVersion {
    match version {
        Net31 => Net31,
        Net8 | Net9 | Net10 if WEB.contains(&name) => Net9,
        Net8 | Net9 | Net10 => Net8,
    }
}

fn output(layout: &Layout, name: &str, against: RuntimeVersion) -> PathBuf {
    let dir = layout.app_dir(name);
    let dir = if against == Net31 { dir.join("net3.1") } else { dir };
    dir.join(format!("{name}.dll"))
}

/// The program's own files and those that programs share.
fn sources(name: &str) -> Vec<PathBuf> {
    let name = name.strip_suffix(EMBEDDED).unwrap_or(name);
    let mut sources = Vec::new();
    let dirs = if WEB.contains(&name) { &[name, "common", "http"][..] } else { &[name, "common"] };
    for dir in dirs.iter().map(|dir| layout::apps().join(dir)) {
        // A missing folder shows itself as a missing source a few lines later.
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        sources.extend(
            entries
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|extension| extension == "cs")),
        );
    }
    if LABELLED.contains(&name) {
        // A missing file shows itself as a missing class.
        sources.extend(Managed::Labels.sources().unwrap_or_default());
    }
    sources.sort();
    sources
}
