//! The prologue decoder against the unwind codes of every precompiled method of the base library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/r2r.rs"]
mod r2r;
#[path = "support/rig.rs"]
mod rig;

use r2r::{Function, Image, Truth, Unwind};
use signal::epilogue::epilogue;
use signal::rule::{Cfa, Rule, SavedBp};
use unwind::managed::instruction::{Instruction, Kind};
use unwind::managed::{Method, Shape};

/// Whether a rule says what the unwind codes say at `offset` from the function's begin.
fn agrees(unwind: &Unwind, offset: usize, rule: Rule) -> bool {
    let Truth { size, bp } = unwind.at(offset);
    let bp_agrees = match rule.bp {
        SavedBp::Same => bp.is_none(),
        SavedBp::AtCfa(at) => bp == Some(at),
        SavedBp::Unknown => false,
    };
    // The codes name the frame pointer only where the body moves rsp; then a rule by rsp is right
    // only before it is set, and the frame pointer must be where they say.
    let frame = unwind.frame.filter(|(set, _)| *set <= offset);
    let cfa_agrees = match (rule.cfa, frame) {
        (Cfa::Sp(sp_offset), None) => sp_offset == size,
        (Cfa::BpOrSp { bp_offset: 16, sp_offset }, None) => sp_offset == size && bp == Some(-16),
        (Cfa::Bp(16), Some((_, m))) => size - m == 16,
        _ => false,
    };
    cfa_agrees && bp_agrees
}

#[derive(Default)]
struct Tally {
    functions: usize,
    right: usize,
    framed: usize,
    by_bp_only: usize,
    funclets: usize,
    unread: usize,
    compared: usize,
    wrong: Vec<String>,
}

/// Compares at each offset of each function's prologue, at the first offset of its body, and at
/// its last byte.
fn check(image: &Image) -> Tally {
    let mut tally = Tally::default();
    for functions in image.methods() {
        let (first, last) = (functions[0], functions[functions.len() - 1]);
        let code = image.code(first.begin, last.end);
        let method = Method::read(code, None);
        tally.unread += usize::from(method.read != code.len());
        tally.funclets += method.funclets;
        if method.funclets != functions.len() - 1 {
            let expected = functions.len() - 1;
            let found = method.funclets;
            tally.wrong.push(format!("{:#x}: {found} funclets of {expected}", first.begin));
        }
        tally.framed += usize::from(matches!(method.shape, Shape::Framed { .. }));
        tally.by_bp_only += usize::from(method.steps.iter().any(|s| s.rule.cfa == Cfa::Bp(16)));
        for function in functions {
            check_function(
                image,
                *function,
                (function.begin - first.begin) as usize,
                code,
                &method,
                &mut tally,
            );
        }
    }
    tally
}

fn check_function(
    image: &Image,
    function: Function,
    start: usize,
    code: &[u8],
    method: &Method,
    tally: &mut Tally,
) {
    tally.functions += 1;
    let len = (function.end - function.begin) as usize;
    let unwind = image.unwind(function);
    let mut offsets = (0..=unwind.prologue.min(len - 1)).chain([len - 1]);
    let wrong = offsets.find(|offset| {
        tally.compared += 1;
        let at = start + offset;
        let step = method.steps.iter().rev().find(|step| step.offset <= at).unwrap();
        !agrees(&unwind, *offset, step.rule)
    });
    let Some(offset) = wrong else {
        tally.right += 1;
        return;
    };
    let bytes = &code[start..start + len.min(48)];
    let steps: Vec<_> =
        method.steps.iter().filter(|s| (start..start + len).contains(&s.offset)).collect();
    tally.wrong.push(format!(
        "{:#x} +{offset}: {bytes:02x?}\n    {:?} {:?}\n    {steps:?}",
        function.begin, unwind.steps, unwind.frame,
    ));
}

#[derive(Default)]
struct Epilogues {
    instructions: usize,
    right: usize,
    returns: usize,
    /// Jumps at the end of an epilogue that look like ordinary ones when the walker stands on them.
    bare_jumps: usize,
    wrong: Vec<String>,
}

