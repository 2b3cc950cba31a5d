//! Compilation by both compilers, and the cache of its results.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use rig::{CompileOptions, Compiler, Net8, OutputKind, Rig, Unavailable};

const LIBRARY: &str = "using System.Collections.Generic;
public static unsafe class Library {
    public static IEnumerable<int> Count(int n) { for (int i = 0; i < n; i++) yield return i; }
    public static int First(int* numbers) { return numbers[0]; }
}";

/// A folder of its own for each test; `None` if there is no compiler.
fn folder(rig: &Rig, test: &str) -> Result<Option<PathBuf>> {
    if let Err(error) = rig.app("plain")?.assembly(Net8) {
        let Some(unavailable) = error.downcast_ref::<Unavailable>() else { return Err(error) };
        rig.skip(test, unavailable);
        return Ok(None);
    }
    let dir = rig.root().join("test-compile").join(test);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    Ok(Some(dir))
}

fn options(compiler: Compiler) -> CompileOptions {
    CompileOptions { compiler, kind: OutputKind::Library, ..CompileOptions::default() }
}

fn modified(path: &Path) -> Result<SystemTime> {
    Ok(fs::metadata(path)?.modified()?)
}

#[test]
fn roslyn_compiles_what_changed_and_leaves_the_rest() -> Result<()> {
    let rig = Rig::ensure()?;
    let Some(dir) = folder(rig, "roslyn")? else { return Ok(()) };
    let (source, out) = (dir.join("library.cs"), dir.join("out/library.dll"));
    fs::write(&source, LIBRARY)?;
    let sources = [source.clone()];

    rig.compile(&sources, &out, &options(Compiler::Roslyn))?;
    assert!(out.with_extension("pdb").exists());
    let first = modified(&out)?;
    rig.compile(&sources, &out, &options(Compiler::Roslyn))?;
    assert_eq!(modified(&out)?, first, "nothing was changed");
    fs::write(&source, LIBRARY.replace("Count", "Enumerate"))?;
    rig.compile(&sources, &out, &options(Compiler::Roslyn))?;
    assert_ne!(modified(&out)?, first, "the source was changed");
    Ok(())
}

#[test]
fn mcs_compiles_a_library() -> Result<()> {
    let rig = Rig::ensure()?;
    let Some(dir) = folder(rig, "mcs")? else { return Ok(()) };
    let (source, out) = (dir.join("library.cs"), dir.join("library.dll"));
    fs::write(&source, LIBRARY)?;
    rig.compile(&[source], &out, &options(Compiler::Mcs))?;
    // Mono's own mangling of an iterator, which is what this compiler is here for.
    let assembly = fs::read(&out)?;
    let mangled = b"<Count>c__Iterator0";
    assert!(assembly.windows(mangled.len()).any(|window| window == mangled));
    Ok(())
}

#[test]
fn an_error_in_the_source_is_shown_with_its_place() -> Result<()> {
    let rig = Rig::ensure()?;
    let Some(dir) = folder(rig, "error")? else { return Ok(()) };
    let source = dir.join("wrong.cs");
    fs::write(&source, "class Wrong { int x = \"\"; }")?;
    for compiler in [Compiler::Roslyn, Compiler::Mcs] {
        let result =
            rig.compile(std::slice::from_ref(&source), &dir.join("wrong.dll"), &options(compiler));
        let message = result.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("wrong.cs(1,23): error CS0029"), "{compiler:?}: {message}");
    }
    Ok(())
}
