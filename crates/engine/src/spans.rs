//! What tracers call: a thread's context block, and numbers for names that it has no room for.
//!
//! Called on the application's threads, a few times a request: short locks, no system call.

use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use model::Loss;
use model::limits::{
    ENDPOINT_BYTES_MAX, ENDPOINTS_MAX, LABEL_NAME_BYTES_MAX, LABEL_SETS_MAX, LABEL_VALUE_BYTES_MAX,
    LABELS_MAX,
};
use rustc_hash::FxHashMap;
use signal::context::Context;

use crate::event::{Event, Inbox, Told};
use crate::registry::Registry;
use crate::rest::Rest;

/// What endpoints are called that came when there were too many.
const OTHERS: &str = "[other endpoints]";
/// The first one's number.
const OTHERS_NUMBER: u32 = 1;

/// Names and values.
type Labels = Box<[(String, String)]>;

/// What tracers may ask and tell.
pub struct Spans {
    registry: Arc<Registry>,
    inbox: Arc<Inbox>,
    rest: Arc<Rest>,
    /// Whether tracers are wanted, and the profiler runs.
    open: AtomicBool,
    /// Whether a tracer was given a thread's context.
    asked: AtomicBool,
    endpoints: Mutex<Numbers<Box<str>>>,
    label_sets: Mutex<Numbers<Labels>>,
}

impl Spans {
    /// For tracers, once it is opened.
    #[must_use]
    pub fn new(registry: Arc<Registry>, inbox: Arc<Inbox>, rest: Arc<Rest>) -> Self {
        let mut endpoints = Numbers::new(ENDPOINTS_MAX);
        endpoints.number(&Box::from(OTHERS), OTHERS.len());
        Self {
            registry,
            inbox,
            rest,
            open: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            endpoints: Mutex::new(endpoints),
            label_sets: Mutex::new(Numbers::new(LABEL_SETS_MAX)),
        }
    }

    /// From now on there is a collector to be told. It knows nothing of what others were told.
    pub fn open(&self) {
        // Both locks, so that nothing gets a number in between that is told never, or twice.
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let sets = self.label_sets.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, number) in &endpoints.of {
            self.inbox.post(Event::Endpoint { number: *number, name: name.clone() });
        }
        for (pairs, number) in &sets.of {
            self.inbox.post(Event::Labels { number: u64::from(*number), pairs: pairs.clone() });
        }
        self.open.store(true, Ordering::Relaxed);
    }

    /// From now on nobody is there to be told anything. Names still get numbers, for tracers keep
    /// what they were answered.
    pub fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Bytes held, roughly.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        let sets = self.label_sets.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        endpoints.saturating_add(sets)
    }

    /// The calling thread's block, which is about to be written; `None` if tracers aren't wanted or
    /// the thread isn't known.
    #[must_use]
    pub fn own_context(&self) -> Option<&'static Context> {
        let context = self.is_open().then(|| self.registry.own_context()).flatten();
        if context.is_some() {
            self.asked.store(true, Ordering::Relaxed);
        }
        self.rest.rouse();
        context
    }

    /// Whether a tracer was given a thread's context so far. It may keep it, and ask no more.
    #[must_use]
    pub fn were_asked_for(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The number of an endpoint's name; that of `OTHERS` if there are too many, and 0 for none.
    #[must_use]
    pub fn endpoint(&self, name: &[u8]) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let name = cut(name, ENDPOINT_BYTES_MAX).into_boxed_str();
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, is_new) = endpoints.number(&name, name.len());
        if number == 0 {
            return OTHERS_NUMBER;
        }
        if is_new && self.is_open() {
            // Under the lock, so that the name is told before anybody else can use its number.
            self.inbox.post(Event::Endpoint { number, name });
        }
        number
    }

    /// A request is for an endpoint.
    pub fn request(&self, root: u64, endpoint: u32) {
        if self.is_open() && root != 0 && endpoint != 0 {
            self.inbox.tell(Told::Request { root, endpoint });
            self.rest.rouse();
        }
    }

    /// A request is over.
    pub fn request_ended(&self, root: u64, duration_ns: u64) {
        if self.is_open() && root != 0 {
            self.inbox.tell(Told::Ended { root, duration_ns });
        }
    }

    /// The number of a set of labels, given as names and values that each end with a NUL; 0 if
    /// there are too many sets, or no label in this one.
    #[must_use]
    pub fn labels(&self, pairs: &[u8]) -> u64 {
        let pairs = labels(pairs);
        if pairs.is_empty() {
            return 0;
        }
        let pairs = pairs.into_boxed_slice();
        let mut sets = self.label_sets.lock().unwrap_or_else(PoisonError::into_inner);
        let size = |(name, value): &(String, String)| {
            name.len().saturating_add(value.len()).saturating_add(size_of::<(String, String)>())
        };
        let text_bytes = pairs.iter().map(size).fold(0, usize::saturating_add);
        let (number, is_new) = sets.number(&pairs, text_bytes);
        let number = u64::from(number);
        if number == 0 {
            self.registry.count(Loss::SpansFull);
        }
        if is_new && self.is_open() {
            self.inbox.post(Event::Labels { number, pairs });
        }
        self.rest.rouse();
        number
    }
}

