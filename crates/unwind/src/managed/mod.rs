//! Unwind rows of managed methods, read off their machine code.
//!
//! The runtime tells a profiler where a method's code is, not how to unwind it. RyuJIT's System V
//! x86-64 prologues have few forms, and outside of them and of epilogues the stack pointer stays
//! (but for `localloc`, which forces a frame pointer). Epilogues need no rows: the walker reads
//! forward from the instruction that it stands at, see `signal::epilogue`.

pub mod instruction;
pub mod method;
pub mod prologue;

pub use method::Method;
pub use prologue::{Prologue, Shape, Step};
