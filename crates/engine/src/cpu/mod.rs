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
use signal::record::ThreadRef;
use sys::clock;
use sys::timer::CpuTimer;

use crate::log::Log;

pub use scan::Scan;

/// What keeps sampling a thread; sampling ends when it is dropped.
#[derive(Debug)]
pub enum Watch {
    /// Its own timer.
    Timer(CpuTimer),
    /// The scan.
    Scanned,
    /// Nothing.
    Off,
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

    /// Says, once, that a thread got no timer. Not while a lock is held that new threads wait for:
    /// who reads the host's standard error may be slow.
    pub fn say_refusal(&self) {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(refused) = refused {
            self.log.warn(&refused);
        }
    }

    /// Lets a thread's timer expire at the next tick at which the thread runs.
    pub fn expire_soon(&self, timer: &CpuTimer) {
        // It can only fail in a forked child, which has no timers and takes no samples.
        let _no_timer = timer.expire_soon(self.interval);
    }

    /// Begins to sample a thread.
    pub fn watch(&self, thread: ThreadRef, tid: u32, shared: &Shared) -> Watch {
        match self.kind {
            None => return Watch::Off,
            Some(Sampler::Scan) => return Watch::Scanned,
            Some(Sampler::Timer) => {}
        }
        match CpuTimer::start(tid, self.signal, thread.to_value(), self.interval) {
            Ok(timer) => {
                let due_ns = clock::thread_cpu_ns(tid).unwrap_or(0);
                if let Some(record) = shared.records.get(thread.index as usize) {
                    record.set_timer(timer.id(), due_ns);
                }
                Watch::Timer(timer)
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
