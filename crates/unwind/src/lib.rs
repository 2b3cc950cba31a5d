//! Unwind data of native modules and managed methods, prepared off the handler.
//!
//! A normal thread finds the loaded modules, copies their unwind data while the loader can't take
//! it away, turns it into the flat tables of [`signal::table`], and publishes them. Nothing here
//! may be called in a signal handler. Nothing here panics: damaged data gives a table with gaps,
//! and a counter that says how many and why.

pub mod bytes;
pub mod cfi;
pub mod cpp_path;
pub mod debug_file;
pub mod eh_frame;
pub mod elf;
pub mod elf_file;
pub mod hijack;
pub mod lzma;
pub mod managed;
pub mod mangled;
pub mod modules;
pub mod native;
pub mod rules;
pub mod symbol_tables;
pub mod symbols;
pub mod xz;
