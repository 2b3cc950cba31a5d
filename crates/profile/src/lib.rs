//! The aggregate of samples, and the formats that go out and come in.
//!
//! [`Aggregate`] adds samples up by stack, thread, state and span; [`Aggregate::take`] gives a
//! finished [`Profile`], which [`pprof::write`] turns into a gzipped pprof file. [`otlp`],
//! [`datadog`] and [`pyroscope`] are what is sent. With feature `read`, `read::decode` turns a file
//! back into a [`Profile`] and `read::merge` adds several up.
//!
//! This crate lives in the host: no I/O of its own, no clock, no panic. Everything is bounded by
//! [`Limits`], and what is over a bound is counted and stays visible as a synthetic frame.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod aggregate;
mod bounds;
mod compact;
mod counts;
pub mod datadog;
mod endpoints;
mod file_name;
mod index;
mod interned;
mod json;
mod kind;
mod label_name;
mod labels;
pub mod otlp;
pub mod pprof;
mod profile;
pub mod pyroscope;
#[cfg(feature = "read")]
pub mod read;
mod report;
mod span;
mod strings;
mod timeline;
mod wire;

pub use aggregate::{
    Added, Aggregate, Frame, FrameId, Ids, ModuleId, ModuleInfo, SampleKey, StackId, Taken,
    ThreadKey,
};
pub use bounds::Limits;
pub use counts::{EndCounts, LossCounts};
pub use file_name::{FileName, file_name, service_part};
pub use index::{
    FrameIndex, FunctionIndex, LabelsIndex, ModuleIndex, SpanIndex, StackIndex, StringIndex,
};
pub use kind::{kind_from_name, kind_name};
pub use profile::{
    Endpoint, Function, Label, Location, Module, Period, Profile, Sample, Span, StackNode, Thread,
    Values,
};
pub use report::{After, ReportError, SelfReport};
pub use span::SpanIds;
pub use strings::Strings;
pub use timeline::Moment;
