//! The walk over arrays as stacks and tables made by hand.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::std_instead_of_core,
    reason = "the crate's lints are for handlers, not for tests"
)]

extern crate std;

mod extremes;

use super::*;
use crate::cache::Cache;
use crate::table::{Region, Row, Table};
use core::sync::atomic::AtomicU64;
use std::vec::Vec;

mod random;

/// The stack's first address.
const STACK: u64 = 0x7fff_0000_0000;
/// Bytes of each function in the tables.
const FUNCTION: u64 = 0x100;

/// The address of a word of the stack.
const fn word(index: u64) -> u64 {
    STACK + 8 * index
}

/// An address in native function number `n`.
const fn native(n: u64) -> u64 {
    0x1000_0000 + n * FUNCTION + 0x10
}

/// An address in managed method number `n`.
const fn managed(n: u64) -> u64 {
    0x4000_0000 + n * FUNCTION + 0x10
}

/// Code that is in no table, as a method that is not known yet.
const UNKNOWN: u64 = 0x5000_0010;

const fn rule(cfa: Cfa, bp: SavedBp) -> Option<Rule> {
    Some(Rule { cfa, bp })
}

/// A function that keeps no frame pointer, so many bytes above its caller's.
const fn frameless(bytes: i32) -> Option<Rule> {
    rule(Cfa::Sp(bytes), SavedBp::Same)
}

const FRAMED: Option<Rule> = Some(Rule::FRAME);
const EITHER: Option<Rule> =
    rule(Cfa::BpOrSp { bp_offset: 16, sp_offset: 32 }, SavedBp::AtCfa(-16));
const END: Option<Rule> = rule(Cfa::End, SavedBp::Unknown);

/// A table that owns its memory.
#[derive(Default)]
struct Owned {
    regions: Vec<Region>,
    rows: Vec<Row>,
    rules: Vec<Rule>,
}

impl Owned {
    /// Functions one after the other, each with one rule, or none.
    fn new(first: u64, rules: &[Option<Rule>]) -> Self {
        let mut table = Self::default();
        for (n, rule) in rules.iter().enumerate() {
            let start = first + n as u64 * FUNCTION - 0x10;
            let number = table.rules.len() as u32;
            table.regions.push(Region {
                start,
                end: start + FUNCTION,
                rows_start: number,
                rows_len: u32::from(rule.is_some()),
            });
            if let Some(rule) = rule {
                table.rows.push(Row { offset: 0, rule: number });
                table.rules.push(*rule);
            }
        }
        table
    }

    fn view(&self) -> Table<'_> {
        Table { regions: &self.regions, rows: &self.rows, rules: &self.rules }
    }
}

/// What is given to a walk.
#[derive(Clone, Copy)]
struct Given<'a> {
    native: &'a [Option<Rule>],
    managed: &'a [Option<Rule>],
    hijack: u64,
    /// From `STACK` on.
    stack: &'a [u64],
    start: Start,
    leaf_code: &'a [u8],
    /// The thread's own stack, if this is another.
    left: Option<(u64, u64)>,
    /// That of native function number 0, if code may be read.
    prologue: Option<Prologue>,
}

const GIVEN: Given<'_> = Given {
    native: &[],
    managed: &[],
    hijack: 0,
    stack: &[],
    start: at(0, STACK, None),
    leaf_code: &[],
    left: None,
    prologue: None,
};

