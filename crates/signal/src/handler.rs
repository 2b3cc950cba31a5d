//! The signal handler: a list of guarded exits, then one sample of its own thread's stack.
//!
//! It reaches nothing outside this crate; the linked library is checked for that. It allocates
//! nothing, waits for nobody, touches no thread-local storage, and does not touch `errno`.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use model::Loss;

use crate::arch::{self, Clock, Registers};
use crate::context::SpanContext;
use crate::epilogue::EPILOGUE_BYTES;
use crate::gate::Gate;
use crate::record::{Record, ThreadRef};
use crate::ring::Ring;
use crate::sample::Sample;
use crate::tables::Tables;
use crate::walk::{Bounds, Start, walk};

/// A timer made the signal.
const SI_TIMER: i32 = -2;
/// `rt_tgsigqueueinfo` made the signal.
const SI_QUEUE: i32 = -1;
/// `kill` made the signal; with no sender, the kernel had no room to say who did.
const SI_USER: i32 = 0;
/// Offsets in the kernel's `siginfo` on 64-bit machines.
const SI_CODE_OFFSET: usize = 8;
const SI_PID_OFFSET: usize = 16;
const SI_OVERRUN_OFFSET: usize = 20;
const SI_VALUE_OFFSET: usize = 24;
/// An instruction's page: code is read forward from the instruction pointer only inside it.
const PAGE_BYTES: u64 = 4096;
/// `-EINTR` in the result register.
const INTERRUPTED: u64 = (-4_i64) as u64;

/// Everything that handlers share, in memory that is never freed.
pub struct Shared {
    /// Handlers pass it; see `gate`.
    pub gate: Gate,
    /// All thread records.
    pub records: &'static [Record],
    /// By the kernel's thread id: the index of the thread's record plus one, 0 if it has none. For
    /// signals that lost their value, see `whose`.
    pub by_tid: &'static [AtomicU32],
    /// Where samples go.
    pub ring: Ring<Sample>,
    /// The unwind tables of now; what was published before is freed when the gate was seen empty.
    pub tables: AtomicPtr<Tables<'static>>,
    /// Losses that handlers count, by `Loss` number.
    pub losses: [AtomicU64; Loss::ALL.len()],
    /// The wanted CPU time between two samples of a thread, in nanoseconds.
    pub cpu_interval_ns: AtomicU64,
    /// Samples kept.
    pub kept: AtomicU64,
    /// The handler that was installed before ours, for signals that are not ours; 0 if none.
    pub previous: AtomicUsize,
}

/// Set once, before the handler is installed.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());

impl Shared {
    /// Fresh state over memory that lives for ever; the gate is shut.
    #[must_use]
    pub fn new(
        records: &'static [Record],
        by_tid: &'static [AtomicU32],
        ring: Ring<Sample>,
    ) -> Self {
        Self {
            gate: Gate::new(),
            records,
            by_tid,
            ring,
            tables: AtomicPtr::new(core::ptr::null_mut()),
            losses: [const { AtomicU64::new(0) }; Loss::ALL.len()],
            cpu_interval_ns: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            previous: AtomicUsize::new(0),
        }
    }

