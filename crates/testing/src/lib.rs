//! What tests of several crates need: numbers at random, and a count of allocations.

mod counting;
mod random;

pub use counting::Counting;
pub use random::Random;
