//! When the time was that is told of.

use super::*;
use crate::event::{Timed, Within};

/// Takes what was told of waits, delays and pauses: how long, and between which times.
fn told(wall: &WallSampler<World>) -> Vec<(u64, Within)> {
    let (events, _) = wall.inbox.take(std::time::Duration::ZERO, &mut Vec::new());
    let told = events.into_iter().filter_map(|Timed { within, event, .. }| match event {
        Event::Waited { wall_ns, .. }
        | Event::Delayed { wall_ns, .. }
        | Event::HeldUp { wall_ns, .. }
        | Event::Late { wall_ns, .. } => Some((wall_ns, within)),
        _ => None,
    });
    told.collect()
}

fn visit(wall: &mut WallSampler<World>) {
    let mut own = wall.threads.remove(&THREAD).expect("known");
    wall.visit(THREAD, &mut own, 0);
    wall.threads.insert(THREAD, own);
}

#[test]
fn a_wait_says_when_it_was_however_late_it_is_told() {
    const MS: u64 = 1_000_000;
    let mut wall = watching();
    let begin_ns = wall.kernel.now_ns;
    wall.kernel.begin(Doing::Blocked(1));
    wall.kernel.pass(300 * MS);
    visit(&mut wall);
    wall.kernel.begin(Doing::Runs);
    for _ in 0..50 {
        wall.kernel.pass(10 * MS);
        visit(&mut wall);
    }
    wall.kernel.begin(Doing::Blocked(2));
    wall.kernel.pass(20 * MS);
    visit(&mut wall);
    let told = told(&wall);
    let [(wait_ns, within)] = told[..] else { panic!("{told:?}") };
    assert_eq!(wait_ns, 300 * MS);
    assert_eq!(within.since_ns, begin_ns);
    assert!((begin_ns + 300 * MS..begin_ns + 320 * MS).contains(&within.until_ns), "{within:?}");
}

/// What a thread does at random: all that is told of lies where there is room for it, so that what
/// is told and the time on a processor fit into the thread's time.
#[test]
fn what_is_told_was_between_its_two_times() {
    const MS: u64 = 1_000_000;
    let mut random = Random(77);
    for _ in 0..100 {
        let mut wall = watching();
        let begin_ns = wall.kernel.now_ns;
        // Times without a processor.
        let mut off: Vec<(u64, u64)> = Vec::new();
        for step in 0..60 {
            let doing = match random.below(4) {
                0 => Doing::Ready,
                1 => Doing::Blocked(step),
                2 => Doing::Stopped(step),
                _ => Doing::Runs,
            };
            wall.kernel.begin(doing);
            let from_ns = wall.kernel.now_ns;
            wall.kernel.pass(1 + random.below(20 * MS));
            if doing != Doing::Runs {
                off.push((from_ns, wall.kernel.now_ns));
            }
            // The kernel counts a delay when it is over.
            if doing != Doing::Ready && random.below(3) > 0 {
                visit(&mut wall);
            }
        }
        wall.settle(&Readings::since(wall.kernel.now_ns, 1));
        let end_ns = wall.kernel.now_ns;
        for (ns, within) in told(&wall) {
            assert!(within.since_ns >= begin_ns && within.until_ns <= end_ns, "{within:?}");
            let part = |(from, to): &(u64, u64)| {
                to.min(&within.until_ns).saturating_sub(*from.max(&within.since_ns))
            };
            let room_ns: u64 = off.iter().map(part).sum();
            assert!(ns <= room_ns + MS / 1_000, "{ns} of {room_ns} in {within:?}");
        }
    }
}
