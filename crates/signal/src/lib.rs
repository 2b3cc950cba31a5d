//! All that may run in a signal handler: records, the ring, the walk, the handler itself.
//!
//! No standard library, no allocation, no panic path, no lock. `cargo xtask signal-closure` checks
//! in the linked library that the handler reaches nothing else.
#![no_std]

pub mod arch;
pub mod cache;
pub mod context;
pub mod epilogue;
pub mod frames;
pub mod gate;
pub mod handler;
#[cfg(feature = "oracle")]
pub mod oracle;
pub mod record;
pub mod ring;
pub mod rule;
pub mod sample;
mod sync;
pub mod table;
pub mod tables;
pub mod walk;
