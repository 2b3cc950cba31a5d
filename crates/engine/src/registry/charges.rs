//! CPU time that no sample will carry, and from where on a thread's time counts.

use rustc_hash::FxHashMap;

use super::*;

/// The CPU clocks of the process and of all its threads, at the beginning or at the end.
pub struct Clocks {
    /// The threads', by the kernel's ids.
    pub threads: FxHashMap<u32, u64>,
    /// The process's.
    pub process_ns: u64,
}

impl Clocks {
    /// The clocks can't be read at one instant. What threads use between the first and the last
    /// reading is an error of the sums, so of some tries the quickest counts: on a busy machine
    /// this thread may lose its processor in the middle of one.
    pub fn now() -> Self {
        const TRIES: usize = 5;
        const ENOUGH_NS: u64 = 200_000;
        let mut best = Self::read();
        for _ in 1..TRIES {
            if best.1 <= ENOUGH_NS {
                break;
            }
            let next = Self::read();
            if next.1 < best.1 {
                best = next;
            }
        }
        best.0
    }

    /// The clocks, and how much the process used meanwhile: from before the list of threads is
    /// read, since of one that begins afterwards nothing is known, and all is in the process's.
    fn read() -> (Self, u64) {
        let before_ns = clock::process_cpu_ns();
        let ids = thread_ids().unwrap_or_default();
        let clock = |tid: u32| Some((tid, clock::thread_cpu_ns(tid)?));
        let threads = ids.into_iter().filter_map(clock).collect();
        let process_ns = clock::process_cpu_ns();
        (Self { threads, process_ns }, process_ns.saturating_sub(before_ns))
    }
}

impl Registry {
    /// Charges CPU time that no sample will carry: of threads that give none, and of those that
    /// were over before anybody saw them. Without `lists` all threads are known; else their ids are
    /// read, and returned. Returned are also the clocks that were read: where there are many
    /// threads, that is most of the work.
    pub fn settle(&self, lists: bool) -> (Vec<u32>, Readings) {
        // In this order, see the balance.
        let process_ns = clock::process_cpu_ns();
        let ids = if lists { thread_ids().unwrap_or_default() } else { Vec::new() };
        let mut threads = self.lock();
        if threads.stopped {
            // All was charged as it was stopped, up to the clocks of that instant: what the program
            // has done since is no profile's.
            return (ids, Readings::default());
        }
        self.charge_lagging(&threads);
        let mut readings = Readings::since(clock::monotonic_ns(), threads.entries.len());
        let note = |thread, cpu_ns| readings.note(thread, cpu_ns);
        self.charge_unseen(&mut threads, process_ns, &ids, note);
        (ids, readings)
    }

    fn charge_lagging(&self, threads: &Threads) {
        for tid in threads.natives.keys() {
            let entry = threads.entries.get(&Id::Native(*tid));
            let Some(tracked) = entry.and_then(|entry| entry.tracked.as_ref()) else { continue };
            let record = self.shared.records.get(tracked.thread.index as usize);
            let (Some(record), Some(now_ns)) = (record, clock::thread_cpu_ns(*tid)) else {
                continue;
            };
            if now_ns.saturating_sub(record.cpu_seen_ns()) > NATIVE_LAG_NS_MAX {
                let cpu_ns = record.take_cpu_ns(now_ns);
                self.inbox.post(Event::Unsampled { thread: Some(tracked.thread), cpu_ns });
            }
        }
    }

    /// Charges nobody with what nobody has used; `note` is told the clocks of tracked threads.
    pub(super) fn charge_unseen(
        &self,
        threads: &mut Threads,
        process_ns: u64,
        ids: &[u32],
        mut note: impl FnMut(ThreadRef, u64),
    ) {
        let Some(mut balance) = threads.balance else { return };
        let Some(own) = thread::spawned_ids() else { return };
        let used = |tracked: &Tracked| {
            let record = self.shared.records.get(tracked.thread.index as usize);
            let seen_ns = record.map_or(0, signal::record::Record::cpu_seen_ns);
            let now_ns = clock::thread_cpu_ns(tracked.tid);
            if let Some(now_ns) = now_ns {
                note(tracked.thread, now_ns);
            }
            // As it is done when it ends.
            let cpu_ns = now_ns.filter(|now_ns| *now_ns >= seen_ns);
            cpu_ns.unwrap_or(seen_ns).saturating_sub(tracked.from_ns)
        };
        let tracked = threads.entries.values().filter_map(|entry| entry.tracked.as_ref());
        let tracked_ns = tracked.map(used).fold(0, u64::saturating_add);
        let other = |tid: &&u32| !own.contains(tid) && !self.is_tracked(**tid);
        let others = ids.iter().filter(other).filter_map(|tid| {
            let cpu_ns = clock::thread_cpu_ns(*tid)?;
            let from_ns = threads.charged.get(tid).filter(|from| **from <= cpu_ns);
            Some(cpu_ns.saturating_sub(from_ns.copied().unwrap_or(0)))
        });
        let living_ns = others.fold(tracked_ns, u64::saturating_add);
        let owed_ns = balance.owed_ns(process_ns, thread::spawned_cpu_ns(), living_ns);
        threads.balance = Some(balance);
        if owed_ns > 0 {
            self.inbox.post(Event::Unsampled { thread: None, cpu_ns: owed_ns });
        }
    }
}

impl Threads {
    /// Notes up to where a thread's time has been charged: it may be told of again.
    pub(super) fn note_charged(&mut self, tid: u32, cpu_ns: u64) {
        const MAX: usize = 1024;
        self.charged.insert(tid, cpu_ns);
        if self.charged.len() > self.charged_max.max(MAX) {
            self.charged.retain(|tid, from| clock::thread_cpu_ns(*tid) >= Some(*from));
            self.charged_max = self.charged.len().saturating_mul(2);
        }
    }
}
