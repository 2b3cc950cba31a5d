//! The components: what one package is turned into under `target/rig`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::layout::Layout;
use crate::package::{self, Package};
use crate::{archive, bundle, deps};

/// One installable thing.
#[derive(Debug)]
pub(crate) struct Component {
    /// The name of its state file.
    pub id: &'static str,
    /// As a person names it.
    pub title: &'static str,
    pub package: Package,
    /// A file below the rig's folder; without it the component is broken, whatever its state says.
    pub proof: &'static str,
    unpack: fn(&Site) -> Result<()>,
}

/// What an installation works with.
pub(crate) struct Site<'a> {
    layout: &'a Layout,
    archive: &'a Path,
    staging: &'a Path,
}

/// .NET 8.0.4; it also brings the `dotnet` launcher.
pub(crate) static DOTNET_8: Component = Component {
    id: "dotnet-8",
    title: ".NET 8.0.4",
    package: package::DOTNET_8,
    proof: "dotnet/shared/Microsoft.NETCore.App/8.0.4/libcoreclr.so",
    unpack: |site| {
        archive::unpack(site.archive, "dnv/net/runtime/.net/", site.staging)?;
        archive::make_executable(&site.staging.join("dotnet"))?;
        site.join_dotnet_root(
            site.staging,
            &["dotnet", "host/fxr/8.0.4", "shared/Microsoft.NETCore.App/8.0.4"].map(PathBuf::from),
        )
    },
};

/// .NET 9.0.5 with ASP.NET Core 9.0.5.
pub(crate) static DOTNET_9: Component = Component {
    id: "dotnet-9",
    title: ".NET 9.0.5 with ASP.NET Core",
    package: package::DOTNET_9,
    proof: "dotnet/shared/Microsoft.AspNetCore.App/9.0.5/Microsoft.AspNetCore.dll",
    unpack: |site| {
        let program = site.staging.join("program");
        archive::unpack(site.archive, "package/dist/", &program)?;
        let deps_json = program.join("azmcp.deps.json");
        site.split(&program, &deps_json, &[deps::NETCORE, deps::ASPNETCORE], &[])
    },
};

/// .NET 10.0.13 linked into the executable of a single-file program.
pub(crate) static DOTNET_10: Component = Component {
    id: "dotnet-10",
    title: ".NET 10.0.13 in a single file",
    package: package::DOTNET_10,
    proof: "single-file-10/host",
    unpack: |site| {
        archive::unpack(site.archive, "officeagent_mcp/bin/", site.staging)?;
        let program = site.staging.join("officeagent-mcp");
        archive::make_executable(&program)?;
        let folder = site.staging.join("single-file-10");
        fs::create_dir(&folder)?;
        fs::rename(program, folder.join("host"))?;
        replace(&folder, &site.layout.root().join("single-file-10"))
    },
};

/// Assemblies of .NET Core 3.1 that its package has from newer packages only.
const REPLACED_IN_31: [&str; 5] = [
    "System.Collections.Immutable.dll",
    "System.Diagnostics.DiagnosticSource.dll",
    "System.Runtime.CompilerServices.Unsafe.dll",
    "System.Text.Encodings.Web.dll",
    "System.Threading.Channels.dll",
];

/// .NET Core 3.1.32.
pub(crate) static DOTNET_31: Component = Component {
    id: "dotnet-3.1",
    title: ".NET Core 3.1.32",
    package: package::DOTNET_31,
    proof: "dotnet/shared/Microsoft.NETCore.App/3.1.32/libcoreclr.so",
    unpack: |site| {
        archive::unpack(site.archive, "package/", site.staging)?;
        let executable = fs::read(site.staging.join("Sarif.Multitool"))?;
        let program = site.staging.join("program");
        for file in bundle::files(&executable)? {
            let path = archive::relative(&file.path).context("a path out of the bundle")?;
            let path = program.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&program))?;
            fs::write(path, file.content()?)?;
        }
        let deps_json = program.join("Sarif.Multitool.deps.json");
        site.split(&program, &deps_json, &[deps::NETCORE], &REPLACED_IN_31)
    },
};

/// The compiler that compiles the rig's compiler.
pub(crate) static MCS: Component = Component {
    id: "mcs",
    title: "the C# compiler mcs",
    package: package::MCS,
    proof: "mcs/mcs.exe",
    unpack: |site| {
        archive::unpack_deb(site.archive, site.staging)?;
        replace(&site.staging.join("usr/lib/mono/4.5"), &site.layout.root().join("mcs"))
    },
};

