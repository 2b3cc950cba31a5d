//! The targets: for each how a profile is made ready, and where it goes.

pub(crate) mod datadog;
pub(crate) mod otlp;
pub(crate) mod pyroscope;
pub(crate) mod server;
