//! The handler as the kernel calls it: real signals and real timers, on threads of this process.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::std_instead_of_core,
    reason = "the crate's lints are for handlers, not for tests"
)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use model::{EndReason, Loss};
use signal::handler::{Shared, on_signal, set_shared};
use signal::record::{Record, ThreadRef};
use signal::ring::{Ring, Slot};
use signal::sample::Sample;
use sys::alternate_stack::{self, SPARE_BYTES};
use sys::disposition::{self, PROFILING_SIGNAL};
use sys::proc::Blocked;
use sys::timer::CpuTimer;
use sys::{clock, thread};
use testing::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The handler's state is one for the process, so one test has it at a time.
struct Rig {
    shared: &'static Shared,
    _alone: MutexGuard<'static, ()>,
}

impl Rig {
    fn new(slots: u64) -> Self {
        Self::with_tids(slots, 0)
    }

    /// One that knows the records of threads up to that number.
    fn with_tids(slots: u64, tids: u32) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        static INSTALLED: Once = Once::new();
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let records: Vec<Record> = (0..4).map(|_| Record::default()).collect();
        let by_tid: Vec<AtomicU32> = (0..tids).map(|_| AtomicU32::new(0)).collect();
        let slots: Vec<_> = (0..slots).map(|_| Slot::new(Sample::default())).collect();
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(
            records.leak(),
            by_tid.leak(),
            Ring::new(slots.leak()),
        )));
        shared.gate.open();
        set_shared(shared);
        INSTALLED.call_once(|| {
            // SAFETY: the handler is made for this, and test programs are not unloaded.
            unsafe { disposition::install(PROFILING_SIGNAL, on_signal) }.expect("installed");
        });
        Self { shared, _alone: alone }
    }

    fn lost(&self, loss: Loss) -> u64 {
        self.shared.losses[loss as usize].load(Ordering::Relaxed)
    }

    fn kept(&self) -> u64 {
        self.shared.kept.load(Ordering::Relaxed)
    }

    fn samples(&self) -> Vec<Seen> {
        std::iter::from_fn(|| self.shared.ring.read(Seen::of)).collect()
    }

    /// Nothing was lost but this.
    #[track_caller]
    fn check_losses(&self, expected: &[(Loss, u64)]) {
        for loss in Loss::ALL {
            let wanted = expected.iter().find(|(other, _)| *other == loss).map_or(0, |(_, n)| *n);
            assert_eq!(self.lost(loss), wanted, "{loss:?}");
        }
    }
}

/// What the tests look at in a sample.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    thread: ThreadRef,
    tid: u32,
    time_ns: u64,
    cpu_ns: u64,
    end: EndReason,
    frames: Vec<u64>,
    guess_sp: Option<u64>,
    copied: u32,
}

impl Seen {
    fn of(sample: &Sample) -> Self {
        let sp = sample.copy.guess.start.registers.sp;
        Self {
            thread: sample.thread,
            tid: sample.tid,
            time_ns: sample.time_ns,
            cpu_ns: sample.cpu_ns,
            end: sample.end,
            frames: sample.frames.iter().collect(),
            guess_sp: sample.guessed.then_some(sp),
            copied: sample.copy.length,
        }
    }
}

/// The calling thread, tracked.
struct Tracked {
    record: &'static Record,
    thread: ThreadRef,
    tid: u32,
    since_ns: u64,
}

impl Tracked {
    fn new(shared: &'static Shared, index: u32) -> Self {
        let (tid, stack) = (thread::own_id(), thread::own_stack().expect("own stack"));
        let record = &shared.records[index as usize];
        let since_ns = clock::own_cpu_ns();
        let generation = record.open(tid, stack.start, stack.end, since_ns);
        Self { record, thread: ThreadRef { index, generation }, tid, since_ns }
    }

    fn signal(&self) {
        disposition::send(self.tid, PROFILING_SIGNAL, self.thread.to_value()).expect("sent");
    }

    /// Ends it. Samples and rest are all that the thread has used since, to the nanosecond.
    #[track_caller]
    fn check_time(self, samples: &[Seen]) {
        let mark_ns = self.record.close();
        let now_ns = clock::own_cpu_ns();
        let carried_ns: u64 = samples.iter().map(|sample| sample.cpu_ns).sum();
        assert_eq!(carried_ns, mark_ns - self.since_ns);
        assert!(mark_ns <= now_ns, "the mark is a time that has been");
    }
}

