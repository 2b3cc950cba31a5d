//! The profiler without a runtime: who is sampled, how, what for, and where it goes.
//!
//! In the order of the data: `registry` (threads; `natives` finds those that the runtime doesn't
//! tell of, `balance` what all of them must add up to) → `cpu`, `wall` (samplers; `ticker` is their
//! beat, `blocked` reads a waiting thread, `delays` tells waits from delays, `pauses` both from
//! stops for a garbage collection, `watched` requests from each other) → `event` and the signal
//! crate's ring → `collector` → `accounts` (who is charged; `requests`: for which endpoint; `waits`
//! and `gc_waits`: what a thread waits for), `symbolizer` (names, by `methods`) → `output` (files)
//! and `export` (what sends). `spans` is what tracers call. `profiler` puts them together. What is
//! asked of the runtime is the trait in `runtime`.

mod accounts;
mod balance;
mod blocked;
mod budget;
mod collector;
mod cpu;
mod delays;
mod event;
mod export;
#[cfg(test)]
mod fake;
mod gc_waits;
mod il;
mod log;
#[cfg(feature = "measured")]
pub mod measured;
mod methods;
mod natives;
#[cfg(feature = "oracle")]
mod oracle;
mod output;
mod pauses;
mod profiler;
mod publish;
mod registry;
mod requests;
mod rest;
mod runtime;
mod spans;
mod symbolizer;
mod ticker;
mod waits;
mod wall;
mod watched;

pub use ::export::Status as ExportStatus;
pub use collector::Next;
pub use event::{Event, Inbox};
pub use log::Log;
pub use output::check_folder;
pub use pauses::{PauseReason, Pauses};
pub use profile::After;
pub use profiler::{Profiler, StartError};
pub use registry::{ManagedId, Registry};
pub use runtime::{Assembly, Code, IlStep, MethodName, ModuleKey, Runtime};
pub use spans::Spans;
