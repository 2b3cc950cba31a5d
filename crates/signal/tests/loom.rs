//! The ring, the gate and the record under loom, which tries all orders in which threads can meet.
//! `cargo xtask loom` runs it; in a normal build there is nothing here.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::std_instead_of_core,
    reason = "the crate's lints are for handlers, not for tests"
)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use loom::thread;
use signal::gate::Gate;
use signal::record::Record;
use signal::ring::{Ring, Slot};

/// Tries all orders, with at most so many switches that no operation asks for. Two writers and a
/// reader have too many orders for all; faults of such code show with two or three switches.
fn model(switches: Option<usize>, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = switches;
    builder.check(body);
}

/// A value that loom watches: it fails if two threads touch it at a time.
type Watched = UnsafeCell<u64>;

fn ring(slots: u64) -> &'static Ring<Watched> {
    let slots: Vec<_> = (0..slots).map(|_| Slot::new(UnsafeCell::new(0))).collect();
    Box::leak(Box::new(Ring::new(slots.leak())))
}

fn write(ring: &Ring<Watched>, value: u64) -> u64 {
    match ring.claim() {
        Ok(mut claim) => {
            // SAFETY: the claim is alone, which is what loom checks.
            claim.value().with_mut(|place| unsafe { *place = value });
            0
        }
        Err(_) => 1,
    }
}

fn read(ring: &Ring<Watched>) -> Option<u64> {
    // SAFETY: the reader is alone with the slot, which is what loom checks.
    ring.read(|value| value.with(|place| unsafe { *place }))
}

/// Goes back to the first slot where there is nothing to read, as the collector does.
fn read_or_rewind(ring: &Ring<Watched>) -> Option<u64> {
    let value = read(ring);
    if value.is_none() {
        ring.rewind();
    }
    value
}

/// Writers of so many values each, and a reader that looks so often meanwhile: what was not read
/// was counted as lost, and each writer's values come in order.
///
/// The reader is the last thread: loom remembers one load of an atomic at a time, so that a reader
/// that comes first, and whose load the writers' own loads follow, would never be tried later.
fn check_ring(slots: u64, writers: [u64; 2], reads: usize, switches: Option<usize>) {
    model(switches, move || {
        let ring = ring(slots);
        let threads = [0, 1].map(|id| {
            let count = writers[id];
            let first = 100 * id as u64 + 1;
            thread::spawn(move || (first..first + count).map(|n| write(ring, n)).sum::<u64>())
        });
        let reader = thread::spawn(move || {
            let looks = (0..reads).filter_map(|_| read_or_rewind(ring));
            looks.collect::<Vec<u64>>()
        });
        let lost: u64 = threads.into_iter().map(|thread| thread.join().expect("joined")).sum();
        let mut seen = reader.join().expect("joined");
        while let Some(value) = read(ring) {
            seen.push(value);
        }
        assert_eq!(seen.len() as u64 + lost, writers[0] + writers[1], "{seen:?}");
        for id in [0, 1] {
            let own: Vec<u64> = seen.iter().copied().filter(|value| value / 100 == id).collect();
            assert!(own.is_sorted_by(|a, b| a < b), "{seen:?}");
        }
    });
}

#[test]
fn writers_and_a_reader_lose_nothing_uncounted() {
    check_ring(2, [1, 1], 1, Some(4));
    check_ring(2, [1, 1], 2, Some(3));
    // Further ones find the ring full, or a slot of the next round.
    check_ring(2, [2, 1], 2, Some(2));
    check_ring(2, [2, 2], 2, Some(2));
    check_ring(4, [2, 1], 2, Some(2));
}

/// One of each, from a slot on that makes the reader go back: the writer takes the next slot, or
/// the first one, and is not told that the ring is full.
#[test]
fn a_reader_goes_back_beside_a_writer() {
    model(None, || {
        let ring = ring(4);
        assert_eq!(write(ring, 1), 0);
        let writer = thread::spawn(move || write(ring, 2));
        let reader = thread::spawn(move || {
            let first = read(ring);
            ring.rewind();
            [first, read_or_rewind(ring)]
        });
        let mut seen: Vec<u64> = reader.join().expect("joined").into_iter().flatten().collect();
        let lost = writer.join().expect("joined");
        seen.extend(std::iter::from_fn(|| read(ring)));
        assert_eq!((seen, lost), (vec![1, 2], 0));
    });
}

