//! For benchmarks only: parts of the profiler with made work to do, the same each time.

use std::sync::Arc;

use model::EndReason;
use profile::{Aggregate, Period, Profile};
use signal::context::SpanContext;
use signal::handler::Shared;
use signal::record::{Record, ThreadRef};
use signal::ring::{Ring, Slot};
use signal::sample::Sample;

use crate::accounts::{Accounts, Wanted};
use crate::event::{BlockedStack, Event};
use crate::gc_waits::InPause;
use crate::publish::Publisher;
use crate::runtime::{Assembly, Code, MethodName, ModuleKey, Runtime};
use crate::symbolizer::Symbolizer;

/// Where the methods lie: the kernel maps nothing for a program there.
const METHODS: u64 = 0xffff_9000_0000_0000;
const METHOD_BYTES: u64 = 0x100;
const THREADS: u32 = 8;
/// Methods that a program's stacks have; a large service has some thousands.
const COUNT: u64 = 3_000;
/// A step through them that meets all: odd, and no neighbour's.
const STRIDE: u64 = 1_009;
const SAMPLE_NS: u64 = 10_000_000;

/// A runtime that knows all methods from `METHODS` on.
struct AllMethods(Arc<Assembly>);

impl Runtime for AllMethods {
    fn look_up(&self, address: u64) -> Option<(Code, Option<MethodName>)> {
        let number = address.checked_sub(METHODS)? / METHOD_BYTES;
        let start = number.checked_mul(METHOD_BYTES)?.checked_add(METHODS)?;
        let ranges = vec![(start, start.checked_add(METHOD_BYTES)?)];
        let (siblings, il) = (Vec::new(), Vec::new());
        let code = Code { module: ModuleKey(1), start, ranges, siblings, il };
        let display = format!("Shop.Orders.Service{}.Method{number}(int, string)", number / 10);
        let (assembly, token) = (Arc::clone(&self.0), 0x0600_0001);
        Some((code, Some(MethodName { raw: display.clone(), display, assembly, token })))
    }

    #[cfg(feature = "oracle")]
    fn reported(&self, _address: u64) -> Option<usize> {
        None
    }

    fn version(&self) -> String {
        "made for benchmarks".to_owned()
    }
}

/// The address of frame `depth` in stack `stack`: leaves differ by instruction, callers by caller.
fn address(stack: u64, depth: u64) -> u64 {
    let (leaf, chain) = (stack % 50, stack / 50);
    // The stacks of a program have their first half from the root in common.
    let number = if depth == 0 { chain } else { (chain / depth.max(1)) * STRIDE + depth * 31 };
    let offset = if depth == 0 { leaf * 4 } else { 0x20 };
    METHODS + (number % COUNT) * METHOD_BYTES + offset
}

fn shared() -> &'static Shared {
    let records: Vec<Record> = (0..1).map(|_| Record::default()).collect();
    let slots: Vec<_> = (0..2).map(|_| Slot::new(Sample::default())).collect();
    Box::leak(Box::new(Shared::new(records.leak(), &[], Ring::new(slots.leak()))))
}

fn symbolizer(shared: &'static Shared) -> Symbolizer {
    let assembly = Assembly { file: "/app/Shop.dll".to_owned(), build_id: "0123".to_owned() };
    Symbolizer::new(Arc::new(AllMethods(Arc::new(assembly))), Publisher::new(shared))
}

fn accounts(shared: &'static Shared) -> Accounts {
    let wanted = Wanted { cpu: true, wall: true, span_ids: true, timeline: false };
    #[cfg(feature = "oracle")]
    let oracle = {
        let log = crate::log::Log::new(config::LogLevel::Off, None);
        let assembly = Arc::new(Assembly { file: String::new(), build_id: String::new() });
        crate::oracle::Oracle::new(Arc::new(AllMethods(assembly)), log)
    };
    Accounts::new(
        shared,
        wanted,
        symbolizer(shared),
        #[cfg(feature = "oracle")]
        oracle,
    )
}

/// Samples that are charged to accounts.
pub struct Charging {
    accounts: Accounts,
    samples: Vec<Sample>,
    next: usize,
}

impl Charging {
    /// Samples of so many different stacks of so many frames, of some threads in turn.
    #[must_use]
    pub fn new(stacks: u64, frames: u64) -> Self {
        let mut accounts = accounts(shared());
        for index in 0..THREADS {
            let thread = ThreadRef { index, generation: 1 };
            accounts.event(Event::Started { thread, tid: index });
        }
        let sample = |stack: u64| {
            let index = (stack % u64::from(THREADS)) as u32;
            let thread = ThreadRef { index, generation: 1 };
            let mut sample = Sample { thread, tid: index, cpu_ns: SAMPLE_NS, ..Sample::default() };
            (0..frames).for_each(|depth| sample.frames.push(address(stack, depth)));
            sample
        };
        Self { accounts, samples: (0..stacks).map(sample).collect(), next: 0 }
    }

    /// Charges the next sample.
    pub fn charge(&mut self) {
        if let Some(sample) = self.samples.get(self.next) {
            self.accounts.sample(sample);
        }
        self.next = (self.next + 1) % self.samples.len().max(1);
    }

    /// The profile of what was charged.
    pub fn profile(&mut self) -> Profile {
        let (profile, _, _) = self.accounts.take(Period::default());
        profile
    }
}

/// Threads that wait, each at one of a few places.
pub struct Waiting {
    accounts: Accounts,
    threads: u32,
}

impl Waiting {
    /// So many threads, which wait under stacks of so many frames.
    #[must_use]
    pub fn new(threads: u32, frames: u64) -> Self {
        /// The workers of a pool wait at one place, those of the program at a few more.
        const PLACES: u64 = 4;
        let mut accounts = accounts(shared());
        for index in 0..threads {
            let thread = ThreadRef { index, generation: 1 };
            accounts.event(Event::Started { thread, tid: 100_000 + index });
            let addresses = (0..frames).map(|depth| address(u64::from(index) % PLACES * 50, depth));
            let stack = BlockedStack {
                frames: addresses.collect(),
                gap: None,
                end: EndReason::Root,
                context: SpanContext::default(),
                call: Some(202),
                in_pause: InPause::default(),
                copy: None,
                #[cfg(feature = "oracle")]
                cpu_clock_ns: 0,
            };
            accounts.event(Event::Blocked { thread, stack });
        }
        Self { accounts, threads }
    }

    /// A period in which all have waited: the profile of it.
    pub fn profile(&mut self) -> Profile {
        const PERIOD_NS: u64 = 60_000_000_000;
        for index in 0..self.threads {
            let thread = ThreadRef { index, generation: 1 };
            self.accounts.event(Event::Waited { thread, wall_ns: PERIOD_NS + u64::from(index) });
        }
        let (profile, _, _) = self.accounts.take(Period::default());
        profile
    }
}

/// Addresses that get names.
pub struct Naming {
    symbolizer: Symbolizer,
    aggregate: Aggregate,
    next: u64,
}

impl Default for Naming {
    fn default() -> Self {
        Self { symbolizer: symbolizer(shared()), aggregate: Aggregate::default(), next: 0 }
    }
}

impl Naming {
    /// Names the next address of so many.
    pub fn name(&mut self, count: u64) {
        let number = (self.next * STRIDE) % count.min(COUNT);
        self.next += 1;
        let named = self.symbolizer.named(METHODS + number * METHOD_BYTES, &mut self.aggregate);
        std::hint::black_box(named);
    }
}
