//! What the profiler asks of the operating system, for normal threads: clocks, timers, signals,
//! `/proc`, memory. One error convention: `io::Result` where the kernel says why, `Option` where
//! the only answer is "not there any more".
//!
//! Nothing here knows what a sample is. A second operating system gets a folder beside `linux`.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::*;
