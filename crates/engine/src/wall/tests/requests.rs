//! Wall time of threads that work for requests.

use model::limits::RESTING_ROUND_NS;

use super::*;
use crate::watched::tests::write;

#[test]
fn a_wait_between_two_requests_is_neithers() {
    const MS: u64 = 1_000_000;
    let mut wall = watching();
    wall.shared.records[0].open(TID, 0, 0, 0);
    wall.trace(THREAD);
    let visit = |wall: &mut WallSampler<World>| {
        let mut own = wall.threads.remove(&THREAD).expect("known");
        wall.visit(THREAD, &mut own, 0);
        wall.threads.insert(THREAD, own);
        events(&wall.inbox)
    };
    let write = |wall: &WallSampler<World>, span: u64| {
        write(wall.shared.records[0].context(), span);
    };
    // Seen in a request, then blocked within the next: the wait is split where it changed.
    write(&wall, 7);
    wall.kernel.pass(MS);
    visit(&mut wall);
    let sleep = |wall: &mut WallSampler<World>| {
        wall.kernel.begin(Doing::Blocked(1));
        wall.kernel.pass(20 * MS);
        wall.kernel.begin(Doing::Runs);
    };
    sleep(&mut wall);
    let unseen = |events: Vec<Event>| -> Vec<(u64, u64)> {
        let of = |event| match event {
            Event::WaitedUnseen { wall_ns, context, .. } => Some((wall_ns, context.span_id)),
            _ => None,
        };
        events.into_iter().filter_map(of).collect()
    };
    // Within the request that it was in before and after.
    assert_eq!(unseen(visit(&mut wall)), [(20 * MS, 7)]);
    sleep(&mut wall);
    write(&wall, 8);
    assert_eq!(unseen(visit(&mut wall)).len(), 0, "none is the place's, which nobody has seen");
    let mut place = 0;
    wall.settle(&Readings::default());
    assert_eq!(charges(&wall, &mut place), [(Some(0), 20 * MS)]);
}

/// A worker is done with a request that it was seen to wait in, and looks for the next: it yields,
/// and gets a processor back late. All of that is after the request.
#[test]
fn lateness_after_a_request_is_not_charged_to_its_wait() {
    const MS: u64 = 1_000_000;
    let mut wall = watching();
    wall.shared.records[0].open(TID, 0, 0, 0);
    wall.trace(THREAD);
    let visit = |wall: &mut WallSampler<World>| {
        let mut own = wall.threads.remove(&THREAD).expect("known");
        wall.visit(THREAD, &mut own, 0);
        wall.threads.insert(THREAD, own);
        events(&wall.inbox)
    };
    let context = wall.shared.records[0].context();
    write(context, 7);
    wall.kernel.context = context.read().expect("nobody writes");
    wall.kernel.begin(Doing::Blocked(1));
    wall.kernel.pass(20 * MS);
    visit(&mut wall);
    // Late out of its wait: the place's.
    let late = |wall: &mut WallSampler<World>| {
        wall.kernel.begin(Doing::Ready);
        wall.kernel.pass(9 * MS);
        wall.kernel.begin(Doing::Runs);
        wall.kernel.pass(MS / 100);
    };
    let charged = |events: Vec<Event>| -> Vec<(&str, u64)> {
        let of = |event| match event {
            Event::Late { wall_ns, .. } => Some(("place", wall_ns)),
            Event::Delayed { wall_ns, context, .. } if context.span_id == 7 => {
                Some(("request", wall_ns))
            }
            Event::Delayed { wall_ns, .. } => Some(("none", wall_ns)),
            _ => None,
        };
        events.into_iter().filter_map(of).collect()
    };
    late(&mut wall);
    assert_eq!(charged(visit(&mut wall)), [("place", 9 * MS)]);
    // The request ended some time before this visit: half, since nothing tells when.
    write(context, 0);
    late(&mut wall);
    assert_eq!(charged(visit(&mut wall)), [("place", 9 * MS / 2), ("none", 9 * MS / 2)]);
    for _ in 0..3 {
        late(&mut wall);
        assert_eq!(charged(visit(&mut wall)), [("none", 9 * MS)]);
    }
    // And none of it is the next one's, which it then found.
    write(context, 8);
    late(&mut wall);
    assert_eq!(charged(visit(&mut wall)), [("none", 9 * MS)]);
}