const fn at(ip: u64, sp: u64, bp: Option<u64>) -> Start {
    Start { registers: Registers { ip, sp, bp }, exact: true }
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
struct Walk {
    walked: Walked,
    frames: Vec<u64>,
    pushed: usize,
}

/// Walks without a cache, with an empty one, and with what that walk has left: all the same.
fn run(given: Given<'_>) -> Walk {
    // Few entries, so that frames take each other's place.
    let entries = [const { AtomicU64::new(0) }; 4];
    let caches = [&[][..], &entries, &entries].map(|entries| Cache { entries });
    let [plain, first, again] = caches.map(|cache| run_with(given, cache));
    assert_eq!(plain, first);
    assert_eq!(plain, again);
    plain
}

fn run_with(given: Given<'_>, cache: Cache<'_>) -> Walk {
    let first = native(0) - 0x10;
    let native = Owned::new(native(0), given.native);
    let managed = Owned::new(managed(0), given.managed);
    let hijack = given.hijack;
    let tables = Tables { native: native.view(), managed: managed.view(), hijack, cache };
    let high = word(given.stack.len() as u64);
    let bounds = Bounds { low: STACK, high, left: given.left };
    let mut frames = Frames::default();
    let read = |address: u64| {
        assert!(address >= bounds.low && address + 8 <= bounds.high, "read at {address:#x}");
        assert_eq!(address % 8, 0, "read at {address:#x}");
        Some(given.stack[((address - STACK) / 8) as usize])
    };
    let prologue = |set_at| given.prologue.filter(|_| set_at == first);
    let walked = walk(&tables, bounds, given.start, given.leaf_code, read, prologue, &mut frames);
    Walk { walked, frames: frames.iter().collect(), pushed: frames.pushed() }
}

/// Walks, and expects the functions of these addresses (for callers: of the address that is
/// returned to), that end, and a first guess at the frame of that number.
#[track_caller]
fn check(given: Given<'_>, expected: &[u64], end: EndReason, guess: Option<u32>) {
    let Walk { walked, frames, .. } = run(given);
    let lookups = expected.iter().enumerate().map(|(n, address)| match n {
        0 if given.start.exact => *address,
        _ => address - 1,
    });
    let show = |list: &[u64]| list.iter().map(|a| std::format!("{a:#x}")).collect::<Vec<_>>();
    let expected: Vec<u64> = lookups.collect();
    assert_eq!(show(&frames), show(&expected));
    assert_eq!(walked.end, end);
    let guessed = walked.guess.map(|guess| guess.frames_before);
    assert_eq!(guessed, guess);
}

#[test]
fn frame_pointers_chain() {
    let stack = [0, word(4), managed(1), 0, word(6), managed(2), 0, 0];
    let given = Given { managed: &[FRAMED; 3], stack: &stack, ..GIVEN };
    let whole = [managed(0), managed(1), managed(2)];
    check(
        Given { start: at(managed(0), word(0), Some(word(1))), ..given },
        &whole,
        EndReason::Root,
        None,
    );
    // A start that made a call is looked up one byte before.
    let start = Start { exact: false, ..at(managed(0), word(0), Some(word(1))) };
    check(Given { start, ..given }, &whole, EndReason::Root, None);
    // The end may also be said by the tables.
    check(
        Given {
            managed: &[FRAMED, FRAMED, END],
            start: at(managed(0), word(0), Some(word(1))),
            ..given
        },
        &whole,
        EndReason::Root,
        None,
    );
}

#[test]
fn stack_pointers_alone() {
    // Two words of locals, then a return address; a framed caller keeps its pointer meanwhile.
    let stack = [0, 0, managed(1), managed(2), word(6), 0, 0, 0];
    check(
        Given {
            managed: &[frameless(24), frameless(8), FRAMED],
            stack: &stack,
            start: at(managed(0), word(0), Some(word(6))),
            ..GIVEN
        },
        &[managed(0), managed(1), managed(2)],
        EndReason::Root,
        None,
    );
    // Where a function lost it, nobody has it.
    check(
        Given {
            native: &[rule(Cfa::Sp(8), SavedBp::Unknown), FRAMED],
            stack: &[native(1), 0, 0],
            start: at(native(0), word(0), Some(word(1))),
            ..GIVEN
        },
        &[native(0), native(1)],
        EndReason::NoFramePointer,
        Some(1),
    );
}

/// A frame pointer that has just been popped: the unwind data still has it where it was, below the
/// stack pointer.
#[test]
fn the_red_zone_is_the_leafs() {
    let stack = [word(3), managed(0), 0, 0, managed(1)];
    let given = Given {
        native: &[rule(Cfa::Sp(8), SavedBp::AtCfa(-16))],
        managed: &[FRAMED, END],
        stack: &stack,
        start: at(native(0), word(1), Some(word(3))),
        ..GIVEN
    };
    check(given, &[native(0), managed(0), managed(1)], EndReason::Root, None);
    let bounds = |sp| {
        let Bounds { low, high, .. } = Bounds::of_leaf(sp, 1000, 5000);
        (low, high)
    };
    assert_eq!(bounds(4000), (3872, 5000));
    // On another stack, or at the end of this one.
    assert_eq!(
        [bounds(16), bounds(1100), bounds(9000)],
        [(1000, 5000), (1000, 5000), (8872, 5000)]
    );
}

#[test]
fn either_pointer() {
    // The frame: two words, the saved frame pointer, the return address.
    let stack = [0, 0, word(4), native(1), word(4), 0, 0];
    let frames = [native(0), native(1)];
    let given = Given { native: &[EITHER, FRAMED], stack: &stack, ..GIVEN };
    let with_bp = Given { start: at(native(0), word(0), Some(word(2))), ..given };
    check(with_bp, &frames, EndReason::Root, None);
    // Without it, the stack pointer is believed, since a frame ends where it says.
    let without = Given { start: at(native(0), word(0), None), ..given };
    check(without, &frames, EndReason::Root, None);
    // The stack pointer has moved: what lies there is no frame's end, so it is searched.
    let moved = [0, 0, 0, 0, word(6), native(1), word(6), 0, 0];
    check(
        Given { stack: &moved, start: at(native(0), word(0), None), ..given },
        &frames,
        EndReason::Root,
        Some(0),
    );
    // A method that nobody knows yet may be the caller; what lies in a module or the stack may not.
    for (caller, found) in
        [(UNKNOWN, true), (native(2), false), (word(1), false), (0x8000, false), (1, false)]
    {
        let stack = [0, 0, word(4), caller, 0, 0, 0];
        let given = Given {
            native: &[EITHER, FRAMED, None],
            stack: &stack,
            start: at(native(0), word(0), None),
            ..GIVEN
        };
        let walk = run(given);
        assert_eq!(walk.frames.get(1) == Some(&(caller - 1)), found, "{caller:#x}");
        assert_eq!(walk.walked.end == EndReason::NoFramePointer, !found, "{caller:#x}");
    }
    // A method keeps its stack pointer where its rows say, hence no search.
    check(
        Given {
            managed: &[EITHER, END],
            stack: &[0, 0, 1, managed(1)],
            start: at(managed(0), word(0), None),
            ..GIVEN
        },
        &[managed(0), managed(1)],
        EndReason::Root,
        None,
    );
}

#[test]
fn a_prologue_says_how_far_a_frame_reaches() {
    // The frame: two words, the saved frame pointer, the return address.
    let stack = [0, 0, word(4), native(1), word(4), 0, 0];
    let frames = [native(0), native(1)];
    let start = at(native(0), word(0), None);
    let given = Given { native: &[FRAMED; 2], stack: &stack, start, ..GIVEN };
    let with = |body, sp_offset| Given { prologue: Some(Prologue { body, sp_offset }), ..given };
    check(with(native(0), 32), &frames, EndReason::Root, None);
    // It is not over yet, no frame ends where it says, or the code may not be read: a search.
    for given in [with(native(0) + 1, 32), with(native(0), 24), given] {
        check(given, &frames, EndReason::Root, Some(0));
    }
}

#[test]
fn a_search_is_bounded() {
    let mut stack = Vec::from([0; 80]);
    for (place, found) in [(0, true), (63, true), (64, false)] {
        stack.fill(0);
        stack[place] = word(place as u64 + 2);
        stack[place + 1] = managed(1);
        let given = Given {
            managed: &[FRAMED, END],
            stack: &stack,
            start: at(managed(0), word(0), None),
            ..GIVEN
        };
        let frames = [managed(0), managed(1)];
        let (frames, end) = if found {
            (&frames[..], EndReason::Root)
        } else {
            (&frames[..1], EndReason::NoFramePointer)
        };
        check(given, frames, end, Some(0));
    }
}

#[test]
fn realigned_stacks() {
    // `bp - 8` points to where the caller's frame ends.
    let stack = [0, word(6), word(0), 0, word(6), native(1), 0];
    let rule = rule(Cfa::DerefBp(-8), SavedBp::AtCfa(-16));
    let given = Given {
        native: &[rule, END],
        stack: &stack,
        start: at(native(0), word(0), Some(word(2))),
        ..GIVEN
    };
    check(given, &[native(0), native(1)], EndReason::Root, None);
    let lost = Given { start: at(native(0), word(0), None), ..given };
    check(lost, &[native(0)], EndReason::NoFramePointer, None);
    let outside = Given { start: at(native(0), word(0), Some(word(0))), ..given };
    check(outside, &[native(0)], EndReason::OutsideStack, None);
}

#[test]
fn lazy_stubs() {
    let rule = rule(Cfa::Plt { pushed_from: 11 }, SavedBp::Same);
    for (offset, stack) in
        [(0, [native(1), 0, 0]), (10, [native(1), 0, 0]), (11, [7, native(1), 0])]
    {
        let ip = native(0) + offset;
        let start = at(ip, word(0), None);
        let given = Given { native: &[rule, END], stack: &stack, start, ..GIVEN };
        check(given, &[ip, native(1)], EndReason::Root, None);
    }
}

#[test]
fn signal_frames() {
    // Five words of the ucontext, then the registers; 10 is rbp, 15 rsp, 16 rip.
    let mut stack = [0; 40];
    let interrupted = [(5 + 10, word(36)), (5 + 15, word(32)), (5 + 16, managed(0))];
    for (place, value) in interrupted {
        stack[place] = value;
    }
    (stack[36], stack[37]) = (0, managed(1));
    let signal = rule(Cfa::SignalFrame, SavedBp::Unknown);
    let given = Given {
        native: &[signal],
        managed: &[FRAMED, END],
        stack: &stack,
        start: at(native(0), word(0), None),
        ..GIVEN
    };
    let Walk { walked, frames, .. } = run(given);
    // The interrupted address is exact, unlike a caller's.
    assert_eq!(frames, [native(0), managed(0), managed(1) - 1]);
    assert_eq!((walked.end, walked.guess), (EndReason::Root, None));
    check(Given { stack: &stack[..20], ..given }, &[native(0)], EndReason::OutsideStack, None);
}

/// The runtime's handler of a fault is on a stack of its own, which lies above or below.
#[test]
fn a_signal_stack_is_left_for_the_threads() {
    let signal = rule(Cfa::SignalFrame, SavedBp::Unknown);
    // The first words of the signal's frame and of the thread's stack; one lies after the other.
    for (frame, own) in [(3, 46), (8, 2)] {
        let mut stack = [0; 52];
        let interrupted = [(10, word(own + 2)), (15, word(own)), (16, managed(0))];
        for (register, value) in interrupted {
            stack[frame as usize + 5 + register] = value;
        }
        stack[own as usize + 3] = managed(1);
        let given = Given {
            native: &[signal],
            managed: &[FRAMED, END],
            stack: &stack,
            start: at(native(0), word(frame), None),
            left: Some((word(own - 1), word(own + 5))),
            ..GIVEN
        };
        let Walk { walked, frames, .. } = run(given);
        assert_eq!(frames, [native(0), managed(0), managed(1) - 1], "at {frame}");
        assert_eq!((walked.end, walked.guess), (EndReason::Root, None));
    }
}

/// CoreCLR's frame between a fault and its handler: the address is beyond the red zone, and exact.
#[test]
fn faults() {
    let faulted = rule(Cfa::Faulted { sp_offset: 32, ip_at: -24 }, SavedBp::AtCfa(-32));
    let stack = [word(5), managed(0), 7, 7, 0, 0, managed(1), 0];
    let given = Given {
        native: &[faulted],
        managed: &[FRAMED, END],
        stack: &stack,
        start: at(native(0), word(0), None),
        ..GIVEN
    };
    let Walk { walked, frames, .. } = run(given);
    assert_eq!(frames, [native(0), managed(0), managed(1) - 1]);
    assert_eq!((walked.end, walked.guess), (EndReason::Root, None));
    check(Given { stack: &stack[..1], ..given }, &[native(0)], EndReason::OutsideStack, None);
}

/// `vfork` waits for its child with its return address in a register.
#[test]
fn a_popped_return_address() {
    let given = Given {
        native: &[rule(Cfa::Popped, SavedBp::Same), frameless(16), END],
        stack: &[native(1), 0, native(2), 0],
        start: at(native(0), word(1), None),
        ..GIVEN
    };
    check(given, &[native(0), native(1), native(2)], EndReason::Root, None);
    let other = Given { stack: &[7, 0, native(2), 0], ..given };
    check(other, &[native(0)], EndReason::Unsupported, None);
    // Only a leaf can be there.
    let caller = Start { exact: false, ..given.start };
    check(Given { start: caller, ..given }, &[native(0)], EndReason::NoProgress, None);
}

#[test]
fn replaced_on_the_stack() {
    let rule = rule(Cfa::Osr { tier0_bp_offset: 16 }, SavedBp::Unknown);
    // bp → replica of the saved frame pointer; 16 + M above it the one that is replaced.
    let stack = [0, word(7), 0, 0, 0, word(7), managed(1), 0, 0];
    let given = Given {
        managed: &[rule, FRAMED],
        stack: &stack,
        start: at(managed(0), word(0), Some(word(1))),
        ..GIVEN
    };
    check(given, &[managed(0), managed(1)], EndReason::Root, None);
    let mut other = stack;
    other[5] = word(8);
    check(Given { stack: &other, ..given }, &[managed(0)], EndReason::Unsupported, None);
    let lost = Given { start: at(managed(0), word(0), None), ..given };
    check(lost, &[managed(0)], EndReason::NoFramePointer, None);
    let outside = Given { start: at(managed(0), word(0), Some(word(9))), ..given };
    check(outside, &[managed(0)], EndReason::OutsideStack, None);
}

#[test]
fn hijacked_returns() {
    // The return address was replaced: whose frame it is only its frame pointer tells.
    let stack = [word(2), native(0), word(4), managed(1), 0, 0];
    let given = Given {
        native: &[FRAMED],
        managed: &[FRAMED, FRAMED],
        hijack: native(0),
        stack: &stack,
        start: at(managed(0), word(0), Some(word(0))),
        ..GIVEN
    };
    check(given, &[managed(0), native(0), managed(1)], EndReason::Root, Some(1));
    // The hijacker itself, interrupted at its first instruction, is native code like any.
    let given = Given {
        stack: &[managed(1), 0, 0],
        native: &[frameless(8)],
        start: at(native(0), word(0), Some(word(1))),
        ..given
    };
    check(given, &[native(0), managed(1)], EndReason::Root, None);
}

#[test]
fn helpers_without_a_rule() {
    let given = Given {
        native: &[None, END],
        managed: &[END],
        start: at(native(0), word(0), None),
        ..GIVEN
    };
    for caller in [native(1), managed(0)] {
        check(Given { stack: &[caller], ..given }, &[native(0), caller], EndReason::Root, None);
    }
    for top in [native(0), UNKNOWN, 0, u64::MAX] {
        check(Given { stack: &[top], ..given }, &[native(0)], EndReason::NoRule, None);
    }
    check(given, &[native(0)], EndReason::OutsideStack, None);
    // It was not interrupted but called somebody: then more than a return address may be there.
    let called = Start { exact: false, ..given.start };
    check(
        Given { stack: &[native(1)], start: called, ..given },
        &[native(0)],
        EndReason::NoRule,
        None,
    );
}

#[test]
fn unknown_methods_are_guessed() {
    let stack = [managed(1), word(3), managed(1), 0, 0];
    let given = Given {
        managed: &[FRAMED, END],
        stack: &stack,
        start: at(UNKNOWN, word(0), Some(word(1))),
        ..GIVEN
    };
    let frames = [UNKNOWN, managed(1)];
    check(given, &frames, EndReason::Root, Some(0));
    // Before its first instruction, `push rbp`, the caller is on top.
    let entered = Given { leaf_code: &[0x55, 0x48, 0x89, 0xe5], ..given };
    check(entered, &frames, EndReason::Root, Some(0));
    assert_eq!(run(entered).walked.guess.map(|guess| guess.start), Some(given.start));
    // Its last instructions tell exactly: no guess.
    check(Given { leaf_code: &[0xc3], ..given }, &frames, EndReason::Root, None);
    // A method with a gap in its rows is guessed as well.
    let gap =
        Given { managed: &[None, END], start: at(managed(0), word(0), Some(word(1))), ..given };
    check(gap, &[managed(0), managed(1)], EndReason::Root, Some(0));
    // The first guess is the one that is told, with the frames before it.
    let stack = [word(2), UNKNOWN, word(4), UNKNOWN, word(6), managed(1), 0];
    let given = Given { stack: &stack, start: at(managed(0), word(0), Some(word(0))), ..given };
    check(given, &[managed(0), UNKNOWN, UNKNOWN, managed(1)], EndReason::Root, Some(1));
    let guess = run(given).walked.guess.expect("a guess");
    let expected = Registers { ip: UNKNOWN, sp: word(2), bp: Some(word(2)) };
    assert_eq!(guess.start, Start { registers: expected, exact: false });
}

#[test]
fn the_leafs_last_instructions_come_before_its_rules() {
    // Its rules say that there is a frame; `ret` says that it has been taken down.
    let given = Given {
        managed: &[FRAMED, END],
        stack: &[managed(1)],
        start: at(managed(0), word(0), Some(0)),
        leaf_code: &[0xc3],
        ..GIVEN
    };
    check(given, &[managed(0), managed(1)], EndReason::Root, None);
    // Only the leaf's: its caller is at a call.
    let stack = [managed(0), word(3), managed(1), 0, 0];
    let given = Given { stack: &stack, start: at(managed(0), word(0), Some(word(1))), ..given };
    check(given, &[managed(0), managed(0), managed(1)], EndReason::Root, None);
}

#[test]
fn ends_say_why() {
    let given = Given {
        native: &[Some(Rule::UNSUPPORTED), FRAMED],
        stack: &[word(0), native(1), 0, 0],
        start: at(native(1), word(0), Some(word(0))),
        ..GIVEN
    };
    let unsupported = Given { start: at(native(0), word(0), None), ..given };
    check(unsupported, &[native(0)], EndReason::Unsupported, None);
    // A frame that is its own caller.
    check(given, &[native(1), native(1)], EndReason::NoProgress, None);
    // A frame below its callee.
    let below = Given { start: at(native(1), word(2), Some(word(0))), ..given };
    check(below, &[native(1)], EndReason::NoProgress, None);
    // Frame pointers that are none.
    for bp in
        [0, 1, 8, word(0) - 16, word(0) + 4, word(3), word(4), 1 << 63, u64::MAX - 7, u64::MAX]
    {
        let given = Given { start: at(native(1), word(0), Some(bp)), ..given };
        check(given, &[native(1)], EndReason::OutsideStack, None);
    }
    // No memory at all, as on a thread whose stack is not known.
    check(Given { stack: &[], ..given }, &[native(1)], EndReason::OutsideStack, None);
}
