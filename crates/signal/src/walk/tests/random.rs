//! Walks over tables and memory that say anything at all.

use super::*;

/// A generator for tests (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn offset(&mut self) -> i32 {
        match self.below(8) {
            0 => self.next() as i32,
            _ => 8 * self.below(8) as i32 - 8,
        }
    }

    fn rule(&mut self) -> Option<Rule> {
        let cfa = match self.below(12) {
            0 => Cfa::Bp(self.offset()),
            1 => Cfa::BpOrSp { bp_offset: self.offset(), sp_offset: self.offset() },
            2 => Cfa::DerefBp(self.offset()),
            3 => Cfa::Plt { pushed_from: self.next() as u8 },
            4 => Cfa::SignalFrame,
            5 => Cfa::Osr { tier0_bp_offset: self.offset() },
            6 => Cfa::End,
            7 => Cfa::Unsupported,
            8 => return None,
            _ => Cfa::Sp(self.offset()),
        };
        let bp = match self.below(3) {
            0 => SavedBp::Same,
            1 => SavedBp::AtCfa(self.offset()),
            _ => SavedBp::Unknown,
        };
        rule(cfa, bp)
    }

    fn value(&mut self, words: u64) -> u64 {
        match self.below(8) {
            0 => self.next(),
            1 => 0,
            2 | 3 => native(self.below(8)),
            4 => managed(self.below(8)),
            5 => word(self.below(words)) + self.below(2),
            _ => word(self.below(words)),
        }
    }
}

#[test]
fn whatever_the_tables_and_the_memory_say_a_walk_ends_inside() {
    const WORDS: u64 = 200;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut ends = Vec::new();
    for _ in 0..20_000 {
        let native: Vec<_> = (0..8).map(|_| random.rule()).collect();
        let managed: Vec<_> = (0..8).map(|_| random.rule()).collect();
        let stack: Vec<u64> = (0..WORDS).map(|_| random.value(WORDS)).collect();
        let ip = random.value(WORDS);
        let sp = if random.below(8) == 0 { random.next() } else { word(random.below(WORDS)) };
        let bp = (random.below(2) == 0).then(|| random.value(WORDS));
        let code = random.next().to_le_bytes();
        let given = Given {
            native: &native,
            managed: &managed,
            hijack: random.value(WORDS),
            stack: &stack,
            start: Start { exact: random.below(2) == 0, ..at(ip, sp, bp) },
            leaf_code: &code[..random.below(8) as usize],
        };
        let walk = run(given);
        assert!((1..=STEPS_MAX as usize).contains(&walk.pushed));
        // Each frame takes a word at least.
        assert!(walk.pushed as u64 <= WORDS + 2, "{}", walk.pushed);
        let guess = walk.walked.guess;
        assert!(guess.is_none_or(|guess| (guess.frames_before as usize) < walk.pushed));
        if !ends.contains(&walk.walked.end) {
            ends.push(walk.walked.end);
        }
    }
    // The tests above have the others.
    assert!(ends.len() >= 6, "the random walks end in few ways: {ends:?}");
}
