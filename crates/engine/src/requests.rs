//! Which endpoint each request is for, from what tracers tell: at a request's start or once it is
//! routed, and at its end.
//!
//! Samples only have the request's local root span; the endpoint's name is joined to it at the end
//! of the period, so that samples from before the routing have it too. A request that is over is
//! remembered for a while: what its threads waited may be charged seconds after it ended.

use std::collections::VecDeque;

use model::limits::{REQUEST_NS_MAX, REQUEST_REMEMBERED_NS, REQUESTS_MAX};
use profile::Aggregate;
use rustc_hash::FxHashMap;

/// The endpoint of requests of which none was told.
const NO_ENDPOINT: &str = "[no endpoint]";

/// When too many requests are under way, this part of them is forgotten.
const FORGOTTEN_PART: usize = 10;

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
struct Live {
    /// The number of its endpoint's name.
    endpoint: u32,
    since_ns: u64,
}

/// A request that is over.
#[derive(Clone, Copy, Debug)]
struct Ended {
    root: u64,
    endpoint: u32,
    time_ns: u64,
}

/// All requests of the process that are known.
#[derive(Debug)]
pub struct Requests {
    names: FxHashMap<u32, Box<str>>,
    /// By local root span.
    live: FxHashMap<u64, Live>,
    /// In the order of their ends.
    ended: VecDeque<Ended>,
    now_ns: u64,
}

impl Requests {
    /// None yet; `now_ns` is the monotonic clock's time.
    #[must_use]
    pub fn new(now_ns: u64) -> Self {
        let (names, live, ended) = Default::default();
        Self { names, live, ended, now_ns }
    }

    /// Learns a name; there are as many as the tracer was given numbers for.
    pub fn name(&mut self, endpoint: u32, name: Box<str>) {
        self.names.insert(endpoint, name);
    }

    /// A request is for that endpoint. Returns how many others were forgotten for it.
    #[must_use]
    pub fn told(&mut self, root: u64, endpoint: u32) -> usize {
        let forgotten = if self.live.len() >= REQUESTS_MAX && !self.live.contains_key(&root) {
            self.forget_longest()
        } else {
            0
        };
        let live = self.live.entry(root).or_insert(Live { endpoint, since_ns: self.now_ns });
        live.endpoint = endpoint;
        forgotten
    }

    /// Forgets a part of the requests that have been under way longest: a program may not tell
    /// their ends. Many at once, since it looks at all.
    fn forget_longest(&mut self) -> usize {
        let mut times: Vec<u64> = self.live.values().map(|live| live.since_ns).collect();
        let position = times.len() / FORGOTTEN_PART;
        let (_, limit_ns, _) = times.select_nth_unstable(position);
        let limit_ns = *limit_ns;
        let before = self.live.len();
        let mut at_limit = position.saturating_add(1);
        self.live.retain(|_, live| {
            // Those that were told of at the same time are too many, perhaps.
            let goes = live.since_ns <= limit_ns && at_limit > 0;
            at_limit = at_limit.saturating_sub(usize::from(goes));
            !goes
        });
        before.saturating_sub(self.live.len())
    }

    /// A request is over, after so many nanoseconds.
    pub fn ended(&mut self, root: u64, duration_ns: u64, aggregate: &mut Aggregate) {
        // Number 0 is no endpoint's.
        let endpoint = self.live.remove(&root).map_or(0, |live| live.endpoint);
        let name = self.names.get(&endpoint).map_or(NO_ENDPOINT, |name| name);
        aggregate.request(name, duration_ns);
        if endpoint == 0 {
            return;
        }
        if self.ended.len() >= REQUESTS_MAX {
            self.forget_oldest(aggregate);
        }
        self.ended.push_back(Ended { root, endpoint, time_ns: self.now_ns });
    }

    /// Time has passed: forgets requests that were over long ago.
    pub fn pass(&mut self, now_ns: u64, aggregate: &mut Aggregate) {
        self.now_ns = now_ns;
        while self
            .ended
            .front()
            .is_some_and(|oldest| now_ns.saturating_sub(oldest.time_ns) > REQUEST_REMEMBERED_NS)
        {
            self.forget_oldest(aggregate);
        }
    }

    /// Tells the period's samples their endpoints; the period is about to end.
    pub fn settle(&mut self, aggregate: &mut Aggregate) {
        let now_ns = self.now_ns;
        // The end of one that is so old was lost: it is under way no more.
        self.live.retain(|_, live| now_ns.saturating_sub(live.since_ns) <= REQUEST_NS_MAX);
        let live = self.live.iter().map(|(root, live)| (*root, live.endpoint));
        for (root, endpoint) in live.chain(self.ended.iter().map(|e| (e.root, e.endpoint))) {
            join(&self.names, root, endpoint, aggregate);
        }
    }

    /// Bytes held, roughly.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let live = self.live.capacity().saturating_mul(size_of::<(u64, Live)>());
        live.saturating_add(self.ended.capacity().saturating_mul(size_of::<Ended>()))
    }

    fn forget_oldest(&mut self, aggregate: &mut Aggregate) {
        if let Some(oldest) = self.ended.pop_front() {
            join(&self.names, oldest.root, oldest.endpoint, aggregate);
        }
    }
}

