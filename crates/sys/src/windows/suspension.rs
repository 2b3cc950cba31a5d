//! Suspending a thread, for as long as its registers and stack are copied and no longer.
//!
//! A suspended thread may hold any lock: the loader's, the heap's, the runtime's. So while one is
//! suspended, nothing here allocates, waits or calls anything but the system itself: to read its
//! registers, to read its stack, to resume it. Room is taken before, and unwinding is done
//! afterwards, on the copy.
//!
//! Should the sampler not come on all the same, the watcher lets the thread go. Exactly one of the
//! two does: whoever takes the handle out of `SUSPENDED`. The sampler puts it there only after the
//! thread is suspended, so that the watcher can't resume too early.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::suspended::Suspended;

use super::api::{self, Context, Handle};
use super::handles::{self, ThreadHandle};
use super::memory::copy_own;
use super::{clock, thread};
use crate::nt::{Calls, Layout, State, States};
use crate::thread::StackRange;

/// Words of a stack that are copied: 1 MiB, the size that most threads' stacks have.
const WORDS_MAX: usize = 128 * 1024;
/// Bytes of code that are read at the instruction pointer.
const CODE_BYTES: usize = 32;
/// How often the watcher looks: a thread that is suspended at two looks in a row is let go.
const WATCH: Duration = Duration::from_millis(250);

/// The handle of the thread that is suspended now; 0 if there is none.
static SUSPENDED: AtomicUsize = AtomicUsize::new(0);
/// How many threads were suspended so far.
static SUSPENSIONS: AtomicU64 = AtomicU64::new(0);
/// The number of the watcher that is to watch; 0 if there is none.
static WATCHER: AtomicU32 = AtomicU32::new(0);

/// What the sampler sees of threads, one after the other.
static SEEN: Mutex<Option<Box<Seen>>> = Mutex::new(None);

/// The kernel's word on threads' states.
static STATES: States = States::new(Calls { query_thread }, Layout::OWN);

fn query_thread(handle: usize, class: u32, room: &mut [u8]) -> (i32, usize) {
    let bytes = u32::try_from(room.len()).unwrap_or(0);
    let mut written = 0;
    // SAFETY: the kernel checks the handle and the class, and writes at most so many bytes.
    let status = unsafe {
        api::NtQueryInformationThread(
            handle,
            class,
            room.as_mut_ptr().cast(),
            bytes,
            &raw mut written,
        )
    };
    (status, written as usize)
}

/// Whether a thread waits; `None` if the kernel doesn't tell.
pub fn state(tid: u32) -> Option<bool> {
    state_of(&*handles::of(tid)?)
}

/// The same of a thread that is known.
pub fn state_of(thread: &ThreadHandle) -> Option<bool> {
    Some(match STATES.of(thread.raw())?.state {
        State::Waiting => true,
        State::Running | State::Starting | State::Ready | State::Other => false,
    })
}

/// Whether the kernel tells threads' states.
pub fn states_are_told() -> bool {
    STATES.are_told()
}

/// A thread's registers, and copies of its stack and code; kept for the next thread.
pub struct Seen {
    context: Context,
    words: Box<[u64]>,
    length: usize,
    code: [u8; CODE_BYTES],
    /// The code just before the instruction pointer.
    before: [u8; 8],
}

/// Does something with the room for what is seen; one at a time.
pub fn with<T>(look: impl FnOnce(&mut Seen) -> Option<T>) -> Option<T> {
    // Whatever a panicked holder left is overwritten.
    let mut place = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = place.get_or_insert_with(|| {
        Box::new(Seen {
            context: Context::new(),
            words: vec![0; WORDS_MAX].into_boxed_slice(),
            length: 0,
            code: [0; CODE_BYTES],
            before: [0; 8],
        })
    });
    look(seen)
}

impl Seen {
    /// Suspends a thread, copies, and lets it go on. What is returned points into this. `None` if
    /// the thread has ended or can't be suspended, or if that took too long.
    ///
    /// `note` reads what else the thread changes, while it stands still: it allocates nothing,
    /// waits for nobody, and calls neither the system nor the runtime.
    pub fn of(&mut self, tid: u32, note: impl FnOnce()) -> Option<Suspended> {
        if tid == thread::own_id() {
            return None;
        }
        let handle = handles::of(tid)?;
        let stack = handle.stack();
        let cpu_clock_ns = clock::handle_cpu_ns(handle.raw())?;
        let time_ns = clock::monotonic_ns();
        self.length = 0;
        self.copy(handle.raw(), stack, note)?;
        let Context { rip: ip, rsp: sp, rbp: bp, .. } = self.context;
        self.before = [0; 8];
        copy_own(ip.saturating_sub(self.before.len() as u64), &mut self.before);
        let code_len = copy_own(ip, &mut self.code);
        Some(Suspended {
            ip,
            sp,
            bp,
            time_ns,
            cpu_clock_ns,
            words: self.words.as_ptr(),
            words_len: self.length,
            code: self.code.as_ptr(),
            code_len,
        })
    }

