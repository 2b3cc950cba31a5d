//! Linux.

pub mod alternate_stack;
pub mod clock;
pub mod code;
pub mod control_socket;
pub mod disposition;
pub mod files;
pub mod memory;
pub mod pages;
pub mod proc;
pub mod process_context;
pub mod processors;
mod silent;
pub mod stacks;
pub mod stderr;
pub mod thread;
pub mod thread_files;
pub mod timer;
pub mod unix_socket;
pub mod user;
