//! What can be set: every option declared once, for parsing, `--help` and the docs.
//!
//! The declarations are [`OPTIONS`]. [`Config::from_vars`] makes a [`Config`] of environment
//! variables, [`docs::markdown`] makes `docs/configuration.md`, and the command line makes its
//! flags of the same list. The environment itself is read by the caller.
#![forbid(unsafe_code)]

mod config;
pub mod control;
pub mod docs;
mod duration;
mod export;
mod export_options;
mod option;
mod options;
pub mod tags;
mod variables;
mod warning;

pub use config::{Config, LogLevel, Sampler};
pub use duration::{duration_from_text, duration_to_text};
pub use export::{
    DatadogConfig, ExportConfig, OtlpConfig, PyroscopeConfig, Secret, ServerConfig, Target,
};
pub use option::{Choice, Kind, Opt, Reason};
pub use options::{OPTIONS, find, is_same};
pub use variables::{BESIDE_LIST, PROFILER_GUID, agent_variables, beside_variables};
pub use warning::Warning;
