//! Names of native code: a C++ function that is called by P/Invoke has its name and its share,
//! whether its library has all symbols, is stripped with a debug file, has them packed inside, or
//! has none; and each module tells its build.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::{Run, Session, built};
use model::FrameKind;
use rig::{Net8, Net9, Net10};

/// The exported function is C, what it calls is hidden C++.
const SOURCE: &str = r#"
namespace shop {
template <typename Key> struct Store {
    __attribute__((noinline, visibility("hidden"))) static long load(Key const &key, int rounds);
};
template <typename Key> long Store<Key>::load(Key const &key, int rounds) {
    long x = key;
    for (int i = 0; i < rounds; i++) { x = x * 31 + i; asm volatile("" : "+r"(x)); }
    return x;
}
}
extern "C" long shop_price(int rounds) {
    long price = shop::Store<long>::load(3, rounds);
    asm volatile("" : "+r"(price));
    return price;
}
"#;
/// The same, and a thread of C++ that calls it until the program ends.
const OWN_THREAD: &str = r#"
#include <thread>
extern "C" long shop_price(int rounds);
static bool begun = (std::thread([] { for (;;) shop_price(1000000); }).detach(), true);
"#;
/// The name in the file, and what `corprof top` makes of it.
const PATH: &str = "shop::Store<…>::load";
const FULL: &str = "shop::Store<long>::load(long const&, int)";
/// Where its loop is.
const LINE: &str = "shop.cc:8";
/// The file that the runtime's code is in.
const RUNTIME: &str = "libcoreclr.so";

#[test]
fn with_all_symbols() -> Result<()> {
    let Some(run) = run("native-whole", Net8, SOURCE, |_| Ok(true))? else { return Ok(()) };
    check(&run, PATH, RUNTIME)
}

/// A thread of C++ runs below the C++ library, whose unwind data waits until a walk has met it.
#[test]
fn a_thread_of_cpp_is_known_to_its_root() -> Result<()> {
    let source = format!("{SOURCE}{OWN_THREAD}");
    let Some(run) = run("native-thread", Net9, &source, |_| Ok(true))? else { return Ok(()) };
    let shopper = u32::try_from(run.number("tid")?)?;
    let mut checks = run.checks();
    let is_own = |row: &e2e::Row| row.tid != shopper && row.has(PATH);
    let library = |module: &String| module.starts_with("libstdc++");
    let own = run.view.of(is_own);
    let whole = run.view.of(|row| is_own(row) && row.modules.iter().any(library));
    checks.that(own.cpu_ns > 0, "the thread of C++ was not seen");
    checks.within("its time below the C++ library", whole.cpu_ns, own.cpu_ns, 0.02);
    checks.roots(0.99);
    checks.done()
}

/// The runtime is in the program's own file.
#[test]
fn in_a_single_file() -> Result<()> {
    let Some(run) = run("native-single-file", Net10, SOURCE, |_| Ok(true))? else { return Ok(()) };
    check(&run, PATH, "/host")
}

#[test]
fn with_a_debug_file() -> Result<()> {
    let separate = |library: &Path| {
        let debug = library.with_extension("so.dbg");
        // Packed as distributions pack it.
        let options = ["--only-keep-debug", "--compress-debug-sections=zlib"].map(OsStr::new);
        let files = [library.as_os_str(), debug.as_os_str()];
        Ok(tool("objcopy", options.into_iter().chain(files))?
            && strip(library)?
            && add(library, "--add-gnu-debuglink=", debug.as_os_str())?)
    };
    let Some(run) = run("native-debug-file", Net9, SOURCE, separate)? else { return Ok(()) };
    check(&run, PATH, RUNTIME)
}

#[test]
fn with_packed_symbols() -> Result<()> {
    let pack = |library: &Path| {
        let small = library.with_extension("small");
        let packed = library.with_extension("small.xz");
        fs::copy(library, &small)?;
        let debug = OsStr::new("--strip-debug");
        Ok(tool("objcopy", [debug, small.as_ref()])?
            && tool("xz", [OsStr::new("--force"), small.as_ref()])?
            && strip(library)?
            && add(library, "--add-section=.gnu_debugdata=", packed.as_os_str())?)
    };
    let Some(run) = run("native-packed", Net8, SOURCE, pack)? else { return Ok(()) };
    check(&run, PATH, RUNTIME)
}

/// The time is the library's, under no name but its own.
#[test]
fn stripped() -> Result<()> {
    let Some(run) = run("native-stripped", Net8, SOURCE, strip)? else { return Ok(()) };
    check(&run, "[libshop.so]", RUNTIME)
}

/// Runs the program on a library made ready by that function; `None`, loudly, if a tool is missing.
fn run(
    name: &str,
    version: rig::RuntimeVersion,
    text: &str,
    finish: impl Fn(&Path) -> Result<bool>,
) -> Result<Option<Run>> {
    let Some(session) = Session::new(name, "native", version)? else { return Ok(None) };
    // Beside the profiles' folder, which may hold nothing else.
    let folder = session.folder.with_extension("library");
    fs::create_dir_all(&folder)?;
    let (source, library) = (folder.join("shop.cc"), folder.join("libshop.so"));
    fs::write(&source, text)?;
    let flags = ["-O1", "-g", "-shared", "-fPIC", "-Wl,--build-id", "-o"].map(OsStr::new);
    let all = flags.into_iter().chain([library.as_os_str(), source.as_os_str()]);
    if !tool("g++", all)? || !finish(&library)? {
        return Ok(None);
    }
    let run = session
        .args(["--share", "70", "--seconds", "4", "--library"])
        .args([&library])
        .set("CORPROF_CPU_INTERVAL", "5ms")
        .run()?;
    Ok(Some(run))
}

