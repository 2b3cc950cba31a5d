//! The arithmetic of wall time, in a world whose clock only goes when a test says so.

use super::*;
use crate::event::BlockedStack;
use testing::Random;

use crate::fake::{events, lost, shared, thread};
use crate::gc_waits::InPause;
use model::EndReason;
use signal::context::SpanContext;

mod requests;
mod resting;
mod times;
mod unseen;

const TICK_NS: u64 = 10_000_000;
const TID: u32 = 7;
const THREAD: ThreadRef = thread(0, 1);

/// What a thread of the world does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// On a processor.
    Runs,
    /// Ready for one; the kernel counts the time when it is over.
    Ready,
    /// The processor was taken by what the run queue doesn't know of.
    Robbed,
    /// Blocked at the stack of that number.
    Blocked(u64),
    /// Stopped by the runtime there.
    Stopped(u64),
}

/// A world of one thread.
struct World {
    now_ns: u64,
    doing: Doing,
    cpu_ns: u64,
    delay_ns: u64,
    ready_ns: u64,
    turns: u64,
    switches: u64,
    held_up: HeldUp,
    /// What the next looks say instead of the truth.
    looks: Vec<Looked>,
    ended: bool,
    /// What it works for where it is found blocked.
    context: SpanContext,
    /// How often its CPU clock was read, and how often it was looked at.
    asked: [u32; 2],
}

impl World {
    fn new() -> Self {
        Self {
            now_ns: 1_000_000_000,
            doing: Doing::Runs,
            cpu_ns: 5_000,
            delay_ns: 77,
            ready_ns: 0,
            turns: 9,
            switches: 3,
            held_up: HeldUp::default(),
            looks: vec![],
            ended: false,
            context: SpanContext::default(),
            asked: [0; 2],
        }
    }

    fn begin(&mut self, doing: Doing) {
        self.delay_ns += std::mem::take(&mut self.ready_ns);
        let off = |doing| matches!(doing, Doing::Blocked(_) | Doing::Stopped(_));
        if doing != self.doing && (off(self.doing) || self.doing == Doing::Ready) {
            self.turns += 1;
        }
        // A thread that wakes has used its processor, if only for a moment.
        if off(self.doing) && doing != self.doing {
            self.cpu_ns += 1;
            self.now_ns += 1;
        }
        if off(doing) && doing != self.doing {
            self.switches += 1;
        }
        self.held_up.now = matches!(doing, Doing::Stopped(_));
        if self.held_up.now && doing != self.doing {
            self.held_up.times += 1;
        }
        self.doing = doing;
    }

    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        match self.doing {
            Doing::Runs => self.cpu_ns += ns,
            Doing::Ready => self.ready_ns += ns,
            Doing::Robbed | Doing::Blocked(_) => {}
            Doing::Stopped(_) => self.held_up.ns[0] += ns,
        }
    }
}

impl Kernel for World {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn cpu_ns(&mut self, tid: u32) -> Option<u64> {
        self.asked[0] += 1;
        (tid == TID && !self.ended).then_some(self.cpu_ns)
    }

    fn sched_stat(&mut self, tid: u32) -> Option<SchedStat> {
        let stat = SchedStat { run_ns: self.cpu_ns, delay_ns: self.delay_ns, turns: self.turns };
        (tid == TID && !self.ended).then_some(stat)
    }

    fn voluntary_switches(&mut self, tid: u32) -> Option<u64> {
        (tid == TID && !self.ended).then_some(self.switches)
    }

    fn held_up(&mut self, _: ThreadRef, _: u64, _: u64) -> HeldUp {
        self.held_up
    }

    fn sample_soon(&mut self, _: ThreadRef) {}

    fn look(&mut self, _: ThreadRef, _: u32, _: u64) -> Looked {
        self.asked[1] += 1;
        match (self.looks.pop(), self.doing) {
            (Some(look), _) => look,
            (None, Doing::Blocked(place) | Doing::Stopped(place)) => {
                Looked::Blocked(BlockedStack {
                    frames: Box::new([place]),
                    gap: None,
                    end: EndReason::Root,
                    context: self.context,
                    call: Some(202),
                    in_pause: InPause::default(),
                    copy: None,
                    #[cfg(feature = "oracle")]
                    cpu_clock_ns: self.cpu_ns,
                })
            }
            (None, _) => Looked::Running,
        }
    }
}

fn sampler(threads_per_tick: usize) -> WallSampler<World> {
    let shared = shared(1, 2);
    let beat = Beat { tick_ns: TICK_NS, threads: threads_per_tick, span_threads: 2 };
    WallSampler::over(World::new(), shared, Arc::default(), beat)
}

