//! Threads that stand for long: how rarely they are visited, and who is watched again.

use model::limits::{RESTING_DISTANCE_NS_MIN, RESTING_ROUND_NS};

use super::Doing::{Blocked, Ready, Runs};
use super::*;

#[test]
fn a_sleeper_is_visited_at_growing_distances_within_bounds() {
    let mut wall = watching();
    wall.kernel.begin(Blocked(1));
    wall.kernel.pass(TICK_NS);
    wall.tick();
    let since_ns = wall.kernel.now_ns;
    let mut visits = 0;
    loop {
        let due_ns = wall.next_due_ns().expect("one is due");
        let distance_ns = due_ns - wall.kernel.now_ns;
        let waited_ns = wall.kernel.now_ns - since_ns;
        let late_ns = TICK_NS.max(waited_ns / WALL_BACKOFF_DIVISOR).min(WALL_DISTANCE_NS_MAX);
        // One that rests waits for the next round.
        let round_ns = if late_ns < RESTING_DISTANCE_NS_MIN { 0 } else { RESTING_ROUND_NS };
        assert!((TICK_NS..=late_ns + round_ns).contains(&distance_ns));
        if distance_ns >= WALL_DISTANCE_NS_MAX {
            break;
        }
        wall.kernel.pass(distance_ns);
        wall.tick();
        visits += 1;
    }
    // 64 ticks at a tick each; after that each wait is a 64th longer than the last.
    assert!((64..2000).contains(&visits), "{visits} visits");
    assert_eq!(wall.schedule.len(), 1);
    // It has run: the next visit is soon.
    wall.kernel.begin(Blocked(2));
    wall.kernel.pass(WALL_DISTANCE_NS_MAX);
    wall.tick();
    assert_eq!(wall.next_due_ns(), Some(wall.kernel.now_ns + TICK_NS));
}

const LONG_NS: u64 = 200 * WALL_BACKOFF_DIVISOR * 1_000_000;

/// How far off the next visit is of a thread that stood for long, did these things, and `then`
/// stands for long again.
fn distance_ns(between: &[Doing], then: impl Fn(&mut World)) -> u64 {
    let mut wall = watching();
    wall.kernel.begin(Blocked(1));
    for _ in 0..2 {
        wall.kernel.pass(LONG_NS);
        wall.tick();
    }
    for doing in between {
        wall.kernel.begin(*doing);
        wall.kernel.pass(1000);
    }
    then(&mut wall.kernel);
    wall.kernel.pass(LONG_NS);
    wall.tick();
    assert_eq!(wall.kernel.asked[1], 2, "it has moved, and was looked at");
    let distance_ns = wall.next_due_ns().expect("it is due") - wall.kernel.now_ns;
    wall.settle(&Readings::default());
    let off_ns: u64 = charges(&wall, &mut 0).iter().map(|(_, ns)| ns).sum();
    let elapsed_ns = wall.kernel.now_ns - 1_000_000_000;
    assert_eq!(off_ns + wall.kernel.cpu_ns - 5_000, elapsed_ns, "all time is charged");
    distance_ns
}

/// The runtime's finalizer wakes each ten seconds for a moment, servers' timers each second: what
/// only wakes is not watched as closely as what may have waited elsewhere.
#[test]
fn who_only_woke_rests_on() {
    let distance = |between: &[Doing]| distance_ns(between, |_| ());
    let [stood_ns, rested_ns] = [distance(&[Runs, Blocked(1)]), distance(&[Runs, Blocked(2)])];
    // Since it was first seen there.
    assert!(stood_ns >= LONG_NS * 2 / WALL_BACKOFF_DIVISOR, "{stood_ns}");
    assert_eq!(rested_ns, TICK_NS, "it waits elsewhere");
    for elsewhere in [&[Blocked(2), Blocked(1)][..], &[Runs, Ready, Runs, Blocked(1)]] {
        assert_eq!(distance(elsewhere), TICK_NS, "{elsewhere:?}: it may have waited elsewhere");
    }
}

#[test]
fn who_only_woke_for_another_request_or_in_a_pause_is_watched() {
    let woke = [Runs, Blocked(1)];
    assert!(distance_ns(&woke, |_| ()) > TICK_NS);
    let other = SpanContext { span_id: 7, ..SpanContext::default() };
    assert_eq!(distance_ns(&woke, |world| world.context = other), TICK_NS);
    let paused = InPause { now: true, ..InPause::default() };
    assert_eq!(distance_ns(&woke, |world| world.held_up.all = paused), TICK_NS);
}
