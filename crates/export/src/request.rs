//! What is sent, and what comes back.

use std::sync::Arc;
use std::time::Duration;

use config::Secret;

use crate::address::Address;
use crate::fault::Fault;

/// A POST request. Its headers may have secrets, so they can't be shown.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where to.
    pub address: Address,
    /// Names and values, besides those that every request has.
    pub headers: Vec<(String, Secret)>,
    /// What is sent.
    pub body: Arc<[u8]>,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// How long to wait, if it says so.
    pub retry_after: Option<Duration>,
    /// Whether it says that what was sent is there already, as `corprof serve` does.
    pub was_there: bool,
    /// The beginning of its text; anybody's.
    pub text: Vec<u8>,
}

/// Who sends requests; a test answers from a list.
pub trait Post {
    /// Sends a request, within this time.
    ///
    /// # Errors
    /// Why there is no answer.
    fn post(&mut self, request: &Request, limit: Duration) -> Result<Answer, Fault>;
}
