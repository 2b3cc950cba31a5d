//! What the wall sampler has seen of a thread's context: which request the time since the last
//! visit belongs to, where the request changed in between.

use signal::context::{Context, SpanContext};

/// A thread's context, as it was last seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    sequence: u32,
    context: SpanContext,
    /// Until when it is known to have been that; 0 for a thread whose context nobody writes.
    same_until_ns: u64,
}

/// Whom the time between two visits belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// What the thread worked for at the first visit.
    pub before: SpanContext,
    /// At the second.
    pub after: SpanContext,
    /// Whether it changed in between.
    pub changed: bool,
    /// The part of the time that belongs to the first, in 65,536ths; the rest is the second's.
    before_share: u32,
}

/// All of the time, as a share.
const ALL: u32 = 1 << 16;

impl Watched {
    /// The context is written from now on.
    pub fn begin(&mut self, context: &Context, now_ns: u64) {
        *self = Self { sequence: context.sequence(), same_until_ns: now_ns, ..Self::default() };
    }

    /// Glances at the context; returns whether it has changed since the last visit. A flow that
    /// comes to a thread writes it anew, often with what it was.
    pub fn glance(&mut self, context: &Context, now_ns: u64) -> bool {
        let sequence = context.sequence();
        if sequence != self.sequence && context.read() != Some(self.context) {
            return true;
        }
        self.sequence = sequence;
        self.same_until_ns = now_ns;
        false
    }

    /// A visit: whom the time since `since_ns`, when the last one was, belongs to. The change lay
    /// somewhere after the last glance that saw none: in the middle, as far as is known.
    pub fn visit(&mut self, context: &Context, since_ns: u64, now_ns: u64) -> Shares {
        if self.same_until_ns == 0 {
            return Shares { before_share: ALL, ..Shares::default() };
        }
        let sequence = context.sequence();
        let before = self.context;
        if sequence != self.sequence {
            self.sequence = sequence;
            self.context = context.read().unwrap_or_default();
        }
        let changed = self.context != before;
        let same_ns = self.same_until_ns.saturating_sub(since_ns);
        let all_ns = now_ns.saturating_sub(since_ns).max(1);
        self.same_until_ns = now_ns;
        let before_share = if changed { ALL.midpoint(share(same_ns, all_ns)) } else { ALL };
        Shares { before, after: self.context, changed, before_share }
    }
}

impl Shares {
    /// All of the time belongs to one.
    #[must_use]
    pub fn unchanged(context: SpanContext) -> Self {
        Self { before: context, after: context, changed: false, before_share: ALL }
    }

    /// A delay, split: whose it was, and how much of it, in nanoseconds.
    pub fn both(&self, delay_ns: u64) -> [(SpanContext, u64); 2] {
        let before_ns = self.of_delay(delay_ns);
        let after_ns = delay_ns.saturating_sub(before_ns);
        [(self.before, before_ns), (self.after, after_ns)]
    }

    /// The first's part of a delay; the rest is the second's.
    #[must_use]
    pub fn of_delay(&self, delay_ns: u64) -> u64 {
        part(delay_ns, self.before_share)
    }

    /// A lateness, split. A worker that comes late out of a wait for work was not yet with the
    /// request that it found; but one that is done with a request looks for the next, and yields to
    /// others meanwhile, which is no longer that request's time.
    pub fn of_lateness(&self, late_ns: u64) -> [(SpanContext, u64); 2] {
        if self.before == SpanContext::default() {
            return [(self.before, late_ns), (self.after, 0)];
        }
        self.both(late_ns)
    }

    /// The part of a wait that belongs to the place where the thread was found at the first visit.
    /// It may have moved within one request, too; when, nothing tells.
    #[must_use]
    pub fn of_wait(&self, wait_ns: u64) -> u64 {
        if self.changed { part(wait_ns, self.before_share) } else { wait_ns / 2 }
    }
}

fn share(part_ns: u64, all_ns: u64) -> u32 {
    let share = u128::from(part_ns.min(all_ns)) << 16;
    share.checked_div(all_ns.into()).and_then(|share| share.try_into().ok()).unwrap_or(ALL)
}

fn part(ns: u64, share: u32) -> u64 {
    u64::try_from((u128::from(ns) * u128::from(share)) >> 16).unwrap_or(ns)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

    /// Writes a span as a tracer does, by the header's offsets.
    pub(crate) fn write(context: &Context, span: u64) {
        fn at<T>(context: &Context, offset: usize) -> &T {
            // SAFETY: the block has 64 bytes, and the offsets are those of aligned atomic numbers.
            unsafe { &*std::ptr::from_ref(context).byte_add(offset).cast() }
        }
        let sequence: &AtomicU32 = at(context, 8);
        at::<AtomicU64>(context, 48).store(span.to_be(), Ordering::Relaxed);
        at::<AtomicU8>(context, 56).store((span != 0).into(), Ordering::Relaxed);
        sequence.fetch_add(2, Ordering::Relaxed);
    }

    fn span(id: u64) -> SpanContext {
        SpanContext { span_id: id, ..SpanContext::default() }
    }

    #[test]
    fn time_is_split_where_the_request_changed() {
        let context = Context::default();
        let mut watched = Watched::default();
        watched.begin(&context, 1000);
        // Nothing changes: halves for places, since nobody knows; all for the request.
        assert!(!watched.glance(&context, 1500));
        let shares = watched.visit(&context, 1000, 2000);
        assert_eq!((shares.before, shares.after, shares.changed), (span(0), span(0), false));
        assert_eq!((shares.of_wait(100), shares.of_delay(100)), (50, 100));
        // It changed after 2600: in the middle of the last 400, as far as is known.
        assert!(!watched.glance(&context, 2600));
        write(&context, 7);
        assert!(watched.glance(&context, 2800));
        let shares = watched.visit(&context, 2000, 3000);
        assert_eq!((shares.before, shares.after, shares.changed), (span(0), span(7), true));
        assert_eq!((shares.of_wait(1000), shares.of_delay(1000)), (799, 799));
        // Written anew, as it was.
        write(&context, 7);
        assert!(!watched.glance(&context, 3000));
        // No glance since the last visit.
        write(&context, 8);
        let shares = watched.visit(&context, 3000, 4000);
        assert_eq!((shares.before, shares.after), (span(7), span(8)));
        assert_eq!(shares.of_wait(1000), 500);
        // Glances begin before a visit does: the shares stay within the whole.
        write(&context, 0);
        let shares = watched.visit(&context, 4000, 4000);
        assert_eq!((shares.before, shares.after), (span(8), span(0)));
        assert!(shares.of_delay(1000) <= 1000);
    }

    #[test]
    fn a_thread_that_nobody_writes_for_has_all_its_time_and_no_request() {
        let context = Context::default();
        let mut watched = Watched::default();
        write(&context, 7);
        let shares = watched.visit(&context, 1000, 2000);
        assert_eq!((shares.before, shares.after, shares.changed), (span(0), span(0), false));
        assert_eq!((shares.of_wait(100), shares.of_delay(100)), (50, 100));
    }
}
