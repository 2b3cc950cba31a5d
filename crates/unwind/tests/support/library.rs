//! Libraries that a test makes with the system's compiler, and loads.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use unwind::modules::{self, Module};

/// A folder of the test's own, deleted at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("unwind-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a tool; `None`, loudly, where it is not installed.
pub fn tool(name: &str, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Option<()> {
    let arguments = arguments.iter().map(|argument| argument.as_ref());
    match Command::new(name).args(arguments).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: there is no {name}");
            None
        }
        Err(error) => panic!("{name}: {error}"),
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}: {errors}");
            Some(())
        }
    }
}

/// Compiles a shared library with all its symbols.
pub fn compile(compiler: &str, source: &str, library: &Path) -> Option<()> {
    let file = library.with_extension(if compiler == "cc" { "c" } else { "cc" });
    std::fs::write(&file, source).unwrap();
    let flags = ["-O1", "-fno-inline", "-shared", "-fPIC", "-g", "-Wl,--build-id"];
    let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = Vec::new();
    arguments.extend(flags.iter().map(|flag| flag as &dyn AsRef<std::ffi::OsStr>));
    arguments.extend([&"-o" as &dyn AsRef<std::ffi::OsStr>, &library, &file]);
    tool(compiler, &arguments)
}

/// Loads a library for good; an exported function's address in it.
pub fn load(library: &Path, function: &str) -> u64 {
    let path = CString::new(library.as_os_str().as_bytes()).unwrap();
    let function = CString::new(function).unwrap();
    // SAFETY: the library is the test's own, and has no constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{library:?} can't be loaded");
    // SAFETY: the handle is that of a loaded library.
    let address = unsafe { libc::dlsym(handle, function.as_ptr()) };
    assert!(!address.is_null(), "{function:?} is not exported");
    address as u64
}

/// The loaded module that holds an address.
pub fn module_at(address: u64) -> Arc<Module> {
    let scan = modules::scan(&[], sys::memory::copy_own);
    let mut modules = scan.fresh.into_iter().map(|fresh| fresh.module);
    modules.find(|module| module.contains(address)).expect("a loaded module")
}
