//! Which crate may use which: the workspace's own edges, packages from outside, and `unsafe`.

use std::collections::BTreeSet;

use super::source::{Source, Sources};
use super::words::has_word;
use super::{Finding, finding};
use crate::workspace::{Metadata, Package};

/// A crate of the product, and what it may depend on.
struct Allowed {
    name: &'static str,
    /// Crates of the workspace.
    own: &'static [&'static str],
    /// Crates of the workspace that only its tests use, or a feature that is off.
    own_in_tests: &'static [&'static str],
    /// Packages from outside, with the reason.
    outside: &'static [(&'static str, &'static str)],
    /// Why it needs `unsafe`; without a reason it forbids it.
    why_unsafe: Option<&'static str>,
}

const NOTHING: Allowed =
    Allowed { name: "", own: &[], own_in_tests: &[], outside: &[], why_unsafe: None };

const PRODUCT: [Allowed; 15] = [
    Allowed { name: "model", ..NOTHING },
    Allowed {
        name: "signal",
        own: &["model"],
        own_in_tests: &["sys", "testing"],
        outside: &[("loom", "its tests' atomics; under `--cfg loom` only, never in the host")],
        why_unsafe: Some("reads the interrupted thread's registers and stack"),
    },
    Allowed {
        name: "sys",
        own: &["model"],
        own_in_tests: &["testing"],
        outside: &[("libc", "the kernel's calls and structures")],
        why_unsafe: Some("calls the kernel"),
    },
    Allowed {
        name: "clr",
        own: &["metadata"],
        why_unsafe: Some("COM is calls through tables of pointers"),
        ..NOTHING
    },
    Allowed { name: "metadata", own: &["model"], own_in_tests: &["testing"], ..NOTHING },
    Allowed {
        name: "unwind",
        own: &["model", "signal", "sys"],
        own_in_tests: &["testing"],
        outside: &[
            ("gimli", "runs the programs of .eh_frame; debuggers trust it"),
            ("libc", "dl_iterate_phdr"),
            ("rustc-demangle", "names of Rust libraries; 40 KB, no allocation, no dependency"),
            (
                "rustc-hash",
                "the hash of rules, of which there are hundreds, looked up for each row",
            ),
        ],
        why_unsafe: Some("reads the unwind data of loaded modules where they lie"),
    },
    Allowed {
        name: "profile",
        own: &["model"],
        own_in_tests: &["profile", "testing"],
        outside: &[
            ("flate2", "gzip, which every pprof reader wants"),
            ("hashbrown", "interns without holding each key twice"),
            ("rustc-hash", "the hash of small integer keys"),
        ],
        why_unsafe: None,
    },
    Allowed { name: "config", ..NOTHING },
    Allowed {
        name: "testing",
        why_unsafe: Some("an allocator that counts is unsafe to implement"),
        ..NOTHING
    },
    Allowed {
        name: "export",
        own: &["config", "model", "profile", "sys"],
        outside: &[("flate2", "gzip of what is sent"), ("rustls", "TLS")],
        ..NOTHING
    },
    Allowed {
        name: "engine",
        own: &["config", "export", "model", "profile", "signal", "sys", "unwind"],
        own_in_tests: &["testing"],
        outside: &[("rustc-hash", "the hash of small integer keys")],
        why_unsafe: Some("keeps the promises of `signal`: the gate, records, published tables"),
    },
    Allowed {
        name: "agent",
        own: &["clr", "config", "engine", "metadata", "sys"],
        own_in_tests: &["signal"],
        why_unsafe: Some("exports the functions that the runtime calls"),
        ..NOTHING
    },
    Allowed {
        name: "diagnostics",
        own: &["config", "sys"],
        own_in_tests: &["testing"],
        outside: &[
            ("nix", "sockets that can be connected to without waiting"),
            ("object", "what a library needs: processor, C library"),
        ],
        ..NOTHING
    },
    Allowed {
        name: "server",
        own: &["profile"],
        own_in_tests: &["model", "testing"],
        outside: &[
            ("crc32fast", "checksums on disk; flate2 has it already"),
            ("flate2", "gzip of what is sent"),
            ("getrandom", "the viewer's tokens, on each system"),
            ("httparse", "requests that come in; hyper's parser"),
            ("sha2", "which profile is sent again, by a sum that nobody can make to order"),
        ],
        ..NOTHING
    },
    Allowed {
        name: "cli",
        own: &["config", "diagnostics", "export", "metadata", "model", "profile", "server"],
        own_in_tests: &["testing"],
        outside: &[
            ("addr2line", "source lines of native code"),
            ("anstream", "colours only where the terminal has them"),
            ("anstyle", "colours"),
            ("anyhow", "a tool's errors are messages"),
            ("clap", "options"),
            ("ctrlc", "Windows: the report comes after Ctrl-C, too"),
            ("cpp_demangle", "C++ names in full; 430 KB, too large for the host"),
            ("flate2", "debug information that distributions pack, and PDBs inside of assemblies"),
            (
                "nix",
                "signals to the child, its exit state; users, file systems and timers for doctor",
            ),
            ("object", "build ids and links of debug files"),
            ("rustc-demangle", "names of Rust functions in files that others wrote"),
            ("serde_json", "--json"),
            ("terminal_size", "the terminal's width"),
        ],
        ..NOTHING
    },
];

