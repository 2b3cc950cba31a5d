//! The words of the profiler: units, kinds, reasons and limits. No I/O, no allocation, no
//! dependency.
#![no_std]
#![forbid(unsafe_code)]

mod class;
pub mod limits;
mod reason;
mod span_context;
mod state;
pub mod suspended;

pub use class::ThreadClass;
pub use reason::{EndReason, Loss};
pub use span_context::SpanContext;
pub use state::{FrameKind, ThreadState};
