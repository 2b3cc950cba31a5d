//! Getting a finished profile out: to Datadog, Pyroscope, OpenTelemetry; and keeping it on disk
//! until that works.
//!
//! In the order of the data: `target` (a profile made ready for each), `parcel` (what that is),
//! `inbox` (handed over, and not taken yet), `core` (what waits for whom: `spool` on disk, `place`
//! where that is, `backoff` until when, `turns` which of them first), `client` (HTTP over `socket`
//! and `tls`, through a `proxy`; `answer` reads what comes back), `verdict` (what an answer means).
//! `exporter` is the thread that does it.
//!
//! In the host it has one thread, no runtime of its own, and an end to every wait. Nothing that the
//! other side sends is trusted. Secrets are in a type that doesn't show them.
#![forbid(unsafe_code)]

mod address;
mod answer;
mod backoff;
mod base64;
mod client;
mod core;
mod deadline;
mod destination;
mod exporter;
mod fault;
mod identity;
mod inbox;
mod parcel;
mod place;
mod proxy;
mod request;
mod socket;
mod spool;
mod status;
mod target;
mod tls;
mod turns;
mod verdict;

pub use address::{Address, BadAddress, Scheme};
pub use base64::encode as base64;
pub use client::Client;
pub use core::{Core, Job, Say};
pub use deadline::Cut;
pub use destination::{BadDestination, Destination, parcel};
pub use exporter::{Exporter, StartError, destinations};
pub use fault::{Fault, Stage};
pub use identity::{Identity, id_text, random_id};
pub use parcel::Parcel;
pub use place::Place;
pub use request::{Answer, Post, Request};
pub use spool::{Held, held_in, waiting_in};
pub use status::{Counts, Status};
pub use verdict::{Verdict, Why};