/// Follows each epilogue through a function and compares at each of its instructions.
fn check_epilogues(image: &Image) -> Epilogues {
    let mut tally = Epilogues::default();
    for function in &image.functions {
        let code = image.code(function.begin, function.end);
        let unwind = image.unwind(*function);
        let whole = unwind.at(code.len());
        // The truth inside an epilogue: what was still on the stack one instruction before, less
        // what that took off.
        let mut truth: Option<Truth> = None;
        let mut at = unwind.prologue;
        while let Some(next) = Instruction::decode(&code[at..]) {
            let rule = epilogue(&code[at..]);
            if let (None, Some(_), Kind::EndsFlow) = (rule, truth, next.kind) {
                tally.bare_jumps += 1;
            }
            let Some(rule) = rule else {
                truth = None;
                at += next.len;
                continue;
            };
            let now = truth.unwrap_or(whole);
            let bp = match rule.bp {
                SavedBp::Same => now.bp.is_none(),
                SavedBp::AtCfa(offset) => now.bp == Some(offset),
                SavedBp::Unknown => false,
            };
            let cfa = match rule.cfa {
                Cfa::Sp(size) => size == now.size,
                Cfa::Bp(16) => now == whole && now.bp == Some(-16),
                _ => false,
            };
            tally.instructions += 1;
            tally.right += usize::from(bp && cfa);
            tally.returns += usize::from(code[at] == 0xc3);
            if !(bp && cfa) {
                let end = code.len().min(at + 32);
                let bytes = &code[at..end];
                tally
                    .wrong
                    .push(format!("{:#x} +{at}: {bytes:02x?} {rule:?} {now:?}", function.begin));
            }
            truth = after(&code[at..], now);
            at += next.len;
        }
    }
    tally
}

/// What is on the stack behind an instruction of an epilogue.
fn after(code: &[u8], before: Truth) -> Option<Truth> {
    let Truth { size, bp } = before;
    match code {
        [0x5d, ..] => Some(Truth { size: size - 8, bp: None }),
        [0x58..=0x5f, ..] | [0x41, 0x58..=0x5f, ..] => Some(Truth { size: size - 8, bp }),
        [0x48, 0x83, 0xc4, imm, ..] => Some(Truth { size: size - i32::from(*imm), bp }),
        [0x48, 0x81, 0xc4, a, b, c, d, ..] => {
            Some(Truth { size: size - i32::from_le_bytes([*a, *b, *c, *d]), bp })
        }
        // lea rsp, [rbp + disp]: the frame pointer is 16 below the CFA.
        [0x48, 0x8d, 0x65, disp, ..] => Some(Truth { size: 16 - i32::from(*disp as i8), bp }),
        [0x48, 0x8d, 0xa5, a, b, c, d, ..] => {
            Some(Truth { size: 16 - i32::from_le_bytes([*a, *b, *c, *d]), bp })
        }
        _ => None,
    }
}

#[test]
fn every_precompiled_method() {
    for library in rig::files("every_precompiled_method", &["System.Private.CoreLib.dll"]) {
        let image = Image::read(std::fs::read(&library).unwrap()).expect("precompiled code");
        let start = std::time::Instant::now();
        let tally = check(&image);
        let rate = tally.right as f64 / tally.functions as f64;
        println!(
            "{}: {} of {} functions agree ({:.4} %) at {} offsets, {} framed, {} by rbp only, \
             {} funclets, {} not read to the end, {:?}",
            library.display(),
            tally.right,
            tally.functions,
            rate * 100.0,
            tally.compared,
            tally.framed,
            tally.by_bp_only,
            tally.funclets,
            tally.unread,
            start.elapsed()
        );
        let epilogues = check_epilogues(&image);
        println!(
            "  epilogues: {} of {} instructions agree, {} returns, {} bare jumps",
            epilogues.right, epilogues.instructions, epilogues.returns, epilogues.bare_jumps
        );
        for wrong in epilogues.wrong.iter().take(20) {
            println!("  {wrong}");
        }
        let wrong_max = epilogues.instructions / 1000;
        assert!(epilogues.wrong.len() <= wrong_max, "{}: epilogues", library.display());
        println!("{} remarks", tally.wrong.len());
        for wrong in tally.wrong.iter().take(20) {
            println!("  {wrong}");
        }
        assert!(rate >= 0.999, "{}: {rate}", library.display());
    }
}