/// Computes until something holds; a failure if it doesn't in so much processor time.
#[track_caller]
fn compute_until(mut holds: impl FnMut() -> bool) {
    const LIMIT_NS: u64 = 20_000_000_000;
    let limit_ns = clock::own_cpu_ns() + LIMIT_NS;
    while !holds() {
        assert!(clock::own_cpu_ns() < limit_ns, "in vain");
    }
}

fn errno() -> *mut c_int {
    // SAFETY: no argument, can't fail.
    unsafe { libc::__errno_location() }
}

#[test]
fn a_timers_samples_and_the_rest_are_the_threads_cpu_time() {
    const ERRNO: c_int = 4711;
    let rig = Rig::new(256);
    let interval = Duration::from_millis(1);
    rig.shared.cpu_interval_ns.store(1_000_000, Ordering::Relaxed);
    let tracked = Tracked::new(rig.shared, 1);
    let timer = CpuTimer::start(tracked.tid, PROFILING_SIGNAL, tracked.thread.to_value(), interval)
        .expect("a timer");
    tracked.record.set_timer(timer.id(), clock::own_cpu_ns());
    let calls = Counting::calls();
    // SAFETY: the calling thread's own errno.
    unsafe { *errno() = ERRNO };
    compute_until(|| rig.kept() >= 20);
    // SAFETY: as above.
    let (errno, calls_after) = (unsafe { *errno() }, Counting::calls());
    drop(timer);
    assert_eq!(errno, ERRNO, "the host's errno is not touched");
    assert_eq!(calls_after, calls, "a handler doesn't allocate");
    let samples = rig.samples();
    assert_eq!(samples.len() as u64, rig.kept());
    let stack = thread::own_stack().expect("own stack");
    for sample in &samples {
        assert_eq!((sample.thread, sample.tid), (tracked.thread, tracked.tid));
        assert!(!sample.frames.is_empty() && sample.cpu_ns > 0);
        // Without tables all but the leaf is guessed, and the stack is copied from there on.
        let sp = sample.guess_sp.expect("guessed");
        assert!((stack.start..stack.end).contains(&sp), "{sp:#x}");
        assert!(sample.copied > 0);
    }
    assert!(samples.is_sorted_by(|a, b| a.time_ns < b.time_ns));
    tracked.check_time(&samples);
    rig.check_losses(&[]);
}

#[test]
fn signals_of_another_life_are_stale() {
    let rig = Rig::new(8);
    let tracked = Tracked::new(rig.shared, 2);
    let ThreadRef { index, generation } = tracked.thread;
    let others = [
        ThreadRef { index, generation: generation + 1 },
        ThreadRef { index, generation: generation - 1 },
        ThreadRef { index: index + 1, generation },
        ThreadRef { index: 0, generation: 0 },
        ThreadRef { index: 4, generation },
        ThreadRef { index: u32::MAX, generation: u32::MAX },
    ];
    for other in others {
        disposition::send(tracked.tid, PROFILING_SIGNAL, other.to_value()).expect("sent");
    }
    rig.check_losses(&[(Loss::StaleThread, others.len() as u64)]);
    assert_eq!(rig.samples(), []);
    tracked.signal();
    let samples = rig.samples();
    assert_eq!(samples.len(), 1);
    let (tid, value) = (tracked.tid, tracked.thread.to_value());
    tracked.check_time(&samples);
    // Its record was taken back, and given to somebody else.
    disposition::send(tid, PROFILING_SIGNAL, value).expect("sent");
    rig.shared.records[index as usize].open(tid + 1, 0, 0, 0);
    disposition::send(tid, PROFILING_SIGNAL, value).expect("sent");
    let next = rig.shared.records[index as usize].open(tid, 0, 0, 0);
    disposition::send(tid, PROFILING_SIGNAL, value).expect("sent");
    rig.check_losses(&[(Loss::StaleThread, others.len() as u64 + 3)]);
    // A thread whose stack is not known has its leaf.
    let own = ThreadRef { index, generation: next };
    disposition::send(tid, PROFILING_SIGNAL, own.to_value()).expect("sent");
    let samples = rig.samples();
    assert_eq!(samples[0].frames.len(), 1);
    assert_eq!(samples[0].end, EndReason::OutsideStack);
}