#[test]
fn threads_with_a_span_are_visited_at_each_tick_besides_the_others() {
    let shared = shared(40, 2);
    let beat = Beat { tick_ns: TICK_NS, threads: 1, span_threads: 2 };
    let mut wall = WallSampler::over(World::new(), shared, Arc::default(), beat);
    wall.kernel.begin(Doing::Blocked(1));
    let start_ns = wall.kernel.now_ns;
    let mut threads = vec![];
    for index in 0..20 {
        let generation = shared.records[index].open(TID, 0, 0, 0);
        let thread = thread(u32::try_from(index).expect("small"), generation);
        wall.add(thread, TID, wall.kernel.now_ns, wall.kernel.cpu_ns);
        threads.push(thread);
    }
    let visited = |wall: &mut WallSampler<World>| {
        wall.kernel.pass(TICK_NS);
        let now_ns = wall.kernel.now_ns;
        let before = wall.samples();
        wall.tick();
        events(&wall.inbox);
        let mut seen: Vec<u32> = wall
            .threads
            .iter()
            .filter(|(_, thread)| thread.time_ns == now_ns)
            .map(|(thread, _)| thread.index)
            .collect();
        seen.sort_unstable();
        assert_eq!(seen.len() as u64, wall.samples() - before);
        seen
    };
    // Their contexts are written, but none has a span: one a tick, in turn.
    threads.iter().for_each(|thread| wall.trace(*thread));
    assert_eq!([visited(&mut wall), visited(&mut wall)], [[0], [1]]);
    for index in [11, 12, 13] {
        write(shared.records[index].context(), 1);
    }
    assert_eq!(visited(&mut wall), [2, 11, 12]);
    assert_eq!(visited(&mut wall), [3, 11, 13]);
    assert_eq!(visited(&mut wall), [4, 12, 13]);
    // One that was visited in this tick is not visited twice; one that has ended costs a glance.
    shared.records[12].close();
    wall.remove(threads[12], wall.kernel.now_ns, wall.kernel.cpu_ns);
    write(shared.records[5].context(), 1);
    assert_eq!(visited(&mut wall), [5, 11]);
    assert_eq!(wall.traced.threads.len(), 19);
    assert_eq!(visited(&mut wall), [5, 6, 13]);
    for record in shared.records.iter().take(20) {
        write(record.context(), 0);
    }
    // Those that have left a span since are visited for it, once.
    let mut left = visited(&mut wall);
    left.extend((0..5).flat_map(|_| visited(&mut wall)));
    assert_eq!(left.len(), 9, "six in turn, and three that had a span: {left:?}");
    // Time stays whole, however often a thread is visited: all of those that are left have waited
    // since they are known.
    wall.settle(&Readings::default());
    let waited_ns: u64 = events(&wall.inbox)
        .iter()
        .map(|event| match event {
            Event::Waited { wall_ns, .. } => *wall_ns,
            _ => 0,
        })
        .sum();
    assert_eq!(waited_ns, 19 * (wall.kernel.now_ns - start_ns));
}

#[test]
fn looks_for_spans_are_rare_while_there_are_none() {
    let mut wall = watching();
    wall.shared.records[0].open(TID, 0, 0, 0);
    wall.trace(THREAD);
    wall.kernel.begin(Doing::Blocked(1));
    wall.span_begins();
    let context = wall.shared.records[0].context();
    // Looks over so many seconds, each no later after the last than a 64th of the time since.
    let looks = |wall: &mut WallSampler<World>, seconds: u64| {
        let begin_ns = wall.kernel.now_ns;
        let mut looks = 0;
        while wall.kernel.now_ns < begin_ns + seconds * 1_000_000_000 {
            wall.tick();
            let now_ns = wall.kernel.now_ns;
            let distance_ns = wall.spans_due_ns().expect("there may be some") - now_ns;
            assert!(distance_ns <= ((now_ns - begin_ns) / 64).min(RESTING_ROUND_NS));
            assert_eq!(wall.rests_from_spans(), distance_ns > TICK_NS);
            wall.kernel.pass(distance_ns.max(TICK_NS));
            looks += 1;
        }
        looks
    };
    assert!((64..=400).contains(&looks(&mut wall, 60)), "none has a span");
    assert!(wall.rests_from_spans());
    wall.span_begins();
    wall.tick();
    assert!(!wall.rests_from_spans(), "one begins");
    // At work for it: at each tick.
    write(context, 7);
    wall.kernel.begin(Doing::Runs);
    assert_eq!(looks(&mut wall, 10), 1000);
    // It waits, and waits on; then the span ends.
    wall.kernel.begin(Doing::Blocked(2));
    assert!((64..=400).contains(&looks(&mut wall, 60)), "as rarely as at all that is blocked");
    assert!(wall.rests_from_spans());
    write(context, 0);
    wall.tick();
    assert!(!wall.rests_from_spans(), "the next may begin soon");
}
