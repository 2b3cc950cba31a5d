//! Unwind data of native modules and managed methods, prepared off the handler.
//!
//! A normal thread finds the loaded modules, copies their unwind data while the loader can't take
//! it away, turns it into the flat tables of [`signal::table`], and publishes them. Nothing here
//! may be called in a signal handler. What is in ELF files is read on Linux, `pe` is for Windows.
//! Nothing here panics: damaged data gives a table with gaps,
//! and a counter that says how many and why.

pub mod blocks;
pub mod bytes;
#[cfg(target_os = "linux")]
pub mod cfi;
pub mod cpp_path;
#[cfg(target_os = "linux")]
pub mod debug_file;
#[cfg(target_os = "linux")]
pub mod eh_frame;
#[cfg(target_os = "linux")]
pub mod elf;
#[cfg(target_os = "linux")]
pub mod elf_file;
#[cfg(target_os = "linux")]
pub mod entries;
#[cfg(target_os = "linux")]
pub mod hijack;
#[cfg(target_os = "linux")]
pub mod lzma;
pub mod managed;
pub mod mangled;
#[cfg(target_os = "linux")]
pub mod modules;
pub mod native;
pub mod pe;
#[cfg(target_os = "linux")]
pub mod program;
pub mod prologue;
pub mod rules;
#[cfg(target_os = "linux")]
pub mod symbol_tables;
#[cfg(target_os = "linux")]
pub mod symbols;
#[cfg(target_os = "linux")]
pub mod xz;

#[cfg(windows)]
pub use pe::{modules, symbols};