/// Tests and tools: they may use everything, and nothing of the product may use them.
const TOOLS: [&str; 4] = ["rig", "e2e", "micro", "xtask"];

/// The library that the host loads.
const HOST_LIBRARY: &str = "agent";

/// All packages from outside that end up in the host, with the reason. None of them may start a
/// thread, read the environment or set a handler.
const HOST_PACKAGES: [(&str, &str); 21] = [
    ("adler2", "checksum; by flate2's inflater"),
    ("cfg-if", "a macro; by crc32fast"),
    ("crc32fast", "checksum of gzip; by flate2"),
    ("flate2", "gzip"),
    ("getrandom", "random numbers from the kernel; by ring"),
    ("gimli", "unwind data"),
    ("hashbrown", "tables"),
    ("libc", "the kernel's calls and structures"),
    ("miniz_oxide", "deflate in Rust; by flate2"),
    ("once_cell", "a cell; by rustls"),
    ("ring", "the arithmetic of TLS; by rustls"),
    ("rustc-demangle", "names of Rust libraries"),
    ("rustc-hash", "hash"),
    ("rustls", "TLS for what is sent; reads no environment unless asked to log keys"),
    ("rustls-pki-types", "certificates; by rustls"),
    ("rustls-webpki", "checks certificates; by rustls"),
    ("simd-adler32", "checksum; by flate2's inflater"),
    ("stable_deref_trait", "a trait; by gimli"),
    ("subtle", "comparing in constant time; by rustls"),
    ("untrusted", "reading of bytes; by ring"),
    ("zeroize", "wiping of keys; by rustls"),
];

const OWN_FILE: &str = "xtask/src/tidy/edges.rs";

/// The crates of the workspace that the host process loads.
pub fn host_crates(metadata: &Metadata) -> Vec<String> {
    let built = metadata.built_into(&[HOST_LIBRARY]);
    let own = built.into_iter().map(|index| &metadata.packages[index]);
    own.filter(|package| package.is_member).map(|package| package.name.clone()).collect()
}

/// Checks the edges.
pub fn check(metadata: &Metadata, sources: &Sources) -> Vec<Finding> {
    let own: BTreeSet<&str> = metadata.members().map(|package| package.name.as_str()).collect();
    let mut findings = Vec::new();
    for package in metadata.members() {
        let Some(manifest) = sources.get(&package.manifest) else {
            findings.push(Finding {
                file: package.manifest.clone(),
                line: 1,
                what: "git does not know this manifest: add it".to_owned(),
            });
            continue;
        };
        if TOOLS.contains(&package.name.as_str()) {
            findings.extend(unsafe_code(package, None, sources));
            continue;
        }
        let Some(allowed) = PRODUCT.iter().find(|allowed| allowed.name == package.name) else {
            let what = format!(
                "`{}` is in no table: say in {OWN_FILE} what it may depend on",
                package.name
            );
            findings.push(finding(manifest, line_of(manifest, "name"), what));
            continue;
        };
        findings.extend(dependencies(package, allowed, &own, manifest));
        findings.extend(unsafe_code(package, allowed.why_unsafe, sources));
    }
    findings.extend(host_packages(metadata, sources));
    findings
}

