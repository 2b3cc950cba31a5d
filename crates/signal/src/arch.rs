//! What sampling needs of the processor and of how a thread is stopped to look at it: a signal's
//! context here, a suspended thread's registers there.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(windows)]
pub use windows::*;

/// The registers that a walk starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The instruction pointer.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer, where it is known.
    pub bp: Option<u64>,
}
