//! The stack walk: registers, two tables and a closure that reads stack memory; nothing else.
//!
//! The same code walks the handler's own stack, another thread's stack from outside, and an array
//! in a test. It loops at most once per frame and every frame must lie above the one before, so it
//! ends; every computed address is checked before it is read.

use model::EndReason;

use crate::arch::{EPILOGUES_HAVE_RULES, Registers, registers_at};
use crate::epilogue::epilogue;
use crate::frames::Frames;
use crate::rule::{Cfa, Rule, SavedBp};
use crate::table::Found;
use crate::tables::{Code, Tables};

/// A walk gives up after so many frames even if each makes progress: 16 bytes a frame on an 8 MiB
/// stack would be half a million, more than a handler may take.
const STEPS_MAX: u32 = 4096;
/// Words above the stack pointer that are searched for a frame, where a managed frame without a
/// rule is walked from outside and the frame pointer is not known.
const SCAN_WORDS_MAX: u64 = 64;

/// A frame to start a walk from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its registers.
    pub registers: Registers,
    /// Whether the frame was interrupted, so that its address is exact; else it made a call, and
    /// its address is the one that the call returns to.
    pub exact: bool,
}

/// The first guess of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The frame whose caller was guessed.
    pub start: Start,
    /// Frames before it, towards the leaf.
    pub frames_before: u32,
    /// Frames before the last guess: from there to the root, the walk is sure.
    pub last_before: u32,
}

/// How a walk went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Why it ended.
    pub end: EndReason,
    /// The first guess, if there was any.
    pub guess: Option<Guess>,
}

/// What a native function's prologue does after it has set its frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prologue {
    /// Where the body begins.
    pub body: u64,
    /// From the stack pointer up to the CFA, bytes, in the body.
    pub sp_offset: i32,
}

/// What is known of a stack's limits: addresses from `low` to `high` may be read.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// First address.
    pub low: u64,
    /// One past the last.
    pub high: u64,
    /// If this is the alternate stack of a signal handler: the thread's own, from and to, which is
    /// gone on with at the signal's frame.
    pub left: Option<(u64, u64)>,
}

impl Bounds {
    /// Of a stack from `low` to `high` whose innermost frame has that stack pointer. What lies
    /// below it is nobody's, but for the red zone: 128 bytes that are a function's although it has
    /// not moved its stack pointer that far, or no longer has (System V ABI for x86-64, 3.2.2).
    /// Where a register has just been popped, unwind data still says that it lies there.
    ///
    /// # Signal safety
    /// Computes only.
    #[must_use]
    pub fn of_leaf(sp: u64, low: u64, high: u64) -> Self {
        const RED_ZONE_BYTES: u64 = 128;
        Self { low: sp.saturating_sub(RED_ZONE_BYTES).max(low), high, left: None }
    }

    /// Those of the stack that a frame with this stack pointer is on. The red zone of a stack that
    /// was left is not known to be mapped.
    ///
    /// # Signal safety
    /// Computes only.
    #[must_use]
    pub fn around(self, sp: u64) -> Self {
        match self.left {
            Some((low, high)) if sp >= low && sp < high => Self { low: sp, high, left: None },
            _ => self,
        }
    }
}

/// Walks a stack.
///
/// `start` is the innermost frame, `leaf_code` up to 32 bytes of code from its instruction pointer
/// on, where it is exact and that may be read (it decides whether the frame is being torn down);
/// `read` gives the eight bytes at an address inside `bounds`; `prologue` reads the code from where
/// a function has just set its frame pointer, where that may be done ([`no_prologue`] if not).
///
/// # Signal safety
/// Calls nothing but `read` and `prologue`; no allocation, no panic path.
pub fn walk(
    tables: &Tables<'_>,
    bounds: Bounds,
    start: Start,
    leaf_code: &[u8],
    read: impl FnMut(u64) -> Option<u64>,
    prologue: impl Fn(u64) -> Option<Prologue>,
    frames: &mut Frames,
) -> Walked {
    let mut walker =
        Walker { tables, bounds, read, prologue, guessed: false, switched: false, popped: false };
    walker.run(start, leaf_code, frames)
}

/// For walks that may not read code: those of handlers, which begin with a frame pointer.
///
/// # Signal safety
/// Does nothing.
#[must_use]
pub fn no_prologue(_set_at: u64) -> Option<Prologue> {
    None
}

struct Walker<'a, R, P> {
    tables: &'a Tables<'a>,
    bounds: Bounds,
    read: R,
    prologue: P,
    /// Whether the last caller was found by a guess.
    guessed: bool,
    /// Whether the last caller is on the stack that was left.
    switched: bool,
    /// Whether the last caller's frame begins where its callee, which has left nothing, ends.
    popped: bool,
}