/// Calls of `previous`, and the last one's code.
static PREVIOUS: (AtomicUsize, AtomicU32) = (AtomicUsize::new(0), AtomicU32::new(0));

unsafe extern "C" fn previous(signal: c_int, info: *mut c_void, context: *mut c_void) {
    assert_eq!(signal, PROFILING_SIGNAL);
    assert!(!context.is_null());
    // SAFETY: the kernel's siginfo, passed on by the handler.
    let info = unsafe { &*info.cast::<libc::siginfo_t>() };
    PREVIOUS.0.fetch_add(1, Ordering::SeqCst);
    PREVIOUS.1.store(info.si_code.cast_unsigned(), Ordering::SeqCst);
}

/// Sends the profiling signal to the calling thread as somebody else would, with that `si_code`.
fn send_foreign(code: c_int) {
    // SAFETY: a siginfo of zeroes is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    info.si_signo = PROFILING_SIGNAL;
    info.si_code = code;
    // SAFETY: no argument, can't fail.
    let own = unsafe { libc::getpid() };
    // SAFETY: the kernel reads one siginfo.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            own,
            thread::own_id(),
            PROFILING_SIGNAL,
            &raw const info,
        )
    };
    assert_eq!(sent, 0);
}

#[test]
fn foreign_signals_are_counted_and_passed_on() {
    let rig = Rig::new(8);
    let _tracked = Tracked::new(rig.shared, 0);
    // Nobody was there before.
    send_foreign(libc::SI_USER);
    rig.check_losses(&[(Loss::ForeignSignal, 1)]);
    let before = PREVIOUS.0.load(Ordering::SeqCst);
    rig.shared.previous.store(previous as *const () as usize, Ordering::Relaxed);
    // setitimer's signals come from the kernel.
    for (n, code) in [libc::SI_USER, libc::SI_KERNEL].into_iter().enumerate() {
        send_foreign(code);
        assert_eq!(PREVIOUS.0.load(Ordering::SeqCst), before + n + 1);
        assert_eq!(PREVIOUS.1.load(Ordering::SeqCst), code.cast_unsigned());
    }
    // SAFETY: the signal is handled.
    assert_eq!(unsafe { libc::raise(PROFILING_SIGNAL) }, 0);
    assert_eq!(PREVIOUS.1.load(Ordering::SeqCst), libc::SI_TKILL.cast_unsigned());
    rig.check_losses(&[(Loss::ForeignSignal, 4)]);
    assert_eq!(rig.samples(), []);
}

/// With the user's queue of signals full, the kernel can't say whose signal it is.
#[test]
fn a_signal_without_a_value_is_its_threads() {
    let tid = thread::own_id();
    let rig = Rig::with_tids(8, tid + 1);
    let tracked = Tracked::new(rig.shared, 3);
    rig.shared.set_record_of(tid, tracked.thread.index);
    send_foreign(libc::SI_USER);
    let samples = rig.samples();
    assert_eq!((samples.len(), samples[0].thread), (1, tracked.thread));
    // An earlier thread of that number ends, and it is told late.
    rig.shared.forget_record_of(tid, 2);
    send_foreign(libc::SI_USER);
    assert_eq!(rig.samples().len(), 1);
    rig.check_losses(&[]);
    rig.shared.forget_record_of(tid, tracked.thread.index);
    send_foreign(libc::SI_USER);
    // Nobody's, and numbers that are beyond the table.
    rig.shared.set_record_of(tid + 1, 0);
    rig.shared.forget_record_of(tid + 1, 0);
    rig.check_losses(&[(Loss::ForeignSignal, 1)]);
    assert_eq!(rig.samples(), []);
    // Its record is another's by now.
    rig.shared.set_record_of(tid, tracked.thread.index);
    tracked.record.open(tid + 1, 0, 0, 0);
    send_foreign(libc::SI_USER);
    rig.check_losses(&[(Loss::ForeignSignal, 1), (Loss::StaleThread, 1)]);
}

#[test]
fn a_shut_gate_lets_nothing_through() {
    let rig = Rig::new(8);
    let tracked = Tracked::new(rig.shared, 0);
    rig.shared.gate.shut();
    tracked.signal();
    rig.check_losses(&[]);
    assert_eq!(rig.samples(), []);
    assert_eq!(rig.shared.gate.inside(), 0);
    rig.shared.gate.open();
    tracked.signal();
    let samples = rig.samples();
    assert_eq!(samples.len(), 1);
    tracked.check_time(&samples);
    assert_eq!(rig.shared.gate.inside(), 0);
}