/// A sampler that knows the thread.
fn watching() -> WallSampler<World> {
    let mut wall = sampler(1);
    wall.add(THREAD, TID, wall.kernel.now_ns, wall.kernel.cpu_ns);
    wall
}

/// What stands for a stop by the runtime, instead of a place.
const STOP: u64 = 999;

/// Who was charged: a place for waits (0 before the first is known), or `None` for delays.
type Charges = Vec<(Option<u64>, u64)>;

/// Takes what was charged, in order.
fn charges(wall: &WallSampler<World>, place: &mut u64) -> Charges {
    let mut charges = vec![];
    for event in events(&wall.inbox) {
        match event {
            Event::Waited { wall_ns, .. } => charges.push((Some(*place), wall_ns)),
            Event::Delayed { wall_ns, .. } | Event::Late { wall_ns, .. } => {
                charges.push((None, wall_ns));
            }
            Event::HeldUp { wall_ns, state, .. } => {
                assert_eq!(state, ThreadState::GcPause);
                charges.push((Some(STOP), wall_ns));
            }
            Event::Blocked { stack, .. } => *place = stack.frames[0],
            Event::Ended { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    charges
}

/// Does these things for so long each, with a visit after each, and settles: expects the charges,
/// whoever has read the clock for the last one.
#[track_caller]
fn check(steps: &[(Doing, u64)], expected: &[(Option<u64>, u64)]) {
    for is_read in [false, true] {
        let mut wall = watching();
        for (doing, ns) in steps {
            // Waking takes a moment of its own, which is no part of what the steps say.
            wall.kernel.doing = if *doing == wall.kernel.doing { *doing } else { Doing::Runs };
            wall.kernel.begin(*doing);
            wall.kernel.pass(*ns);
            let mut own = wall.threads.remove(&THREAD).expect("known");
            wall.visit(THREAD, &mut own, 0);
            wall.threads.insert(THREAD, own);
        }
        let mut readings = Readings::since(wall.kernel.now_ns, 1);
        if is_read {
            readings.note(THREAD, wall.kernel.cpu_ns);
        }
        wall.settle(&readings);
        let mut place = 0;
        assert_eq!(charges(&wall, &mut place), expected, "{steps:?} {is_read}");
    }
}

/// Clocks that were read before the last visit say nothing, and a thread that has moved is visited.
#[test]
fn a_clock_is_believed_for_what_it_shows() {
    let mut wall = watching();
    wall.kernel.begin(Doing::Blocked(7));
    wall.kernel.pass(1_000_000_000);
    wall.tick();
    let mut early = Readings::since(wall.kernel.now_ns - 1, 1);
    early.note(THREAD, wall.kernel.cpu_ns);
    wall.kernel.pass(1_000_000_000);
    wall.settle(&early);
    let end_ns = wall.kernel.now_ns;
    assert_eq!(wall.threads[&THREAD].time_ns, end_ns, "visited, since that was no news");
    let mut readings = Readings::since(end_ns, 1);
    readings.note(THREAD, wall.kernel.cpu_ns);
    wall.kernel.pass(1_000_000_000);
    wall.settle(&readings);
    assert_eq!(wall.threads[&THREAD].time_ns, end_ns, "up to when the clock was read");
    let mut moved = Readings::since(wall.kernel.now_ns, 1);
    moved.note(THREAD, wall.kernel.cpu_ns + 1);
    wall.settle(&moved);
    assert_eq!(wall.threads[&THREAD].time_ns, wall.kernel.now_ns, "visited");
}

#[test]
fn waits_go_to_where_they_were() {
    use Doing::{Blocked, Ready, Robbed, Runs};
    const MS: u64 = 1_000_000;
    check(&[(Runs, 20 * MS)], &[]);
    // All of the first wait goes to the first stack, a part of which came before it was seen.
    check(&[(Blocked(1), 30 * MS)], &[(Some(1), 30 * MS)]);
    check(&[(Blocked(1), 30 * MS), (Blocked(1), 50 * MS)], &[(Some(1), 80 * MS)]);
    // The kernel's own count of delays; waiting to run is no wait.
    check(&[(Ready, 5 * MS), (Runs, 2 * MS)], &[(None, 5 * MS)]);
    // Neither waited nor queued: taken away.
    check(&[(Robbed, 5 * MS)], &[(None, 5 * MS)]);
    // Too short to look into: it waits for a stack, and gets none.
    check(&[(Robbed, MS / 2)], &[(Some(0), MS / 2)]);
}

#[test]
fn a_stop_by_the_runtime_is_neither_a_wait_nor_a_delay() {
    use Doing::{Ready, Runs, Stopped};
    const MS: u64 = 1_000_000;
    // Stopped at its work, and found there.
    check(&[(Runs, 3 * MS), (Stopped(1), 20 * MS)], &[(Some(STOP), 20 * MS)]);
    // What came after it was a delay of work, though the processor was given up before.
    check(
        &[(Runs, 3 * MS), (Stopped(1), 20 * MS), (Ready, 8 * MS), (Runs, 3 * MS)],
        &[(Some(STOP), 20 * MS), (None, 8 * MS)],
    );
    check(
        &[(Stopped(1), 5 * MS), (Stopped(1), 5 * MS), (Runs, MS), (Stopped(1), 7 * MS)],
        &[(Some(STOP), 5 * MS), (Some(STOP), 5 * MS), (Some(STOP), 7 * MS)],
    );
}

/// Whoever waits through a stop is not stopped, and whoever comes out of a wait in one is, from
/// then on.
#[test]
fn a_stop_after_a_wait_is_not_the_waits() {
    const MS: u64 = 1_000_000;
    let mut wall = watching();
    let mut own = wall.threads.remove(&THREAD).expect("known");
    for (doing, ns) in
        [(Doing::Blocked(1), 30 * MS), (Doing::Stopped(1), 5 * MS), (Doing::Blocked(2), 10 * MS)]
    {
        wall.kernel.begin(doing);
        wall.kernel.pass(ns);
        wall.visit(THREAD, &mut own, 0);
    }
    own.post_owed(&wall.inbox, THREAD);
    let charges = charges(&wall, &mut 0);
    assert_eq!(charges, [(Some(STOP), 5 * MS), (Some(1), 30 * MS), (Some(2), 10 * MS)]);
}

#[test]
fn who_stands_on_long_after_a_pause_is_told_of_once() {
    const MS: u64 = 1_000_000;
    let mut wall = watching();
    let mut own = wall.threads.remove(&THREAD).expect("known");
    wall.kernel.held_up.all.now = true;
    wall.kernel.begin(Doing::Blocked(1));
    let mut told = |wall: &mut WallSampler<World>, ms: u64| {
        wall.kernel.pass(ms * MS);
        wall.visit(THREAD, &mut own, 0);
        let all = events(&wall.inbox);
        all.iter().filter(|event| matches!(event, Event::Outlasted { .. })).count()
    };
    // In a long pause, then shortly after it, then not any more.
    assert_eq!((told(&mut wall, 10), told(&mut wall, 200)), (0, 0));
    wall.kernel.held_up.all.now = false;
    assert_eq!((told(&mut wall, 40), told(&mut wall, 40), told(&mut wall, 900)), (0, 1, 0));
    // Outside of pauses nobody asks.
    wall.kernel.begin(Doing::Blocked(2));
    assert_eq!((told(&mut wall, 10), told(&mut wall, 900)), (0, 0));
}

#[test]
fn stops_are_taken_out_of_the_time_that_there_was() {
    const MS: u64 = 1_000_000;
    let mut wall = watching();
    // More than the thread was off its processor: a reading that was a little ahead.
    wall.kernel.pass(10 * MS);
    wall.kernel.begin(Doing::Blocked(1));
    wall.kernel.pass(4 * MS);
    wall.kernel.held_up.ns = [3 * MS, 2 * MS];
    wall.kernel.held_up.now = false;
    let mut own = wall.threads.remove(&THREAD).expect("known");
    wall.visit(THREAD, &mut own, 0);
    let mut found = vec![];
    for event in events(&wall.inbox) {
        match event {
            Event::HeldUp { wall_ns, state, .. } => found.push((state, wall_ns)),
            Event::Blocked { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(found, [(ThreadState::GcPause, 3 * MS), (ThreadState::Suspended, MS)]);
    assert_eq!(own.owed_ns, 0);
    // Sums that have gone back are the same as before.
    wall.kernel.held_up.ns = [2 * MS, 2 * MS];
    wall.kernel.begin(Doing::Stopped(1));
    wall.kernel.pass(MS);
    wall.visit(THREAD, &mut own, 0);
    assert_eq!(events(&wall.inbox).len(), 0);
    wall.kernel.pass(MS);
    wall.threads.insert(THREAD, own);
    let now_ns = wall.kernel.now_ns;
    let cpu_ns = wall.kernel.cpu_ns;
    wall.remove(THREAD, now_ns, cpu_ns);
    let found = events(&wall.inbox);
    assert!(
        matches!(found[0], Event::HeldUp { wall_ns: MS, state: ThreadState::GcPause, .. }),
        "{found:?}"
    );
}

#[test]
fn work_in_contention_has_all_its_delays() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..200 {
        let mut wall = watching();
        let wait_ns = 30 * TICK_NS;
        wall.kernel.begin(Doing::Blocked(1));
        wall.kernel.pass(wait_ns);
        wall.tick();
        let (mut ready_ns, mut run_ns) = (0, 0);
        // It is visited anywhere, mostly while it has no processor.
        for _ in 0..50 {
            for (doing, sum) in [(Doing::Runs, &mut run_ns), (Doing::Ready, &mut ready_ns)] {
                wall.kernel.begin(doing);
                for _ in 0..2 {
                    let ns = random.below(6_000_000);
                    *sum += ns;
                    wall.kernel.pass(ns);
                    wall.tick();
                }
            }
        }
        wall.kernel.begin(Doing::Runs);
        wall.settle(&Readings::default());
        let mut place = 0;
        let charges = charges(&wall, &mut place);
        let waited_ns: u64 = charges.iter().filter(|charge| charge.0.is_some()).map(|c| c.1).sum();
        let total_ns: u64 = charges.iter().map(|charge| charge.1).sum();
        assert_eq!(total_ns, wait_ns + ready_ns, "the moment of waking is on its clock");
        assert_eq!(waited_ns, wait_ns, "{charges:?}");
    }
}

#[test]
fn a_change_of_place_is_charged_by_halves() {
    const MS: u64 = 1_000_000;
    let mut wall = watching();
    let mut place = 0;
    let visit = |wall: &mut WallSampler<World>| {
        let mut own = wall.threads.remove(&THREAD).expect("known");
        wall.visit(THREAD, &mut own, 0);
        wall.threads.insert(THREAD, own);
    };
    wall.kernel.begin(Doing::Blocked(1));
    wall.kernel.pass(30 * MS);
    visit(&mut wall);
    assert_eq!(charges(&wall, &mut place), [], "owed until it changes");
    // It wakes, works for a moment, and blocks elsewhere; the moment is not charged here.
    wall.kernel.pass(4 * MS);
    wall.kernel.begin(Doing::Blocked(2));
    wall.kernel.pass(6 * MS);
    visit(&mut wall);
    assert_eq!(charges(&wall, &mut place), [(Some(1), 35 * MS)]);
    wall.settle(&Readings::default());
    assert_eq!(charges(&wall, &mut place), [(Some(2), 5 * MS)]);
    // It runs: the wait before was where it was last seen.
    wall.kernel.pass(8 * MS);
    wall.kernel.begin(Doing::Runs);
    visit(&mut wall);
    wall.settle(&Readings::default());
    assert_eq!(charges(&wall, &mut place), [(Some(2), 8 * MS)]);
    // It ran at the last visit, so it has not waited where it was before that.
    wall.kernel.pass(2 * MS);
    wall.kernel.begin(Doing::Blocked(3));
    wall.kernel.pass(6 * MS);
    visit(&mut wall);
    wall.settle(&Readings::default());
    assert_eq!(charges(&wall, &mut place), [(Some(3), 6 * MS)]);
}

#[test]
fn a_thread_that_moves_is_looked_at_again_and_charged_at_last() {
    const MS: u64 = 1_000_000;
    for (looks, loss) in [(2, Loss::Moved), (2, Loss::StateUnreadable)] {
        let mut wall = watching();
        let look = || if loss == Loss::Moved { Looked::Moved } else { Looked::Unreadable };
        wall.kernel.begin(Doing::Blocked(1));
        wall.kernel.looks = (0..looks).map(|_| look()).collect();
        let mut place = 0;
        for _ in 0..looks {
            wall.kernel.pass(TICK_NS * 2);
            wall.tick();
            assert_eq!(charges(&wall, &mut place), []);
        }
        wall.kernel.pass(TICK_NS * 2);
        wall.tick();
        wall.settle(&Readings::default());
        assert_eq!(charges(&wall, &mut place), [(Some(1), 3 * TICK_NS * 2)]);
        assert_eq!(lost(wall.shared, loss), looks);
        // It never stands still: the time is charged all the same, without a stack.
        wall.kernel.begin(Doing::Blocked(2));
        wall.kernel.looks = (0..MOVES_MAX).map(|_| look()).collect();
        for _ in 0..MOVES_MAX {
            wall.kernel.pass(MS * 20);
            wall.tick();
        }
        assert_eq!(wall.kernel.looks.len(), 0);
        wall.settle(&Readings::default());
        let sum: u64 = charges(&wall, &mut place).iter().map(|(_, ns)| ns).sum();
        assert_eq!(sum, 20 * MS * u64::from(MOVES_MAX));
    }
}

#[test]
fn all_elapsed_time_is_charged_whatever_a_thread_does() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..300 {
        let mut wall = watching();
        let (start_ns, start_cpu_ns) = (wall.kernel.now_ns, wall.kernel.cpu_ns);
        let (mut place, mut charged_ns, mut stopped_ns) = (0, 0, 0);
        let mut charge = |wall: &WallSampler<World>| {
            for (place, ns) in charges(wall, &mut place) {
                charged_ns += ns;
                stopped_ns += if place == Some(STOP) { ns } else { 0 };
            }
            assert_eq!(stopped_ns, wall.kernel.held_up.ns[0], "stops: exactly");
            charged_ns
        };
        for _ in 0..100 {
            let doing = match random.below(7) {
                0 | 1 => Doing::Runs,
                2 => Doing::Ready,
                3 => Doing::Robbed,
                4 => Doing::Stopped(random.below(3)),
                _ => Doing::Blocked(random.below(3)),
            };
            wall.kernel.begin(doing);
            let scale = 1 << random.below(34);
            wall.kernel.pass(random.below(scale));
            match random.below(10) {
                0 => wall.kernel.looks.push(Looked::Moved),
                1 => wall.kernel.looks.push(Looked::Unreadable),
                2 => {
                    wall.kernel.looks.clear();
                    wall.settle(&Readings::default());
                    let elapsed_ns = wall.kernel.now_ns - start_ns;
                    let ran_ns = wall.kernel.cpu_ns - start_cpu_ns;
                    assert_eq!(charge(&wall) + ran_ns, elapsed_ns, "settled: exactly");
                }
                3 => {}
                _ => wall.tick(),
            }
        }
        let (end_ns, end_cpu_ns) = (wall.kernel.now_ns, wall.kernel.cpu_ns);
        wall.kernel.ended = true;
        wall.kernel.now_ns += random.below(1_000_000_000);
        // Its end is told some time after it, with the time that it was.
        wall.tick();
        wall.remove(THREAD, end_ns, end_cpu_ns);
        assert_eq!(charge(&wall) + (end_cpu_ns - start_cpu_ns), end_ns - start_ns);
        assert!(wall.threads.is_empty());
    }
}

#[test]
fn threads_that_come_and_go_leave_nothing_and_take_no_visits() {
    const COUNT: u32 = 1000;
    let mut wall = sampler(2);
    wall.add(thread(COUNT, 1), TID, wall.kernel.now_ns, wall.kernel.cpu_ns);
    for round in 0..3 {
        for index in 0..COUNT {
            let thread = thread(index, round + 1);
            wall.add(thread, TID, wall.kernel.now_ns, wall.kernel.cpu_ns);
            wall.remove(thread, wall.kernel.now_ns, wall.kernel.cpu_ns);
        }
        // Removed twice, or never added.
        wall.remove(thread(0, round + 1), wall.kernel.now_ns, wall.kernel.cpu_ns);
        wall.kernel.pass(TICK_NS);
        wall.tick();
        let ended = events(&wall.inbox);
        assert_eq!(ended.iter().filter(|e| matches!(e, Event::Ended { .. })).count(), 1000);
        assert_eq!((wall.threads.len(), wall.schedule.len()), (1, 1));
        assert_eq!(wall.samples(), u64::from(round) + 1, "the one that lives was visited");
    }
}

#[test]
fn all_have_their_turn_new_ones_first() {
    let mut wall = sampler(3);
    wall.kernel.begin(Doing::Blocked(1));
    let add = |wall: &mut WallSampler<World>, from: u32| {
        for index in from..from + 9 {
            wall.add(thread(index, 1), TID, wall.kernel.now_ns, wall.kernel.cpu_ns);
        }
    };
    let visited = |wall: &mut WallSampler<World>| {
        wall.kernel.pass(TICK_NS);
        wall.tick();
        let mut seen = vec![];
        for event in events(&wall.inbox) {
            if let Event::Blocked { thread, .. } = event {
                seen.push(thread.index);
            }
        }
        seen
    };
    add(&mut wall, 0);
    assert_eq!(visited(&mut wall), [0, 1, 2]);
    add(&mut wall, 100);
    let first: Vec<u32> = (0..5).flat_map(|_| visited(&mut wall)).collect();
    let mut sorted = first.clone();
    sorted.sort_unstable();
    let expected: Vec<u32> = (3..9).chain(100..109).collect();
    assert_eq!(sorted, expected, "each once before any has a second visit");
}
