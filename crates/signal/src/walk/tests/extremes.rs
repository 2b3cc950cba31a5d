//! Walks with numbers and depths at their limits.

use model::limits::{FRAMES_MAX, ROOT_FRAMES_MAX};

use super::*;

#[test]
fn addresses_at_the_edges_do_not_overflow() {
    let edges = [0, 1, 7, 8, 16, i32::MAX as u64, 1 << 63, u64::MAX - 16, u64::MAX - 8, u64::MAX];
    let cfas = [
        Cfa::Sp(i32::MIN),
        Cfa::Sp(i32::MAX),
        Cfa::Bp(i32::MIN),
        Cfa::Bp(i32::MAX),
        Cfa::BpOrSp { bp_offset: i32::MIN, sp_offset: i32::MAX },
        Cfa::DerefBp(i32::MIN),
        Cfa::Plt { pushed_from: 0 },
        Cfa::SignalFrame,
        Cfa::Osr { tier0_bp_offset: i32::MAX },
    ];
    for cfa in cfas {
        let rules = [rule(cfa, SavedBp::AtCfa(i32::MIN))];
        for (sp, bp) in edges.iter().flat_map(|sp| edges.map(|bp| (*sp, bp))) {
            for bp in [None, Some(bp)] {
                for ip in [native(0), managed(0), UNKNOWN, 0, u64::MAX] {
                    let start = at(ip, sp, bp);
                    let given = Given { native: &rules, managed: &rules, stack: &[0; 4], ..GIVEN };
                    let walk = run(Given { start, ..given });
                    assert!(walk.pushed >= 1);
                    run(Given { start: Start { exact: false, ..start }, ..given });
                }
            }
        }
    }
}

#[test]
fn deep_stacks_keep_leaf_and_root() {
    let depth = FRAMES_MAX + 100;
    // Alternating methods, each a frame of two words.
    let mut stack = Vec::new();
    for n in 0..depth as u64 {
        stack.extend([word(2 * n + 2), managed(1 + n % 2)]);
    }
    stack.extend([0, 0, 0]);
    let given = Given {
        managed: &[FRAMED; 3],
        stack: &stack,
        start: at(managed(0), word(0), Some(word(0))),
        ..GIVEN
    };
    let Walk { walked, frames, pushed } = run(given);
    assert_eq!((walked.end, pushed, frames.len()), (EndReason::Truncated, depth + 1, FRAMES_MAX));
    assert_eq!(frames[..3], [managed(0), managed(1) - 1, managed(2) - 1]);
    let last = managed(1 + (depth as u64 - 1) % 2) - 1;
    assert_eq!(frames.last(), Some(&last));
    assert_eq!(frames[FRAMES_MAX - ROOT_FRAMES_MAX..].len(), ROOT_FRAMES_MAX);
    // Endless: more frames than a handler may look at.
    let endless = Vec::from([managed(0); STEPS_MAX as usize + 10]);
    let given = Given {
        managed: &[frameless(8)],
        stack: &endless,
        start: at(managed(0), word(0), None),
        ..GIVEN
    };
    let Walk { walked, pushed, .. } = run(given);
    assert_eq!((walked.end, pushed), (EndReason::Truncated, STEPS_MAX as usize));
}
