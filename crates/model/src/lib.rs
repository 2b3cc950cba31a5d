//! The words of the profiler: units, kinds, reasons and limits. No I/O, no allocation, no
//! dependency.
#![no_std]
#![forbid(unsafe_code)]

mod class;
pub mod limits;
mod reason;
mod state;
pub mod suspended;

pub use class::ThreadClass;
pub use reason::{EndReason, Loss};
pub use state::{FrameKind, ThreadState};
