//! Which .NET runtime a process has, by what it has mapped.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::{Hidden, Libc, Library, Process};

/// Threads that are looked at for the runtime's names.
const THREADS_LOOKED_AT: usize = 64;
/// What a program exports that has CoreCLR inside.
const CORECLR: &str = "DotNetRuntimeInfo";
/// What a program exports that was compiled ahead of time.
const NATIVE_AOT: &str = "DotNetRuntimeDebugHeader";

/// A runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// CoreCLR, in this library.
    CoreClr(PathBuf),
    /// CoreCLR inside the program itself: a single file.
    SingleFile,
    /// Compiled ahead of time: there is nothing that could load a profiler.
    NativeAot,
    /// Mono, whose diagnostics know no such profiler.
    Mono,
    /// Threads have the runtime's names, and nothing else is known.
    Unknown,
}

impl Runtime {
    /// The runtime of a process that has these files mapped; `None` if it is none of .NET's.
    ///
    /// Programs are opened only if their threads have the runtime's names (since .NET 6).
    ///
    /// # Errors
    /// If the process can't be looked at.
    pub fn of(process: &Process, mapped: &[PathBuf]) -> Result<Option<Self>, Hidden> {
        let named = |name: &str| mapped.iter().find(|file| file_name(file) == name);
        if let Some(library) = named("libcoreclr.so") {
            return Ok(Some(Self::CoreClr(library.clone())));
        }
        if named("libmonosgen-2.0.so").is_some() {
            return Ok(Some(Self::Mono));
        }
        let threads = process.thread_names(THREADS_LOOKED_AT)?;
        if !threads.iter().any(|name| name.starts_with(".NET ")) {
            return Ok(None);
        }
        Ok(Some(Self::of_program(process)))
    }

    fn of_program(process: &Process) -> Self {
        match Library::exports(&process.file("exe"), &[CORECLR, NATIVE_AOT]).as_deref() {
            Ok([true, _]) => Self::SingleFile,
            Ok([_, true]) => Self::NativeAot,
            _ => Self::Unknown,
        }
    }

    /// The version, if the path of the runtime has it: `…/Microsoft.NETCore.App/8.0.4/…`.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        let Self::CoreClr(library) = self else { return None };
        let folder = library.parent()?.file_name()?.to_str()?;
        let is_version = folder.starts_with(|first: char| first.is_ascii_digit());
        (is_version && folder.contains('.')).then(|| folder.to_owned())
    }
}

/// The C library that a process with these files has mapped: of glibc also where it is.
#[must_use]
pub fn libc_of(mapped: &[PathBuf]) -> (Libc, Option<&Path>) {
    let is_musl = |name: &str| name.starts_with("ld-musl-") || name.starts_with("libc.musl-");
    if mapped.iter().any(|file| is_musl(&file_name(file))) {
        return (Libc::Musl, None);
    }
    let is_glibc = |name: &str| name == "libc.so.6" || name.starts_with("libc-2.");
    match mapped.iter().find(|file| is_glibc(&file_name(file))) {
        Some(file) => (Libc::Glibc(2, 0), Some(file)),
        None => (Libc::None, None),
    }
}

/// A path's last part, without the mark of a deleted file.
pub fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(OsStr::new("")).to_string_lossy();
    name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn coreclr_is_known_by_its_library_and_the_version_by_its_folder() {
        let process = Process::in_folder(1, "/nowhere".into());
        let path = "/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.4/libcoreclr.so";
        let runtime = Runtime::of(&process, &files(&["/bin/x", path])).unwrap().unwrap();
        assert_eq!(runtime, Runtime::CoreClr(path.into()));
        assert_eq!(runtime.version().as_deref(), Some("8.0.4"));
        let own = Runtime::of(&process, &files(&["/app/libcoreclr.so (deleted)"])).unwrap();
        assert_eq!(own.unwrap().version(), None);
        assert_eq!(Runtime::of(&process, &files(&["/lib/libc.so.6"])), Err(Hidden::Gone));
        let mono = Runtime::of(&process, &files(&["/usr/lib/libmonosgen-2.0.so"]));
        assert_eq!(mono, Ok(Some(Runtime::Mono)));
    }

    #[test]
    fn this_test_has_no_runtime() {
        let own = Process::new(std::process::id());
        let mapped = own.mapped_files().unwrap();
        assert_eq!(Runtime::of(&own, &mapped), Ok(None));
    }

    #[test]
    fn the_c_library_is_known_by_its_name() {
        assert_eq!(libc_of(&files(&["/lib/ld-musl-x86_64.so.1"])).0, Libc::Musl);
        let old = files(&["/lib/x86_64-linux-gnu/libc-2.31.so"]);
        assert_eq!(libc_of(&old), (Libc::Glibc(2, 0), Some(old[0].as_path())));
        assert_eq!(libc_of(&files(&["/bin/static"])).0, Libc::None);
    }
}