fn dependencies(
    package: &Package,
    allowed: &Allowed,
    own: &BTreeSet<&str>,
    manifest: &Source,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        let is_own = own.contains(name);
        let what = if is_own {
            let aside = dependency.is_dev || dependency.is_optional;
            let in_tests = aside && allowed.own_in_tests.contains(&name);
            if allowed.own.contains(&name) || in_tests {
                continue;
            }
            format!(
                "`{}` may not use `{name}`: move the code to where both may see it, or change \
                 the table in {OWN_FILE} and ARCHITECTURE.md",
                package.name
            )
        } else {
            if dependency.is_dev || allowed.outside.iter().any(|(outside, _)| *outside == name) {
                continue;
            }
            format!(
                "`{}` may not use the package `{name}`: do without, or list it in {OWN_FILE} \
                 with the reason",
                package.name
            )
        };
        findings.push(finding(manifest, line_of(manifest, name), what));
    }
    for (name, _) in allowed.outside {
        if !package.dependencies.iter().any(|dependency| dependency.name == *name) {
            let what = format!("`{name}` is listed in {OWN_FILE} and not used: take it off");
            findings.push(finding(manifest, 0, what));
        }
    }
    findings
}

/// A crate that needs no `unsafe` forbids it.
fn unsafe_code(package: &Package, reason: Option<&str>, sources: &Sources) -> Vec<Finding> {
    let folder = package.manifest.strip_suffix("Cargo.toml").unwrap_or_default();
    let roots = ["src/lib.rs", "src/main.rs"].map(|root| format!("{folder}{root}"));
    let mut findings = Vec::new();
    for root in roots.iter().filter_map(|root| sources.get(root)) {
        let forbids = root.code.iter().any(|line| line.contains("#![forbid(unsafe_code)]"));
        if reason.is_none() && !forbids {
            let what = format!(
                "`{}` does not forbid unsafe code: add `#![forbid(unsafe_code)]`, or say in \
                 {OWN_FILE} why it needs it",
                package.name
            );
            findings.push(finding(root, 0, what));
        }
    }
    let source_folder = format!("{folder}src/");
    let in_crate = |source: &&Source| source.path.starts_with(&source_folder);
    let mut code = sources.files.iter().filter(in_crate).flat_map(Source::product);
    if let Some(reason) = reason
        && !code.any(|(_, line)| has_word(line, "unsafe"))
    {
        findings.push(Finding {
            file: package.manifest.clone(),
            line: 1,
            what: format!(
                "`{}` has no unsafe code and {OWN_FILE} says it needs it ({reason}): forbid it",
                package.name
            ),
        });
    }
    findings
}

fn host_packages(metadata: &Metadata, sources: &Sources) -> Vec<Finding> {
    let built = metadata.linked_into(&[HOST_LIBRARY]);
    let outside: Vec<&Package> =
        built.iter().map(|index| &metadata.packages[*index]).filter(|p| !p.is_member).collect();
    let mut findings = Vec::new();
    for package in &outside {
        if !HOST_PACKAGES.iter().any(|(name, _)| *name == package.name) {
            let what = format!(
                "`{}` would be loaded into the host: do without, or list it in {OWN_FILE} with the \
                 reason, having looked for threads and environment",
                package.name
            );
            findings.push(in_lock_file(sources, package, what));
        }
    }
    for (name, _) in HOST_PACKAGES {
        if !outside.iter().any(|package| package.name == name) {
            let what = format!("`{name}` is not loaded into the host any more: take it off");
            let lines = sources.get(OWN_FILE).map(|own| line_of(own, &format!("    (\"{name}\"")));
            let line = lines.unwrap_or(0) + 1;
            findings.push(Finding { file: OWN_FILE.to_owned(), line, what });
        }
    }
    findings
}

/// A finding about a package from outside.
pub fn in_lock_file(sources: &Sources, package: &Package, what: String) -> Finding {
    let file = "Cargo.lock";
    let wanted =
        [format!("name = \"{}\"", package.name), format!("version = \"{}\"", package.version)];
    let lines = sources.get(file).map_or(&[][..], |lock| &lock.lines);
    let line = lines.windows(2).position(|pair| pair == wanted).unwrap_or(0) + 1;
    Finding { file: file.to_owned(), line, what }
}

