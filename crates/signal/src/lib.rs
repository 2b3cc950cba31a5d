//! All that may run in a signal handler.
#![no_std]

pub mod epilogue;
pub mod rule;
pub mod table;