impl<R, P> Walker<'_, R, P>
where
    R: FnMut(u64) -> Option<u64>,
    P: Fn(u64) -> Option<Prologue>,
{
    fn run(&mut self, start: Start, leaf_code: &[u8], frames: &mut Frames) -> Walked {
        let mut at = start;
        let mut code = leaf_code;
        let mut guess = None;
        for frames_before in 0..STEPS_MAX {
            let ip = at.registers.ip;
            let lookup = if at.exact { ip } else { ip.wrapping_sub(1) };
            frames.push(lookup);
            (self.guessed, self.switched, self.popped) = (false, false, false);
            let caller = self.caller(lookup, at.registers, code);
            if self.guessed {
                let first = Guess { start: at, frames_before, last_before: frames_before };
                guess = Some(Guess { last_before: frames_before, ..guess.unwrap_or(first) });
            }
            let end = match caller {
                Err(end) => Some(end),
                Ok(caller) if !self.is_above(caller, at) => Some(EndReason::NoProgress),
                Ok(caller) if caller.registers.ip == 0 => Some(EndReason::Root),
                Ok(caller) => {
                    at = caller;
                    None
                }
            };
            code = &[];
            match end {
                Some(EndReason::Root) if frames.truncated() => {
                    return Walked { end: EndReason::Truncated, guess };
                }
                Some(end) => return Walked { end, guess },
                None => {}
            }
        }
        Walked { end: EndReason::Truncated, guess }
    }

    /// Whether a caller's frame lies above a frame.
    fn is_above(&self, caller: Start, at: Start) -> bool {
        let (above, sp) = (caller.registers.sp, at.registers.sp);
        // Only the leaf can have nothing left on the stack, or there could be no end of such.
        let is_emptied = self.popped && at.exact;
        self.switched || above > sp || (is_emptied && above == sp)
    }

    /// The registers in the caller of the frame at `lookup`.
    fn caller(&mut self, lookup: u64, at: Registers, code: &[u8]) -> Result<Start, EndReason> {
        if at.ip == self.tables.hijack && lookup != at.ip {
            return self.guess(at, &[]);
        }
        match self.tables.find(lookup) {
            Code::Native(rule) if EPILOGUES_HAVE_RULES => self.native(rule, lookup, at),
            Code::Native(rule) => match epilogue(code) {
                Some(rule) => self.apply(rule, at),
                None => self.native(rule, lookup, at),
            },
            // Hand-written helpers of the runtime, such as its write barriers, have no unwind data.
            // They push nothing, so where such code was interrupted, its caller is on top.
            Code::NativeGap if lookup == at.ip => self.helper(at),
            Code::NativeGap => Err(EndReason::NoRule),
            Code::Managed(rule) => self.apply(epilogue(code).unwrap_or(rule), at),
            Code::Unknown => match epilogue(code) {
                Some(rule) => self.apply(rule, at),
                None => self.guess(at, code),
            },
        }
    }

    /// A native frame. Where its frame pointer is not known and it has one, its stack pointer is
    /// only believed if what lies at that distance looks like the end of a frame: it doesn't if the
    /// function has moved its stack pointer since its prologue.
    fn native(&mut self, rule: Rule, lookup: u64, at: Registers) -> Result<Start, EndReason> {
        if at.bp.is_some() {
            return self.apply(rule, at);
        }
        let sp_offset = match rule {
            Rule { cfa: Cfa::BpOrSp { sp_offset, .. }, .. } => Some(sp_offset),
            Rule::FRAME | Rule::FRAME_AGAIN => self.sp_offset(lookup),
            _ => return self.apply(rule, at),
        };
        let place = sp_offset.map(|offset| offset_by(at.sp, offset).wrapping_sub(16));
        match place.and_then(|place| self.frame_end(place, Self::may_be_code)) {
            Some(caller) => Ok(caller),
            None => self.scan(at.sp),
        }
    }

    /// From the stack pointer up to the CFA in the body of a function with a frame pointer, bytes.
    fn sp_offset(&self, lookup: u64) -> Option<i32> {
        let set_at = self.tables.native.frame_set_at(lookup)?;
        let prologue = (self.prologue)(set_at)?;
        (lookup >= prologue.body).then_some(prologue.sp_offset)
    }

    /// Interrupted native code without unwind data: only believed if a return address is on top.
    fn helper(&mut self, at: Registers) -> Result<Start, EndReason> {
        let above = self.load(at.sp).ok_or(EndReason::OutsideStack)?;
        if self.is_code(above.wrapping_sub(1)) {
            self.apply(Rule::ENTRY, at)
        } else {
            Err(EndReason::NoRule)
        }
    }

    /// A managed frame that has no rule yet: most methods keep a frame pointer.
    fn guess(&mut self, at: Registers, code: &[u8]) -> Result<Start, EndReason> {
        const PUSH_RBP: u8 = 0x55;
        if at.bp.is_none() {
            return self.scan(at.sp);
        }
        self.guessed = true;
        let entered = code.first() == Some(&PUSH_RBP);
        self.apply(if entered { Rule::ENTRY } else { Rule::FRAME }, at)
    }

    /// The nearest end of a frame above `sp`: a guess, since it may be left over from an earlier
    /// call.
    fn scan(&mut self, sp: u64) -> Result<Start, EndReason> {
        self.guessed = true;
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
    fn frame_end(&mut self, place: u64, is_code: impl Fn(&Self, u64) -> bool) -> Option<Start> {
        let bp = self.load(place)?;
        let ip = self.load(place.wrapping_add(8))?;
        let up = bp > place.wrapping_add(8) && bp < self.bounds.high && bp & 7 == 0;
        (up && is_code(self, ip.wrapping_sub(1))).then_some(Start {
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

    fn apply(&mut self, rule: Rule, at: Registers) -> Result<Start, EndReason> {
        let cfa = match rule.cfa {
            Cfa::Sp(offset) => offset_by(at.sp, offset),
            Cfa::Bp(offset) | Cfa::BpAgain(offset) => match at.bp {
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
            Cfa::Faulted { sp_offset, ip_at } => {
                return self.faulted(at, sp_offset, ip_at, rule.bp);
            }
            Cfa::Popped => return self.popped(at),
            Cfa::SignalFrame => return self.interrupted(at),
            Cfa::Osr { tier0_bp_offset } => return self.replaced(at, tier0_bp_offset),
            Cfa::End => return Err(EndReason::Root),
            Cfa::Unsupported => return Err(EndReason::Unsupported),
        };
        let bp = self.saved_bp(rule.bp, cfa, at);
        self.returned(cfa, bp)
    }

    fn saved_bp(&mut self, saved: SavedBp, cfa: u64, at: Registers) -> Option<u64> {
        match saved {
            SavedBp::Same => at.bp,
            SavedBp::AtCfa(offset) => self.load(offset_by(cfa, offset)),
            SavedBp::Unknown => None,
        }
    }

    /// The caller whose frame begins at `cfa`; its return address lies just below.
    fn returned(&mut self, cfa: u64, bp: Option<u64>) -> Result<Start, EndReason> {
        let ip = self.load(cfa.wrapping_sub(8)).ok_or(EndReason::OutsideStack)?;
        Ok(Start { registers: Registers { ip, sp: cfa, bp }, exact: false })
    }

    /// The frame that a signal interrupted.
    fn interrupted(&mut self, at: Registers) -> Result<Start, EndReason> {
        let registers =
            registers_at(at.sp, |place| self.load(place)).ok_or(EndReason::OutsideStack)?;
        let bounds = self.bounds.around(registers.sp);
        self.switched = self.bounds.left.is_some() && bounds.left.is_none();
        self.bounds = bounds;
        Ok(Start { registers, exact: true })
    }

    /// The frame whose fault is being handled.
    fn faulted(
        &mut self,
        at: Registers,
        sp_offset: i32,
        ip_at: i32,
        saved: SavedBp,
    ) -> Result<Start, EndReason> {
        let sp = offset_by(at.sp, sp_offset);
        let ip = self.load(offset_by(sp, ip_at)).ok_or(EndReason::OutsideStack)?;
        let bp = self.saved_bp(saved, sp, at);
        Ok(Start { registers: Registers { ip, sp, bp }, exact: true })
    }

    /// The caller of a function that has taken its return address off the stack.
    fn popped(&mut self, at: Registers) -> Result<Start, EndReason> {
        self.popped = true;
        let caller = self.returned(at.sp, at.bp)?;
        // Below the stack pointer may be anything.
        let is_code = self.is_code(caller.registers.ip.wrapping_sub(1));
        if is_code { Ok(caller) } else { Err(EndReason::Unsupported) }
    }

    /// The caller of an on-stack-replacement method: beyond the frame of the version it replaced.
    fn replaced(&mut self, at: Registers, tier0_bp_offset: i32) -> Result<Start, EndReason> {
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

#[cfg(test)]
mod tests;
