//! The split of a self-contained program's folder into the shared frameworks that it carries.
//!
//! `APP.deps.json` lists the files of each "runtime pack": those of one framework. From a folder
//! with such lists a dotnet root is made, on which any program runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The framework that all programs need.
pub(crate) const NETCORE: &str = "Microsoft.NETCore.App";
/// The framework of web servers.
pub(crate) const ASPNETCORE: &str = "Microsoft.AspNetCore.App";

const HOST_POLICY: &str = "libhostpolicy.so";
const HOST_RESOLVER: &str = "libhostfxr.so";

/// One framework in a deps.json.
#[derive(Debug)]
pub(crate) struct Framework {
    /// `Microsoft.NETCore.App` or another.
    pub name: &'static str,
    /// The exact version.
    pub version: String,
    /// The base names of its files.
    pub files: Vec<String>,
    deps: Value,
}

/// Finds the framework in the program's deps.json.
///
/// Where the program has a newer package of an assembly of the framework, that one is listed for
/// the package and no longer for the framework: `replaced` names such files.
pub(crate) fn framework(deps: &Value, name: &'static str, replaced: &[&str]) -> Result<Framework> {
    let target = deps["runtimeTarget"]["name"].as_str().context("no runtimeTarget")?;
    let libraries = deps["targets"][target].as_object().context("no libraries of the target")?;
    let prefix = format!("runtimepack.{name}");
    let (key, pack) = libraries
        .iter()
        .find(|(key, _)| key.starts_with(&prefix))
        .with_context(|| format!("no runtime pack of {name}"))?;
    let version = key.rsplit('/').next().unwrap_or_default().to_owned();

    let section = |section: &str| pack[section].as_object().cloned().unwrap_or_default();
    let (mut runtime, native) = (section("runtime"), section("native"));
    for (path, facts) in
        libraries.values().filter_map(|library| library["runtime"].as_object()).flatten()
    {
        if replaced.contains(&base_name(path)) {
            runtime.insert(path.clone(), facts.clone());
        }
    }
    let files = runtime.keys().chain(native.keys()).map(|path| base_name(path).to_owned());
    let files = files.collect();
    let sections = json!({ "runtime": runtime, "native": native });
    let library = format!("{name}.Runtime/{version}");
    let portable = target.split('/').next().unwrap_or(target);
    let deps = json!({
        "runtimeTarget": { "name": target, "signature": "" },
        "compilationOptions": {},
        "targets": { portable: {}, target: { &library: sections } },
        "libraries": { &library: { "type": "package", "serviceable": true, "sha512": "" } },
    });
    Ok(Framework { name, version, files, deps })
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Framework {
    /// Copies the framework out of the program's folder into a dotnet root.
    pub fn copy(&self, program: &Path, root: &Path) -> Result<()> {
        let Self { name, version, .. } = self;
        let dir = root.join("shared").join(name).join(version);
        fs::create_dir_all(&dir)?;
        let mut missing = Vec::new();
        for file in &self.files {
            if program.join(file).exists() {
                fs::copy(program.join(file), dir.join(file))?;
            } else {
                missing.push(file.as_str());
            }
        }
        // The host tools of a runtime pack are left out of a publish folder; nothing else may be.
        ensure!(missing.len() <= 2, "the package lacks files of {name} {version}: {missing:?}");
        fs::write(dir.join(format!("{name}.deps.json")), serde_json::to_vec(&self.deps)?)?;
        if *name == NETCORE {
            fs::copy(program.join(HOST_POLICY), dir.join(HOST_POLICY))?;
            let resolver = root.join("host").join("fxr").join(version);
            fs::create_dir_all(&resolver)?;
            fs::copy(program.join(HOST_RESOLVER), resolver.join(HOST_RESOLVER))?;
        } else {
            let config = json!({ "runtimeOptions": {
                "tfm": target_framework(version),
                "framework": { "name": NETCORE, "version": version },
                "rollForward": "LatestPatch",
            }});
            let path = dir.join(format!("{name}.runtimeconfig.json"));
            fs::write(path, serde_json::to_vec(&config)?)?;
        }
        Ok(())
    }
}

/// `net9.0` of `9.0.5`.
pub(crate) fn target_framework(version: &str) -> String {
    let end = version.match_indices('.').nth(1).map_or(version.len(), |(index, _)| index);
    format!("net{}", &version[..end])
}

/// Splits the program's folder into a new dotnet root; gives the folders to move, below that root.
pub(crate) fn split(
    program: &Path,
    deps: &Path,
    names: &[&'static str],
    replaced: &[&str],
    root: &Path,
) -> Result<Vec<PathBuf>> {
    let text = fs::read(deps).with_context(|| format!("cannot read {deps:?}"))?;
    let deps: Value = serde_json::from_slice(&text)?;
    let mut moved = Vec::new();
    for name in names {
        let framework = framework(&deps, name, replaced)?;
        framework.copy(program, root)?;
        if *name == NETCORE {
            moved.push(Path::new("host/fxr").join(&framework.version));
        }
        moved.push(Path::new("shared").join(name).join(&framework.version));
    }
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deps() -> Value {
        json!({
            "runtimeTarget": { "name": ".NETCoreApp,Version=v9.0/linux-x64" },
            "targets": { ".NETCoreApp,Version=v9.0/linux-x64": {
                "program/1.0.0": { "runtime": { "program.dll": {} } },
                "runtimepack.Microsoft.NETCore.App.Runtime.linux-x64/9.0.5": {
                    "runtime": { "System.Runtime.dll": { "assemblyVersion": "9.0.0.0" } },
                    "native": { "libcoreclr.so": {} },
                },
                "runtimepack.Microsoft.AspNetCore.App.Runtime.linux-x64/9.0.5": {
                    "runtime": { "Microsoft.AspNetCore.dll": {} },
                },
            }},
        })
    }

    #[test]
    fn a_framework_has_its_own_files_only() {
        let netcore = framework(&deps(), NETCORE, &[]).unwrap();
        assert_eq!(netcore.version, "9.0.5");
        assert_eq!(netcore.files, ["System.Runtime.dll", "libcoreclr.so"]);
        let aspnetcore = framework(&deps(), ASPNETCORE, &[]).unwrap();
        assert_eq!(aspnetcore.files, ["Microsoft.AspNetCore.dll"]);
        assert!(framework(&json!({}), NETCORE, &[]).is_err());
    }

    #[test]
    fn a_replaced_assembly_is_counted_to_the_framework() {
        let framework = framework(&deps(), NETCORE, &["program.dll"]).unwrap();
        assert_eq!(framework.files, ["System.Runtime.dll", "program.dll", "libcoreclr.so"]);
    }

    #[test]
    fn a_folder_is_split_into_a_root() {
        let dir = std::env::temp_dir().join(format!("rig-deps-{}", std::process::id()));
        let (program, root) = (dir.join("program"), dir.join("root"));
        fs::create_dir_all(&program).unwrap();
        let files =
            ["System.Runtime.dll", "libcoreclr.so", "Microsoft.AspNetCore.dll", HOST_POLICY];
        for file in files.iter().chain(&[HOST_RESOLVER]) {
            fs::write(program.join(file), file).unwrap();
        }
        let deps_path = program.join("program.deps.json");
        fs::write(&deps_path, deps().to_string()).unwrap();

        let moved = split(&program, &deps_path, &[NETCORE, ASPNETCORE], &[], &root).unwrap();
        assert_eq!(moved.len(), 3);
        for path in [
            "host/fxr/9.0.5/libhostfxr.so",
            "shared/Microsoft.NETCore.App/9.0.5/System.Runtime.dll",
            "shared/Microsoft.NETCore.App/9.0.5/libhostpolicy.so",
            "shared/Microsoft.NETCore.App/9.0.5/Microsoft.NETCore.App.deps.json",
            "shared/Microsoft.AspNetCore.App/9.0.5/Microsoft.AspNetCore.dll",
            "shared/Microsoft.AspNetCore.App/9.0.5/Microsoft.AspNetCore.App.runtimeconfig.json",
        ] {
            assert!(root.join(path).exists(), "{path}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_version_names_its_target_framework() {
        assert_eq!(target_framework("9.0.5"), "net9.0");
        assert_eq!(target_framework("10.0.13"), "net10.0");
    }
}
