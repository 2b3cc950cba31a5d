//! Windows' images and their unwind data. What only reads bytes is built on every system, so that
//! it is tested there.

pub mod image;
#[cfg(windows)]
pub mod modules;
#[cfg(windows)]
pub mod symbols;
pub mod unwind_info;
