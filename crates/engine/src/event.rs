//! Everything that reaches the collector other than samples from handlers, in one closed list.

use std::hash::BuildHasher as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{EndReason, ThreadClass, ThreadState};
use rustc_hash::FxBuildHasher;
use signal::context::SpanContext;
use signal::record::ThreadRef;
use signal::sample::StackCopy;
use sys::clock::monotonic_ns;

use crate::gc_waits::InPause;
use crate::runtime::ModuleKey;

/// Events that may wait. The ticker makes at most some hundred a tick, the collector takes them
/// ten times a second.
const WAITING_MAX: usize = 100_000;
/// What tracers tell of requests and may wait: for half a second, the collector's longest beat,
/// that is a hundred thousand a second.
const REQUESTS_WAITING_MAX: usize = 50_000;
/// Stacks among them: each may hold a dozen KiB, and the collector may have to wait for the
/// runtime.
const STACKS_MAX: usize = 2_000;

/// A thread's stack, read without a signal while it was blocked.
#[derive(Debug)]
pub struct BlockedStack {
    /// Lookup addresses, leaf first.
    pub frames: Box<[u64]>,
    /// Index before which frames were lost.
    pub gap: Option<usize>,
    /// Why the walk ended.
    pub end: EndReason,
    /// Which request it works for.
    pub context: SpanContext,
    /// The system call that it is blocked in, by the kernel's number.
    pub call: Option<u32>,
    /// Whether all managed threads were stopped, and how often they are.
    pub in_pause: InPause,
    /// The top of the stack's memory, if frames had to be guessed.
    pub copy: Option<Box<StackCopy>>,
    /// The thread's CPU clock while it was read, in nanoseconds.
    #[cfg(feature = "oracle")]
    pub cpu_clock_ns: u64,
}

impl BlockedStack {
    /// A hash of where it is; `None` unless the stack is known from leaf to root.
    #[must_use]
    pub fn place(&self) -> Option<u64> {
        let is_whole = self.end == EndReason::Root && self.gap.is_none() && self.copy.is_none();
        is_whole.then(|| FxBuildHasher.hash_one((&self.frames, self.call)))
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A thread is tracked from now on.
    Started {
        /// Which.
        thread: ThreadRef,
        /// The kernel's id.
        tid: u32,
    },
    /// A thread has a name.
    Named {
        /// Which.
        thread: ThreadRef,
        /// Its name.
        name: String,
    },
    /// What a thread is there for, if not for managed code.
    Classed {
        /// Which.
        thread: ThreadRef,
        /// What for.
        class: ThreadClass,
    },
    /// CPU time of which nobody knows where it went: of a thread before it was known, or without
    /// samples; or of threads that were over before anybody saw them.
    Unsampled {
        /// Whose; `None` of nobody that is known.
        thread: Option<ThreadRef>,
        /// In nanoseconds.
        cpu_ns: u64,
    },
    /// CPU time that no sample will carry: the thread has ended, or the profiler stops.
    CpuRest {
        /// Whose.
        thread: ThreadRef,
        /// Since its last sample, in nanoseconds.
        cpu_ns: u64,
    },
    /// A thread is no longer tracked.
    Ended {
        /// Which.
        thread: ThreadRef,
    },
    /// A thread was found blocked; this is its stack until another is found.
    Blocked {
        /// Which.
        thread: ThreadRef,
        /// Where.
        stack: BlockedStack,
    },
    /// A thread that was found blocked in a pause has waited on for long after it: it does not wait
    /// for its end.
    Outlasted {
        /// Which.
        thread: ThreadRef,
    },
    /// A thread waited so long at the stack it was last found blocked at.
    Waited {
        /// Which.
        thread: ThreadRef,
        /// In nanoseconds.
        wall_ns: u64,
    },
    /// A thread waited so long in a request, and was seen running before and after.
    WaitedUnseen {
        /// Which.
        thread: ThreadRef,
        /// In nanoseconds.
        wall_ns: u64,
        /// The request; none between two.
        context: SpanContext,
    },
    /// A thread was ready so long while others had the processors.
    Delayed {
        /// Which.
        thread: ThreadRef,
        /// In nanoseconds.
        wall_ns: u64,
        /// The request it worked for.
        context: SpanContext,
    },
    /// A thread was held up so long by the runtime, which had stopped all managed threads.
    HeldUp {
        /// Which.
        thread: ThreadRef,
        /// In nanoseconds.
        wall_ns: u64,
        /// The request it worked for.
        context: SpanContext,
        /// What for.
        state: ThreadState,
    },
    /// A thread was late so long to come out of the wait that it was last found in, or of the next
    /// one if it has not been found in any.
    Late {
        /// Which.
        thread: ThreadRef,
        /// In nanoseconds.
        wall_ns: u64,
    },
    /// A module or dynamic method is gone; its addresses may mean something else from now on.
    Unloaded {
        /// Which.
        module: ModuleKey,
    },
    /// An endpoint's name has got a number.
    Endpoint {
        /// The number, from 1 on.
        number: u32,
        /// The name.
        name: Box<str>,
    },
    /// A set of labels has got a number.
    Labels {
        /// The number, from 1 on.
        number: u64,
        /// Names and values.
        pairs: Box<[(String, String)]>,
    },
    /// All wall time up to now has been charged, as asked by the request of that number.
    Settled {
        /// The number of the request.
        request: u64,
    },
}

/// What tracers tell of requests. A busy service tells of tens of thousands a second: so it is
/// small, stays apart from all else, and has no time, since names are joined to samples only at a
/// period's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A request is for an endpoint.
    Request {
        /// Its local root span.
        root: u64,
        /// The endpoint's number.
        endpoint: u32,
    },
    /// A request is over.
    Ended {
        /// Its local root span.
        root: u64,
        /// How long it took, in nanoseconds.
        duration_ns: u64,
    },
}

