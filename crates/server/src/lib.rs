//! What answers over HTTP: pages and numbers for a browser, and profiles that agents push.
//!
//! [`http`] is a small server of blocking threads: requests are few, and each is a calculation.
//! [`guard`] and [`gate`] decide who may ask, at one [`door`]. [`intake`] reads what is pushed,
//! [`rate`] bounds how often, [`turns`] how much at a time, and [`store`] keeps it.
#![forbid(unsafe_code)]

pub mod door;
pub mod gate;
pub mod guard;
pub mod http;
pub mod intake;
pub mod rate;
pub mod store;
pub mod turns;
