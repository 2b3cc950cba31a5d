//! Where a thread's moments lie, given between which times each of them was.
//!
//! A thread does one thing at a time, so its moments follow each other. But what is told of them
//! overlaps: a wait is told at the next look at the thread, and a delay may be told once for many
//! that lay between samples. So the time is gone through from its end to its beginning, and what is
//! put before each point is, of all that may lie there, what may have begun the latest; if
//! something else may lie there from some point on, and began later, the rest comes before that. Of
//! all orders this is the one that finds a place for each moment between its two times if there is
//! any such order (it is "earliest deadline first", in a time that runs backwards). Where there is
//! none, moments lie earlier than they may; and if that is before the period, all are moved on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Moment, Told};

/// What of a stretch of time has no place yet; the largest is that which began last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    since_us: i64,
    until_us: i64,
    sample: u32,
    left_us: i64,
}

/// A moment on its way: it may yet lie before the period, whose beginning is 0.
struct Piece {
    begin_us: i64,
    length_us: i64,
    sample: u32,
}

/// Adds the moments of one thread: in pieces, if others lie between. No two of them overlap, and
/// those of a sample are together as long as what was told of it.
pub(super) fn lay_out(told: &mut [Told], moments: &mut Vec<Moment>) {
    let mut end_us = 0;
    for piece in backwards(told).iter().rev() {
        let begin_us = piece.begin_us.max(end_us);
        end_us = begin_us.saturating_add(piece.length_us);
        let us = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        let duration_us = us(piece.length_us);
        moments.push(Moment { begin_us: us(begin_us), duration_us, sample: piece.sample });
    }
}

/// All in their places, the last first: at most twice as many as there were.
fn backwards(told: &mut [Told]) -> Vec<Piece> {
    told.sort_unstable_by_key(|told| Reverse((told.until_us, told.since_us, told.sample)));
    let all = told.iter().map(|told| Open {
        since_us: told.since_us.into(),
        until_us: told.until_us.into(),
        sample: told.sample,
        left_us: told.length_us.into(),
    });
    let mut coming = all.peekable();
    let mut open = BinaryHeap::new();
    let mut pieces: Vec<Piece> = Vec::with_capacity(told.len());
    let mut now_us = i64::MAX;
    loop {
        if open.is_empty() {
            let Some(next) = coming.peek() else { return pieces };
            now_us = now_us.min(next.until_us);
        }
        while let Some(next) = coming.next_if(|next| next.until_us >= now_us) {
            open.push(next);
        }
        let Some(mut last) = open.pop() else { return pieces };
        let next_us = coming.peek().map_or(i64::MIN, |next| next.until_us);
        let length_us = last.left_us.min(now_us.saturating_sub(next_us));
        put(&mut pieces, now_us, length_us, last.sample);
        now_us = now_us.saturating_sub(length_us);
        last.left_us = last.left_us.saturating_sub(length_us);
        if last.left_us > 0 {
            open.push(last);
        }
    }
}

/// Puts a piece before a time: it is one with that after it, if both are of one sample.
fn put(pieces: &mut Vec<Piece>, end_us: i64, length_us: i64, sample: u32) {
    let begin_us = end_us.saturating_sub(length_us);
    match pieces.last_mut() {
        Some(after) if after.sample == sample && after.begin_us == end_us => {
            after.begin_us = begin_us;
            after.length_us = after.length_us.saturating_add(length_us);
        }
        _ => pieces.push(Piece { begin_us, length_us, sample }),
    }
}

#[cfg(test)]
mod tests {
    use testing::Random;

    use super::*;

    fn laid_out(told: &[Told]) -> Vec<Moment> {
        let mut moments = Vec::new();
        lay_out(&mut told.to_vec(), &mut moments);
        moments
    }

