//! One sample as a handler writes it.

use model::EndReason;
use model::limits::STACK_COPY_WORDS;

use crate::arch::Registers;
use crate::context::SpanContext;
use crate::frames::Frames;
use crate::record::ThreadRef;
use crate::walk::{Bounds, Guess, Start};

/// A copy of a part of a stack, from the first frame that had to be guessed on, so that it can be
/// walked again once its methods are known.
#[repr(C)]
#[derive(Debug)]
pub struct StackCopy {
    /// The first guess.
    pub guess: Guess,
    /// The thread's stack's end: one past its last address.
    pub stack_end: u64,
    /// How many words from the stack pointer on were copied; 0 if none.
    pub length: u32,
    /// The words.
    pub words: [u64; STACK_COPY_WORDS],
}

impl Default for StackCopy {
    fn default() -> Self {
        Self {
            guess: Guess {
                start: Start { registers: Registers { ip: 0, sp: 0, bp: None }, exact: false },
                frames_before: 0,
                last_before: 0,
            },
            stack_end: 0,
            length: 0,
            words: [0; STACK_COPY_WORDS],
        }
    }
}

impl StackCopy {
    /// Copies a stack from the guessed frame on, as far as `read` gives it and there is room.
    ///
    /// # Signal safety
    /// Calls nothing but `read`.
    pub fn take(&mut self, guess: Guess, bounds: Bounds, mut read: impl FnMut(u64) -> Option<u64>) {
        self.guess = guess;
        let sp = guess.start.registers.sp;
        self.stack_end = bounds.high;
        self.length = 0;
        // A stack pointer outside the bounds, or not aligned, has nothing to copy.
        if sp < bounds.low || sp & 7 != 0 {
            return;
        }
        let places = (sp..bounds.high.saturating_sub(7)).step_by(8);
        for (word, place) in self.words.iter_mut().zip(places) {
            let Some(value) = read(place) else { return };
            *word = value;
            self.length = self.length.saturating_add(1);
        }
    }

    /// The eight bytes that stood at an address, if they were copied.
    #[must_use]
    pub fn read(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.guess.start.registers.sp)?;
        let index = usize::try_from(offset.checked_div(8)?).ok()?;
        let copied = self.words.get(..self.length as usize)?;
        if offset & 7 == 0 { copied.get(index).copied() } else { None }
    }
}

/// What a handler saw of its own thread.
#[repr(C)]
pub struct Sample {
    /// Whose.
    pub thread: ThreadRef,
    /// The kernel's thread id.
    pub tid: u32,
    /// Timer expirations that the kernel merged into this signal (beyond the first).
    pub overruns: u32,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Processor time since the thread's last kept sample, in nanoseconds.
    pub cpu_ns: u64,
    /// Which request it worked for.
    pub context: SpanContext,
    /// Why the walk ended.
    pub end: EndReason,
    /// Whether frames were walked by a guess, since no rule was known yet; `copy` holds then.
    pub guessed: bool,
    /// The stack.
    pub frames: Frames,
    /// A part of the stack's memory, if `guessed`.
    pub copy: StackCopy,
    /// A second opinion.
    #[cfg(feature = "oracle")]
    pub oracle: crate::oracle::Answer,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            thread: ThreadRef { index: 0, generation: 0 },
            tid: 0,
            overruns: 0,
            time_ns: 0,
            cpu_ns: 0,
            context: SpanContext::default(),
            end: EndReason::Root,
            guessed: false,
            frames: Frames::default(),
            copy: StackCopy::default(),
            #[cfg(feature = "oracle")]
            oracle: crate::oracle::Answer::default(),
        }
    }
}
