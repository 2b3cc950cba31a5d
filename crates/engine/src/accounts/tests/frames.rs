//! What a stack's frames are shown as.

use std::sync::Arc;

use model::EndReason;
use profile::ThreadKey;
use signal::arch::Registers;
use signal::walk::{Guess, Start};

use super::super::*;
use super::{BOTH, Books, T, sample, short};
use crate::fake::{lost, method};
use crate::runtime::{IlStep, ModuleKey};

/// Bytes of a method with a handler in it: `push rbp; mov rbp, rsp; pop rbp; ret`, and
/// `push rbp; sub rsp, 16; add rsp, 16; pop rbp; ret`.
const WITH_HANDLER: [u8; 17] = [
    0x55, 0x48, 0x8b, 0xec, 0x5d, 0xc3, 0x55, 0x48, 0x83, 0xec, 0x10, 0x48, 0x83, 0xc4, 0x10, 0x5d,
    0xc3,
];

#[test]
fn handlers_and_nameless_functions_are_shown_once() {
    let mut books = Books::new(BOTH);
    let code = WITH_HANDLER.to_vec().leak();
    let body = code.as_ptr() as u64;
    books.table.add(2, body, body + code.len() as u64);
    let handler = body + 8;
    books.start(T);
    let mut expect = |frames: &[u64], gap: Option<usize>, expected: &[&str]| {
        let walked = Walked {
            frames: Arc::new(frames.to_vec()),
            gap,
            end: EndReason::Root,
            class: ThreadClass::Managed,
        };
        let id = books.accounts.intern(&walked);
        let key =
            SampleKey { stack: id, thread: ThreadKey::NONE, state: None, span: None, labels: 0 };
        assert_eq!(
            books.accounts.aggregate.add(&key, Values { count: 1, ..Values::default() }),
            Added::Kept
        );
        let (profile, _, _) = books.accounts.take(Period::default());
        let text = |frame| short(profile.text(profile.function_of(frame).expect("known").name));
        let found: Vec<String> = profile.stack(profile.samples[0].stack).map(text).collect();
        assert_eq!(found, expected, "{frames:x?}");
    };
    expect(&[handler, body + 1], None, &["M"]);
    expect(&[body + 1, body + 2], None, &["M", "M"]);
    expect(&[handler, handler, body + 1], None, &["M", "M"]);
    // Called by the runtime, it is told apart.
    expect(&[handler, method(1), body + 1], None, &["M", "M1", "M"]);
    // What was lost between may have been anything.
    expect(&[handler, body + 1], Some(1), &["M", "[truncated]", "M"]);
    expect(&[handler, method(1), body + 1], Some(2), &["M", "M1", "[truncated]", "M"]);
    expect(&[], None, &["[no frames]"]);
    expect(&[0x10, method(1)], None, &["[not code]", "M1"]);
}

#[test]
fn a_row_of_nameless_functions_is_shown_as_one() {
    let mut books = Books::new(BOTH);
    let ranges = sys::proc::executable_ranges();
    // The last word of a code segment is no function's.
    let (start, named) = {
        let symbolizer = &mut books.accounts.symbolizer;
        let aggregate = &mut books.accounts.aggregate;
        let mut all = ranges.iter().flat_map(|(start, end)| [*start, end - 1]);
        let found = all.find_map(|address| {
            let named = symbolizer.named(address, aggregate);
            named.anonymous.then_some((address, named.frame))
        });
        found.expect("some code in this process has no symbol")
    };
    let class = ThreadClass::Managed;
    let walked = |frames: &[u64]| Walked {
        frames: Arc::new(frames.to_vec()),
        gap: None,
        end: EndReason::Root,
        class,
    };
    let once = books.accounts.aggregate.stack([named]);
    assert_eq!(books.accounts.intern(&walked(&[start; 3])), once);
    let apart = books.accounts.intern(&walked(&[start, method(1), start]));
    assert_ne!(apart, once);
    assert_ne!(books.accounts.intern(&walked(&[method(1), start])), apart);
}

/// A sample whose second frame was guessed, with its stack: frames of two words each, from there.
fn guessed(frames: &[u64], words: &[u64]) -> Sample {
    const STACK: u64 = 0x7000_0000;
    let mut sample = sample(T, frames, 1);
    sample.guessed = true;
    let registers = Registers { ip: frames[1] + 1, sp: STACK, bp: Some(STACK) };
    sample.copy.guess =
        Guess { start: Start { registers, exact: false }, frames_before: 1, last_before: 1 };
    sample.copy.stack_end = STACK + 8 * words.len() as u64;
    let copied =
        words.iter().map(|word| if (1..1000).contains(word) { STACK + 8 * word } else { *word });
    sample.copy.words.iter_mut().zip(copied).for_each(|(place, word)| *place = word);
    sample.copy.length = words.len() as u32;
    sample
}