    /// Fails if two moments overlap, or if a sample has more or less than what was told of it.
    fn check(told: &[Told], moments: &[Moment]) {
        for pair in moments.windows(2) {
            assert!(pair[0].end_us() <= pair[1].begin_us, "{pair:?} of {told:?}");
        }
        let samples = 1 + told.iter().map(|told| told.sample as usize).max().unwrap();
        let mut left_us = vec![0_i64; samples];
        told.iter().for_each(|told| left_us[told.sample as usize] += i64::from(told.length_us));
        for moment in moments {
            left_us[moment.sample as usize] -= i64::from(moment.duration_us);
        }
        assert!(left_us.iter().all(|left| *left == 0), "{left_us:?} of {told:?}");
        assert!(moments.len() <= 2 * told.len());
    }

    /// What a thread really did, one after the other: beginnings and lengths in microseconds.
    fn doings(random: &mut Random) -> Vec<(u32, u32)> {
        let mut now_us = random.below(1_000) as u32;
        let doing = |_| {
            let length_max = if random.below(9) == 0 { 50_000 } else { 500 };
            let begin_us = now_us;
            let length_us = 1 + random.below(length_max) as u32;
            let gap_us = if random.below(4) == 0 { random.below(300) as u32 } else { 0 };
            now_us += length_us + gap_us;
            (begin_us, length_us)
        };
        (0..100).map(doing).collect()
    }

    /// What is told of that, each a sample of its own: computing, which is known exactly; a wait,
    /// told late; a delay or a pause, of which only the visits before and after are known; and at
    /// times one with the time of several.
    fn told_of(doings: &[(u32, u32)], random: &mut Random) -> Vec<Told> {
        let mut told: Vec<Told> = Vec::new();
        for (begin_us, length_us) in doings {
            let (early, late) = (random.below(3_000) as u32, random.below(3_000) as u32);
            let end_us = begin_us + length_us;
            let (since_us, until_us) = match random.below(3) {
                0 => (*begin_us, end_us),
                1 => (*begin_us, end_us + late),
                _ => (begin_us.saturating_sub(early), end_us + late),
            };
            let next = told.len() as u32;
            match told.last_mut().filter(|_| random.below(4) == 0) {
                Some(last) => {
                    let within = (last.since_us.min(since_us), last.until_us.max(until_us));
                    *last = Told::new(within, last.length_us + length_us, last.sample);
                }
                None => told.push(Told::new((since_us, until_us), *length_us, next)),
            }
        }
        told
    }

    #[test]
    fn each_moment_lies_between_its_two_times() {
        let mut random = Random(41);
        for _ in 0..200 {
            let told = told_of(&doings(&mut random), &mut random);
            let moments = laid_out(&told);
            check(&told, &moments);
            for moment in &moments {
                let told = told[moment.sample as usize];
                assert!(moment.begin_us >= told.since_us, "{moment:?} of {told:?}");
                assert!(moment.end_us() <= told.until_us, "{moment:?} of {told:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_has_its_length_and_no_overlap() {
        let mut random = Random(43);
        for _ in 0..500 {
            let mut one = |at: u32| {
                let within = (random.below(5_000) as u32, random.below(5_000) as u32);
                let length_us = 1 + random.below(900) as u32;
                Told::new(within, length_us, random.below(1 + u64::from(at)) as u32)
            };
            let told: Vec<Told> = (0..40).map(&mut one).collect();
            check(&told, &laid_out(&told));
        }
    }

    #[test]
    fn a_wait_that_is_told_late_was_before_what_was_done_since() {
        // It slept for a second, was kept from a processor for 50 ms, and computed for 10 ms; the
        // next look at it is 2 ms later.
        let sleep = Told::new((0, 1_062_000), 1_000_000, 0);
        let delay = Told::new((980_000, 1_062_000), 50_000, 1);
        let sample = Told::new((1_050_000, 1_060_000), 10_000, 2);
        let moment = |begin_us, duration_us, sample| Moment { begin_us, duration_us, sample };
        let expected = [
            moment(2_000, 1_000_000, 0),
            moment(1_002_000, 48_000, 1),
            moment(1_050_000, 10_000, 2),
            moment(1_060_000, 2_000, 1),
        ];
        assert_eq!(laid_out(&[sleep, delay, sample]), expected);
    }
}
