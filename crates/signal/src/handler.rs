//! The handler: a list of guarded exits, then one sample of a thread's stack. On Linux a signal has
//! it called on the thread itself, on Windows the sampler calls it with what it saw of the thread.
//!
//! It reaches nothing outside this crate; the linked library is checked for that. It allocates
//! nothing, waits for nobody, touches no thread-local storage, and does not touch `errno`.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use model::Loss;

use crate::arch::Registers;
use crate::context::SpanContext;
use crate::gate::Gate;
use crate::record::{Record, ThreadRef};
use crate::ring::Ring;
use crate::sample::Sample;
use crate::tables::Tables;
use crate::walk::{Bounds, Start, no_prologue, walk};

#[cfg(target_os = "linux")]
pub use linux::on_signal;
#[cfg(windows)]
pub use windows::on_signal;

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

/// What `set_shared` was told.
fn shared() -> Option<&'static Shared> {
    let shared = SHARED.load(Ordering::SeqCst);
    // SAFETY: `set_shared` took a `&'static`, or it is null.
    unsafe { shared.as_ref() }
}

/// What a sample says of itself besides its stack.
struct Origin {
    thread: ThreadRef,
    tid: u32,
    overruns: u32,
    time_ns: u64,
    cpu_clock_ns: u64,
    /// Which request it works for; `None` if it stands in a write of that.
    span: Option<SpanContext>,
    /// The alternate stack, if the thread is on it.
    signal_stack: Option<(u64, u64)>,
    #[cfg(feature = "oracle")]
    context: *const core::ffi::c_void,
}

/// Takes a sample of a thread that stands, or stood, at those registers. `code` gives the code that
/// it was about to run, where that decides how to walk; `read` its stack's words.
///
/// # Safety
/// The caller is inside the gate.
unsafe fn take_sample<'a>(
    shared: &Shared,
    record: &Record,
    origin: &Origin,
    registers: Registers,
    code: impl FnOnce(&Tables<'_>) -> &'a [u8],
    mut read: impl FnMut(u64) -> Option<u64>,
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
    sample.time_ns = origin.time_ns;
    sample.cpu_ns = record.take_cpu_ns(origin.cpu_clock_ns);
    sample.context = origin.span.unwrap_or_else(|| {
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
    // SAFETY: inside the gate, as the caller promised.
    let tables = unsafe { shared.tables() };
    let start = Start { registers, exact: true };
    let (code, frames) = (code(&tables), &mut sample.frames);
    let walked = walk(&tables, bounds, start, code, &mut read, no_prologue, frames);
    sample.end = walked.end;
    sample.guessed = walked.guess.is_some();
    if let Some(guess) = walked.guess {
        sample.copy.take(guess, bounds.around(guess.start.registers.sp), read);
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
