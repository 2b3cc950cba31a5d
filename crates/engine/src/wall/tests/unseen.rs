//! What computes all the time is hardly looked at, and loses nothing.

use super::*;

#[test]
fn time_off_a_processor_is_looked_into_once_there_is_enough() {
    const PART_NS: u64 = UNSEEN_NS_MAX / 2 - 1;
    let mut wall = watching();
    let mut looks = |parts: u32| {
        let [clocks, looks] = wall.kernel.asked;
        for _ in 0..parts {
            wall.kernel.begin(Doing::Robbed);
            wall.kernel.pass(PART_NS);
        }
        wall.kernel.begin(Doing::Runs);
        wall.kernel.pass(2 * TICK_NS);
        wall.tick();
        let [clocks_now, looks_now] = wall.kernel.asked;
        assert_eq!(clocks_now, clocks + 1, "one reading serves all");
        looks_now - looks
    };
    assert_eq!(looks(0), 0);
    assert_eq!(looks(2), 0);
    assert_eq!(looks(0), 0, "time on a processor adds nothing");
    assert_eq!(looks(1), 1);
    assert_eq!(looks(1), 0, "it begins anew");
    wall.settle(&Readings::default());
    let all_ns: u64 = charges(&wall, &mut 0).iter().map(|(_, ns)| ns).sum();
    assert_eq!(all_ns, 4 * PART_NS, "all of it is charged, the rest at the period's end");
}
