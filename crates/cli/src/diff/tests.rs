//! Profiles drawn by chance: the same program seldom differs from itself, and a change is found
//! with its size.

use std::collections::HashMap;

use testing::Random;

use super::*;

const FUNCTIONS: usize = 40;
const SEEDS: u64 = 200;
/// How many of the seeds may be off by chance at 5 %: three standard deviations more.
const MOST: usize = 19;
const INTERVAL_NS: u64 = 10_000_000;

/// How a side is drawn.
#[derive(Clone, Copy)]
struct Drawn {
    files: usize,
    samples: usize,
    /// Percent that go to the first function before all others get their parts.
    first: u64,
    requests: f64,
}

const PLAIN: Drawn = Drawn { files: 1, samples: 2_000, first: 20, requests: 0.0 };

fn random(seed: u64) -> Random {
    let mut random = Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // The first numbers of seeds that are alike are alike.
    let _ = (0..8).map(|_| random.number()).last();
    random
}

fn draw(drawn: Drawn, random: &mut Random) -> Vec<Part> {
    let file = |random: &mut Random| {
        let mut part = Part {
            functions: vec![Sum::default(); FUNCTIONS],
            requests: drawn.requests,
            ..Part::default()
        };
        // The number of samples is by chance, too: twice as many tries, of which half are some.
        for _ in 0..2 * drawn.samples / drawn.files {
            if random.below(2) == 0 {
                continue;
            }
            // Functions from very frequent to very rare.
            let rare = random.index(FUNCTIONS).min(random.index(FUNCTIONS));
            let function = if random.below(100) < drawn.first { 0 } else { rare };
            let ns = INTERVAL_NS / 2 + random.below(INTERVAL_NS);
            // As in a file, where samples of a stack are one row.
            part.functions[function].add(ns, 1);
            part.all.add(ns, 1);
        }
        part
    };
    (0..drawn.files).map(|_| file(random)).collect()
}

fn compared(base: Drawn, new: Drawn, seed: u64) -> Diff {
    let mut random = random(seed);
    let sides = [draw(base, &mut random), draw(new, &mut random)];
    let name = |at: usize| ((format!("F{at:02}()"), String::new()), at);
    let names: HashMap<Name, usize> = (0..FUNCTIONS).map(name).collect();
    Diff::of(&sides, &names, 0.95)
}

fn row<'a>(diff: &'a Diff, name: &str) -> &'a Row {
    diff.rows.iter().find(|row| row.name == name).unwrap()
}

#[track_caller]
fn seldom(what: &str, mut happens: impl FnMut(u64) -> bool) {
    let count = (0..SEEDS).filter(|seed| happens(*seed)).count();
    assert!(count <= MOST, "{what} in {count} of {SEEDS}");
}

#[test]
fn the_same_program_seldom_differs_from_itself() {
    for (files, requests) in [(1, 0.0), (1, 500.0), (5, 0.0), (5, 100.0)] {
        let drawn = Drawn { files, requests, ..PLAIN };
        seldom(&format!("{files} files, {requests} requests: a difference"), |seed| {
            let diff = compared(drawn, drawn, seed);
            diff.rows.iter().any(|row| diff.is_significant(row))
        });
    }
}

#[test]
fn intervals_hold_what_is_true() {
    // A tenth of all time more in the first function: of the rest it had its part before.
    let new = Drawn { first: 30, ..PLAIN };
    let of_rest = 1.0 - (1.0 - 1.0 / FUNCTIONS as f64).powi(2);
    let expected = 0.1 * (1.0 - of_rest);
    seldom("outside of the interval", |seed| {
        let diff = compared(PLAIN, new, seed);
        let change = row(&diff, "F00()").share.unwrap();
        (change.difference() - expected).abs() > change.half_width
    });
    let files = [PLAIN, new].map(|drawn| Drawn { files: 4, requests: 50.0, ..drawn });
    let per_request = INTERVAL_NS as f64 * PLAIN.samples as f64 / 200.0;
    seldom("outside of the interval, of files and requests", |seed| {
        let diff = compared(files[0], files[1], seed);
        let change = row(&diff, "F00()").per_request.unwrap();
        (change.difference() - expected * per_request).abs() > change.half_width
    });
}

#[test]
fn a_change_is_found_and_fails_if_it_is_too_large() {
    let new = Drawn { first: 30, ..PLAIN };
    seldom("a change that is not found", |seed| {
        let diff = compared(PLAIN, new, seed);
        let first = row(&diff, "F00()");
        !diff.is_significant(first) || diff.rows[0].name != "F00()"
    });
    let diff = compared(PLAIN, new, 1);
    let names = |limit| diff.failing(limit).iter().map(|r| r.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(0.05), ["F00()"]);
    assert!(names(0.2).is_empty());
    // What became cheaper is no failure.
    let back = compared(new, PLAIN, 1);
    assert!(back.failing(0.05).is_empty() && back.is_significant(row(&back, "F00()")));
}

#[test]
fn files_that_differ_among_themselves_count_as_chance() {
    // Each file of a side has another share of the first function: there is no more to say.
    let side = |shares: [u64; 3], seed| {
        let mut random = random(seed);
        let drawn = |first| Drawn { samples: 1_000, first, ..PLAIN };
        shares.map(|first| draw(drawn(first), &mut random).remove(0)).to_vec()
    };
    let names: HashMap<Name, usize> = [(("F00()".to_owned(), String::new()), 0)].into();
    let apart = [side([10, 30, 50], 1), side([20, 40, 60], 2)];
    let diff = Diff::of(&apart, &names, 0.95);
    assert!(!diff.is_significant(&diff.rows[0]), "{:?}", diff.rows[0]);
    let merged = apart.map(|side| {
        let mut all = Part { functions: vec![Sum::default(); FUNCTIONS], ..Part::default() };
        for part in side {
            for (sum, other) in all.functions.iter_mut().zip(&part.functions) {
                sum.merge(other);
            }
            all.all.merge(&part.all);
        }
        vec![all]
    });
    let diff = Diff::of(&merged, &names, 0.95);
    assert!(diff.is_significant(&diff.rows[0]), "{:?}", diff.rows[0]);
}

/// What all costs in a run is found to differ only if it does by more than runs do.
#[test]
fn the_time_of_runs_is_tested_by_what_runs_differ_by() {
    let told = |samples: [usize; 2], files, seed| {
        let [base, new] = samples.map(|samples| Drawn { files, samples, ..PLAIN });
        let mut diff = compared(base, new, seed);
        diff.compare_runs();
        diff
    };
    let everything = |diff: &Diff| diff.rows.iter().any(|row| row.per_run.is_some());
    seldom("a difference between runs of one program", |seed| {
        let diff = told([2_000; 2], 3, seed);
        assert!(everything(&diff));
        diff.is_significant(row(&diff, "[everything]"))
    });
    seldom("a doubling that is not found", |seed| {
        let diff = told([2_000, 4_000], 2, seed);
        !diff.failing(0.5).iter().any(|row| row.name == "[everything]")
    });
    assert!(!everything(&told([2_000, 4_000], 1, 1)));
}
