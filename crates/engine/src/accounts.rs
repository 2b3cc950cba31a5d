//! Who is charged with what: samples and events become values of stacks in the aggregate.

use std::sync::Arc;

use model::{Loss, ThreadClass, ThreadState};
use profile::{
    Added, Aggregate, EndCounts, FrameId, Ids, Period, Profile, SampleKey, SpanIds, StackId,
    ThreadKey, Values,
};
use rustc_hash::FxHashMap;
use signal::context::SpanContext;
use signal::handler::Shared;
use signal::record::ThreadRef;
use signal::sample::Sample;
use sys::clock;

use self::account::{Account, Early};
use self::place::{Payer, Place, Walked};
use self::recent::Recent;
use self::stacks::Buffers;
use crate::event::{BlockedStack, Event, Told, Within};
use crate::gc_waits::GcWaits;
use crate::pauses::Paused;
use crate::requests::Requests;
use crate::symbolizer::Symbolizer;
use crate::waits::{Wait, Waits};

/// The frame of time that no sample tells about.
const UNSAMPLED: &str = "[unsampled]";

/// Whom nobody knows.
const NOBODY: (ThreadKey, ThreadClass) = (ThreadKey::NONE, ThreadClass::Managed);

/// Which values are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// CPU time and samples.
    pub cpu: bool,
    /// Wall time.
    pub wall: bool,
    /// The ids of spans; endpoints are there all the same.
    pub span_ids: bool,
    /// When samples came about.
    pub timeline: bool,
}

/// All accounts, and the aggregate that they are kept in.
pub struct Accounts {
    shared: &'static Shared,
    wanted: Wanted,
    symbolizer: Symbolizer,
    aggregate: Aggregate,
    threads: FxHashMap<ThreadRef, Account>,
    requests: Requests,
    waits: Waits,
    gc_waits: GcWaits,
    unsampled: FrameId,
    ends: EndCounts,
    sampled_cpu_ns: u64,
    /// When what is being charged came about.
    within: Within,
    /// When the period began, in nanoseconds of the monotonic clock.
    begin_ns: u64,
    buffers: Buffers,
    recent: Recent,
    #[cfg(feature = "oracle")]
    oracle: crate::oracle::Oracle,
}

impl Accounts {
    /// Empty accounts.
    #[must_use]
    pub fn new(
        shared: &'static Shared,
        wanted: Wanted,
        symbolizer: Symbolizer,
        #[cfg(feature = "oracle")] oracle: crate::oracle::Oracle,
    ) -> Self {
        let mut aggregate = Aggregate::default();
        if !wanted.span_ids {
            aggregate = aggregate.without_span_ids();
        }
        if wanted.timeline {
            aggregate = aggregate.with_moments();
        }
        let unsampled = aggregate.synthetic_frame(UNSAMPLED);
        let threads = FxHashMap::default();
        let ends = EndCounts::default();
        Self {
            shared,
            wanted,
            symbolizer,
            aggregate,
            threads,
            requests: Requests::new(clock::monotonic_ns()),
            waits: Waits::default(),
            gc_waits: GcWaits::default(),
            unsampled,
            ends,
            sampled_cpu_ns: 0,
            within: Within::default(),
            begin_ns: 0,
            buffers: Buffers::default(),
            recent: Recent::default(),
            #[cfg(feature = "oracle")]
            oracle,
        }
    }

    /// The period began then, in nanoseconds of the monotonic clock.
    pub fn begin(&mut self, time_ns: u64) {
        self.begin_ns = time_ns;
    }

    /// What is charged from now on came about there.
    pub fn pass(&mut self, within: Within) {
        self.within = within;
    }

    /// Learns what has been seen, and notices modules that come and go.
    pub fn refresh(&mut self) {
        self.symbolizer.refresh();
        self.requests.pass(clock::monotonic_ns(), &mut self.aggregate);
    }

