//! The sampler's thread: wall visits and scans, at a jittered beat. It never calls the runtime.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::limits::RING_SLOTS;
use signal::handler::Shared;
use sys::clock;

use crate::cpu::Scan;
use crate::event::{Event, Inbox};
use crate::natives::Natives;
use crate::registry::{Change, Registry};
use crate::rest::Rest;
use crate::wall::WallSampler;

/// Longest sleep when nothing is due: new threads are seen after that.
const IDLE_NS_MAX: u64 = 100_000_000;
/// The same after so many times at which no thread had come or gone: each waking costs more than
/// all that is then done.
const QUIET_NS_MAX: u64 = 500_000_000;
const QUIET_TIMES: u32 = 50;
/// The same where the budget is exceeded: on a tenth of a processor even looking whether there is
/// anything to do has its price.
const SLOWED_IDLE_NS_MAX: u64 = 500_000_000;
/// The same while threads wait for being sampled.
const ROOM_NS: u64 = 5_000_000;

/// Requests to the ticker, and what it says of itself.
#[derive(Debug, Default)]
pub struct TickerState {
    /// The number of the latest request to settle all wall time.
    settle_request: AtomicU64,
    /// Whether to end.
    stop: AtomicBool,
    /// Its thread, to be woken; nothing before it runs.
    thread: OnceLock<std::thread::Thread>,
    /// It has ended.
    pub stopped: AtomicBool,
    /// By how much to slow down, for the budget; 0 is the same as 1.
    pub slowdown: AtomicU32,
    /// Wall visits made.
    pub wall_samples: AtomicU64,
}

impl TickerState {
    /// The calling thread is the ticker.
    pub fn begin(&self) {
        let _first = self.thread.set(std::thread::current());
    }

    /// Asks for all wall time up to now to be charged; the number comes back in an event.
    pub fn ask_to_settle(&self, request: u64) {
        self.settle_request.store(request, Ordering::Release);
        self.wake();
    }

    /// Has it end.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// The latest request to settle.
    #[cfg(test)]
    pub fn asked_to_settle(&self) -> u64 {
        self.settle_request.load(Ordering::Acquire)
    }

    /// What it was told before it sleeps, it sees; and what it is told afterwards wakes it.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// The ticker.
pub struct Ticker {
    /// The handlers' state.
    pub shared: &'static Shared,
    /// Where threads come from.
    pub registry: Arc<Registry>,
    /// Where events go.
    pub inbox: Arc<Inbox>,
    /// Requests.
    pub state: Arc<TickerState>,
    /// Whether it rests, for those who begin spans.
    pub rest: Arc<Rest>,
    /// The wall sampler, unless switched off.
    pub wall: Option<WallSampler>,
    /// The scan sampler: of all threads, or of those that could not have a timer.
    pub scan: Scan,
    /// What finds threads that the runtime doesn't tell of, unless switched off.
    pub natives: Option<Natives>,
    /// Between two scans, in nanoseconds.
    pub scan_interval_ns: u64,
    /// Between two wall ticks, in nanoseconds.
    pub wall_interval_ns: u64,
}

impl Ticker {
    /// Runs until told to stop.
    pub fn run(mut self) {
        let mut jitter = Jitter(clock::monotonic_ns() | 1);
        let mut next_scan_ns = 0;
        let mut settled = 0;
        let mut quiet_times = 0_u32;
        self.state.begin();
        self.rest.begin(&self.state);
        if let Some(wall) = &mut self.wall {
            wall.keep_files();
        }
        while !self.state.stop.load(Ordering::Acquire) {
            if let Some(natives) = &mut self.natives {
                natives.tick();
            }
            let looks_for_room = self.registry.look_for_room();
            let is_quiet = self.take_changes() == 0;
            quiet_times = if is_quiet { quiet_times.saturating_add(1) } else { 0 };
            if !self.scan.is_empty() && clock::monotonic_ns() >= next_scan_ns {
                self.scan.tick();
                next_scan_ns = clock::monotonic_ns()
                    .saturating_add(jitter.around(self.slowed(self.scan_interval_ns)));
            }
            if let Some(wall) = &mut self.wall {
                if self.rest.set(wall.rests_from_spans()) {
                    wall.span_begins();
                }
                wall.tick();
                self.state.wall_samples.store(wall.samples(), Ordering::Relaxed);
            }
            settled = self.settle_if_asked(settled);
            if self.shared.ring.fill() > RING_SLOTS as u64 / 4 {
                self.inbox.hurry();
            }
            let idle_ns = if quiet_times < QUIET_TIMES { IDLE_NS_MAX } else { QUIET_NS_MAX };
            let idle_ns = self.slowed(idle_ns).min(SLOWED_IDLE_NS_MAX);
            let limit_ns = if looks_for_room { ROOM_NS } else { idle_ns };
            self.sleep(&mut jitter, next_scan_ns, limit_ns);
        }
    }

