//! Threads whose context a tracer writes: whether they have a span is to be seen at each tick, or
//! less often while none has had one for long.

use model::limits::{RESTING_ROUND_NS, SPAN_GLANCES_MAX, WALL_BACKOFF_DIVISOR};
use signal::record::{Record, ThreadRef};

use super::{Kernel, UNSEEN_NS_MAX, WallSampler};

/// The threads, and when they are looked at.
#[derive(Debug, Default)]
pub(super) struct Traced {
    pub(super) threads: Vec<ThreadRef>,
    /// Where the next look at them begins.
    next: usize,
    /// When a span was last seen to begin or end, or at work.
    active_ns: u64,
    /// For how long the next look can wait, in nanoseconds.
    distance_ns: u64,
    /// When it is due.
    due_ns: u64,
}

impl Traced {
    /// Waits longer the longer nothing has happened, as visits of a blocked thread do.
    fn looked(&mut self, now_ns: u64) {
        let quiet_ns = now_ns.saturating_sub(self.active_ns);
        self.distance_ns = (quiet_ns / WALL_BACKOFF_DIVISOR).min(RESTING_ROUND_NS);
        self.due_ns = now_ns.saturating_add(self.distance_ns);
    }
}

impl<K: Kernel> WallSampler<K> {
    /// A tracer writes a thread's context from now on: it is looked at more often while it has a
    /// span.
    pub fn trace(&mut self, thread: ThreadRef) {
        let record = self.shared.records.get(thread.index as usize);
        if let (Some(record), Some(wall)) = (record, self.threads.get_mut(&thread)) {
            // It has had no context since the last visit.
            wall.watched.begin(record.context(), wall.time_ns);
            self.traced.threads.push(thread);
        }
    }

    /// A span begins: threads are looked at for it at each tick again.
    pub fn span_begins(&mut self) {
        self.traced.active_ns = self.kernel.now_ns();
    }

    /// Whether the next look for spans comes later than at the next tick, so that whoever begins
    /// one has to say so.
    #[must_use]
    pub fn rests_from_spans(&self) -> bool {
        self.traced.distance_ns > self.beat.tick_ns
    }

    /// When the next look for spans is due, in monotonic nanoseconds, if there can be any.
    pub(super) fn spans_due_ns(&self) -> Option<u64> {
        let can_have = !self.traced.threads.is_empty() && self.beat.span_threads > 0;
        can_have.then_some(self.traced.due_ns)
    }

    /// Visits threads that have a span, or had one at their last visit, in turn: a request may be
    /// over before its thread is due. Those that were visited since `begin_ns` are passed over.
    pub(super) fn visit_spans(&mut self, begin_ns: u64) {
        let mut visited = 0;
        // Where the next look begins, if this one leaves somebody out.
        let mut next = None;
        for _ in 0..self.traced.threads.len().min(SPAN_GLANCES_MAX) {
            let Some((thread, record)) = self.next_traced() else { continue };
            let Some(wall) = self.threads.get_mut(&thread) else { continue };
            let context = record.context();
            let has_span = context.has_span();
            let has_changed = wall.watched.glance(context, begin_ns);
            let active_ns = match wall.blocked_since_ns {
                _ if has_changed => begin_ns,
                _ if !has_span => wall.turned_ns,
                stands_since_ns => stands_since_ns.unwrap_or(begin_ns),
            };
            self.traced.active_ns = self.traced.active_ns.max(active_ns);
            let wants = has_changed || has_span;
            if !wants || wall.time_ns >= begin_ns || visited >= self.beat.span_threads {
                continue;
            }
            visited = visited.saturating_add(1);
            if let Some(mut wall) = self.threads.remove(&thread) {
                // It is visited when it is due all the same.
                self.visit(thread, &mut wall, UNSEEN_NS_MAX);
                self.threads.insert(thread, wall);
            }
            if visited == self.beat.span_threads {
                next = Some(self.traced.next);
            }
        }
        self.traced.next = next.unwrap_or(self.traced.next);
        self.traced.looked(begin_ns);
    }

    /// The next of the threads whose context is written. One that has ended is taken off the list.
    fn next_traced(&mut self) -> Option<(ThreadRef, &'static Record)> {
        let Traced { threads, next, .. } = &mut self.traced;
        if *next >= threads.len() {
            *next = 0;
        }
        let thread = *threads.get(*next)?;
        let record = self.shared.records.get(thread.index as usize)?;
        if record.generation() != thread.generation || record.tid() == 0 {
            threads.swap_remove(*next);
            return None;
        }
        *next = next.saturating_add(1);
        Some((thread, record))
    }
}
