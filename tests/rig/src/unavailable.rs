//! Something that the rig cannot offer here, and why.

use std::fmt;

/// A runtime, compiler or program that cannot be had on this machine.
#[derive(Clone, Debug)]
pub struct Unavailable {
    /// What is missing, as a person names it: ".NET 9.0.5 with ASP.NET Core".
    pub what: String,
    /// Why it is missing, and what to do about it.
    pub reason: String,
}

impl Unavailable {
    pub(crate) fn new(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { what: what.into(), reason: reason.into() }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is unavailable: {}", self.what, self.reason)
    }
}

impl std::error::Error for Unavailable {}