/// Between which times something came about, in nanoseconds of the monotonic clock: it may have
/// been shorter, and in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// Not before then.
    pub since_ns: u64,
    /// Not after then.
    pub until_ns: u64,
}

impl Within {
    /// What came about right before a time, however long it took.
    #[must_use]
    pub fn before(time_ns: u64) -> Self {
        Self { since_ns: time_ns, until_ns: time_ns }
    }

    /// Both, and what lies between them.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let since_ns = self.since_ns.min(other.since_ns);
        Self { since_ns, until_ns: self.until_ns.max(other.until_ns) }
    }
}

/// An event, and when it was posted.
#[derive(Debug)]
pub struct Timed {
    /// In nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// When the time was that it speaks of: it may be told much later.
    pub within: Within,
    /// What happened.
    pub event: Event,
}

/// Where events wait for the collector.
#[derive(Default)]
pub struct Inbox {
    waiting: Mutex<Waiting>,
    /// Locked after `waiting` where both are.
    requests: Mutex<Requests>,
    wake: Condvar,
}

#[derive(Default)]
struct Requests {
    told: Vec<Told>,
    dropped: u64,
}

#[derive(Default)]
struct Waiting {
    events: Vec<Timed>,
    stacks: usize,
    dropped: u64,
    urgent: bool,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every change of the list is complete in itself: what a panicked holder left is usable.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event; drops it, counted, if far too many wait.
    pub fn post(&self, event: Event) {
        self.add(event, None);
    }

    /// The same, of time that lies there.
    pub fn post_within(&self, event: Event, within: Within) {
        self.add(event, Some(within));
    }

    fn add(&self, event: Event, within: Option<Within>) {
        let mut waiting = self.lock();
        let is_stack = matches!(event, Event::Blocked { .. });
        let fits = !is_stack || waiting.stacks < STACKS_MAX;
        if fits && waiting.events.len() < WAITING_MAX {
            waiting.stacks = waiting.stacks.saturating_add(usize::from(is_stack));
            let time_ns = monotonic_ns();
            let within = within.unwrap_or(Within::before(time_ns));
            waiting.events.push(Timed { time_ns, within, event });
        } else {
            waiting.dropped = waiting.dropped.saturating_add(1);
        }
    }