#[test]
fn a_guess_is_walked_again_or_counted() {
    let mut books = Books::new(BOTH);
    books.start(T);
    // The methods of the table have no code in memory, hence no rows: a guess remains.
    let frames = [method(0), method(1), method(2)];
    books.accounts.sample(&guessed(&frames, &[2, method(2) + 1, 0, 0]));
    assert_eq!(lost(books.accounts.shared, Loss::GuessedFrame), 1);
    assert_eq!(books.take(), ["M0<M1<M2 running: 1 1 1"]);
    // What was found by a guess and is no code is cut off, also when it was seen before.
    let astray = [method(0), method(1), 0x10, method(2)];
    for _ in 0..2 {
        books.sample(T, &[0x10], 1);
        books.accounts.sample(&guessed(&astray, &[2, 0x11, 0, 0]));
        let rows = books.take();
        assert_eq!(rows[0], "M0<M1<[no unwind rule] running: 1 1 1", "{rows:?}");
    }
    assert_eq!(lost(books.accounts.shared, Loss::GuessedFrame), 3);
    // With rows, nothing is guessed: this method keeps a frame pointer.
    let code = WITH_HANDLER.to_vec().leak();
    let body = code.as_ptr() as u64;
    books.table.add(2, body, body + code.len() as u64);
    // Two words, then what it was called by, whose frame has rows too.
    let words = [2, body + 5, 4, body + 5, 0, 0, 0];
    books.accounts.sample(&guessed(&[method(0), body + 4, 0x10], &words));
    assert_eq!(books.take(), ["M0<M<M<M running: 1 1 1"]);
    assert_eq!(lost(books.accounts.shared, Loss::GuessedFrame), 3);
}

#[test]
fn what_was_interrupted_and_has_no_rule_has_pushed_nothing() {
    let mut books = Books::new(BOTH);
    let code = WITH_HANDLER.to_vec().leak();
    let body = code.as_ptr() as u64;
    books.table.add(2, body, body + code.len() as u64);
    books.start(T);
    // A return into a method that keeps a frame pointer, which is above its leaf's still.
    let (unknown, above) = (0x10, [0, 5, body + 5, 0, 0, 0]);
    let mut leaf = |on_top: u64, exact: bool| {
        let words = [&[on_top], &above[..]].concat();
        let mut sample = guessed(&[unknown, unknown], &words);
        let Guess { start, .. } = &mut sample.copy.guess;
        (start.registers.ip, start.exact) = (unknown, exact);
        start.registers.bp = Some(start.registers.sp + 16);
        (sample.copy.guess.frames_before, sample.copy.guess.last_before) = (0, 0);
        books.accounts.sample(&sample);
        books.take()
    };
    for (on_top, exact) in [(0x2000, true), (0, true), (body + 5, false)] {
        assert_eq!(leaf(on_top, exact), ["[no unwind rule] running: 1 1 1"], "{on_top:x}");
    }
    assert_eq!(leaf(body + 5, true), ["[stub]<M<M running: 1 1 1"]);
}

#[test]
fn unloaded_methods_are_asked_for_again() {
    let mut books = Books::new(BOTH);
    books.sample(T, &[method(1)], 1);
    assert_eq!(books.take(), ["M1 running: 1 1 1"]);
    books.table.unload(1);
    books.table.add(9, method(1) - 16, method(1) + 32);
    books.sample(T, &[method(1)], 1);
    assert_eq!(books.take(), ["M1 running: 1 1 1"], "nobody has said that it is gone");
    books.accounts.event(Event::Unloaded { module: ModuleKey(1) });
    books.sample(T, &[method(1)], 1);
    assert_eq!(books.take(), ["M0 running: 1 1 1"], "the other's name, by its first address");
}

#[test]
fn a_frame_knows_the_place_in_its_method() {
    let mut books = Books::new(BOTH);
    books.start(T);
    let step = |offset, il| IlStep { address: method(1) + offset, il };
    books.table.il(method(1), vec![step(0, Some(0)), step(8, Some(5)), step(16, None)]);
    // The first method's places 0 and 5 and its own code, and another's of which nothing is known.
    for address in [method(1) + 3, method(1) + 8, method(1) + 15, method(1) + 20, method(2) + 8] {
        books.sample(T, &[address], 1);
    }
    let (profile, _, _) = books.accounts.take(Period::default());
    let mut places: Vec<_> = profile
        .samples
        .iter()
        .map(|sample| {
            let leaf = profile.stack(sample.stack).next().expect("a frame");
            let frame = profile.frames[leaf.get()];
            let module = profile.module_of(leaf).expect("a module");
            assert_eq!(profile.text(module.build_id), "b");
            (frame.function, frame.address, sample.values.count)
        })
        .collect();
    places.sort();
    let [a, b, c, d] = places[..] else { panic!("{places:?}") };
    let of = |il: u64| 0x0600_0001 << 32 | il;
    assert_eq!([a.1, b.1, c.1, d.1], [0, of(0), of(5), 0]);
    assert_eq!([a.2, b.2, c.2, d.2], [1, 1, 2, 1]);
    assert!(a.0 == b.0 && b.0 == c.0 && c.0 != d.0, "{places:?}");
}