fn check(run: &Run, name: &str, runtime: &str) -> Result<()> {
    let tid = u32::try_from(run.number("tid")?)?;
    let mut checks = run.checks();
    let of = |part: &str| run.view.of(|row| row.tid == tid && row.has(part));
    let (native, managed) = (of(name), of("Native.Managed("));
    let is_leaf = |row: &e2e::Row| row.frames.first().is_some_and(|frame| frame == name);
    let own = run.view.of(|row| row.tid == tid && is_leaf(row));
    let (n, other) = (run.number("cpu_native_ns")?, run.number("cpu_managed_ns")?);
    let samples = native.count + managed.count;
    let share = |one: u64, other: u64| one as f64 / (one + other).max(1) as f64;
    let found = share(native.cpu_ns, managed.cpu_ns);
    checks.share("the C++ function", found, share(n, other), samples);
    checks.within("its own time", own.cpu_ns, native.cpu_ns, 0.02);
    // The P/Invoke's stub is a part of its caller.
    let is_called = |row: &e2e::Row| row.has(name) && row.has("Native.Live(");
    let called = run.view.of(|row| row.tid == tid && is_called(row));
    checks.within("its time below its caller", called.cpu_ns, native.cpu_ns, 0.02);
    checks.roots(0.99);
    builds(run, runtime, &mut checks)?;
    if name == PATH {
        let raw = raw_names(run);
        let mangled = "_ZN4shop5StoreIlE4loadERKli";
        checks.that(raw.contains(mangled), format!("the raw name is not in {raw:?}"));
        let table = top(run, &["--json"])?;
        checks.that(table.contains(FULL), format!("no {FULL} in\n{table}"));
    }
    // Packed symbols are names only.
    let expected = name == PATH && !run.name.contains("packed");
    let table = top(run, &["--json", "--lines"])?;
    let line = format!("{FULL} {LINE}");
    checks.that(table.contains(&line) == expected, format!("{line} in\n{table}"));
    checks.done()
}

/// The mappings of native frames name the builds that the files are.
fn builds(run: &Run, runtime: &str, checks: &mut e2e::Checks<'_>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for (_, profile) in &run.profiles {
        for frame in &profile.frames {
            let function = profile.functions.get(frame.function.get());
            if function.and_then(|function| function.kind) != Some(FrameKind::Native) {
                continue;
            }
            let module = frame.module.and_then(|module| profile.modules.get(module.get()));
            let module = module.context("a native frame without a module")?;
            let text = |index| profile.text(index).to_owned();
            seen.insert((text(module.file), text(module.build_id)));
        }
    }
    let names: Vec<_> = seen.iter().map(|(file, _)| file.as_str()).collect();
    for part in ["libshop.so", "libc.so", runtime] {
        let is_there = names.iter().any(|name| name.contains(part));
        checks.that(is_there, format!("no {part} among {names:?}"));
    }
    for (file, build_id) in &seen {
        if file == "[vdso]" {
            checks.that(!build_id.is_empty(), "the vDSO has no build id");
            continue;
        }
        if let Some(expected) = build_id_of(file)? {
            checks.that(*build_id == expected, format!("{file}: {build_id}, not {expected}"));
        }
    }
    Ok(())
}

/// What `readelf` finds; `None`, loudly, if there is no such tool.
fn build_id_of(file: &str) -> Result<Option<String>> {
    match Command::new("readelf").args(["--notes", "--wide", file]).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("SKIPPED in part: there is no readelf");
            Ok(None)
        }
        Err(error) => Err(error.into()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let id = text.lines().find_map(|line| line.split_once("Build ID: "));
            Ok(Some(id.map(|(_, id)| id.trim().to_owned()).unwrap_or_default()))
        }
    }
}

fn raw_names(run: &Run) -> BTreeSet<String> {
    let profiles = run.profiles.iter().map(|(_, profile)| profile);
    profiles
        .flat_map(|profile| {
            let raw = |function: &profile::Function| profile.text(function.raw_name).to_owned();
            profile.functions.iter().map(raw)
        })
        .filter(|name| name.starts_with("_Z"))
        .collect()
}

fn top(run: &Run, options: &[&str]) -> Result<String> {
    let output = Command::new(&built()?.corprof)
        .arg("top")
        .args(options)
        .arg(&run.folder)
        .output()
        .context("corprof")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "corprof top: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn strip(library: &Path) -> Result<bool> {
    tool("strip", [OsStr::new("--strip-all"), library.as_ref()])
}

fn add(library: &Path, option: &str, file: &OsStr) -> Result<bool> {
    let option: PathBuf =
        [OsStr::new(option), file].into_iter().collect::<std::ffi::OsString>().into();
    tool("objcopy", [option.as_os_str(), library.as_ref()])
}

/// Runs a tool; false, loudly, if it is not installed.
fn tool<'a>(name: &str, arguments: impl IntoIterator<Item = &'a OsStr>) -> Result<bool> {
    match Command::new(name).args(arguments).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("SKIPPED: there is no {name}");
            Ok(false)
        }
        Err(error) => Err(error).with_context(|| name.to_owned()),
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{name}: {errors}");
            Ok(true)
        }
    }
}
