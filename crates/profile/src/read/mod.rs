//! Reading pprof files, of anybody and in any state, and adding several up.
//!
//! Nothing in a file is believed: sizes are bounded, positions are looked up, and what doesn't
//! make sense is an error that says where.

mod decode;
mod error;
mod inflate;
mod labels;
mod merge;
mod otlp;
mod push;
mod request_names;
mod tables;
mod threads;

pub use decode::{Decoded, decode, decode_within};
pub use error::DecodeError;
pub use merge::{Merger, merge};
pub use otlp::{OtlpProfile, otlp_request};
pub use push::{Series, push_request};
pub use request_names::{RequestNames, Told, supersedes};