#[cfg(test)]
impl Spans {
    /// Of a process without threads.
    pub fn fake(shared: &'static signal::handler::Shared, wanted: bool) -> Self {
        let inbox = Arc::new(Inbox::default());
        let log = crate::log::Log::new(config::LogLevel::Off, None);
        let cpu = crate::cpu::CpuSampler::new(None, std::time::Duration::ZERO, 0, log);
        let registry = Registry::new(shared, Arc::clone(&inbox), cpu);
        let spans = Self::new(Arc::new(registry), inbox, Arc::default());
        if wanted {
            spans.open();
        }
        spans
    }
}

/// Numbers for things, from 1 on.
struct Numbers<T> {
    of: FxHashMap<T, u32>,
    max: usize,
    /// Bytes of the things' texts.
    text_bytes: usize,
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    fn new(max: usize) -> Self {
        Self { of: FxHashMap::default(), max, text_bytes: 0 }
    }

    /// Bytes held, roughly.
    fn bytes(&self) -> usize {
        let table = self.of.capacity().saturating_mul(size_of::<(T, u32)>().saturating_add(1));
        table.saturating_add(self.text_bytes)
    }

    /// A thing's number, and whether it is new; 0 if it is and there are too many.
    fn number(&mut self, thing: &T, text_bytes: usize) -> (u32, bool) {
        if let Some(number) = self.of.get(thing) {
            return (*number, false);
        }
        if self.of.len() >= self.max {
            return (0, false);
        }
        let number = u32::try_from(self.of.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.of.insert(thing.clone(), number);
        self.text_bytes = self.text_bytes.saturating_add(text_bytes);
        (number, true)
    }
}

/// The labels of a set, in the order of their names; of two with one name the last counts.
fn labels(bytes: &[u8]) -> Vec<(String, String)> {
    let mut parts = bytes.split(|byte| *byte == 0);
    let mut pairs: Vec<(String, String)> = Vec::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        let name = cut(name, LABEL_NAME_BYTES_MAX);
        let value = cut(value, LABEL_VALUE_BYTES_MAX);
        if name.is_empty() {
            continue;
        }
        let is_full = pairs.len() >= LABELS_MAX;
        match pairs.iter_mut().find(|(other, _)| *other == name) {
            Some((_, last)) => *last = value,
            None if is_full => {}
            None => pairs.push((name, value)),
        }
    }
    pairs.sort_unstable();
    pairs
}

