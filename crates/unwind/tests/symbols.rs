//! Names from real files: with all symbols, stripped, with symbols packed in, with a debug file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/library.rs"]
mod library;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use library::{Folder, compile, load, module_at, tool};
use testing::Random;
use unwind::mangled::readable;
use unwind::modules::{self, Kind, Module};
use unwind::symbols::{NoSymbols, Symbols};

/// An exported C function, one that no table of exports has, and one of C++.
const SOURCE: &str = r#"
namespace shop { template <typename T> struct Store {
    __attribute__((noinline, visibility("hidden"))) int load(T key);
};
template <typename T> int Store<T>::load(T key) { asm volatile(""); return int(key) * 3; } }
__attribute__((noinline)) static int hidden(int n) { asm volatile(""); return n + 7; }
extern "C" int exported(int n) { shop::Store<long> store; return hidden(n) + store.load(n); }
extern "C" __attribute__((visibility("hidden"), noinline)) int hidden_too(int n) { return n; }
extern "C" void *places(int n) {
    return n == 0 ? (void *)&hidden : n == 1 ? (void *)&shop::Store<long>::load : (void *)&exported;
}
"#;

/// A loaded library of that source, made ready by a series of tools; and where its functions are.
struct Library {
    _folder: Folder,
    module: Module,
    hidden: u64,
    load: u64,
    exported: u64,
}

impl Library {
    /// `None`, loudly, if a tool is missing.
    fn new(name: &str, finish: impl Fn(&Folder, &Path) -> Option<()>) -> Option<Self> {
        let folder = Folder::new(name);
        let path = folder.path(&format!("lib{name}.so"));
        // A pointer to a member function is not just an address: hence no such warnings.
        let source = SOURCE.replace("(void *)&shop::Store<long>::load", "member()");
        let member = "static void *member() { union { int (shop::Store<long>::*f)(long); \
                      void *p; } u; u.f = &shop::Store<long>::load; return u.p; }\n";
        let source = source
            .replace("extern \"C\" void *places", &format!("{member}extern \"C\" void *places"));
        compile("g++", &source, &path)?;
        finish(&folder, &path)?;
        let places = load(&path, "places");
        // SAFETY: the function of the source above.
        let places: extern "C" fn(i32) -> u64 = unsafe { std::mem::transmute(places) };
        let module = Module::clone(&module_at(places(2)));
        let library = Self {
            _folder: folder,
            module,
            hidden: places(0),
            load: places(1),
            exported: places(2),
        };
        assert!(!library.module.build_id.is_empty());
        Some(library)
    }

    fn names(&self) -> [Option<String>; 3] {
        let symbols = Symbols::open(&self.module, sys::memory::copy_own).unwrap();
        [self.hidden, self.load, self.exported].map(|address| {
            let symbol = symbols.find(address + 1)?;
            assert_eq!(symbol.offset, 1);
            Some(readable(symbol.name).unwrap_or_else(|| symbol.name.to_owned()))
        })
    }
}

const ALL: [Option<&str>; 3] = [Some("hidden"), Some("shop::Store<…>::load"), Some("exported")];
const EXPORTED: [Option<&str>; 3] = [None, None, Some("exported")];

#[track_caller]
fn check(library: &Library, expected: [Option<&str>; 3]) {
    assert_eq!(library.names(), expected.map(|name| name.map(str::to_owned)));
}

fn strip(path: &Path) -> Option<()> {
    tool("strip", &[&"--strip-all", &path])
}

/// What Fedora and its kin do with each library: the symbols that are not exported, packed.
fn pack(folder: &Folder, path: &Path, debug: &Path) -> Option<()> {
    let keep = folder.path("keep");
    tool("objcopy", &[&"--only-keep-debug", &path, &keep])?;
    let small = folder.path("small");
    tool(
        "objcopy",
        &[
            &"-S",
            &"--remove-section",
            &".gdb_index",
            &"--remove-section",
            &".comment",
            &"-K",
            &"_ZL6hiddeni",
            &"-K",
            &"_ZN4shop5StoreIlE4loadEl",
            &keep,
            &small,
        ],
    )?;
    strip(path)?;
    let _ = fs::remove_file(debug);
    tool("xz", &[&"--keep", &small])?;
    let section = format!(".gnu_debugdata={}", folder.path("small.xz").display());
    tool("objcopy", &[&"--add-section", &section, &path])
}

#[test]
fn all_symbols() {
    let Some(library) = Library::new("whole", |_, _| Some(())) else { return };
    check(&library, ALL);
}

#[test]
fn stripped() {
    let Some(library) = Library::new("stripped", |_, path| strip(path)) else { return };
    check(&library, EXPORTED);
}

