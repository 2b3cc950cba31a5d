//! Numbers at random, the same in each run.

/// Marsaglia's xorshift generator of 64 bits; the seed is not 0.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next number below a limit that is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// The next index of so many elements, which are not none.
    pub fn index(&mut self, len: usize) -> usize {
        (self.number() >> 8) as usize % len
    }
}