/// A text of at most so many bytes; what is not UTF-8 is replaced.
fn cut(bytes: &[u8], max: usize) -> String {
    // A character has at most four bytes, so what lies farther on can't be needed.
    let enough = bytes.get(..max.saturating_add(4)).unwrap_or(bytes);
    let text = String::from_utf8_lossy(enough);
    let end = text.floor_char_boundary(max);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{events, shared};

    fn spans(wanted: bool) -> Spans {
        Spans::fake(shared(2, 2), wanted)
    }

    fn told_of_requests(spans: &Spans) -> Vec<Told> {
        let mut told = Vec::new();
        spans.inbox.take(std::time::Duration::ZERO, &mut told);
        told
    }

    fn told(spans: &Spans) -> Vec<String> {
        events(&spans.inbox).iter().map(|event| format!("{event:?}")).collect()
    }

    #[test]
    fn a_name_has_one_number_and_is_told_once() {
        let spans = spans(true);
        let numbers = [b"a".as_slice(), b"b", b"a", b""].map(|name| spans.endpoint(name));
        assert_eq!(numbers, [2, 3, 2, 0]);
        assert_eq!(
            told(&spans),
            [
                r#"Endpoint { number: 1, name: "[other endpoints]" }"#,
                r#"Endpoint { number: 2, name: "a" }"#,
                r#"Endpoint { number: 3, name: "b" }"#
            ]
        );
        for n in 3..ENDPOINTS_MAX {
            assert_eq!(spans.endpoint(n.to_string().as_bytes()) as usize, n + 1);
        }
        let others = [&b"one too many"[..], b"another", b"[other endpoints]"];
        assert_eq!(others.map(|name| spans.endpoint(name)), [OTHERS_NUMBER; 3]);
        assert_eq!(spans.endpoint(b"a"), 2);
    }

    #[test]
    fn requests_are_handed_on_if_they_say_something() {
        let spans = spans(true);
        spans.request(7, 1);
        spans.request(0, 1);
        spans.request(7, 0);
        spans.request_ended(7, 9);
        spans.request_ended(0, 9);
        assert_eq!(
            told_of_requests(&spans),
            [Told::Request { root: 7, endpoint: 1 }, Told::Ended { root: 7, duration_ns: 9 }]
        );
    }

    #[test]
    fn sets_are_equal_whatever_their_order_and_bounded_whatever_comes() {
        let long = vec![b'x'; 1000];
        let many: Vec<u8> = (0..40).flat_map(|n| format!("k{n:02}\0v\0").into_bytes()).collect();
        for (bytes, expected) in [
            (&b"b\x002\0a\x001\0"[..], vec![("a", "1"), ("b", "2")]),
            (b"a\x001\0b\x002\0", vec![("a", "1"), ("b", "2")]),
            (b"a\x001\0a\x002\0", vec![("a", "2")]),
            (b"a\0", vec![("a", "")]),
            (b"a", vec![]),
            (b"\0v\0", vec![]),
            (b"", vec![]),
            (b"\xff\0\xfe\0", vec![("\u{fffd}", "\u{fffd}")]),
        ] {
            let found = labels(bytes);
            let found: Vec<_> = found.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            assert_eq!(found, expected, "{bytes:?}");
        }
        let lengths = |bytes: &[u8]| -> Vec<_> {
            labels(bytes).iter().map(|(name, value)| (name.len(), value.len())).collect()
        };
        let both = [&long[..], &long].join(&0);
        assert_eq!(lengths(&both), [(LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX)]);
        assert_eq!(lengths(&many).len(), LABELS_MAX);
        let spans = spans(true);
        let sets = [&b"b\x002\0a\x001\0"[..], b"a\x001\0b\x002\0", b"a\x002\0", b""];
        assert_eq!(sets.map(|set| spans.labels(set)), [1, 1, 2, 0]);
        assert_eq!(told(&spans).len(), 1 + 2);
        for n in 2..LABEL_SETS_MAX {
            assert_ne!(spans.labels(format!("n\0{n}\0").as_bytes()), 0);
        }
        assert_eq!(spans.registry.lost(Loss::SpansFull), 0);
        assert_eq!((spans.labels(b"one\0too many\0"), spans.labels(b"n\x007\0")), (0, 8));
        assert_eq!(spans.registry.lost(Loss::SpansFull), 1);
    }

    #[test]
    fn nobody_is_told_anything_if_tracers_are_not_wanted_or_it_is_over() {
        let over = spans(true);
        over.close();
        told(&over);
        let unwanted = spans(false);
        told(&unwanted);
        for spans in [unwanted, over] {
            // Tracers keep the numbers, so they are good ones.
            assert_eq!((spans.endpoint(b"a"), spans.labels(b"a\0b\0")), (2, 1));
            spans.request(1, 1);
            spans.request_ended(1, 1);
            assert!(spans.own_context().is_none());
            assert!(told_of_requests(&spans).is_empty());
            assert!(told(&spans).is_empty());
            spans.open();
            let mut told = told(&spans);
            told.sort();
            assert_eq!(told.len(), 3, "{told:?}");
            assert!(told[1].contains("\"a\"") && told[2].starts_with("Labels { number: 1"));
        }
    }
}