    /// Adds what a tracer tells of a request; drops it, counted, if far too much waits.
    pub fn tell(&self, told: Told) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.told.len() < REQUESTS_WAITING_MAX {
            requests.told.push(told);
        } else {
            requests.dropped = requests.dropped.saturating_add(1);
        }
    }

    /// Makes the collector look at once.
    pub fn hurry(&self) {
        self.lock().urgent = true;
        self.wake.notify_one();
    }

    /// Waits until `hurry` or for at most `timeout`; then takes all events, and the number of those
    /// that were dropped. What tracers told of requests comes into `told`, whose memory is what
    /// they will fill next; each name that it has the number of is among the events.
    pub fn take(&self, timeout: Duration, told: &mut Vec<Told>) -> (Vec<Timed>, u64) {
        let (mut waiting, _timed_out) = self
            .wake
            .wait_timeout_while(self.lock(), timeout, |waiting| !waiting.urgent)
            .unwrap_or_else(PoisonError::into_inner);
        waiting.urgent = false;
        waiting.stacks = 0;
        told.clear();
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut requests.told, told);
        let requests_dropped = std::mem::take(&mut requests.dropped);
        drop(requests);
        let dropped = std::mem::take(&mut waiting.dropped).saturating_add(requests_dropped);
        (std::mem::take(&mut waiting.events), dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack() -> BlockedStack {
        BlockedStack {
            frames: Box::default(),
            gap: None,
            end: EndReason::Root,
            context: SpanContext::default(),
            call: None,
            in_pause: InPause::default(),
            copy: None,
            #[cfg(feature = "oracle")]
            cpu_clock_ns: 0,
        }
    }

    #[test]
    fn drops_are_counted() {
        let inbox = Inbox::default();
        for request in 0..WAITING_MAX as u64 + 3 {
            inbox.post(Event::Settled { request });
        }
        inbox.hurry();
        let (events, dropped) = inbox.take(Duration::from_secs(60), &mut Vec::new());
        assert_eq!((events.len(), dropped), (WAITING_MAX, 3));
        let (events, dropped) = inbox.take(Duration::ZERO, &mut Vec::new());
        assert_eq!((events.len(), dropped), (0, 0));
        // A burst of requests leaves room for what is told only once.
        for root in 1..=WAITING_MAX as u64 {
            inbox.tell(Told::Request { root, endpoint: 1 });
        }
        inbox.post(Event::Endpoint { number: 1, name: "E".into() });
        let mut told = Vec::new();
        let (events, dropped) = inbox.take(Duration::ZERO, &mut told);
        assert_eq!((events.len(), told.len()), (1, REQUESTS_WAITING_MAX));
        assert_eq!(dropped as usize, WAITING_MAX - REQUESTS_WAITING_MAX);
        inbox.tell(Told::Ended { root: 7, duration_ns: 1 });
        let (_, dropped) = inbox.take(Duration::ZERO, &mut told);
        assert_eq!((&*told, dropped), (&[Told::Ended { root: 7, duration_ns: 1 }][..], 0));
        // Stacks are large, so fewer of them wait; what is small has room all the same.
        let thread = ThreadRef { index: 0, generation: 1 };
        for _ in 0..2 {
            for _ in 0..STACKS_MAX + 2 {
                inbox.post(Event::Blocked { thread, stack: stack() });
                inbox.post(Event::Waited { thread, wall_ns: 1 });
            }
            let (events, dropped) = inbox.take(Duration::ZERO, &mut Vec::new());
            assert_eq!((events.len(), dropped), (2 * STACKS_MAX + 2, 2));
        }
    }
}
