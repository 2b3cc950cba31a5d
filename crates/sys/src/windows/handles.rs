//! Handles of this process's threads, by id: opened when first asked for, and kept, since opening
//! one costs more than what is then asked. While a handle is open its id is no other thread's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::api::{self, Handle};
use super::stacks;
use crate::thread::StackRange;

/// Threads that may be known before those that have ended are looked for.
const KNOWN_MIN: usize = 256;

/// A thread's handle; closed when nobody has it any more.
#[derive(Debug)]
pub struct ThreadHandle {
    raw: Handle,
    stack: OnceLock<Option<StackRange>>,
    /// Its CPU clock when it was last asked whether it had moved, in nanoseconds.
    asked_ns: AtomicU64,
}

impl ThreadHandle {
    /// The system's number for it.
    pub fn raw(&self) -> Handle {
        self.raw
    }

    /// Where its stack is.
    pub fn stack(&self) -> Option<StackRange> {
        *self.stack.get_or_init(|| stacks::stack_of(self))
    }

    /// Whether its clock has moved to there since this was last asked.
    pub fn has_moved(&self, cpu_ns: u64) -> bool {
        self.asked_ns.swap(cpu_ns, Ordering::Relaxed) != cpu_ns
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        // SAFETY: an open handle; a limit of 0 does not wait.
        unsafe { api::WaitForSingleObject(self.raw, 0) == api::WAIT_OBJECT_0 }
    }
}

impl Drop for ThreadHandle {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once.
        unsafe { api::CloseHandle(self.raw) };
    }
}

#[derive(Default)]
struct Known {
    threads: HashMap<u32, Arc<ThreadHandle>>,
    /// How many there may be before those that have ended are closed.
    limit: usize,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

fn known() -> MutexGuard<'static, Option<Known>> {
    // Each change is complete in itself.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread of this process; `None` if there is none of that id.
pub fn of(tid: u32) -> Option<Arc<ThreadHandle>> {
    let mut place = known();
    let known = place.get_or_insert_default();
    if let Some(thread) = known.threads.get(&tid) {
        return Some(Arc::clone(thread));
    }
    if known.threads.len() >= known.limit.max(KNOWN_MIN) {
        known.threads.retain(|_, thread| !thread.has_ended());
        known.limit = known.threads.len().saturating_mul(2);
    }
    // SAFETY: only asks; the right to it is checked.
    let handle = unsafe { api::OpenThread(api::THREAD_RIGHTS, 0, tid) };
    if handle == 0 {
        return None;
    }
    let thread =
        Arc::new(ThreadHandle { raw: handle, stack: OnceLock::new(), asked_ns: AtomicU64::new(0) });
    known.threads.insert(tid, Arc::clone(&thread));
    Some(thread)
}

/// Forgets a thread: its id may be another's from now on.
pub fn close(tid: u32) {
    if let Some(known) = known().as_mut() {
        known.threads.remove(&tid);
    }
}
