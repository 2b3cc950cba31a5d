//! The stack walk: registers, two tables and a closure that reads stack memory; nothing else.
//!
//! The same code walks the handler's own stack, another thread's stack from outside, and an array
//! in a test. It loops at most once per frame and every frame must lie above the one before, so it
//! ends; every computed address is checked before it is read.

use model::EndReason;
use model::limits::FRAMES_MAX;

use crate::arch::{Registers, registers_at};
use crate::epilogue::epilogue;
use crate::frames::Frames;
use crate::rule::{Cfa, Rule, SavedBp};
use crate::table::{Found, Table};

/// A walk gives up after so many frames even if each makes progress: 16 bytes a frame on an 8 MiB
/// stack would be half a million, more than a handler may take.
const STEPS_MAX: usize = FRAMES_MAX.saturating_mul(8);
/// Words above the stack pointer that are searched for a frame, where a managed frame without a
/// rule is walked from outside and the frame pointer is not known.
const SCAN_WORDS_MAX: u64 = 64;

/// The unwind tables of a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables<'a> {
    /// Of the ELF modules.
    pub native: Table<'a>,
    /// Of the runtime's methods, as far as they are known.
    pub managed: Table<'a>,
    /// Where the runtime's return hijacker begins; 0 if it was not found. A return address of that
    /// value stands for another, which only the runtime knows.
    pub hijack: u64,
}

/// How a walk went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Why it ended.
    pub end: EndReason,
    /// Frames whose caller was found by a guess.
    pub guessed: u32,
}

/// Where a frame's caller is.
struct Caller {
    registers: Registers,
    /// The caller was interrupted, not calling: its address is exact.
    exact: bool,
}

/// What is known of a stack's limits: addresses from `low` to `high` may be read.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// First address.
    pub low: u64,
    /// One past the last.
    pub high: u64,
}

/// Walks a stack.
///
/// `start` are the registers of the innermost frame, `leaf_code` up to 32 bytes of code from its
/// instruction pointer on, where that may be read (it decides whether the frame is being torn
/// down); `read` gives the eight bytes at an address inside `bounds`.
///
/// # Signal safety
/// Calls nothing but `read`; no allocation, no panic path.
pub fn walk(
    tables: &Tables<'_>,
    bounds: Bounds,
    start: Registers,
    leaf_code: &[u8],
    read: impl FnMut(u64) -> Option<u64>,
    frames: &mut Frames,
) -> Walked {
    let mut walker = Walker { tables, bounds, read, guessed: 0 };
    let end = walker.run(start, leaf_code, frames);
    Walked { end, guessed: walker.guessed }
}

struct Walker<'a, R> {
    tables: &'a Tables<'a>,
    bounds: Bounds,
    read: R,
    guessed: u32,
}

