//! The runtime's profiling API with a typed face: COM stops in this crate.
//!
//! The interfaces are written by hand from the runtime's `corprof.idl` and `cor.h` (MIT): a COM
//! interface is a pointer to a table of functions, and a slot is a number that never changes. A
//! runtime that knows fewer interfaces answers "no such interface", and the version says how far
//! the table reaches; nothing beyond it is called.

mod callback;
mod com;
mod factory;
mod import;
mod info;
#[cfg(feature = "oracle")]
pub mod snapshot;
mod suspension;

pub use callback::Events;
pub use com::{Guid, HResult};
pub use factory::{PROFILER_CLASS, class_object};
pub use import::Import;
pub use info::{
    ClassId, ClassInfo, CodeRange, DynamicFunction, EventMask, FunctionId, FunctionInfo, IlMapping,
    Info, ModuleId, ModuleInfo, ReJitId, RuntimeVersion, ThreadId,
};
pub use suspension::SuspendReason;
