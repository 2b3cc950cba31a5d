//! What the profiler asks of the operating system, for normal threads: clocks, timers, signals,
//! `/proc`, memory. One error convention: `io::Result` where the kernel says why, `Option` where
//! the only answer is "not there any more".
//!
//! Nothing here knows what a sample is. Each system has a folder whose modules have the same names
//! and functions, so that nobody else asks which system it is.

pub mod attempts;
#[cfg(target_os = "linux")]
mod linux;
pub mod nt;
mod spawned;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(windows)]
pub use windows::*;