    /// Bytes held, roughly.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bytes = self.aggregate.bytes().saturating_add(self.symbolizer.bytes());
        bytes.saturating_add(self.requests.bytes()).saturating_add(self.recent.bytes())
    }

    /// Charges a sample of a handler: its CPU time, which is wall time too, to its stack.
    pub fn sample(&mut self, sample: &Sample) {
        self.pass(Within::before(sample.time_ns));
        let class = self.account(sample.thread, sample.tid).class;
        let (walked, id) = self.placed(sample, class);
        #[cfg(feature = "oracle")]
        self.ask_oracle(sample, &walked);
        self.ends.add(walked.end, 1);
        let context = sample.context;
        let state = ThreadState::Running;
        let place = Place { walked, id: Some(id), state, in_runtime: None, context };
        let values =
            Values { count: 1, cpu_ns: sample.cpu_ns, wall_ns: sample.cpu_ns, ..Values::default() };
        self.sampled_cpu_ns = self.sampled_cpu_ns.saturating_add(sample.cpu_ns);
        let account = self.account(sample.thread, sample.tid);
        let last = account.ran.replace(place);
        let payer = Payer { thread: account.key, context };
        let mut early = std::mem::take(&mut account.early);
        if early.iter().any(|early| early.context.is_some_and(|other| other != context)) {
            let blocked = account.blocked.clone();
            self.add_early(payer, id, &early, [last, blocked]);
        } else {
            early.iter().for_each(|early| self.add_late(payer, id, early));
            self.buffers.give_back(last);
        }
        self.add(payer, id, ThreadState::Running, values);
        early.clear();
        if let Some(account) = self.threads.get_mut(&sample.thread) {
            account.early = early;
        }
    }

    /// Charges what waited for a sample that is of another request: to where the thread was last
    /// seen in the right one. If it was seen nowhere in it, no stack is right.
    fn add_early(
        &mut self,
        payer: Payer,
        id: StackId,
        early: &[Early],
        mut places: [Option<Place>; 2],
    ) {
        for early in early {
            let context = early.context.unwrap_or(payer.context);
            let mut stack = Some(id);
            if context != payer.context {
                let known = places.iter_mut().flatten().find(|place| place.context == context);
                stack = known.map(|place| self.place_id(place));
            }
            let stack = stack.unwrap_or_else(|| self.aggregate.stack([self.unsampled]));
            self.add_late(Payer { context, ..payer }, stack, early);
        }
    }

    /// Charges what an event says.
    pub fn event(&mut self, event: Event) {
        match event {
            Event::Started { thread, tid } => self.account(thread, tid).started = true,
            Event::Named { thread, name } => {
                if let Some(account) = self.threads.get(&thread) {
                    self.aggregate.thread_name(account.key, &name);
                }
            }
            Event::Classed { thread, class } => {
                if let Some(account) = self.threads.get_mut(&thread) {
                    account.class = class;
                }
            }
            Event::Unsampled { thread, cpu_ns } => self.unsampled(thread, cpu_ns),
            Event::CpuRest { thread, cpu_ns } => {
                self.sampled_cpu_ns = self.sampled_cpu_ns.saturating_add(cpu_ns);
                let values = Values { count: 0, cpu_ns, wall_ns: cpu_ns, ..Values::default() };
                self.charge_ran(thread, ThreadState::Running, values);
            }
            Event::Ended { thread } => self.ended(thread),
            Event::Blocked { thread, stack } => self.blocked(thread, stack),
            Event::Outlasted { thread } => {
                let account = self.threads.get_mut(&thread);
                if let Some(place) = account.and_then(|account| account.blocked.as_mut()) {
                    place.outlasted(&mut self.gc_waits);
                }
            }
            Event::Waited { thread, wall_ns } => self.charge_blocked(thread, wall_ns),
            Event::WaitedUnseen { thread, wall_ns, context } => {
                self.waited_unseen(thread, wall_ns, context);
            }
            Event::Delayed { thread, wall_ns, context } => {
                self.put_off(thread, ThreadState::Runnable, wall_ns, context);
            }
            Event::HeldUp { thread, wall_ns, context, state } => {
                self.put_off(thread, state, wall_ns, context);
            }
            Event::Late { thread, wall_ns } => self.late(thread, wall_ns),
            Event::Unloaded { module } => self.symbolizer.unloaded(module),
            Event::Endpoint { number, name } => self.requests.name(number, name),
            Event::Labels { number, pairs } => {
                let pairs: Vec<_> = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                if !self.aggregate.labels(number, &pairs) {
                    self.shared.count(Loss::SpansFull);
                }
            }
            Event::Settled { .. } => {}
        }
    }

    /// Takes in what a tracer told of a request.
    pub fn told(&mut self, told: Told) {
        match told {
            Told::Request { root, endpoint } => {
                for _ in 0..self.requests.told(root, endpoint) {
                    self.shared.count(Loss::RequestsFull);
                }
            }
            Told::Ended { root, duration_ns } => {
                self.requests.ended(root, duration_ns, &mut self.aggregate);
            }
        }
    }

    /// Ends the period: its profile, its walks' ends, and its threads' CPU time.
    pub fn take(&mut self, period: Period) -> (Profile, EndCounts, u64) {
        self.symbolizer.end_period();
        self.requests.settle(&mut self.aggregate);
        let mut threads = std::mem::take(&mut self.threads);
        threads.values_mut().for_each(|account| self.settle_early(account));
        threads.retain(|_, account| account.started);
        self.threads = threads;
        #[cfg(feature = "oracle")]
        self.oracle.report();
        let taken = self.aggregate.take(period);
        self.begin_ns = self.begin_ns.saturating_add(period.duration_ns);
        if taken.ids == Ids::Reset {
            self.symbolizer.ids_reset();
            self.unsampled = self.aggregate.synthetic_frame(UNSAMPLED);
            for account in self.threads.values_mut() {
                let places = account.ran.iter_mut().chain(&mut account.blocked);
                places.for_each(|place| place.id = None);
            }
        }
        let ends = std::mem::take(&mut self.ends);
        (taken.profile, ends, std::mem::take(&mut self.sampled_cpu_ns))
    }

    fn account(&mut self, thread: ThreadRef, tid: u32) -> &mut Account {
        self.threads.entry(thread).or_insert_with(|| Account {
            // The index too: a number that is used again may get another record, at the same
            // generation.
            key: ThreadKey { tid, generation: thread.index.rotate_left(16) ^ thread.generation },
            class: ThreadClass::Managed,
            ran: None,
            blocked: None,
            early: Vec::new(),
            late_ns: 0,
            started: false,
        })
    }

    #[cfg(feature = "oracle")]
    fn ask_oracle(&mut self, sample: &Sample, walked: &Walked) {
        let (symbolizer, aggregate) = (&mut self.symbolizer, &mut self.aggregate);
        let shown: Vec<u64> = (0..walked.frames.len())
            .filter(|index| match walked.frames[*index..] {
                [inner, outer, ..] => !symbolizer.is_own_funclet(inner, outer),
                _ => true,
            })
            .map(|index| walked.frames[index])
            .collect();
        let mut name = |address| symbolizer.text(address, aggregate);
        self.oracle.sample(sample, &walked.frames, &shown, walked.end, &mut name);
    }

    fn blocked(&mut self, thread: ThreadRef, stack: BlockedStack) {
        let copy = stack.copy.as_deref();
        let class = self.threads.get(&thread).map_or(ThreadClass::Managed, |account| account.class);
        let frames = Arc::new(stack.frames.into_vec());
        let walked = self.walked_again(frames, stack.gap, stack.end, copy);
        let walked = Walked { class, ..walked };
        #[cfg(feature = "oracle")]
        self.oracle.blocked(thread, &walked.frames, stack.cpu_clock_ns);
        self.ends.add(walked.end, 1);
        let (symbolizer, aggregate) = (&mut self.symbolizer, &mut self.aggregate);
        let wait = |frame: &u64| (*frame, symbolizer.named(*frame, aggregate).wait);
        let mut state = self.waits.state(stack.call, walked.frames.iter().map(wait));
        let mut in_runtime = None;
        if class == ThreadClass::Managed {
            let is = |at: &&u64| symbolizer.named(**at, aggregate).wait == Some(Wait::InRuntime);
            in_runtime = walked.frames.iter().find(is).map(|at| (*at, state));
        }
        if let Some((at, seemed)) = in_runtime {
            state = self.gc_waits.state(at, stack.in_pause, seemed);
        }
        let id = Some(self.intern(&walked));
        let Some(mut account) = self.threads.remove(&thread) else { return };
        let place = Place { walked, id, state, in_runtime, context: stack.context };
        account.blocked = Some(place);
        self.settle_late(&mut account);
        self.threads.insert(thread, account);
    }

    fn unsampled(&mut self, thread: Option<ThreadRef>, cpu_ns: u64) {
        self.sampled_cpu_ns = self.sampled_cpu_ns.saturating_add(cpu_ns);
        let account = thread.and_then(|thread| self.threads.get(&thread));
        let whose = account.map_or(NOBODY, |account| (account.key, account.class));
        let values = Values { count: 0, cpu_ns, wall_ns: cpu_ns, ..Values::default() };
        self.add_unsampled(whose, ThreadState::Running, values);
    }

    /// What kept a thread from its work is charged to what it did next: its next sample.
    fn put_off(
        &mut self,
        thread: ThreadRef,
        state: ThreadState,
        wall_ns: u64,
        context: SpanContext,
    ) {
        let values = Values { wall_ns, ..Values::default() };
        match self.threads.get_mut(&thread) {
            Some(account) => {
                let within = self.within;
                account.put_off(Early { state, context: Some(context), values, within });
            }
            None => self.add_unsampled(NOBODY, state, values),
        }
    }

    /// Charges pauses of the whole program to the frames that stand for them.
    pub fn paused(&mut self, paused: &Paused) {
        let frames = paused.frames.iter().map(|name| self.aggregate.synthetic_frame(name));
        let frames: Vec<_> = frames.collect();
        let stack = self.aggregate.stack(frames);
        let values = Values { gc_ns: paused.ns, ..Values::default() };
        let payer = Payer::only(ThreadKey::NONE);
        self.add_in(payer, stack, None, values);
    }

    /// Charges the place where a thread was last blocked with a delay; before there is one, the
    /// delay waits for it.
    fn late(&mut self, thread: ThreadRef, wall_ns: u64) {
        let values = Values { wall_ns, ..Values::default() };
        let Some(mut account) = self.threads.remove(&thread) else {
            return self.add_unsampled(NOBODY, ThreadState::Runnable, values);
        };
        account.late_ns = account.late_ns.saturating_add(wall_ns);
        if account.blocked.is_some() {
            self.settle_late(&mut account);
        }
        self.threads.insert(thread, account);
    }

    /// Charges what a thread was late to its wait, or to none.
    fn settle_late(&mut self, account: &mut Account) {
        let wall_ns = std::mem::take(&mut account.late_ns);
        if wall_ns == 0 {
            return;
        }
        let values = Values { wall_ns, ..Values::default() };
        match &mut account.blocked {
            Some(place) => {
                let id = self.place_id(place);
                let payer = Payer { thread: account.key, context: place.context };
                self.add(payer, id, ThreadState::Runnable, values);
            }
            None => self.add_unsampled((account.key, account.class), ThreadState::Runnable, values),
        }
    }

    /// Charges the place where a thread was last blocked; before there is one, the place where it
    /// computed.
    fn charge_blocked(&mut self, thread: ThreadRef, wall_ns: u64) {
        let values = Values { wall_ns, ..Values::default() };
        let known = self.threads.get(&thread).and_then(|account| {
            let place = account.blocked.as_ref()?;
            let payer = Payer { thread: account.key, context: place.context };
            Some((payer, place.id?, place.state))
        });
        if let Some((payer, id, state)) = known {
            return self.add(payer, id, state, values);
        }
        let place = |account: &Account| account.blocked.clone();
        match self.threads.get(&thread).and_then(place) {
            Some(mut place) => {
                let (id, state) = (self.place_id(&mut place), place.state);
                let Some(account) = self.threads.get_mut(&thread) else { return };
                let payer = Payer { thread: account.key, context: place.context };
                account.blocked = Some(place);
                self.add(payer, id, state, values);
            }
            None => self.charge_ran(thread, ThreadState::Waiting, values),
        }
    }

    /// Charges a wait that nobody saw to a place of its request: where the thread was last blocked,
    /// else where it last computed. If it was seen in that request nowhere, no stack is right.
    fn waited_unseen(&mut self, thread: ThreadRef, wall_ns: u64, context: SpanContext) {
        let values = Values { wall_ns, ..Values::default() };
        let Some(account) = self.threads.get(&thread) else {
            return self.add_unsampled(NOBODY, ThreadState::Waiting, values);
        };
        let (payer, class) = (Payer { thread: account.key, context }, account.class);
        let is_in = |place: &&Place| place.context == context;
        if account.blocked.as_ref().is_some_and(|place| is_in(&place)) {
            return self.charge_blocked(thread, wall_ns);
        }
        let stack = match account.ran.clone().filter(|place| is_in(&place)) {
            Some(mut place) => self.place_id(&mut place),
            None => self.unsampled_stack(class),
        };
        self.add(payer, stack, ThreadState::Waiting, values);
    }

    /// Charges the place where a thread last computed; before there is one, the value waits for it.
    fn charge_ran(&mut self, thread: ThreadRef, state: ThreadState, values: Values) {
        if values == Values::default() {
            return;
        }
        let Some(account) = self.threads.get_mut(&thread) else {
            return self.add_unsampled(NOBODY, state, values);
        };
        let key = account.key;
        match account.ran.clone() {
            Some(mut place) => {
                let id = self.place_id(&mut place);
                let payer = Payer { thread: key, context: place.context };
                if let Some(account) = self.threads.get_mut(&thread) {
                    account.ran = Some(place);
                }
                self.add(payer, id, state, values);
            }
            None => {
                let within = self.within;
                account.put_off(Early { state, context: None, values, within });
            }
        }
    }

    /// A thread is gone: what never found a sample goes to its last stack, or to none.
    fn ended(&mut self, thread: ThreadRef) {
        let Some(mut account) = self.threads.remove(&thread) else { return };
        self.settle_early(&mut account);
        self.aggregate.thread_ended(account.key);
    }

    fn settle_early(&mut self, account: &mut Account) {
        self.settle_late(account);
        for early in std::mem::take(&mut account.early) {
            let context = early.context;
            // What it did last is likely what it was delayed in, if that was in the same request.
            let is_right = |place: &&mut Place| context.is_none_or(|other| place.context == other);
            let mut places = account.ran.iter_mut().chain(&mut account.blocked);
            let (stack, context) = match places.find(is_right) {
                Some(place) => (self.place_id(place), place.context),
                None => (self.unsampled_stack(account.class), context.unwrap_or_default()),
            };
            self.add_late(Payer { thread: account.key, context }, stack, &early);
        }
    }

    /// The id of a place's stack, which may have to be interned again.
    fn place_id(&mut self, place: &mut Place) -> StackId {
        let id = match place.id {
            Some(id) => id,
            None => self.intern(&place.walked),
        };
        place.id = Some(id);
        id
    }

    fn add_unsampled(
        &mut self,
        (thread, class): (ThreadKey, ThreadClass),
        state: ThreadState,
        values: Values,
    ) {
        let stack = self.unsampled_stack(class);
        self.add(Payer::only(thread), stack, state, values);
    }

    fn unsampled_stack(&mut self, class: ThreadClass) -> StackId {
        let root = class.root().map(|name| self.aggregate.synthetic_frame(name));
        self.aggregate.stack([self.unsampled].into_iter().chain(root))
    }

    /// Adds what had to wait for its stack.
    fn add_late(&mut self, payer: Payer, stack: StackId, early: &Early) {
        let now = std::mem::replace(&mut self.within, early.within);
        self.add(payer, stack, early.state, early.values);
        self.within = now;
    }

    fn add(&mut self, payer: Payer, stack: StackId, state: ThreadState, values: Values) {
        self.add_in(payer, stack, Some(state), values);
    }

    fn add_in(&mut self, payer: Payer, stack: StackId, state: Option<ThreadState>, values: Values) {
        let Wanted { cpu, wall, .. } = self.wanted;
        let values = Values {
            count: if cpu { values.count } else { 0 },
            cpu_ns: if cpu { values.cpu_ns } else { 0 },
            wall_ns: if wall { values.wall_ns } else { 0 },
            gc_ns: values.gc_ns,
        };
        if values == Values::default() {
            return;
        }
        let SpanContext { trace_id, span_id, local_root_span_id, labels } = payer.context;
        let span = SpanIds { trace_id, span_id, local_root_span_id };
        let span = (span_id != 0).then_some(span);
        let key = SampleKey { stack, thread: payer.thread, state, span, labels };
        // What came about before the period is in its first moments.
        let us = |time_ns: u64| {
            u32::try_from(time_ns.saturating_sub(self.begin_ns) / 1_000).unwrap_or(u32::MAX)
        };
        let (since_us, until_us) = (us(self.within.since_ns), us(self.within.until_ns));
        if let Added::Lost(loss) = self.aggregate.add_within(&key, values, since_us, until_us) {
            self.shared.count(loss);
        }
    }
}

mod account;
mod place;
mod recent;
mod stacks;
#[cfg(test)]
mod tests;