#[test]
fn packed_symbols() {
    let finish = |folder: &Folder, path: &Path| pack(folder, path, &folder.path("none"));
    let Some(library) = Library::new("packed", finish) else { return };
    check(&library, ALL);
    // Whatever is damaged in them, the exported names stay.
    let whole = fs::read(&library.module.path).unwrap();
    let at = whole.windows(6).position(|bytes| bytes == b"\xfd7zXZ\0").unwrap();
    let file = Folder::new("damaged");
    let path = file.path("libdamaged.so");
    let module = Module { path: path.clone(), ..library.module.clone() };
    let mut random = Random(0x1f83_d9ab_fb41_bd6b);
    let mut unread = 0;
    for _ in 0..300 {
        let mut damaged = whole.clone();
        for _ in 0..=random.index(3) {
            damaged[at + random.index(600)] = random.number() as u8;
        }
        fs::write(&path, &damaged).unwrap();
        let symbols = Symbols::open(&module, sys::memory::copy_own).unwrap();
        assert_eq!(symbols.find(library.exported).unwrap().name, "exported");
        unread += usize::from(symbols.find(library.hidden).is_none());
    }
    assert!(unread > 30, "{unread} of 300 damages were noticed");
}

#[test]
fn debug_file_by_link() {
    let finish = |folder: &Folder, path: &Path| {
        let debug = folder.path("names.dbg");
        tool("objcopy", &[&"--only-keep-debug", &path, &debug])?;
        strip(path)?;
        let link = format!("--add-gnu-debuglink={}", debug.display());
        tool("objcopy", &[&link, &path])
    };
    let Some(library) = Library::new("linked", finish) else { return };
    check(&library, ALL);
    // Of another build, it is not believed.
    let debug = library.module.path.with_file_name("names.dbg");
    let mut bytes = fs::read(&debug).unwrap();
    let id = library.module.build_id.clone();
    let at = bytes.windows(id.len()).position(|window| window == id).unwrap();
    bytes[at] ^= 1;
    fs::write(&debug, bytes).unwrap();
    check(&library, EXPORTED);
    fs::remove_file(&debug).unwrap();
    tool("mkfifo", &[&debug]).unwrap();
    check(&library, EXPORTED);
}

#[test]
fn a_pipe_in_the_files_place_is_not_waited_for() {
    let Some(library) = Library::new("pipe", |_, _| Some(())) else { return };
    fs::remove_file(&library.module.path).unwrap();
    tool("mkfifo", &[&library.module.path]).unwrap();
    let cause = Symbols::open(&library.module, sys::memory::copy_own).err();
    assert_eq!(cause, Some(NoSymbols::BadFile));
}

#[test]
fn libc_names_are_those_that_people_use() {
    let libc = module_at(libc::qsort as *const () as u64);
    let symbols = Symbols::open(&libc, sys::memory::copy_own).unwrap();
    for (address, name) in [
        (libc::poll as *const () as u64, "poll"),
        (libc::qsort as *const () as u64, "qsort"),
        (libc::read as *const () as u64, "read"),
        (libc::clock_nanosleep as *const () as u64, "clock_nanosleep"),
    ] {
        assert_eq!(symbols.find(address).unwrap().name, name);
    }
}

#[test]
fn the_kernels_page_has_names() {
    let scan = modules::scan(&[], sys::memory::copy_own);
    let mut modules = scan.fresh.iter().map(|fresh| &fresh.module);
    let Some(vdso) = modules.find(|module| module.kind == Kind::Vdso) else {
        eprintln!("SKIPPED: the kernel maps no vDSO");
        return;
    };
    assert!(!vdso.build_id.is_empty(), "{vdso:?}");
    let symbols = Symbols::open(vdso, sys::memory::copy_own).unwrap();
    let range = vdso.code.first().unwrap().clone();
    let names: Vec<_> = range.step_by(16).filter_map(|at| symbols.find(at)).collect();
    let clock = names.iter().any(|symbol| symbol.name.contains("clock_gettime"));
    assert!(clock, "{names:?}");
}

/// All tables at once of the largest file at hand: not slower than can be waited for.
#[test]
fn large_files_take_no_time() {
    let program: PathBuf = std::env::current_exe().unwrap();
    let scan = modules::scan(&[], sys::memory::copy_own);
    let mut fresh = scan.fresh.iter();
    let module = &fresh.find(|fresh| fresh.module.kind == Kind::Executable).unwrap().module;
    let started = Instant::now();
    let symbols = Symbols::open(module, sys::memory::copy_own).unwrap();
    let took = started.elapsed();
    let bytes = fs::metadata(program).unwrap().len();
    println!("{} functions, {} bytes of {bytes}, {took:?}", symbols.len(), symbols.bytes());
    assert!(took < Duration::from_secs(2), "{took:?}");
}
