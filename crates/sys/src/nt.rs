//! What Windows' kernel says of a thread, as bytes: decoded here, on any system, so that it is
//! tested with data. The calls that give the bytes are behind a table of functions.
//!
//! The layout of `SYSTEM_THREAD_INFORMATION` is that of Windows 10 and 11 (and of all since XP): it
//! is not in Microsoft's headers as a whole, but in its symbols, and debuggers rely on it.

/// `ThreadSystemThreadInformation`, the class of `NtQueryInformationThread` that tells all of one
/// thread.
pub const THREAD_CLASS: u32 = 40;
/// The kernel knows no such class.
pub const INVALID_CLASS: i32 = 0xc000_0003_u32.cast_signed();
/// The kernel knows the class and does not have it.
pub const NOT_IMPLEMENTED: i32 = 0xc000_0002_u32.cast_signed();

/// How large a pointer is in what the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A 32-bit process.
    Bits32,
    /// A 64-bit process.
    Bits64,
}

impl Layout {
    /// This process's.
    pub const OWN: Self = if size_of::<usize>() == 8 { Self::Bits64 } else { Self::Bits32 };

    /// Bytes of an answer.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bits32 => 64,
            Self::Bits64 => 80,
        }
    }

    /// Offsets of the thread's id, its count of switches, its state and what it waits for.
    const fn offsets(self) -> [usize; 4] {
        match self {
            Self::Bits32 => [36, 48, 52, 56],
            Self::Bits64 => [48, 64, 68, 72],
        }
    }
}

/// What a thread does, as the scheduler sees it (`KTHREAD_STATE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has a processor.
    Running,
    /// It has been chosen for a processor, or is about to be put in line for one.
    Starting,
    /// It is in line for a processor.
    Ready,
    /// It waits.
    Waiting,
    /// It begins, ends, or is swapped out.
    Other,
}

impl State {
    fn of(number: u32) -> Self {
        match number {
            2 => Self::Running,
            // Standby; deferred ready.
            3 | 7 => Self::Starting,
            1 => Self::Ready,
            5 => Self::Waiting,
            _ => Self::Other,
        }
    }
}

/// What the kernel says of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// Time in the kernel, in steps of 100 ns.
    pub kernel_steps: u64,
    /// Time outside of it, in steps of 100 ns.
    pub user_steps: u64,
    /// When it was made, in steps of 100 ns since 1601.
    pub created_steps: u64,
    /// How often it was given a processor.
    pub switches: u32,
    /// What it does.
    pub state: State,
    /// What it waits for (`KWAIT_REASON`); of no meaning if it does not wait.
    pub wait_reason: u32,
}

impl Thread {
    /// Decodes an answer; `None` if it is too short.
    #[must_use]
    pub fn parse(bytes: &[u8], layout: Layout) -> Option<Self> {
        let bytes = bytes.get(..layout.bytes())?;
        let [tid, switches, state, wait_reason] = layout.offsets();
        let word = |at: usize| {
            let four = bytes.get(at..at.checked_add(4)?)?;
            Some(u32::from_le_bytes(four.try_into().ok()?))
        };
        let long = |at: usize| {
            let eight = bytes.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(eight.try_into().ok()?))
        };
        Some(Self {
            tid: word(tid)?,
            kernel_steps: long(0)?,
            user_steps: long(8)?,
            created_steps: long(16)?,
            switches: word(switches)?,
            state: State::of(word(state)?),
            wait_reason: word(wait_reason)?,
        })
    }
}

/// The calls by which a thread's state is asked for: the kernel's, or a test's.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// `NtQueryInformationThread`: handle, class, room; gives the status and how much it wrote.
    pub query_thread: fn(usize, u32, &mut [u8]) -> (i32, usize),
}

/// Asks for threads' states, until the kernel has said that it doesn't tell.
#[derive(Debug)]
pub struct States {
    calls: Calls,
    layout: Layout,
    refused: std::sync::atomic::AtomicBool,
}

impl States {
    /// By those calls, whose answers have that layout.
    #[must_use]
    pub const fn new(calls: Calls, layout: Layout) -> Self {
        Self { calls, layout, refused: std::sync::atomic::AtomicBool::new(false) }
    }

    /// What the kernel says of the thread of a handle; `None` if it says nothing.
    pub fn of(&self, handle: usize) -> Option<Thread> {
        use std::sync::atomic::Ordering;
        if self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let mut room = [0; Layout::Bits64.bytes()];
        let room = room.get_mut(..self.layout.bytes())?;
        let (status, written) = (self.calls.query_thread)(handle, THREAD_CLASS, room);
        if matches!(status, INVALID_CLASS | NOT_IMPLEMENTED) {
            self.refused.store(true, Ordering::Relaxed);
        }
        if status < 0 { None } else { Thread::parse(room.get(..written)?, self.layout) }
    }

