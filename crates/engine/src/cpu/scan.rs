//! The scan sampler: looks for threads that are running, in turn.

use model::limits::SCAN_SKIPS_MAX;
use signal::record::ThreadRef;
use sys::disposition;
use sys::proc::is_running;

/// The threads to scan, and where the next tick goes on.
pub struct Scan {
    threads: Vec<(ThreadRef, u32)>,
    next: usize,
    /// Threads that can run at the same time: more can't have been running at a tick.
    processors: usize,
    signal: i32,
}

impl Scan {
    /// Nobody to scan yet.
    #[must_use]
    pub fn new(signal: i32) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { threads: Vec::new(), next: 0, processors, signal }
    }

    /// Adds a thread.
    pub fn add(&mut self, thread: ThreadRef, tid: u32) {
        self.threads.push((thread, tid));
    }

    /// Takes a thread out.
    pub fn remove(&mut self, thread: ThreadRef) {
        self.threads.retain(|(other, _)| *other != thread);
    }

    /// Whether there is anybody to scan.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// One tick: signals the running threads found, one a processor at most, and gives up after
    /// passing over `SCAN_SKIPS_MAX` that are not running. Goes round, so that all have their turn.
    /// Returns how many threads were signalled.
    pub fn tick(&mut self) -> usize {
        self.tick_over(is_running, disposition_send)
    }

    fn tick_over(
        &mut self,
        mut is_running: impl FnMut(u32) -> bool,
        mut send: impl FnMut(u32, i32, u64) -> bool,
    ) -> usize {
        let (mut found, mut skipped) = (0, 0);
        for _ in 0..self.threads.len() {
            if found >= self.processors || skipped > SCAN_SKIPS_MAX {
                break;
            }
            self.next = if self.next < self.threads.len() { self.next } else { 0 };
            let Some((thread, tid)) = self.threads.get(self.next).copied() else { break };
            self.next = self.next.saturating_add(1);
            if is_running(tid) && send(tid, self.signal, thread.to_value()) {
                found += 1;
            } else {
                skipped += 1;
            }
        }
        found
    }
}

fn disposition_send(tid: u32, signal: i32, value: u64) -> bool {
    disposition::send(tid, signal, value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(threads: u32, processors: usize) -> Scan {
        let mut scan = Scan { threads: vec![], next: 0, processors, signal: 0 };
        (0..threads).for_each(|n| scan.add(ThreadRef { index: n, generation: 1 }, n));
        scan
    }

    #[test]
    fn one_a_processor_and_all_in_turn() {
        let mut scan = scan(5, 2);
        let mut seen = vec![];
        for _ in 0..5 {
            assert_eq!(
                scan.tick_over(
                    |_| true,
                    |tid, _, _| {
                        seen.push(tid);
                        true
                    }
                ),
                2
            );
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn gives_up_after_the_skips_and_goes_on_there() {
        let mut scan = scan(1000, 2);
        let mut looked = vec![];
        for _ in 0..20 {
            scan.tick_over(
                |tid| {
                    looked.push(tid);
                    false
                },
                |_, _, _| true,
            );
        }
        assert_eq!(looked.len(), 20 * (SCAN_SKIPS_MAX + 1));
        assert_eq!(looked[SCAN_SKIPS_MAX + 1], looked[SCAN_SKIPS_MAX] + 1);
        assert!((0..1000).all(|tid| looked.contains(&tid)), "every thread has its turn");
    }

    #[test]
    fn a_shrunken_list_is_no_trouble() {
        let mut scan = scan(3, 8);
        scan.tick_over(|_| true, |_, _, _| true);
        (0..3).for_each(|n| scan.remove(ThreadRef { index: n, generation: 1 }));
        assert!(scan.is_empty());
        assert_eq!(scan.tick_over(|_| true, |_, _, _| true), 0);
    }
}
