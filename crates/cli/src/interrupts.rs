//! Signals that ask us to stop, of which none is lost: the first is kept until it is asked for, the
//! second ends us at once.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diagnostics::Process;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::warn;

/// Signals so soon after the first are the same wish: a shell, `timeout` or `sudo` may pass on what
/// the terminal has sent already.
const SAME: Duration = Duration::from_millis(300);
/// What exit codes of those that a signal ended begin at.
const SIGNALLED: i32 = 128;

/// Blocks them in this thread and in those that it starts: the first thing that a program does, or
/// what comes meanwhile ends it, or is lost where a shell had it ignored.
pub fn block() {
    // It can only fail for a mask that makes no sense.
    let _blocked = stopping().thread_block();
}

/// Has them end us, also those that have come since they were blocked.
pub fn unblock() {
    let _unblocked = stopping().thread_unblock();
}

/// The signals. SIGINT also where it is ignored, as a shell has it for what runs beside it: whoever
/// sends it means us. SIGHUP not then: `nohup` has us go on.
fn stopping() -> SigSet {
    let mut mask: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    let status = Process::new(std::process::id()).status().ok();
    if !status.is_some_and(|status| status.ignores(Signal::SIGHUP as u32)) {
        mask.add(Signal::SIGHUP);
    }
    mask
}

/// What has come.
#[derive(Debug)]
pub struct Interrupts {
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    came: Mutex<bool>,
    changed: Condvar,
}

impl Interrupts {
    /// Reads them from now on, and those that came since they were blocked. The last words are said
    /// when the second comes.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn read(last_words: String) -> io::Result<Self> {
        block();
        let pending = SignalFd::with_flags(&stopping(), SfdFlags::SFD_CLOEXEC)?;
        let seen = Arc::new(Seen::default());
        let to_tell = Arc::clone(&seen);
        let body = move || {
            let number = to_tell.until_second(|| next(&pending));
            warn(last_words);
            std::process::exit(SIGNALLED.saturating_add(number));
        };
        std::thread::Builder::new().name("signals".into()).spawn(body)?;
        Ok(Self { seen })
    }

    /// Whether one has come.
    pub fn came(&self) -> bool {
        *self.seen.came.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one has come, at most so long; whether one has.
    pub fn wait(&self, limit: Duration) -> bool {
        let came = self.seen.came.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.seen.changed.wait_timeout_while(came, limit, |came| !*came);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Seen {
    /// Tells of the first, and gives the number of the second.
    fn until_second(&self, mut next: impl FnMut() -> i32) -> i32 {
        next();
        let first = Instant::now();
        *self.came.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
        loop {
            let number = next();
            if first.elapsed() >= SAME {
                return number;
            }
        }
    }
}

/// Waits for a signal; gives its number.
fn next(pending: &SignalFd) -> i32 {
    loop {
        match pending.read_signal() {
            Ok(Some(signal)) => return i32::try_from(signal.ssi_signo).unwrap_or_default(),
            Ok(None) | Err(Errno::EINTR) => {}
            // Then they end us, as they would without us.
            Err(_) => {
                unblock();
                std::thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_kept_and_a_later_one_ends_it() {
        let interrupts = Interrupts { seen: Arc::default() };
        assert!(!interrupts.came() && !interrupts.wait(Duration::from_millis(1)));
        let mut numbers = [2, 15, 15].into_iter();
        let seen = Arc::clone(&interrupts.seen);
        let reader = std::thread::spawn(move || {
            seen.until_second(|| match numbers.next() {
                Some(number) => number,
                None => {
                    std::thread::sleep(SAME);
                    1
                }
            })
        });
        assert!(interrupts.wait(Duration::from_secs(60)) && interrupts.came());
        assert_eq!(reader.join().unwrap(), 1, "those at once after the first are the same");
    }
}