/// Roslyn's two assemblies.
pub(crate) static ROSLYN: Component = Component {
    id: "roslyn",
    title: "the C# compiler Roslyn 4.8",
    package: package::ROSLYN,
    proof: "roslyn/Microsoft.CodeAnalysis.CSharp.dll",
    unpack: |site| {
        archive::unpack(site.archive, "package/dist/generator/", site.staging)?;
        let folder = site.staging.join("roslyn");
        fs::create_dir(&folder)?;
        for file in ["Microsoft.CodeAnalysis.dll", "Microsoft.CodeAnalysis.CSharp.dll"] {
            fs::rename(site.staging.join(file), folder.join(file))?;
        }
        replace(&folder, &site.layout.root().join("roslyn"))
    },
};

/// A script that starts Chromium with the libraries that came with it.
const CHROMIUM_SCRIPT: &str = r#"#!/bin/sh
root="$(dirname "$(readlink -f "$0")")"
libraries="$root/usr/lib/x86_64-linux-gnu"
export LD_LIBRARY_PATH="$libraries:$libraries/pulseaudio:$root/lib/x86_64-linux-gnu"
[ -d /usr/share/fonts/truetype ] || export XDG_DATA_HOME="$root/usr/share"
[ -d /etc/fonts ] || export FONTCONFIG_PATH="$root/etc/fonts"
exec "$root/usr/lib/chromium/chromium" "$@"
"#;

/// Chromium, unpacked and not installed.
pub(crate) static CHROMIUM: Component = Component {
    id: "chromium",
    title: "the browser Chromium",
    package: package::CHROMIUM,
    proof: "chromium/start",
    unpack: |site| {
        let folder = site.staging.join("chromium");
        fs::create_dir(&folder)?;
        for entry in fs::read_dir(site.archive)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                archive::unpack_deb(&path, &folder)?;
            }
        }
        ensure!(
            folder.join("usr/lib/chromium/chromium").is_file(),
            "apt brought no browser: is it installed already, and not on the PATH?"
        );
        let start = folder.join("start");
        fs::write(&start, CHROMIUM_SCRIPT)?;
        archive::make_executable(&start)?;
        replace(&folder, &site.layout.root().join("chromium"))
    },
};

/// Playwright, without browsers.
pub(crate) static PLAYWRIGHT: Component = Component {
    id: "playwright",
    title: "Playwright 1.65.1",
    package: package::PLAYWRIGHT,
    proof: "playwright/index.mjs",
    unpack: |site| site.take_whole("playwright"),
};

/// speedscope.
pub(crate) static SPEEDSCOPE: Component = Component {
    id: "speedscope",
    title: "speedscope 1.25.0",
    package: package::SPEEDSCOPE,
    proof: "speedscope/dist/release/index.html",
    unpack: |site| site.take_whole("speedscope"),
};

/// pprof-format.
pub(crate) static PPROF_FORMAT: Component = Component {
    id: "pprof-format",
    title: "pprof-format 2.3.2",
    package: package::PPROF_FORMAT,
    proof: "pprof-format/dist/esm/index.js",
    unpack: |site| site.take_whole("pprof-format"),
};

impl Component {
    /// Unpacks the archive; `staging` is a folder of its own on the same file system.
    pub fn unpack(&self, layout: &Layout, archive: &Path, staging: &Path) -> Result<()> {
        (self.unpack)(&Site { layout, archive, staging })?;
        let proof = layout.root().join(self.proof);
        ensure!(proof.exists(), "the package {} did not bring {proof:?}", self.package.name);
        Ok(())
    }

    /// What the state file of a good installation holds.
    pub fn key(&self) -> String {
        format!("{} {} {}\n", self.package.name, self.package.version, self.package.sha256)
    }
}

impl Site<'_> {
    /// Puts all of an npm package into a folder of that name.
    fn take_whole(&self, name: &str) -> Result<()> {
        let folder = self.staging.join(name);
        archive::unpack(self.archive, "package/", &folder)?;
        replace(&folder, &self.layout.root().join(name))
    }

    fn split(
        &self,
        program: &Path,
        deps_json: &Path,
        names: &[&'static str],
        replaced: &[&str],
    ) -> Result<()> {
        let root = self.staging.join("root");
        let parts = deps::split(program, deps_json, names, replaced, &root)?;
        self.join_dotnet_root(&root, &parts)
    }

    /// Moves the parts of `root` into the one dotnet root, each at one stroke.
    fn join_dotnet_root(&self, root: &Path, parts: &[PathBuf]) -> Result<()> {
        let dotnet_root = self.layout.dotnet_root();
        for part in parts {
            replace(&root.join(part), &dotnet_root.join(part))?;
        }
        Ok(())
    }
}

/// Moves a file or folder, over what a killed installation may have left there.
fn replace(from: &Path, to: &Path) -> Result<()> {
    if to.is_dir() {
        fs::remove_dir_all(to).with_context(|| format!("cannot remove the old {to:?}"))?;
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::rename(from, to).with_context(|| format!("cannot move {from:?} to {to:?}"))
}