/// The first line that begins with a text.
fn line_of(source: &Source, text: &str) -> usize {
    source.lines.iter().position(|line| line.starts_with(text)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Resolved};

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependency =
            |name: &&str| Dependency { name: (*name).to_owned(), ..Dependency::default() };
        Package {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            is_member: true,
            dependencies: dependencies.iter().map(dependency).collect(),
            ..Package::default()
        }
    }

    fn manifest(package: &Package) -> Source {
        let lines = package.dependencies.iter().map(|d| format!("{}.workspace = true\n", d.name));
        let text = format!("[dependencies]\n{}", lines.collect::<String>());
        Source::new(&package.manifest, &text)
    }

    fn found(package: &Package) -> Vec<String> {
        let name = package.name.as_str();
        let allowed = PRODUCT.iter().find(|allowed| allowed.name == name).expect("listed");
        let own = ["model", "signal", "engine", "clr", "profile", "sys", "rig"].into();
        let found = dependencies(package, allowed, &own, &manifest(package));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn wrong_edges_are_found() {
        assert_eq!(found(&package("signal", &["model", "loom"])), [""; 0]);
        let wrong = found(&package("model", &["signal"]));
        assert!(wrong[0].starts_with("crates/model/Cargo.toml:2: `model` may not use `signal`"));
        assert_eq!(found(&package("metadata", &["model", "clr"])).len(), 1);
        assert_eq!(found(&package("metadata", &["rig"])).len(), 1);
        let outside = found(&package("metadata", &["rand"]));
        assert!(outside[0].contains("may not use the package `rand`"), "{outside:?}");
        let unused = found(&package("sys", &[]));
        assert!(unused[0].contains("listed") && unused[0].contains("`libc`"), "{unused:?}");
        let mut tested = package("signal", &["model", "loom", "rand"]);
        tested.dependencies[2].is_dev = true;
        assert_eq!(found(&tested), [""; 0]);
        let mut agent = package("agent", &["signal"]);
        assert_eq!(found(&agent).len(), 1);
        agent.dependencies[0].is_optional = true;
        assert_eq!(found(&agent), [""; 0]);
    }

    #[test]
    fn unknown_crates_are_found() {
        let new = package("new", &[]);
        let sources = Sources { files: vec![manifest(&new)] };
        let metadata = Metadata { packages: vec![new], ..Metadata::default() };
        let found = check(&metadata, &sources);
        assert!(found[0].what.contains("`new` is in no table"), "{found:?}");
    }

    #[test]
    fn unsafe_is_forbidden_where_it_is_not_needed() {
        let model = package("model", &[]);
        let with =
            |text: &str| Sources { files: vec![Source::new("crates/model/src/lib.rs", text)] };
        let forbids = "//! M.\n#![forbid(unsafe_code)]";
        assert_eq!(unsafe_code(&model, None, &with(forbids)), []);
        assert_eq!(unsafe_code(&model, None, &with("//! M.")).len(), 1);
        let uses = "fn f() { unsafe { g() } }";
        assert_eq!(unsafe_code(&model, Some("why"), &with(uses)), []);
        assert_eq!(unsafe_code(&model, Some("why"), &with("// unsafe")).len(), 1);
    }

    #[test]
    fn packages_in_the_host_are_listed() {
        let mut agent = package("agent", &["rand"]);
        agent.resolved = vec![Resolved { package: 1, is_dev: false, is_build: false }];
        let rand = Package { name: "rand".into(), version: "1.0.0".into(), ..Package::default() };
        let mut metadata = Metadata { packages: vec![agent, rand], ..Metadata::default() };
        let lock = Source::new("Cargo.lock", "[[package]]\nname = \"rand\"\nversion = \"1.0.0\"");
        let sources = Sources { files: vec![lock] };
        let found = host_packages(&metadata, &sources);
        assert!(found[0].to_string().starts_with("Cargo.lock:2: `rand` would be loaded"));
        assert_eq!(found.len(), 1 + HOST_PACKAGES.len());
        metadata.packages[0].resolved[0].is_dev = true;
        assert_eq!(host_packages(&metadata, &sources).len(), HOST_PACKAGES.len());
    }
}