    /// The part in which the thread stands still.
    fn copy(
        &mut self,
        handle: Handle,
        stack: Option<StackRange>,
        note: impl FnOnce(),
    ) -> Option<()> {
        // SAFETY: an open handle with the right to it.
        if unsafe { api::SuspendThread(handle) } == u32::MAX {
            return None;
        }
        SUSPENSIONS.fetch_add(1, Ordering::Relaxed);
        SUSPENDED.store(handle, Ordering::Release);
        self.context.flags = api::CONTEXT_GENERAL;
        // SAFETY: a suspended thread's handle, and an aligned structure that says what is wanted.
        let told = unsafe { api::GetThreadContext(handle, &raw mut self.context) };
        if let Some(stack) = stack.filter(|_| told != 0) {
            self.copy_words(stack);
        }
        note();
        let is_ours = SUSPENDED.swap(0, Ordering::AcqRel) == handle;
        if is_ours {
            // SAFETY: suspended above, resumed once.
            unsafe { api::ResumeThread(handle) };
        }
        (is_ours && told != 0).then_some(())
    }

    /// Copies from the stack pointer to the end of the stack, by the system: should the watcher
    /// have let the thread go meanwhile, its stack may be no more.
    fn copy_words(&mut self, stack: StackRange) {
        let sp = self.context.rsp;
        if sp < stack.start || sp >= stack.end || sp & 7 != 0 {
            return;
        }
        let words = usize::try_from(stack.end.saturating_sub(sp) / 8).unwrap_or(0);
        let Some(words) = self.words.get_mut(..words.min(WORDS_MAX)) else { return };
        let (start, bytes) = (words.as_mut_ptr().cast::<u8>(), size_of_val(words));
        // SAFETY: the same memory, borrowed once; any bytes are words.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
        self.length = copy_own(sp, bytes) / size_of::<u64>();
    }

    /// The words that were copied.
    pub fn words(&self) -> &[u64] {
        self.words.get(..self.length).unwrap_or_default()
    }

    /// Whether the thread stands just behind a system call: then it most likely waits in it.
    pub fn is_in_call(&self) -> bool {
        is_call(&self.before)
    }
}

/// Whether code ends with a system call: `syscall`, `int 0x2e`, or Wine's call through the page
/// that it shares with all processes.
fn is_call(before: &[u8; 8]) -> bool {
    const WINE: [u8; 7] = [0xff, 0x14, 0x25, 0x00, 0x10, 0xfe, 0x7f];
    before.ends_with(&[0x0f, 0x05]) || before.ends_with(&[0xcd, 0x2e]) || before.ends_with(&WINE)
}

/// Starts the watcher.
///
/// # Errors
/// If there is no thread for it.
pub fn watch() -> io::Result<()> {
    let number = WATCHER.load(Ordering::Acquire).wrapping_add(1).max(1);
    WATCHER.store(number, Ordering::Release);
    thread::spawn("corprof-watch", move || {
        let mut before = (0, 0);
        while WATCHER.load(Ordering::Acquire) == number {
            before = look_after(before);
            std::thread::sleep(WATCH);
        }
    })
}

/// Ends the watcher.
pub fn unwatch() {
    WATCHER.fetch_add(1, Ordering::AcqRel);
}

