//! Windows. Modules have the names and functions of those in `linux`; what Windows has no such
//! thing for says so, and the callers have a way for that on Linux, too.

pub mod alternate_stack;
mod api;
pub mod clock;
pub mod code;
pub mod control_socket;
pub mod disposition;
pub mod files;
mod handles;
pub mod memory;
pub mod modules;
mod overlapped;
pub mod pages;
pub mod proc;
pub mod process_context;
pub mod processors;
pub mod stacks;
pub mod stderr;
mod suspension;
pub mod thread;
pub mod thread_files;
pub mod timer;
pub mod unix_socket;
pub mod user;