/// One of each: all orders, and a reader that is seen to come in time.
#[test]
fn a_reader_beside_a_writer_sees_whole_values() {
    let early = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let witness = std::sync::Arc::clone(&early);
    model(None, move || {
        let ring = ring(2);
        let writer = thread::spawn(move || (1..=3).map(|n| write(ring, n)).sum::<u64>());
        let reader = thread::spawn(move || [read(ring), read(ring)]);
        let seen = reader.join().expect("joined");
        if seen[0].is_some() {
            witness.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        let lost = writer.join().expect("joined");
        let rest = std::iter::from_fn(|| read(ring)).count() as u64;
        assert_eq!(seen.iter().flatten().count() as u64 + rest + lost, 3);
    });
    assert!(early.load(std::sync::atomic::Ordering::Relaxed), "a value was read early");
}

#[test]
fn nobody_is_inside_after_the_gate_was_shut_and_seen_empty() {
    model(None, || {
        let gate = Arc::new((Gate::new(), UnsafeCell::new(0_u64)));
        gate.0.open();
        let handlers = [0, 1].map(|_| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                let Some(_inside) = gate.0.enter() else { return };
                // SAFETY: nobody writes while a handler is inside, which is what loom checks.
                let _read = gate.1.with(|place| unsafe { *place });
            })
        });
        gate.0.shut();
        while gate.0.inside() != 0 {
            thread::yield_now();
        }
        // SAFETY: no handler is inside, which is what loom checks.
        gate.1.with_mut(|place| unsafe { *place = 1 });
        handlers.into_iter().for_each(|handler| handler.join().expect("joined"));
        assert_eq!(gate.0.inside(), 0);
        assert!(gate.0.enter().is_none());
    });
}

/// `engine::publish`: a pointer is replaced, and what it pointed to is freed at an instant when no
/// handler is inside.
#[test]
fn what_was_unpublished_is_freed_when_no_handler_can_see_it() {
    const FREED: u64 = u64::MAX;
    struct Model {
        gate: Gate,
        tables: [Watched; 2],
        current: AtomicPtr<Watched>,
        freed: AtomicU32,
    }
    let freed_once = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let witness = std::sync::Arc::clone(&freed_once);
    model(None, move || {
        let model: &'static Model = Box::leak(Box::new(Model {
            gate: Gate::new(),
            tables: [1, 2].map(UnsafeCell::new),
            current: AtomicPtr::new(std::ptr::null_mut()),
            freed: AtomicU32::new(0),
        }));
        let place = |index: usize| std::ptr::from_ref(&model.tables[index]).cast_mut();
        model.current.store(place(0), Ordering::SeqCst);
        model.gate.open();
        let handlers = [0, 1].map(|_| {
            thread::spawn(move || {
                let Some(_inside) = model.gate.enter() else { return };
                let table = model.current.load(Ordering::SeqCst);
                // SAFETY: it points into the model, which is never freed.
                let table = unsafe { &*table };
                // SAFETY: published tables are not written, which is what loom checks.
                let value = table.with(|place| unsafe { *place });
                assert_ne!(value, FREED);
            })
        });
        model.current.store(place(1), Ordering::SeqCst);
        if model.gate.inside() == 0 {
            // SAFETY: no handler sees it any more, which is what loom checks.
            model.tables[0].with_mut(|place| unsafe { *place = FREED });
            model.freed.store(1, Ordering::Relaxed);
        }
        handlers.into_iter().for_each(|handler| handler.join().expect("joined"));
        if model.freed.load(Ordering::Relaxed) == 1 {
            witness.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    assert!(freed_once.load(std::sync::atomic::Ordering::Relaxed), "the freeing was reached");
}

#[test]
fn cpu_time_is_carried_once_when_a_record_is_closed_under_its_handler() {
    const TID: u32 = 7;
    model(None, || {
        let record = Arc::new(Record::default());
        let generation = record.open(TID, 0, 0, 0);
        let handler = {
            let record = Arc::clone(&record);
            thread::spawn(move || {
                let carried = |now_ns| {
                    if record.is(generation, TID) { record.take_cpu_ns(now_ns) } else { 0 }
                };
                carried(10) + carried(20)
            })
        };
        let rest = 30 - record.close();
        assert_eq!(handler.join().expect("joined") + rest, 30);
    });
}