/// One look of the watcher: lets the thread go that was suspended at the last look already. Returns
/// what it saw.
fn look_after(before: (Handle, u64)) -> (Handle, u64) {
    let now = (SUSPENDED.load(Ordering::Acquire), SUSPENSIONS.load(Ordering::Relaxed));
    let (handle, _) = now;
    if handle == 0 || now != before {
        return now;
    }
    let took = SUSPENDED.compare_exchange(handle, 0, Ordering::AcqRel, Ordering::Relaxed);
    if took.is_ok() {
        // SAFETY: the sampler suspended it, and will not resume it now that its handle was taken;
        // it keeps the handle open until it comes on.
        unsafe { api::ResumeThread(handle) };
    }
    now
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A thread that counts, until it is told to end.
    struct Busy {
        tid: u32,
        count: &'static AtomicU64,
        end: &'static AtomicU32,
    }

    impl Busy {
        fn start() -> Self {
            let count: &'static AtomicU64 = Box::leak(Box::default());
            let end: &'static AtomicU32 = Box::leak(Box::default());
            let (tell, told) = mpsc::channel();
            std::thread::spawn(move || {
                tell.send(thread::own_id()).expect("somebody listens");
                while end.load(Ordering::Relaxed) == 0 {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            Self { tid: told.recv().expect("an id"), count, end }
        }

        /// Returns when it has gone on.
        fn wait_for_more(&self) {
            let before = self.count.load(Ordering::Relaxed);
            while self.count.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            self.end.store(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_thread_is_seen_and_goes_on() {
        let busy = Busy::start();
        let stack = handles::of(busy.tid).and_then(|thread| thread.stack()).expect("a stack");
        for _ in 0..100 {
            with(|seen| {
                let suspended = seen.of(busy.tid, || ())?;
                assert!((stack.start..stack.end).contains(&suspended.sp));
                assert!(suspended.ip != 0 && suspended.code_len == CODE_BYTES);
                // From the stack pointer to the stack's end.
                let words = usize::try_from((stack.end - suspended.sp) / 8).expect("small");
                assert_eq!(seen.words().len(), words.min(WORDS_MAX));
                Some(())
            })
            .expect("the thread was not seen");
            busy.wait_for_more();
        }
    }

    #[test]
    fn what_is_noted_is_noted_while_it_stands_still() {
        let busy = Busy::start();
        for _ in 0..20 {
            busy.wait_for_more();
            let counts = [AtomicU64::new(0), AtomicU64::new(1)];
            let note = || {
                let until_ns = clock::monotonic_ns() + 1_000_000;
                counts[0].store(busy.count.load(Ordering::Relaxed), Ordering::Relaxed);
                while clock::monotonic_ns() < until_ns {}
                counts[1].store(busy.count.load(Ordering::Relaxed), Ordering::Relaxed);
            };
            with(|seen| seen.of(busy.tid, note)).expect("the thread was not seen");
            let [before, after] = counts.map(AtomicU64::into_inner);
            assert_eq!(before, after, "it went on meanwhile");
        }
    }

    #[test]
    fn what_has_ended_and_oneself_are_not_seen() {
        let tid = std::thread::spawn(thread::own_id).join().expect("an id");
        assert!(with(|seen| seen.of(tid, || ())).is_none());
        assert!(with(|seen| seen.of(thread::own_id(), || ())).is_none());
    }

    #[test]
    fn a_thread_that_stays_suspended_is_let_go() {
        let busy = Busy::start();
        let handle = handles::of(busy.tid).expect("a handle");
        // Nobody else suspends meanwhile.
        with(|_| {
            // SAFETY: an open handle with the right to it.
            assert_ne!(unsafe { api::SuspendThread(handle.raw()) }, u32::MAX);
            SUSPENDED.store(handle.raw(), Ordering::Release);
            let before = look_after((0, 0));
            assert_eq!(before.0, handle.raw(), "one look is no reason");
            assert_eq!(SUSPENDED.load(Ordering::Acquire), handle.raw());
            // Another suspension since then: not the one that was seen.
            SUSPENSIONS.fetch_add(1, Ordering::Relaxed);
            let before = look_after(before);
            assert_eq!(SUSPENDED.load(Ordering::Acquire), handle.raw());
            look_after(before);
            assert_eq!(SUSPENDED.load(Ordering::Acquire), 0, "it was taken");
            Some(())
        });
        busy.wait_for_more();
    }

    #[test]
    fn a_thread_behind_a_system_call_is_told_by_its_code() {
        assert!(is_call(&[0, 0, 0, 0, 0, 0, 0x0f, 0x05]));
        assert!(is_call(&[0, 0, 0, 0, 0, 0, 0xcd, 0x2e]));
        assert!(is_call(&[0, 0xff, 0x14, 0x25, 0x00, 0x10, 0xfe, 0x7f]));
        assert!(!is_call(&[0x0f, 0x05, 0, 0, 0, 0, 0, 0]) && !is_call(&[0; 8]));
    }

    #[test]
    fn who_waits_stands_behind_a_system_call() {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            tell.send(thread::own_id()).expect("somebody listens");
            let _closed = ended.recv();
        });
        let tid = told.recv().expect("an id");
        // Until it has got there.
        while with(|seen| seen.of(tid, || ()).map(|_| seen.is_in_call())) != Some(true) {
            std::thread::yield_now();
        }
        drop(end);
        waiting.join().expect("it ends");
    }
}
