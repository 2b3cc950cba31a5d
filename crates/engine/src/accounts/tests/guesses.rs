//! Stacks whose frames had to be guessed.

use signal::arch::Registers;
use signal::walk::{Guess, Start};

use super::*;

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
