//! The two ways to find out where CPU time goes.
//!
//! **timer**: a timer on each thread's CPU clock signals it after every interval of CPU time. Only
//! threads that run are ever touched. **scan**: at every interval, look for threads that are
//! running, and signal those. With either, a sample's value is the thread's CPU time since its last
//! sample, as the kernel counted it, so that the sum is the kernel's.

mod scan;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use config::Sampler;
use model::Loss;
use signal::handler::Shared;
use signal::record::{Record, ThreadRef};
use sys::clock;
use sys::timer::{self, CpuTimer};

use crate::log::Log;

pub use scan::Scan;

/// What keeps sampling a thread; sampling ends when it is dropped.
#[derive(Debug)]
pub enum Watch {
    /// Its own timer.
    Timer(Timer),
    /// The scan.
    Scanned,
    /// Nothing.
    Off,
}

/// A thread's timer.
#[derive(Debug)]
pub struct Timer {
    timer: CpuTimer,
    hastened: Hastened,
}

/// After which sample of its thread a timer was last hastened, as the thread's CPU clock then.
#[derive(Debug, Default)]
struct Hastened(Option<u64>);

impl Hastened {
    /// Whether there has been a sample since, so that the timer may be hastened again.
    fn may_again(&mut self, sampled_ns: u64) -> bool {
        self.0.replace(sampled_ns) != Some(sampled_ns)
    }
}

/// The CPU sampler: decides for each thread what samples it.
pub struct CpuSampler {
    /// `None`: no CPU samples.
    kind: Option<Sampler>,
    interval: Duration,
    signal: i32,
    log: Log,
    /// The first reason why a thread got no timer, to be said.
    refused: Mutex<Option<String>>,
    refusal_seen: AtomicBool,
}

impl CpuSampler {
    /// A sampler that takes a sample every `interval` of CPU time, with that signal.
    #[must_use]
    pub fn new(kind: Option<Sampler>, interval: Duration, signal: i32, log: Log) -> Self {
        let refusal_seen = AtomicBool::new(false);
        Self { kind, interval, signal, log, refused: Mutex::new(None), refusal_seen }
    }

    /// The signal that makes a thread take a sample.
    #[must_use]
    pub fn signal(&self) -> i32 {
        self.signal
    }

    /// Says, once, that a thread got no timer. Not while a lock is held that new threads wait for:
    /// who reads the host's standard error may be slow.
    pub fn say_refusal(&self) {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(refused) = refused {
            self.log.warn(&refused);
        }
    }

    /// Lets a thread's timer expire at the next tick at which the thread runs.
    ///
    /// Once a sample: setting a timer withdraws its signal if that is still under way, and the tick
    /// that takes the processor from the thread does not yet count the turn that it ends. A thread
    /// whose turns are a tick long would never get there if it were hastened in each.
    pub fn expire_soon(&self, timer: &mut Timer, record: &Record) {
        if timer.hastened.may_again(record.cpu_seen_ns()) {
            // It can only fail in a forked child, which has no timers and takes no samples.
            let _no_timer = timer.timer.expire_soon(self.interval);
        }
    }

    /// Begins to sample a thread.
    pub fn watch(&self, thread: ThreadRef, tid: u32, shared: &Shared) -> Watch {
        match self.kind {
            None => return Watch::Off,
            Some(Sampler::Scan) => return Watch::Scanned,
            // Where no thread can have one, that is no news.
            Some(Sampler::Timer) if !timer::ARE_THERE => return Watch::Scanned,
            Some(Sampler::Timer) => {}
        }
        match CpuTimer::start(tid, self.signal, thread.to_value(), self.interval) {
            Ok(timer) => {
                let due_ns = clock::thread_cpu_ns(tid).unwrap_or(0);
                if let Some(record) = shared.records.get(thread.index as usize) {
                    record.set_timer(timer.id(), due_ns);
                }
                Watch::Timer(Timer { timer, hastened: Hastened::default() })
            }
            Err(error) => {
                shared.count(Loss::NoTimer);
                if !self.refusal_seen.swap(true, Ordering::Relaxed) {
                    let refused = format!(
                        "no CPU timer for thread {tid}: {error}. It and others like it are sampled \
                         by scanning instead. Raise RLIMIT_SIGPENDING (ulimit -i) to have timers."
                    );
                    *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
                }
                Watch::Scanned
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Hastened;

    #[test]
    fn a_timer_is_hastened_once_a_sample() {
        let mut hastened = Hastened::default();
        let answers = [0, 0, 0, 7, 7, 9].map(|sampled_ns| hastened.may_again(sampled_ns));
        assert_eq!(answers, [true, false, false, true, false, true]);
    }
}
