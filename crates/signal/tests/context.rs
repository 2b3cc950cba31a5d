//! The context block under fire: a thread switches between two spans as fast as it can, as a tracer
//! in another language does it, and neither signals on it nor a reader beside it ever see a mix.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::std_instead_of_core,
    reason = "the crate's lints are for handlers, not for tests"
)]

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::Loss;
use signal::context::{CONTEXT_VERSION, Context, SpanContext};
use signal::handler::{Shared, on_signal, set_shared};
use signal::record::{Record, ThreadRef};
use signal::ring::{Ring, Slot};
use signal::sample::Sample;
use sys::disposition::{self, PROFILING_SIGNAL};
use sys::thread;

const SWITCHES: u64 = 5_000_000;
const SAMPLES_MIN: u64 = 2_000;

/// The block as a tracer sees it: by the header's offsets.
#[derive(Clone, Copy)]
struct Block(*const u8);

impl Block {
    fn of(context: &Context) -> Self {
        Self(std::ptr::from_ref(context).cast())
    }

    fn at<T>(&self, offset: usize) -> &T {
        // SAFETY: the offsets of this file lie in a block of 64 bytes.
        let place = unsafe { self.0.add(offset) }.cast::<T>();
        // SAFETY: they are those of aligned atomic numbers, in a record that is never freed.
        unsafe { &*place }
    }

    /// Writes a span, by the header's protocol.
    fn write(&self, span: &SpanContext) {
        let sequence: &AtomicU32 = self.at(8);
        let before = sequence.load(Ordering::Relaxed);
        sequence.store(before.wrapping_add(1), Ordering::Release);
        self.at::<AtomicU8>(56).store(0, Ordering::Release);
        self.at::<AtomicU64>(16).store(span.local_root_span_id, Ordering::Release);
        self.at::<AtomicU64>(24).store(span.labels, Ordering::Release);
        for (offset, byte) in (32..).zip(span.trace_id) {
            self.at::<AtomicU8>(offset).store(byte, Ordering::Release);
        }
        for (offset, byte) in (48..).zip(span.span_id.to_be_bytes()) {
            self.at::<AtomicU8>(offset).store(byte, Ordering::Release);
        }
        self.at::<AtomicU8>(56).store((span.span_id != 0).into(), Ordering::Release);
        sequence.store(before.wrapping_add(2), Ordering::Release);
    }
}

fn span(byte: u8) -> SpanContext {
    let number = u64::from_ne_bytes([byte; 8]);
    SpanContext {
        trace_id: [byte; 16],
        span_id: number,
        local_root_span_id: number,
        labels: number,
    }
}

#[test]
fn a_block_is_fresh_then_holds_what_was_written() {
    let record = Record::default();
    record.open(1, 0, 0, 0);
    let context = record.context();
    let block = Block::of(context);
    let head = [0, 4, 8, 12].map(|offset| block.at::<AtomicU32>(offset).load(Ordering::Relaxed));
    assert_eq!((head[0], head[1], head[2] & 1, head[3]), (CONTEXT_VERSION, 64, 0, 0));
    assert_eq!((context.read(), context.has_span()), (Some(SpanContext::default()), false));
    let mut written = span(7);
    written.trace_id = std::array::from_fn(|n| u8::try_from(n).unwrap());
    written.span_id = 0x0102_0304_0506_0708;
    block.write(&written);
    assert_eq!((context.read(), context.has_span()), (Some(written), true));
    // Labels hold outside of spans, too; ids of a span that is over don't.
    block.write(&SpanContext { span_id: 0, ..written });
    let labels = SpanContext { labels: written.labels, ..SpanContext::default() };
    assert_eq!(context.read(), Some(labels));
    // A write that is under way.
    block.at::<AtomicU32>(8).fetch_add(1, Ordering::Relaxed);
    assert_eq!(context.read(), None);
    // The next thread with this record has a fresh one, whatever was left.
    record.close();
    record.open(2, 0, 0, 0);
    assert_eq!(context.read(), Some(SpanContext::default()));
}

/// A handler over fresh state, and the calling thread in it.
struct Sampled {
    shared: &'static Shared,
    tid: u32,
    thread: ThreadRef,
    context: &'static Context,
    /// There is one handler in a process.
    _alone: MutexGuard<'static, ()>,
}

