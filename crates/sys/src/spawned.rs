//! The list of the profiler's own threads, on any system.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::thread::own_id;

/// A stack's first and one-past-last address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackRange {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
}

/// The profiler's own threads.
static SPAWNED: Mutex<Spawned> =
    Mutex::new(Spawned { starting: 0, ids: Vec::new(), ended_cpu_ns: 0 });

struct Spawned {
    /// Threads that are made and have not said their ids yet.
    starting: usize,
    ids: Vec<u32>,
    /// CPU time of those that have ended.
    ended_cpu_ns: u64,
}

fn spawned() -> MutexGuard<'static, Spawned> {
    // Each change is complete in itself: what a panicked holder left is usable.
    SPAWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that is on the list: named, with a small stack.
///
/// # Errors
/// Whatever the system says, such as a limit on threads.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    const STACK_BYTES: usize = 512 * 1024;
    let mut starting = spawned();
    starting.starting = starting.starting.saturating_add(1);
    drop(starting);
    let run = move || {
        let _listed = Listed::new();
        body();
    };
    let made = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(run);
    if made.is_err() {
        let mut starting = spawned();
        starting.starting = starting.starting.saturating_sub(1);
    }
    made.map(drop)
}

/// A thread of the profiler is on the list while it holds one.
struct Listed;

impl Listed {
    fn new() -> Self {
        let mut spawned = spawned();
        spawned.starting = spawned.starting.saturating_sub(1);
        spawned.ids.push(own_id());
        Self
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut spawned = spawned();
        let id = own_id();
        spawned.ids.retain(|other| *other != id);
        spawned.ended_cpu_ns = spawned.ended_cpu_ns.saturating_add(clock::own_cpu_ns());
    }
}

/// The ids of the profiler's own threads; `None` while one of them is so new that it has not said
/// its id yet: then it can't be told from the host's.
#[must_use]
pub fn spawned_ids() -> Option<Vec<u32>> {
    let spawned = spawned();
    (spawned.starting == 0).then(|| spawned.ids.clone())
}

/// CPU time of the profiler's own threads, those that have ended too.
#[must_use]
pub fn spawned_cpu_ns() -> u64 {
    let spawned = spawned();
    let alive = spawned.ids.iter().filter_map(|id| clock::thread_cpu_ns(*id));
    alive.fold(spawned.ended_cpu_ns, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::{spawned_cpu_ns, spawned_ids};
    use crate::thread::{own_id, spawn};

    #[test]
    fn threads_of_ours_are_on_the_list_while_they_live() {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let body = move || {
            tell.send(own_id()).expect("somebody listens");
            let _closed = ended.recv();
        };
        spawn("one", body).expect("a thread");
        let id = told.recv().expect("an id");
        assert!(spawned_ids().is_some_and(|ids| ids.contains(&id)));
        assert!(!spawned_ids().is_some_and(|ids| ids.contains(&own_id())), "this one is not ours");
        let before_ns = spawned_cpu_ns();
        // A clock of ticks may not have counted any yet.
        assert!(before_ns > 0 || !crate::clock::is_exact());
        drop(end);
        while spawned_ids().is_none_or(|ids| ids.contains(&id)) {
            std::thread::yield_now();
        }
        assert!(spawned_cpu_ns() >= before_ns, "what it used is remembered");
    }
}
