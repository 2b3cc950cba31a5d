//! Unwind rows of managed methods, read off their machine code.
//!
//! The runtime tells a profiler where a method's code is, not how to unwind it. RyuJIT's System V
//! x86-64 prologues have few forms, and outside of them and of epilogues the stack pointer stays
//! (but for `localloc`, which forces a frame pointer). Epilogues need no rows: the walker reads
//! forward from the instruction that it stands at, see `signal::epilogue`.
//!
//! The forms are those that `genFnProlog`, `genAllocLclFrame` and `genFuncletProlog` emit (dotnet's
//! `src/coreclr/jit/codegen{common,xarch}.cpp`), .NET Core 3.1 to .NET 10. They were learned from,
//! and are checked in the tests against, the unwind codes of precompiled assemblies and RyuJIT's
//! own listings, so a new runtime in the rig checks them again.

pub mod instruction;
pub mod method;
pub mod prologue;

pub use method::Method;
pub use prologue::{Prologue, Shape, Step};