impl<R: FnMut(u64) -> Option<u64>> Walker<'_, R> {
    fn run(&mut self, start: Registers, leaf_code: &[u8], frames: &mut Frames) -> EndReason {
        let mut registers = start;
        let mut exact = true;
        let mut code = leaf_code;
        for _ in 0..STEPS_MAX {
            let lookup = if exact { registers.ip } else { registers.ip.wrapping_sub(1) };
            frames.push(lookup);
            let caller = match self.caller(lookup, registers, code) {
                Ok(caller) => caller,
                Err(EndReason::Root) if frames.truncated() => return EndReason::Truncated,
                Err(end) => return end,
            };
            if caller.registers.sp <= registers.sp {
                return EndReason::NoProgress;
            }
            registers = caller.registers;
            exact = caller.exact;
            code = &[];
            if registers.ip == 0 {
                let whole = !frames.truncated();
                return if whole { EndReason::Root } else { EndReason::Truncated };
            }
        }
        EndReason::Truncated
    }

    /// The registers in the caller of the frame at `lookup`.
    fn caller(&mut self, lookup: u64, at: Registers, code: &[u8]) -> Result<Caller, EndReason> {
        if at.ip == self.tables.hijack && lookup != at.ip {
            return self.guess(at, &[]);
        }
        match self.tables.native.find(lookup) {
            Found::Rule(rule) => return self.native(rule, at),
            // Hand-written helpers of the runtime, such as its write barriers, have no unwind data.
            // They push nothing, so where such code was interrupted, its caller is on top.
            Found::NoRule if lookup == at.ip => return self.helper(at),
            Found::NoRule => return Err(EndReason::NoRule),
            Found::Outside => {}
        }
        match (epilogue(code), self.tables.managed.find(lookup)) {
            (Some(rule), _) | (None, Found::Rule(rule)) => self.apply(rule, at),
            (None, Found::NoRule | Found::Outside) => self.guess(at, code),
        }
    }

    /// A native frame. Where its frame pointer is not known and it has one, its stack pointer is
    /// only believed if what lies at that distance looks like the end of a frame: it doesn't if the
    /// function has moved its stack pointer since its prologue.
    fn native(&mut self, rule: Rule, at: Registers) -> Result<Caller, EndReason> {
        match rule.cfa {
            Cfa::BpOrSp { sp_offset, .. } if at.bp.is_none() => {
                let cfa = offset_by(at.sp, sp_offset);
                match self.frame_end(cfa.wrapping_sub(16), Self::may_be_code) {
                    Some(caller) => Ok(caller),
                    None => self.scan(at.sp),
                }
            }
            _ => self.apply(rule, at),
        }
    }

    /// Interrupted native code without unwind data: only believed if a return address is on top.
    fn helper(&mut self, at: Registers) -> Result<Caller, EndReason> {
        let above = self.load(at.sp).ok_or(EndReason::OutsideStack)?;
        if self.is_code(above.wrapping_sub(1)) {
            self.apply(Rule::ENTRY, at)
        } else {
            Err(EndReason::NoRule)
        }
    }

    /// A managed frame that has no rule yet: most methods keep a frame pointer.
    fn guess(&mut self, at: Registers, code: &[u8]) -> Result<Caller, EndReason> {
        const PUSH_RBP: u8 = 0x55;
        if at.bp.is_none() {
            return self.scan(at.sp);
        }
        self.guessed = self.guessed.saturating_add(1);
        let entered = code.first() == Some(&PUSH_RBP);
        self.apply(if entered { Rule::ENTRY } else { Rule::FRAME }, at)
    }

    /// The nearest end of a frame above `sp`: a guess, since it may be left over from an earlier
    /// call.
    fn scan(&mut self, sp: u64) -> Result<Caller, EndReason> {
        self.guessed = self.guessed.saturating_add(1);
        for word in 0..SCAN_WORDS_MAX {
            if let Some(caller) =
                self.frame_end(sp.wrapping_add(word.wrapping_mul(8)), Self::is_code)
            {
                return Ok(caller);
            }
        }
        Err(EndReason::NoFramePointer)
    }

    /// The caller, if at `place` lie a saved frame pointer, which points further up the stack, and
    /// a return address, which `is_code` accepts.
    fn frame_end(&mut self, place: u64, is_code: impl Fn(&Self, u64) -> bool) -> Option<Caller> {
        let bp = self.load(place)?;
        let ip = self.load(place.wrapping_add(8))?;
        let up = bp > place.wrapping_add(8) && bp < self.bounds.high && bp & 7 == 0;
        (up && is_code(self, ip.wrapping_sub(1))).then_some(Caller {
            registers: Registers { ip, sp: place.wrapping_add(16), bp: Some(bp) },
            exact: false,
        })
    }

    /// Known code, or what could be a managed method that is not known yet.
    fn may_be_code(&self, address: u64) -> bool {
        /// The kernel maps nothing below.
        const LOWEST: u64 = 0x1_0000;
        let in_stack = address >= self.bounds.low && address < self.bounds.high;
        let no_module = self.tables.native.region(address).is_none();
        self.is_code(address) || (no_module && !in_stack && address >= LOWEST)
    }

    fn is_code(&self, address: u64) -> bool {
        let native = matches!(self.tables.native.find(address), Found::Rule(_));
        native || self.tables.managed.region(address).is_some()
    }

    fn apply(&mut self, rule: Rule, at: Registers) -> Result<Caller, EndReason> {
        let cfa = match rule.cfa {
            Cfa::Sp(offset) => offset_by(at.sp, offset),
            Cfa::Bp(offset) => match at.bp {
                Some(bp) => offset_by(bp, offset),
                None => return self.scan(at.sp),
            },
            Cfa::BpOrSp { bp_offset, sp_offset } => match at.bp {
                Some(bp) => offset_by(bp, bp_offset),
                None => offset_by(at.sp, sp_offset),
            },
            Cfa::DerefBp(offset) => {
                let place = offset_by(at.bp.ok_or(EndReason::NoFramePointer)?, offset);
                self.load(place).ok_or(EndReason::OutsideStack)?
            }
            Cfa::Plt { pushed_from } => {
                let pushed = (at.ip & 15) >= u64::from(pushed_from);
                at.sp.wrapping_add(if pushed { 16 } else { 8 })
            }
            Cfa::SignalFrame => return self.interrupted(at),
            Cfa::Osr { tier0_bp_offset } => return self.replaced(at, tier0_bp_offset),
            Cfa::End => return Err(EndReason::Root),
            Cfa::Unsupported => return Err(EndReason::Unsupported),
        };
        let bp = match rule.bp {
            SavedBp::Same => at.bp,
            SavedBp::AtCfa(offset) => self.load(offset_by(cfa, offset)),
            SavedBp::Unknown => None,
        };
        self.returned(cfa, bp)
    }

    /// The caller whose frame begins at `cfa`; its return address lies just below.
    fn returned(&mut self, cfa: u64, bp: Option<u64>) -> Result<Caller, EndReason> {
        let ip = self.load(cfa.wrapping_sub(8)).ok_or(EndReason::OutsideStack)?;
        Ok(Caller { registers: Registers { ip, sp: cfa, bp }, exact: false })
    }

    /// The frame that a signal interrupted.
    fn interrupted(&mut self, at: Registers) -> Result<Caller, EndReason> {
        let registers =
            registers_at(at.sp, |place| self.load(place)).ok_or(EndReason::OutsideStack)?;
        Ok(Caller { registers, exact: true })
    }

    /// The caller of an on-stack-replacement method: beyond the frame of the version it replaced.
    fn replaced(&mut self, at: Registers, tier0_bp_offset: i32) -> Result<Caller, EndReason> {
        let bp = at.bp.ok_or(EndReason::NoFramePointer)?;
        let tier0_saved = offset_by(bp.wrapping_add(16), tier0_bp_offset);
        let saved = self.load(bp).ok_or(EndReason::OutsideStack)?;
        if self.load(tier0_saved) != Some(saved) {
            return Err(EndReason::Unsupported);
        }
        self.returned(tier0_saved.wrapping_add(16), Some(saved))
    }

    /// Eight bytes of the stack, if they lie in it.
    fn load(&mut self, address: u64) -> Option<u64> {
        let end = address.checked_add(8)?;
        let inside = address >= self.bounds.low && end <= self.bounds.high && address & 7 == 0;
        if inside { (self.read)(address) } else { None }
    }
}

fn offset_by(base: u64, offset: i32) -> u64 {
    base.wrapping_add_signed(i64::from(offset))
}