impl Sampled {
    fn begin() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let records: Vec<Record> = (0..2).map(|_| Record::default()).collect();
        let slots: Vec<_> = (0..64).map(|_| Slot::new(Sample::default())).collect();
        let shared: &'static Shared =
            Box::leak(Box::new(Shared::new(records.leak(), &[], Ring::new(slots.leak()))));
        shared.gate.open();
        set_shared(shared);
        // SAFETY: the handler is made for this, and test programs are not unloaded.
        unsafe { disposition::install(PROFILING_SIGNAL, on_signal) }.expect("installed");
        let (tid, stack) = (thread::own_id(), thread::own_stack().expect("own stack"));
        let generation = shared.records[1].open(tid, stack.start, stack.end, 0);
        let thread = ThreadRef { index: 1, generation };
        Self { shared, tid, thread, context: shared.records[1].context(), _alone: alone }
    }

    /// Has a sample taken. On Windows a thread in a system call may give none.
    fn send(tid: u32, thread: ThreadRef) {
        let sent = disposition::send(tid, PROFILING_SIGNAL, thread.to_value());
        assert!(sent.is_ok() || cfg!(windows), "{sent:?}");
    }
}

#[test]
fn neither_a_signal_nor_another_thread_sees_a_mix() {
    let Sampled { shared, tid, thread, context, _alone } = Sampled::begin();
    let spans = [span(0x5a), span(0xa5)];
    let is_one = |found: &SpanContext| spans.contains(found) || *found == SpanContext::default();

    let done = AtomicBool::new(false);
    let (mut switches, lost) =
        (0_u64, |loss: Loss| shared.losses[loss as usize].load(Ordering::Relaxed));
    let seen = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let (mut with_span, mut without, mut read) = (0_u64, 0_u64, 0_u64);
            while !done.load(Ordering::Relaxed) {
                Sampled::send(tid, thread);
                while let Some(found) = shared.ring.read(|sample| sample.context) {
                    assert!(is_one(&found), "a signal saw {found:?}");
                    if found == SpanContext::default() { without += 1 } else { with_span += 1 }
                }
                if let Some(found) = context.read() {
                    assert!(is_one(&found), "beside it was seen {found:?}");
                    read += 1;
                }
            }
            (with_span, without, read)
        });
        let block = Block::of(context);
        while (switches < SWITCHES || shared.kept.load(Ordering::Relaxed) < SAMPLES_MIN)
            && !sender.is_finished()
        {
            block.write(&spans[usize::try_from(switches % 2).unwrap()]);
            switches += 1;
        }
        done.store(true, Ordering::Relaxed);
        sender.join().expect("nothing mixed")
    });
    let (with_span, without, read) = seen;
    assert!(with_span > 0 && read > 0, "{seen:?}");
    // Without a span is only who came before the first or within a write, and that is counted.
    let busy = lost(Loss::ContextBusy);
    assert!(without <= busy + 1, "{without} without a span, {busy} within a write");
    println!("{switches} switches: {with_span} signals saw a span, {busy} came within a write");
}

/// Some microseconds at a place in memory that nothing else has.
#[cfg(target_arch = "x86_64")]
macro_rules! place {
    ($name:ident, $others:literal) => {
        #[inline(never)]
        extern "C" fn $name() {
            // SAFETY: does nothing, for as long as that takes.
            unsafe {
                std::arch::asm!(
                    concat!(".rept ", $others),
                    "nop",
                    ".endr",
                    ".rept 4096",
                    "nop",
                    ".endr",
                    options(nomem, nostack, preserves_flags)
                );
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
place!(first, "16");
#[cfg(target_arch = "x86_64")]
place!(second, "32");

#[cfg(target_arch = "x86_64")]
#[test]
fn the_request_is_that_of_the_place() {
    const PLACE_BYTES: u64 = 4096;
    let places = [first as extern "C" fn(), second as extern "C" fn()];
    let spans = [span(0x5a), span(0xa5)];
    let Sampled { shared, tid, thread, context, _alone } = Sampled::begin();
    let done = AtomicBool::new(false);
    // Where a sample's thread stood, if that tells which request it must have.
    let place_of = |ip: u64| {
        let is_in = |place: &extern "C" fn()| ip.wrapping_sub(*place as usize as u64) < PLACE_BYTES;
        places.iter().position(is_in)
    };
    let seen = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut seen = [0_u64; 2];
            while !done.load(Ordering::Relaxed) {
                Sampled::send(tid, thread);
                let taken = |sample: &Sample| (sample.frames.iter().next(), sample.context);
                while let Some((ip, found)) = shared.ring.read(taken) {
                    let Some(place) = ip.and_then(place_of) else { continue };
                    assert_eq!(found, spans[place], "of a sample in place {place}");
                    seen[place] += 1;
                }
            }
            seen
        });
        let block = Block::of(context);
        while shared.kept.load(Ordering::Relaxed) < SAMPLES_MIN && !sender.is_finished() {
            for (span, place) in spans.iter().zip(places) {
                block.write(span);
                place();
            }
        }
        done.store(true, Ordering::Relaxed);
        sender.join().expect("each in its own request")
    });
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    println!("{seen:?} samples in the two places");
}
