//! HTTP/1.1 as far as a browser on the same machine and agents need it.
//!
//! Requests are parsed by `httparse`; all else is bounded here: heads, bodies, connections, and the
//! time that a client may take.

mod connections;
mod listen;
mod request;
mod response;

pub use listen::{Handler, Limits, Server};
pub use request::{Method, Refused, Request};
pub use response::Response;