    /// Whether the kernel tells, as far as is known.
    #[must_use]
    pub fn are_told(&self) -> bool {
        !self.refused.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread of a 64-bit process, as the kernel lays it out.
    fn answer_64(state: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(156_250_u64.to_le_bytes());
        bytes.extend(468_750_u64.to_le_bytes());
        bytes.extend(133_000_000_000_000_000_u64.to_le_bytes());
        // Wait time, and room up to the pointer.
        bytes.extend(7_u32.to_le_bytes());
        bytes.extend([0xcc; 4]);
        bytes.extend(0x7ff8_1234_5678_u64.to_le_bytes());
        bytes.extend(4242_u64.to_le_bytes());
        bytes.extend(1337_u64.to_le_bytes());
        bytes.extend(8_i32.to_le_bytes());
        bytes.extend(8_i32.to_le_bytes());
        bytes.extend(99_u32.to_le_bytes());
        bytes.extend(state.to_le_bytes());
        bytes.extend(6_u32.to_le_bytes());
        bytes.extend([0xcc; 4]);
        bytes
    }

    /// The same of a 32-bit process.
    fn answer_32(state: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(156_250_u64.to_le_bytes());
        bytes.extend(468_750_u64.to_le_bytes());
        bytes.extend(133_000_000_000_000_000_u64.to_le_bytes());
        bytes.extend(7_u32.to_le_bytes());
        bytes.extend(0x7712_3456_u32.to_le_bytes());
        bytes.extend(4242_u32.to_le_bytes());
        bytes.extend(1337_u32.to_le_bytes());
        bytes.extend(8_i32.to_le_bytes());
        bytes.extend(8_i32.to_le_bytes());
        bytes.extend(99_u32.to_le_bytes());
        bytes.extend(state.to_le_bytes());
        bytes.extend(6_u32.to_le_bytes());
        bytes.extend([0xcc; 4]);
        bytes
    }

    #[test]
    fn both_layouts_say_the_same() {
        for (number, state) in [
            (0, State::Other),
            (1, State::Ready),
            (2, State::Running),
            (3, State::Starting),
            (4, State::Other),
            (5, State::Waiting),
            (6, State::Other),
            (7, State::Starting),
            (8, State::Other),
            (99, State::Other),
        ] {
            let expected = Thread {
                tid: 1337,
                kernel_steps: 156_250,
                user_steps: 468_750,
                created_steps: 133_000_000_000_000_000,
                switches: 99,
                state,
                wait_reason: 6,
            };
            let long = answer_64(number);
            let short = answer_32(number);
            assert_eq!((long.len(), short.len()), (80, 64));
            assert_eq!(Thread::parse(&long, Layout::Bits64), Some(expected));
            assert_eq!(Thread::parse(&short, Layout::Bits32), Some(expected));
        }
    }

    #[test]
    fn what_is_too_short_says_nothing() {
        let long = answer_64(2);
        for length in 0..long.len() {
            assert_eq!(Thread::parse(&long[..length], Layout::Bits64), None);
        }
        for length in 0..64 {
            assert_eq!(Thread::parse(&answer_32(2)[..length], Layout::Bits32), None);
        }
    }

    fn tells(handle: usize, class: u32, room: &mut [u8]) -> (i32, usize) {
        assert_eq!((class, room.len()), (40, 80));
        room.copy_from_slice(&answer_64(u32::try_from(handle).expect("small")));
        (0, 80)
    }

    #[test]
    fn states_are_asked_for_by_the_table() {
        let states = States::new(Calls { query_thread: tells }, Layout::Bits64);
        assert_eq!(states.of(2).map(|thread| thread.state), Some(State::Running));
        assert_eq!(states.of(5).map(|thread| thread.state), Some(State::Waiting));
        assert!(states.are_told());
    }

    #[test]
    fn a_kernel_that_does_not_tell_is_asked_once_and_one_that_fails_again() {
        use std::sync::atomic::{AtomicU32, Ordering};
        static ASKED: AtomicU32 = AtomicU32::new(0);
        fn answer(status: u32) -> (i32, usize) {
            ASKED.fetch_add(1, Ordering::Relaxed);
            (status.cast_signed(), 0)
        }
        let no_class = |_: usize, _: u32, _: &mut [u8]| answer(0xc000_0003);
        let not_there = |_: usize, _: u32, _: &mut [u8]| answer(0xc000_0002);
        // An invalid handle: that thread's trouble alone.
        let no_thread = |_: usize, _: u32, _: &mut [u8]| answer(0xc000_0008);
        // It says that all is well and writes nothing.
        let silent = |_: usize, _: u32, _: &mut [u8]| answer(0);
        let calls: [(Calls, u32, bool); 4] = [
            (Calls { query_thread: no_class }, 1, false),
            (Calls { query_thread: not_there }, 1, false),
            (Calls { query_thread: no_thread }, 3, true),
            (Calls { query_thread: silent }, 3, true),
        ];
        for (calls, times, told) in calls {
            ASKED.store(0, Ordering::Relaxed);
            let states = States::new(calls, Layout::OWN);
            for _ in 0..3 {
                assert_eq!(states.of(1), None);
            }
            assert_eq!((ASKED.load(Ordering::Relaxed), states.are_told()), (times, told));
        }
    }
}
