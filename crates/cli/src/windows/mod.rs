//! What is done in another way on Windows.

pub mod attach;
pub mod child;
pub mod control;
pub mod doctor;
pub mod ps;
