//! The CPU clocks of tracked threads, read one after another, each no sooner than a known time.

use rustc_hash::FxHashMap;
use signal::record::ThreadRef;

/// The clocks.
#[derive(Debug, Default)]
pub struct Readings {
    /// When the first was read, in monotonic nanoseconds.
    begin_ns: u64,
    clocks: FxHashMap<ThreadRef, u64>,
}

impl Readings {
    /// None yet; all that are noted are read after that time.
    #[must_use]
    pub fn since(begin_ns: u64, capacity: usize) -> Self {
        let mut clocks = FxHashMap::default();
        clocks.reserve(capacity);
        Self { begin_ns, clocks }
    }

    /// Notes a thread's CPU clock, in nanoseconds.
    pub fn note(&mut self, thread: ThreadRef, cpu_ns: u64) {
        self.clocks.insert(thread, cpu_ns);
    }

    /// A time, and the thread's CPU clock at that time or after it: what is still the same had not
    /// moved by then. `None` if it is not known since `after_ns`.
    #[must_use]
    pub fn of(&self, thread: ThreadRef, after_ns: u64) -> Option<(u64, u64)> {
        let cpu_ns = *self.clocks.get(&thread)?;
        (self.begin_ns >= after_ns).then_some((self.begin_ns, cpu_ns))
    }
}
