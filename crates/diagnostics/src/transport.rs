//! How a runtime is connected to: a Unix socket, or a named pipe of Windows.

use std::io;
use std::time::Instant;

/// Where a runtime can be connected to. Each connection serves one request.
pub trait Endpoint {
    /// Connects.
    ///
    /// # Errors
    /// If nobody is there, or it may not be connected to; `TimedOut` after the deadline.
    fn connect(&self, deadline: Instant) -> io::Result<Box<dyn Stream>>;
}

/// A connection.
pub trait Stream {
    /// Sends all the bytes.
    ///
    /// # Errors
    /// If the other side went away; `TimedOut` after the deadline.
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()>;

    /// Fills the bytes.
    ///
    /// # Errors
    /// If the other side went away before there were so many; `TimedOut` after the deadline.
    fn receive(&mut self, bytes: &mut [u8], deadline: Instant) -> io::Result<()>;
}
