//! Walks over tables and memory that say anything at all.

use testing::Random;

use super::*;

fn offset(random: &mut Random) -> i32 {
    match random.below(8) {
        0 => random.number() as i32,
        _ => 8 * random.below(8) as i32 - 8,
    }
}

fn any_rule(random: &mut Random) -> Option<Rule> {
    let cfa = match random.below(15) {
        0 => Cfa::Bp(offset(random)),
        1 => Cfa::BpOrSp { bp_offset: offset(random), sp_offset: offset(random) },
        2 => Cfa::DerefBp(offset(random)),
        3 => Cfa::Plt { pushed_from: random.number() as u8 },
        4 => Cfa::SignalFrame,
        5 => Cfa::Osr { tier0_bp_offset: offset(random) },
        6 => Cfa::End,
        7 => Cfa::Unsupported,
        8 => return None,
        9 => Cfa::Faulted { sp_offset: offset(random), ip_at: offset(random) },
        10 => Cfa::Popped,
        11 => Cfa::BpAgain(offset(random)),
        _ => Cfa::Sp(offset(random)),
    };
    let bp = match random.below(3) {
        0 => SavedBp::Same,
        1 => SavedBp::AtCfa(offset(random)),
        _ => SavedBp::Unknown,
    };
    rule(cfa, bp)
}

fn value(random: &mut Random, words: u64) -> u64 {
    match random.below(8) {
        0 => random.number(),
        1 => 0,
        2 | 3 => native(random.below(8)),
        4 => managed(random.below(8)),
        5 => word(random.below(words)) + random.below(2),
        _ => word(random.below(words)),
    }
}

#[test]
fn whatever_the_tables_and_the_memory_say_a_walk_ends_inside() {
    const WORDS: u64 = 200;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut ends = Vec::new();
    for _ in 0..20_000 {
        let native: Vec<_> = (0..8).map(|_| any_rule(&mut random)).collect();
        let managed: Vec<_> = (0..8).map(|_| any_rule(&mut random)).collect();
        let stack: Vec<u64> = (0..WORDS).map(|_| value(&mut random, WORDS)).collect();
        let ip = value(&mut random, WORDS);
        let sp = if random.below(8) == 0 { random.number() } else { word(random.below(WORDS)) };
        let bp = (random.below(2) == 0).then(|| value(&mut random, WORDS));
        let code = random.number().to_le_bytes();
        let given = Given {
            native: &native,
            managed: &managed,
            hijack: value(&mut random, WORDS),
            stack: &stack,
            start: Start { exact: random.below(2) == 0, ..at(ip, sp, bp) },
            leaf_code: &code[..random.below(8) as usize],
            left: (random.below(4) == 0).then(|| (word(random.below(WORDS)), word(WORDS))),
            prologue: (random.below(2) == 0)
                .then(|| Prologue { body: random.number(), sp_offset: offset(&mut random) }),
        };
        let walk = run(given);
        assert!((1..=STEPS_MAX as usize).contains(&walk.pushed));
        // Each frame takes a word at least, but for interrupted ones; and there may be two stacks.
        assert!(walk.pushed as u64 <= 4 * WORDS, "{}", walk.pushed);
        let guess = walk.walked.guess;
        assert!(guess.is_none_or(|guess| (guess.frames_before as usize) < walk.pushed));
        if !ends.contains(&walk.walked.end) {
            ends.push(walk.walked.end);
        }
    }
    // The tests above have the others.
    assert!(ends.len() >= 6, "the random walks end in few ways: {ends:?}");
}