    /// Counts a loss.
    ///
    /// # Signal safety
    /// One atomic operation.
    pub fn count(&self, loss: Loss) {
        if let Some(counter) = self.losses.get(loss as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes which record a thread has.
    pub fn set_record_of(&self, tid: u32, index: u32) {
        if let Some(place) = self.by_tid.get(tid as usize) {
            place.store(index.saturating_add(1), Ordering::Release);
        }
    }

    /// Notes that a thread has that record no more. The number may be another thread's by now, with
    /// a record of its own: then that stays.
    pub fn forget_record_of(&self, tid: u32, index: u32) {
        if let Some(place) = self.by_tid.get(tid as usize) {
            let was = index.saturating_add(1);
            let _other = place.compare_exchange(was, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The thread that a signal was meant for, if it was one of ours. When the user's queue of
    /// pending signals is full (`RLIMIT_SIGPENDING`), the kernel delivers a signal all the same,
    /// but without its value and as if nobody had sent it; then it is this very thread.
    ///
    /// # Signal safety
    /// Reads atomics.
    fn whose(&self, code: i32, sender: i32, value: u64, tid: u32) -> Option<ThreadRef> {
        match code {
            SI_TIMER | SI_QUEUE => Some(ThreadRef::from_value(value)),
            SI_USER if sender == 0 => {
                let place = self.by_tid.get(tid as usize)?;
                let index = place.load(Ordering::Acquire).checked_sub(1)?;
                let generation = self.records.get(index as usize)?.generation();
                Some(ThreadRef { index, generation })
            }
            _ => None,
        }
    }

    /// The tables of now; empty ones before the first were published.
    ///
    /// # Safety
    /// The caller is inside the gate and stays there while it uses them.
    ///
    /// # Signal safety
    /// One atomic load.
    pub unsafe fn tables(&self) -> Tables<'_> {
        let tables = self.tables.load(Ordering::SeqCst);
        // SAFETY: whoever unpublishes tables frees them only after seeing the gate empty, and the
        // caller entered it before this load.
        unsafe { tables.as_ref() }.copied().unwrap_or_default()
    }
}

/// Makes the state known to the handler.
pub fn set_shared(shared: &'static Shared) {
    SHARED.store(core::ptr::from_ref(shared).cast_mut(), Ordering::SeqCst);
}

/// A field of the `siginfo`.
///
/// # Safety
/// `info` is the second argument of an `SA_SIGINFO` handler; `offset` is that of an aligned `T`.
unsafe fn field<T: Copy>(info: *const c_void, offset: usize) -> T {
    // SAFETY: a siginfo has 128 bytes, more than any offset used here (the caller's promise).
    let place = unsafe { info.byte_add(offset) }.cast::<T>();
    // SAFETY: the kernel filled it in, and it is aligned (the caller's promise).
    unsafe { place.read() }
}

/// The handler to install, with `SA_SIGINFO` and `SA_RESTART`.
///
/// # Safety
/// Called by the kernel as an `SA_SIGINFO` handler.
///
/// # Signal safety
/// This is the signal handler.
pub unsafe extern "C" fn on_signal(signal: c_int, info: *mut c_void, context: *mut c_void) {
    let shared = SHARED.load(Ordering::SeqCst);
    // SAFETY: `set_shared` took a `&'static`, or it is null.
    let Some(shared) = (unsafe { shared.as_ref() }) else { return };
    let Some(_inside) = shared.gate.enter() else { return };
    // SAFETY: the kernel called this handler with a siginfo; si_code is an aligned i32.
    let code: i32 = unsafe { field(info, SI_CODE_OFFSET) };
    // SAFETY: all kinds of signal have an aligned i32 there: the sender's id, or a timer's.
    let sender: i32 = unsafe { field(info, SI_PID_OFFSET) };
    // SAFETY: a siginfo has eight aligned bytes at that place: the value, where it has one.
    let value: u64 = unsafe { field(info, SI_VALUE_OFFSET) };
    let tid = arch::thread_id();
    let Some(thread) = shared.whose(code, sender, value, tid) else {
        shared.count(Loss::ForeignSignal);
        // SAFETY: the arguments are the kernel's own.
        unsafe { pass_on(shared, signal, info, context) };
        return;
    };
    let overruns = if code == SI_TIMER {
        // SAFETY: a timer's signal has an aligned i32 there.
        u32::try_from(unsafe { field::<i32>(info, SI_OVERRUN_OFFSET) }).unwrap_or(0)
    } else {
        0
    };
    let record = shared.records.get(thread.index as usize);
    let Some(record) = record.filter(|record| record.is(thread.generation, tid)) else {
        shared.count(Loss::StaleThread);
        return;
    };
    if let Some(room) = record.wanted_room() {
        // SAFETY: the context is the kernel's own; a spare stack is the thread's for good.
        record.set_room(unsafe { arch::make_room(context, room) });
    }
    // SAFETY: the context is the kernel's own.
    let result = unsafe { arch::result_register(context) };
    // SAFETY: the context is the kernel's own.
    let registers = unsafe { arch::registers(context) };
    let cpu_clock_ns = arch::clock_ns(Clock::ThreadCpu);
    if let Some(timer) = record.timer() {
        let interval_ns = shared.cpu_interval_ns.load(Ordering::Relaxed);
        arch::set_timer(timer, record.next_due_ns(cpu_clock_ns, interval_ns), interval_ns);
    }
    let origin = Origin {
        thread,
        tid,
        overruns,
        cpu_clock_ns,
        // SAFETY: the context is the kernel's own.
        signal_stack: unsafe { arch::signal_stack(context) },
        #[cfg(feature = "oracle")]
        context,
    };
    take_sample(shared, record, &origin, registers, result);
}

/// What a sample says of itself besides its stack.
struct Origin {
    thread: ThreadRef,
    tid: u32,
    overruns: u32,
    cpu_clock_ns: u64,
    /// The alternate stack, if the thread is on it.
    signal_stack: Option<(u64, u64)>,
    #[cfg(feature = "oracle")]
    context: *const c_void,
}

/// Hands a signal that is not ours to the handler that was there before.
///
/// # Safety
/// The arguments are those that the kernel gave to our handler.
// Not inlined: `signal-closure` knows the handler's one call through a pointer by its function.
#[cold]
#[inline(never)]
unsafe fn pass_on(shared: &Shared, signal: c_int, info: *mut c_void, context: *mut c_void) {
    type Handler = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void);
    let previous = shared.previous.load(Ordering::Relaxed);
    if previous != 0 {
        // SAFETY: it is the address of a handler that the kernel would have called with these
        // arguments (one without SA_SIGINFO ignores the last two).
        let handler: Handler = unsafe { core::mem::transmute(previous) };
        // SAFETY: as above.
        unsafe { handler(signal, info, context) };
    }
}

fn take_sample(
    shared: &Shared,
    record: &Record,
    origin: &Origin,
    registers: Registers,
    result: u64,
) {
    let mut claim = match shared.ring.claim() {
        Ok(claim) => claim,
        // The mark is not moved: the thread's next sample carries this time too.
        Err(loss) => return shared.count(loss),
    };
    let sample = claim.value();
    sample.thread = origin.thread;
    sample.tid = origin.tid;
    sample.overruns = origin.overruns;
    sample.time_ns = arch::clock_ns(Clock::Monotonic);
    sample.cpu_ns = record.take_cpu_ns(origin.cpu_clock_ns);
    sample.context = record.context().read().unwrap_or_else(|| {
        shared.count(Loss::ContextBusy);
        SpanContext::default()
    });
    sample.frames.clear();
    let own_stack = record.stack();
    let (stack_start, stack_end) = origin.signal_stack.unwrap_or(own_stack);
    // Only what lies above the stack pointer is certainly mapped and not in use by the handler; and
    // the red zone, below which the kernel has just put this signal's frame.
    let bounds = Bounds {
        left: origin.signal_stack.map(|_| own_stack),
        ..Bounds::of_leaf(registers.sp, stack_start, stack_end)
    };
    // SAFETY: the handler is inside the gate: its caller holds the guard.
    let tables = unsafe { shared.tables() };
    let code = leaf_code(&tables, registers.ip);
    if ended_early(registers.ip, result) {
        shared.count(Loss::InterruptedCall);
    }
    let start = Start { registers, exact: true };
    let walked = walk(&tables, bounds, start, code, read_own, &mut sample.frames);
    sample.end = walked.end;
    sample.guessed = walked.guess.is_some();
    if let Some(guess) = walked.guess {
        sample.copy.take(guess, bounds.around(guess.start.registers.sp), read_own);
    }
    #[cfg(feature = "oracle")]
    // SAFETY: the context is that of the handler that is running.
    unsafe {
        crate::oracle::ask(origin.context, &mut sample.oracle);
    }
    #[cfg(feature = "oracle")]
    {
        sample.oracle.cpu_clock_ns = origin.cpu_clock_ns;
        sample.oracle.native_leaf = tables.native.region(registers.ip).is_some();
    }
    shared.kept.fetch_add(1, Ordering::Relaxed);
}

/// Eight bytes of the calling thread's stack.
#[expect(clippy::unnecessary_wraps, reason = "the walker's reader can fail elsewhere")]
fn read_own(address: u64) -> Option<u64> {
    // SAFETY: the walker asks only for aligned addresses inside the bounds, which lie between the
    // red zone below the interrupted stack pointer and the end of this thread's stack: mapped while
    // it runs, since the kernel wrote the signal's frame just below.
    Some(unsafe { (address as *const u64).read() })
}

/// The code that is about to run, for managed code only (native code has exact unwind data).
fn leaf_code<'a>(tables: &Tables<'_>, ip: u64) -> &'a [u8] {
    if tables.native.region(ip).is_some() {
        return &[];
    }
    let in_page = PAGE_BYTES.saturating_sub(ip & PAGE_BYTES.saturating_sub(1));
    let length = usize::try_from(in_page).unwrap_or(0).min(EPILOGUE_BYTES);
    // SAFETY: the thread was about to execute at `ip`, so its page is mapped and, on x86-64,
    // readable; the slice does not leave that page.
    unsafe { core::slice::from_raw_parts(ip as *const u8, length) }
}

/// Whether the interrupted instruction is the one after a system call that a signal ended early.
fn ended_early(ip: u64, result: u64) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    const SYSCALL_BYTES: u64 = 2;
    if result != INTERRUPTED || (ip & PAGE_BYTES.saturating_sub(1)) < SYSCALL_BYTES {
        return false;
    }
    let before = ip.wrapping_sub(SYSCALL_BYTES) as *const [u8; 2];
    // SAFETY: the two bytes lie in the page that the thread was executing, and have no alignment.
    let code = unsafe { before.read() };
    code == SYSCALL
}
