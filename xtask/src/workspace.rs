//! Where the repository is, and what cargo says of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The repository's root.
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// `cargo metadata`, as far as the checks need it.
#[derive(Debug, Default)]
pub struct Metadata {
    /// Where cargo builds.
    pub target_directory: PathBuf,
    /// All packages, those from outside too.
    pub packages: Vec<Package>,
}

/// A package.
#[derive(Debug, Default)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence expression.
    pub license: Option<String>,
    /// Its manifest, from the repository's root if it is one of ours.
    pub manifest: String,
    /// Whether it is one of ours.
    pub is_member: bool,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
    /// What a build of it takes in, by index in `packages`.
    pub resolved: Vec<Resolved>,
}

/// A dependency as a manifest declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// Only for tests.
    pub is_dev: bool,
    /// Only with a feature.
    pub is_optional: bool,
}

/// A dependency as cargo resolved it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Index in the packages.
    pub package: usize,
    /// Only for tests.
    pub is_dev: bool,
    /// Only while it is built: a build script's, or a macro.
    pub is_build: bool,
}

impl Metadata {
    /// Our own packages.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_member)
    }

    /// The packages that builds of these take in, tests aside, by index.
    pub fn built_into(&self, names: &[&str]) -> BTreeSet<usize> {
        self.reached(names, |edge| !edge.is_dev)
    }

    /// The packages that are in what is built of these, by index: without what only builds it.
    pub fn linked_into(&self, names: &[&str]) -> BTreeSet<usize> {
        self.reached(names, |edge| !edge.is_dev && !edge.is_build)
    }

    fn reached(&self, names: &[&str], counts: impl Fn(&Resolved) -> bool) -> BTreeSet<usize> {
        let named = |package: &Package| names.contains(&package.name.as_str());
        let all = self.packages.iter().enumerate();
        let mut pending: Vec<usize> = all.filter(|(_, p)| named(p)).map(|(at, _)| at).collect();
        let mut built = BTreeSet::new();
        while let Some(index) = pending.pop() {
            if built.insert(index) {
                let edges = self.packages[index].resolved.iter();
                pending.extend(edges.filter(|edge| counts(edge)).map(|edge| edge.package));
            }
        }
        built
    }
}

/// The commit that is worked on, shortened, with a plus if what is measured has changed since;
/// `unknown` where there is no git.
pub fn commit() -> String {
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".into() };
    let parts = ["crates", "managed", "tests", "xtask", "Cargo.lock"];
    let changes = git(&[&["status", "--porcelain", "--"], &parts[..]].concat());
    let plus = if changes.is_some_and(|changes| changes.is_empty()) { "" } else { "+" };
    commit + plus
}

/// Asks cargo.
pub fn metadata() -> Result<Metadata> {
    let output = rig::cargo()
        .args(["metadata", "--format-version=1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    parse(&serde_json::from_slice(&output.stdout).context("cargo metadata's answer")?)
}

fn from_root(path: &str) -> String {
    let relative = Path::new(path).strip_prefix(root()).unwrap_or(Path::new(path));
    relative.to_string_lossy().into_owned()
}

/// Whether a package is a macro of the compiler.
fn is_macro(package: &Value) -> bool {
    let targets = package["targets"].as_array().into_iter().flatten();
    targets
        .flat_map(|target| target["kind"].as_array().into_iter().flatten())
        .any(|kind| kind == "proc-macro")
}

fn parse(json: &Value) -> Result<Metadata> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let members = list(&json["workspace_members"]);
    let packages = list(&json["packages"]);
    let ids: Vec<&Value> = packages.iter().map(|package| &package["id"]).collect();
    let nodes = list(&json["resolve"]["nodes"]);
    let dependency = |value: &Value| Dependency {
        name: text(&value["name"]),
        is_dev: value["kind"] == "dev",
        is_optional: value["optional"] == true,
    };
    let mut metadata =
        Metadata { target_directory: text(&json["target_directory"]).into(), packages: Vec::new() };
    for package in &packages {
        let node = nodes.iter().find(|node| node["id"] == package["id"]);
        let mut resolved = Vec::new();
        for edge in node.map(|node| list(&node["deps"])).unwrap_or_default() {
            let index = ids.iter().position(|id| **id == edge["pkg"]);
            let index = index.context("a dependency without a package")?;
            let kinds = list(&edge["dep_kinds"]);
            let is_dev = kinds.iter().all(|kind| kind["kind"] == "dev");
            let no_link = |kind: &Value| kind["kind"] == "dev" || kind["kind"] == "build";
            let is_build = kinds.iter().all(no_link) || is_macro(&packages[index]);
            resolved.push(Resolved { package: index, is_dev, is_build });
        }
        metadata.packages.push(Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            license: package["license"].as_str().map(str::to_owned),
            manifest: from_root(&text(&package["manifest_path"])),
            is_member: members.contains(&package["id"]),
            dependencies: list(&package["dependencies"]).iter().map(dependency).collect(),
            resolved,
        });
    }
    if metadata.packages.is_empty() {
        bail!("cargo metadata names no package");
    }
    Ok(metadata)
}
