//! Linux.

pub mod clock;
pub mod disposition;
pub mod memory;
pub mod pages;
pub mod proc;
pub mod thread;
pub mod timer;