/// Gives a request's samples, if there are any, their endpoint.
fn join(names: &FxHashMap<u32, Box<str>>, root: u64, endpoint: u32, aggregate: &mut Aggregate) {
    if aggregate.has_root(root)
        && let Some(name) = names.get(&endpoint)
    {
        aggregate.endpoint(root, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ThreadState;
    use profile::{Period, Profile, SampleKey, SpanIds, ThreadKey, Values};

    type Roots = Vec<(u64, String)>;
    type Ended = Vec<(String, u64, u64)>;

    fn charge(aggregate: &mut Aggregate, root: u64) {
        let frame = aggregate.synthetic_frame("F");
        let stack = aggregate.stack([frame]);
        let span = SpanIds { trace_id: [1; 16], span_id: root + 100, local_root_span_id: root };
        let key = SampleKey {
            stack,
            thread: ThreadKey::NONE,
            state: Some(ThreadState::Running),
            span: Some(span),
            labels: 0,
        };
        let _ =
            aggregate.add(&key, Values { count: 1, cpu_ns: 5, wall_ns: 5, ..Values::default() });
    }

    /// Ends the period: each sampled root's endpoint, sorted; and the requests by endpoint.
    fn take(requests: &mut Requests, aggregate: &mut Aggregate) -> (Roots, Ended) {
        requests.settle(aggregate);
        let profile: Profile = aggregate.take(Period::default()).profile;
        let text = |at| profile.text(at).to_owned();
        let root = |span: &profile::Span| (span.ids.local_root_span_id, text(span.endpoint));
        let mut spans: Vec<_> = profile.spans.iter().map(root).collect();
        spans.sort();
        let ended = profile.endpoints.iter();
        (spans, ended.map(|e| (text(e.name), e.requests, e.duration_ns)).collect())
    }

    #[test]
    fn samples_have_the_endpoint_that_was_told_last_also_those_before_and_after_the_request() {
        let (mut requests, mut aggregate) = (Requests::new(0), Aggregate::default());
        requests.name(1, "first".into());
        requests.name(2, "second".into());
        charge(&mut aggregate, 10);
        assert_eq!(requests.told(10, 1), 0);
        assert_eq!(requests.told(10, 2), 0);
        requests.ended(10, 77, &mut aggregate);
        requests.ended(11, 33, &mut aggregate);
        charge(&mut aggregate, 12);
        let (spans, ended) = take(&mut requests, &mut aggregate);
        assert_eq!(spans, [(10, "second".to_owned()), (12, String::new())]);
        assert_eq!(ended, [("second".to_owned(), 1, 77), (NO_ENDPOINT.to_owned(), 1, 33)]);
        // A wait that is charged in the next period.
        charge(&mut aggregate, 10);
        let (spans, ended) = take(&mut requests, &mut aggregate);
        assert_eq!((spans, ended), (vec![(10, "second".to_owned())], vec![]));
    }

    #[test]
    fn a_request_of_many_periods_has_its_endpoint_in_each() {
        let (mut requests, mut aggregate) = (Requests::new(0), Aggregate::default());
        requests.name(1, "long".into());
        assert_eq!(requests.told(10, 1), 0);
        for _ in 0..3 {
            charge(&mut aggregate, 10);
            let (spans, ended) = take(&mut requests, &mut aggregate);
            assert_eq!((spans, ended), (vec![(10, "long".to_owned())], vec![]));
        }
    }

    #[test]
    fn what_is_forgotten_within_a_period_was_joined_before() {
        let (mut requests, mut aggregate) = (Requests::new(0), Aggregate::default());
        requests.name(1, "short".into());
        assert_eq!(requests.told(10, 1), 0);
        charge(&mut aggregate, 10);
        requests.ended(10, 1, &mut aggregate);
        requests.pass(REQUEST_REMEMBERED_NS, &mut aggregate);
        assert_eq!(requests.ended.len(), 1);
        requests.pass(REQUEST_REMEMBERED_NS + 1, &mut aggregate);
        assert_eq!(requests.ended.len(), 0);
        assert_eq!(take(&mut requests, &mut aggregate).0, [(10, "short".to_owned())]);
    }

    #[test]
    fn all_is_bounded_and_lost_ends_fill_nothing_for_ever() {
        let (mut requests, mut aggregate) = (Requests::new(0), Aggregate::default());
        requests.name(1, "endless".into());
        for root in 1..=REQUESTS_MAX as u64 {
            requests.now_ns = root;
            assert_eq!(requests.told(root, 1), 0);
        }
        assert_eq!(requests.told(1, 1), 0, "known already");
        // A program that never tells their ends must not shut out those that come after.
        let forgotten = requests.told(0, 1);
        assert_eq!(forgotten, REQUESTS_MAX / FORGOTTEN_PART + 1);
        assert_eq!(requests.live.len(), REQUESTS_MAX - forgotten + 1);
        assert!(!requests.live.contains_key(&1) && requests.live.contains_key(&0));
        requests.now_ns = 0;
        requests.pass(REQUEST_NS_MAX + REQUESTS_MAX as u64 + 1, &mut aggregate);
        take(&mut requests, &mut aggregate);
        assert!(requests.live.is_empty());
        for root in 0..REQUESTS_MAX as u64 + 10 {
            assert_eq!(requests.told(root, 1), 0);
            requests.ended(root, 1, &mut aggregate);
        }
        assert_eq!((requests.live.len(), requests.ended.len()), (0, REQUESTS_MAX));
    }
}
