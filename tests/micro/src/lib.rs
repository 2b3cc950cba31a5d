//! The parts that work for each sample, one operation at a time: for criterion (`cargo bench -p
//! micro`), and for callgrind and a count of allocations (`cargo xtask bench micro`).
#![forbid(unsafe_code)]

mod tables;

use std::hint::black_box;

use engine::measured::{Charging, Naming, Waiting};
use profile::pprof;
use signal::ring::{Ring, Slot};
use signal::sample::Sample;

pub use tables::Walks;

/// Frames of the stacks.
const FRAMES: u64 = 40;
/// Different stacks: those of a busy minute.
const STACKS: u64 = 1_000;

/// An operation, ready to be done again and again.
pub type Operation = Box<dyn FnMut()>;

/// A part with an operation of it.
#[derive(Clone, Copy)]
pub struct Case {
    /// What it is called on the command line.
    pub name: &'static str,
    /// The same for people.
    pub text: &'static str,
    /// How often it has to be done before it is as it is for the rest of a minute.
    pub warm_up: u32,
    /// How often it is then counted.
    pub times: u32,
    /// Makes it.
    pub make: fn() -> Operation,
}

/// All parts, in the order in which a sample meets them.
pub const CASES: [Case; 9] = [
    Case {
        name: "walk",
        text: "handler: a walk of 40 managed frames that were walked before",
        warm_up: 10,
        times: 200,
        make: || Walks::managed(FRAMES, true).operation(),
    },
    Case {
        name: "walk-new",
        text: "handler: the same, not walked before",
        warm_up: 10,
        times: 200,
        make: || Walks::managed(FRAMES, false).operation(),
    },
    Case { name: "ring", text: "ring: a sample in and out", warm_up: 10, times: 1_000, make: ring },
    Case {
        name: "table",
        text: "unwind table: an address among 400,000 rows",
        warm_up: 10,
        times: 1_000,
        make: || Walks::native(FRAMES, false).search(),
    },
    Case {
        name: "name",
        text: "symbolizer: an address that is known",
        warm_up: 6_000,
        times: 3_000,
        make: || {
            let mut naming = Naming::default();
            Box::new(move || naming.name(3_000))
        },
    },
    Case {
        name: "charge",
        text: "accounts and aggregate: a sample of 40 frames, one of 1,000 stacks",
        warm_up: 2_000,
        times: 1_000,
        make: || charging(STACKS, FRAMES),
    },
    Case {
        name: "charge-new",
        text: "accounts and aggregate: a sample of 40 frames whose stack is new",
        warm_up: 0,
        times: 1_000,
        make: || charging(2_000, FRAMES),
    },
    Case {
        name: "pprof",
        text: "pprof: a profile of 1,000 stacks, named and compressed",
        warm_up: 1,
        times: 3,
        make: || {
            let mut charging = Charging::new(STACKS, FRAMES);
            (0..STACKS).for_each(|_| charging.charge());
            let profile = charging.profile();
            Box::new(move || {
                black_box(pprof::write(&profile, Vec::new()).map_or(0, |bytes| bytes.len()));
            })
        },
    },
    Case {
        name: "waiting",
        text: "a profile of 10,000 threads that wait, from their accounts to its bytes",
        warm_up: 1,
        times: 3,
        make: || {
            let mut waiting = Waiting::new(10_000, 20);
            Box::new(move || {
                let profile = waiting.profile();
                black_box(pprof::write(&profile, Vec::new()).map_or(0, |bytes| bytes.len()));
            })
        },
    },
];

/// The part of that name.
#[must_use]
pub fn case(name: &str) -> Option<Case> {
    CASES.into_iter().find(|case| case.name == name)
}

fn charging(stacks: u64, frames: u64) -> Operation {
    let mut charging = Charging::new(stacks, frames);
    Box::new(move || charging.charge())
}

/// As the handler does: it writes into the slot, and only what there is.
fn ring() -> Operation {
    let slots: Vec<_> = (0..64).map(|_| Slot::new(Sample::default())).collect();
    let ring = Ring::new(slots.leak());
    Box::new(move || {
        if let Ok(mut claim) = ring.claim() {
            let sample = claim.value();
            sample.frames.clear();
            (0..FRAMES).for_each(|frame| sample.frames.push(frame));
        }
        black_box(ring.read(|sample| sample.frames.pushed()));
    })
}