#[test]
fn a_full_ring_is_counted_and_its_time_carried_on() {
    let rig = Rig::new(2);
    let tracked = Tracked::new(rig.shared, 0);
    for _ in 0..5 {
        tracked.signal();
    }
    rig.check_losses(&[(Loss::RingFull, 3)]);
    assert_eq!(rig.kept(), 2);
    let mut samples = rig.samples();
    let before_ns = clock::own_cpu_ns();
    tracked.signal();
    samples.extend(rig.samples());
    assert_eq!(samples.len(), 3);
    let carried_ns: u64 = samples.iter().map(|sample| sample.cpu_ns).sum();
    assert!(carried_ns > before_ns - tracked.since_ns, "the lost samples' time is in the next");
    tracked.check_time(&samples);
}

/// Blocks a thread in a system call, signals it there, and says how many calls ended early.
fn interrupted(rig: &Rig, call: u32, block: impl FnOnce() + Send, release: impl FnOnce()) -> u64 {
    let shared = rig.shared;
    let kept = rig.kept();
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        scope.spawn(move || {
            let tracked = Tracked::new(shared, 3);
            send.send((tracked.tid, tracked.thread)).expect("sent");
            block();
            tracked.record.close();
        });
        let (tid, thread) = receive.recv().expect("received");
        let there = |at| matches!(at, Some(Blocked::At { call: Some(n), .. }) if n == call);
        compute_until(|| there(Blocked::read(tid)));
        disposition::send(tid, PROFILING_SIGNAL, thread.to_value()).expect("sent");
        compute_until(|| rig.kept() > kept);
        release();
    });
    rig.lost(Loss::InterruptedCall)
}

#[test]
fn a_call_that_a_signal_ends_early_is_noticed() {
    let rig = Rig::new(8);
    let (read_end, write_end) = std::io::pipe().expect("a pipe");
    let read = {
        let mut read_end = read_end;
        move || std::io::Read::read_exact(&mut read_end, &mut [0; 1]).expect("a byte")
    };
    let write = {
        let mut write_end = write_end;
        move || std::io::Write::write_all(&mut write_end, &[1]).expect("written")
    };
    // The kernel restarts this one, and the handler sees the call as if it were just being made.
    const READ: u32 = 0;
    assert_eq!(interrupted(&rig, READ, read, write), 0);
    const CLOCK_NANOSLEEP: u32 = 230;
    let sleep = || {
        let hour = libc::timespec { tv_sec: 3600, tv_nsec: 0 };
        let rest: *mut libc::timespec = std::ptr::null_mut();
        // SAFETY: the kernel reads one timespec; the rest is not asked for.
        unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const hour, rest) };
    };
    assert_eq!(interrupted(&rig, CLOCK_NANOSLEEP, sleep, || {}), 1);
    rig.check_losses(&[(Loss::InterruptedCall, 1)]);
}

/// The kernel sets what the context says: a thread with a small alternate stack has a larger one
/// after a signal.
#[test]
fn a_thread_takes_a_larger_alternate_stack() {
    let rig = Rig::new(8);
    let shared = rig.shared;
    std::thread::spawn(move || {
        let tracked = Tracked::new(shared, 0);
        let seen_with = |bytes: u64, spare: u64| {
            tracked.record.want_room(bytes, spare);
            tracked.signal();
            tracked.record.has_room()
        };
        tracked.signal();
        assert_eq!(tracked.record.has_room(), None, "nobody wanted to know");
        assert_eq!(seen_with(1, 0), Some(true), "the standard library gives its threads one");
        assert_eq!(seen_with(SPARE_BYTES, 0), Some(false), "but a smaller one");
        let spare = alternate_stack::spare().expect("memory");
        assert_eq!(seen_with(SPARE_BYTES, spare), Some(true));
        assert_eq!(seen_with(SPARE_BYTES, 0), Some(true), "the thread really has it");
        assert_eq!(seen_with(SPARE_BYTES + 1, 0), Some(false), "and no larger one");
        tracked.record.close();
    })
    .join()
    .expect("no panic");
}
