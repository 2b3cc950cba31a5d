//! Unwind data as compilers make it, and damaged.

use super::*;

/// Steps of a function whose data is at 0x100 of an image that holds just that.
fn steps_of(data: &[u8]) -> Result<Vec<Step>, Bad> {
    steps_in(&[(0x100, data)])
}

/// The same, with several pieces of the image.
fn steps_in(image: &[(u32, &[u8])]) -> Result<Vec<Step>, Bad> {
    let function = Function { start: 0x1000, end: 0x1100, unwind: 0x100 };
    steps(function, |offset, room| {
        let Some((_, data)) = image.iter().find(|(at, _)| *at == offset) else { return 0 };
        let length = data.len().min(room.len());
        room[..length].copy_from_slice(&data[..length]);
        length
    })
}

fn sp(offset: i32, bp: SavedBp) -> Rule {
    Rule { cfa: Cfa::Sp(offset), bp }
}

#[test]
fn pushes_and_an_allocation() {
    // push rsi; push rbx; sub rsp, 0x28 — as RyuJIT emits it: three codes and one of room.
    let data = [1, 6, 3, 0, 6, 0x42, 2, 0x30, 1, 0x60, 0, 0];
    let expected = vec![
        (0, Rule::ENTRY),
        (1, sp(16, SavedBp::Same)),
        (2, sp(24, SavedBp::Same)),
        (6, sp(64, SavedBp::Same)),
    ];
    assert_eq!(steps_of(&data), Ok(expected));
}

#[test]
fn a_frame_pointer_into_the_middle() {
    // push rbp; sub rsp, 0x50; lea rbp, [rsp+0x20].
    let data = [1, 10, 3, 0x25, 10, 0x03, 5, 0x92, 1, 0x50, 0, 0];
    let saved = SavedBp::AtCfa(-16);
    let expected = vec![
        (0, Rule::ENTRY),
        (1, sp(16, saved)),
        (5, sp(0x60, saved)),
        (10, Rule { cfa: Cfa::BpOrSp { bp_offset: 0x40, sp_offset: 0x60 }, bp: saved }),
    ];
    assert_eq!(steps_of(&data), Ok(expected));
}

#[test]
fn a_register_saved_into_the_callers_room() {
    // mov [rsp+8], rbx; mov [rsp+16], rbp; push rdi; sub rsp, 0x20, as MSVC does. Offsets count
    // from the end of the prologue: 0x30 and 0x38 above the stack pointer.
    let data = [1, 15, 6, 0, 15, 0x54, 7, 0, 15, 0x34, 6, 0, 15, 0x32, 11, 0x70];
    let saved = SavedBp::AtCfa(8);
    let steps = steps_of(&data).expect("good data");
    assert_eq!(steps.last(), Some(&(15, sp(48, saved))));
    assert_eq!(steps[1], (11, sp(16, SavedBp::Same)));
}

#[test]
fn large_allocations() {
    // sub rsp, 0x1008 in units of eight; and 0x12345678 in full.
    let scaled = [1, 7, 2, 0, 7, 0x01, 0x01, 0x02];
    assert_eq!(steps_of(&scaled), Ok(vec![(0, Rule::ENTRY), (7, sp(0x1010, SavedBp::Same))]));
    let full = [1, 7, 3, 0, 7, 0x11, 0x78, 0x56, 0x34, 0x12, 0, 0];
    let rule = sp(0x1234_5680, SavedBp::Same);
    assert_eq!(steps_of(&full), Ok(vec![(0, Rule::ENTRY), (7, rule)]));
}

#[test]
fn another_frame_register_is_left_alone() {
    // push r13; sub rsp, 0x20; lea r13, [rsp]: what goes by rsp holds as long as that stays.
    let data = [1, 9, 3, 0x0d, 9, 0x03, 6, 0x32, 2, 0xd0, 0, 0];
    assert_eq!(steps_of(&data).expect("good data").last(), Some(&(9, sp(48, SavedBp::Same))));
}

#[test]
fn a_part_goes_on_where_the_first_ended() {
    // The part saves rbp into the frame that the first has made: push rdi; sub rsp, 0x30.
    let part = [0x21, 5, 2, 0, 5, 0x54, 4, 0, 0, 0x10, 0, 0, 0x80, 0x10, 0, 0, 0, 2, 0, 0];
    let first = [1, 5, 2, 0, 5, 0x52, 1, 0x70];
    let steps = steps_in(&[(0x100, &part), (0x200, &first)]).expect("good data");
    assert_eq!(steps, [(0, sp(64, SavedBp::Same)), (5, sp(64, SavedBp::AtCfa(-32)))]);
    // With no codes of its own it holds from its first byte.
    let part = [0x21, 0, 0, 0, 0, 0x10, 0, 0, 0x80, 0x10, 0, 0, 0, 2, 0, 0];
    let steps = steps_in(&[(0x100, &part), (0x200, &first)]).expect("good data");
    assert_eq!(steps, [(0, sp(64, SavedBp::Same))]);
}

#[test]
fn epilogues_of_version_2_are_passed_over() {
    // Two slots of epilogues, then push rbx; sub rsp, 0x20.
    let data = [2, 6, 4, 0, 5, 0x16, 0, 0x06, 6, 0x32, 2, 0x30];
    let expected = vec![(0, Rule::ENTRY), (2, sp(16, SavedBp::Same)), (6, sp(48, SavedBp::Same))];
    assert_eq!(steps_of(&data), Ok(expected));
}

#[test]
fn what_the_system_interrupted_is_in_a_context() {
    // A machine frame, then room below it.
    let data = [1, 7, 3, 0, 7, 0x01, 0xb2, 0, 0, 0x0a, 0, 0];
    let rule = Rule { cfa: Cfa::SignalFrame, bp: SavedBp::Unknown };
    assert_eq!(steps_of(&data), Ok(vec![(0, rule), (7, rule)]));
}

#[test]
fn damage_is_told() {
    assert_eq!(steps_of(&[]), Err(Bad::Missing));
    assert_eq!(steps_of(&[3, 0, 0, 0]), Err(Bad::Unknown));
    assert_eq!(steps_of(&[1, 0, 1, 0, 0, 0x0f]), Err(Bad::Unknown));
    assert_eq!(steps_of(&[1, 0, 9, 0, 0, 0]), Err(Bad::Missing));
    // Larger than any stack.
    let huge = [1, 7, 3, 0, 7, 0x11, 0xff, 0xff, 0xff, 0xff, 0, 0];
    assert_eq!(steps_of(&huge).map(|steps| steps[1].1), Ok(Rule::UNSUPPORTED));
    // Chained to itself.
    let circle = [0x21, 0, 0, 0, 0, 0x10, 0, 0, 0x80, 0x10, 0, 0, 0, 1, 0, 0];
    assert_eq!(steps_of(&circle), Err(Bad::Chain));
}

#[test]
fn no_bytes_are_trouble() {
    let mut random = testing::Random(7);
    for _ in 0..20_000 {
        let length = usize::try_from(random.below(64)).expect("small");
        let mut data: Vec<u8> =
            (0..length).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect();
        if let Some(first) = data.first_mut() {
            *first = 1 + 8 * (*first & 4);
        }
        if let Some(count) = data.get_mut(2) {
            *count %= 24;
        }
        let _any = steps_in(&[(0x100, &data), (0x200, &data)]);
    }
}