    /// Learns which threads have come and gone; returns how many that were.
    fn take_changes(&mut self) -> usize {
        let changes = self.registry.take_changes();
        let count = changes.len();
        for change in changes {
            match change {
                Change::Started { thread, tid, time_ns, cpu_ns, scanned } => {
                    if scanned {
                        self.scan.add(thread, tid);
                    }
                    if let Some(wall) = &mut self.wall {
                        wall.add(thread, tid, time_ns, cpu_ns);
                    }
                }
                Change::Scanned { thread, tid } => self.scan.add(thread, tid),
                Change::Traced { thread } => {
                    if let Some(wall) = &mut self.wall {
                        wall.trace(thread);
                    }
                }
                Change::Ended { thread, time_ns, cpu_ns } => {
                    self.scan.remove(thread);
                    match &mut self.wall {
                        Some(wall) => wall.remove(thread, time_ns, cpu_ns),
                        None => self.inbox.post(Event::Ended { thread }),
                    }
                }
            }
        }
        count
    }

    fn settle_if_asked(&mut self, settled: u64) -> u64 {
        let request = self.state.settle_request.load(Ordering::Acquire);
        if request == settled {
            return settled;
        }
        let readings = self.natives.as_mut().map(Natives::settle).unwrap_or_default();
        let _count = self.take_changes();
        if let Some(wall) = &mut self.wall {
            wall.settle(&readings);
        }
        self.inbox.post(Event::Settled { request });
        self.inbox.hurry();
        request
    }

    fn slowed(&self, interval_ns: u64) -> u64 {
        interval_ns.saturating_mul(u64::from(self.state.slowdown.load(Ordering::Relaxed).max(1)))
    }

    /// Sleeps a tick, or longer when nothing is due, at most so long.
    fn sleep(&self, jitter: &mut Jitter, next_scan_ns: u64, limit_ns: u64) {
        let now_ns = clock::monotonic_ns();
        let wall_due_ns = self.wall.as_ref().and_then(WallSampler::next_due_ns);
        let tick_ns = jitter.around(self.slowed(self.wall_interval_ns));
        let idle_until_ns = now_ns.saturating_add(limit_ns);
        let wall_ns =
            wall_due_ns.map_or(idle_until_ns, |due| due.max(now_ns.saturating_add(tick_ns)));
        let scan_ns = if self.scan.is_empty() { idle_until_ns } else { next_scan_ns };
        let until_ns = wall_ns.min(scan_ns).min(idle_until_ns);
        // Longer than a tick only where nothing is due; a request to settle or to stop ends it.
        std::thread::park_timeout(Duration::from_nanos(until_ns.saturating_sub(now_ns)));
    }
}

/// A small generator (xorshift64), so that ticks can't fall into step with periodic work.
struct Jitter(u64);

impl Jitter {
    /// Evenly between half and one and a half of the interval.
    fn around(&mut self, interval_ns: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (interval_ns / 2).saturating_add(self.0 % interval_ns.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_keeps_the_mean() {
        let mut jitter = Jitter(42);
        let n = 10_000_u64;
        let draws: Vec<u64> = (0..n).map(|_| jitter.around(1000)).collect();
        assert!(draws.iter().all(|draw| (500..1500).contains(draw)));
        let mean = draws.iter().sum::<u64>() / n;
        // The deviation of a mean of 10,000 even draws over 1000 is 2.9; four of them.
        assert!((988..=1012).contains(&mean), "mean {mean}");
    }
}
