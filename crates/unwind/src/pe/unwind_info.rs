//! Windows' unwind data (`UNWIND_INFO`) turned into steps of rules.
//!
//! It tells what each instruction of a prologue does, from which follows what is on the stack
//! behind it. Of epilogues it tells nothing: the walker reads the leaf's code for them, see
//! `signal::epilogue`. A function may be in several parts, of which all but the first are chained
//! to the one before. Source: Microsoft, "x64 exception handling".

use model::limits::UNWIND_CHAIN_MAX;
use signal::rule::{Cfa, Rule, SavedBp};

use crate::bytes::Bytes;

/// Bytes of a `RUNTIME_FUNCTION`.
pub const FUNCTION_BYTES: usize = 12;
/// Bytes of an `UNWIND_INFO` at the most: its head, 255 codes of two bytes and one of room, and
/// what it is chained to.
pub const INFO_BYTES: usize = 4 + 256 * 2 + FUNCTION_BYTES;

/// The number of `rbp` among registers.
const RBP: u8 = 5;
/// The flag of data that is chained to another's.
const CHAINED: u8 = 4;

/// A function, or a part of one; offsets in its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// First byte.
    pub start: u32,
    /// One past the last.
    pub end: u32,
    /// Where its unwind data is.
    pub unwind: u32,
}

impl Function {
    /// Reads one; `None` if there is too little, or if it makes no sense.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = Bytes(bytes);
        let (start, end) = (bytes.u32(0)?, bytes.u32(4)?);
        (start < end).then_some(Self { start, end, unwind: bytes.u32(8)? })
    }
}

/// Why there are no steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// It can't be read, or ends too soon.
    Missing,
    /// Of a version, or with a code, that is not known.
    Unknown,
    /// It is chained to itself, or to too many.
    Chain,
}

/// From an offset in the function on, a rule holds.
pub type Step = (u32, Rule);

/// The steps of a function, from its first byte. `read` gives up to so many bytes at an offset in
/// the image; fewer where they end.
///
/// # Errors
/// Why there are none.
pub fn steps(
    function: Function,
    mut read: impl FnMut(u32, &mut [u8]) -> usize,
) -> Result<Vec<Step>, Bad> {
    let info = Info::at(function.unwind, &mut read)?;
    let mut frame = match info.chained {
        Some(other) => final_frame(other, &mut read)?,
        None => Frame::default(),
    };
    let base = info.base_depth(&frame);
    let mut steps = vec![(0, frame.rule())];
    for (offset, operation) in &info.operations {
        frame.apply(*operation, &info, base)?;
        let offset = u32::from(*offset);
        match steps.last_mut() {
            Some((last, rule)) if *last == offset => *rule = frame.rule(),
            _ => steps.push((offset, frame.rule())),
        }
    }
    Ok(steps)
}

/// What a function's whole prologue does.
fn final_frame(
    function: Function,
    read: &mut impl FnMut(u32, &mut [u8]) -> usize,
) -> Result<Frame, Bad> {
    let mut infos = Vec::new();
    let mut next = Some(function);
    while let Some(function) = next {
        if infos.len() >= UNWIND_CHAIN_MAX {
            return Err(Bad::Chain);
        }
        let info = Info::at(function.unwind, read)?;
        next = info.chained;
        infos.push(info);
    }
    let mut frame = Frame::default();
    for info in infos.iter().rev() {
        let base = info.base_depth(&frame);
        for (_, operation) in &info.operations {
            frame.apply(*operation, info, base)?;
        }
    }
    Ok(frame)
}

/// What one instruction of a prologue does, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// Pushes a register.
    Push(u8),
    /// Takes so many bytes.
    Allocate(u32),
    /// Makes the frame register point into the frame.
    SetFrame,
    /// Saves a register so many bytes above the frame's base.
    Save(u8, u32),
    /// Nothing that matters, such as saving a register of 16 bytes.
    Other,
    /// The system pushed what it interrupted.
    Machine,
}

/// An `UNWIND_INFO`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Info {
    frame_register: u8,
    /// From the stack pointer to the frame register, when that is set, in bytes.
    frame_offset: u32,
    /// In the order in which they are executed, each with the offset behind its instruction.
    operations: Vec<(u8, Operation)>,
    chained: Option<Function>,
}

impl Info {
    fn at(offset: u32, read: &mut impl FnMut(u32, &mut [u8]) -> usize) -> Result<Self, Bad> {
        let mut room = [0; INFO_BYTES];
        let length = read(offset, &mut room);
        Self::parse(room.get(..length).ok_or(Bad::Missing)?)
    }

    fn parse(bytes: &[u8]) -> Result<Self, Bad> {
        let bytes = Bytes(bytes);
        let head = |at| bytes.u8(at).ok_or(Bad::Missing);
        let (first, count, frame) = (head(0)?, usize::from(head(2)?), head(3)?);
        let (version, flags) = (first & 7, first >> 3);
        if !matches!(version, 1 | 2) {
            return Err(Bad::Unknown);
        }
        let codes = bytes.slice(4, count.saturating_mul(2)).ok_or(Bad::Missing)?;
        let mut operations = operations(codes)?;
        operations.reverse();
        let chained = if flags & CHAINED == 0 {
            None
        } else {
            let at = count.next_multiple_of(2).saturating_mul(2).saturating_add(4);
            let tail = bytes.tail(at).ok_or(Bad::Missing)?;
            Some(Function::parse(tail).ok_or(Bad::Missing)?)
        };
        Ok(Self {
            frame_register: frame & 15,
            frame_offset: u32::from(frame >> 4).saturating_mul(16),
            operations,
            chained,
        })
    }

    /// How deep the frame is at what saved registers are counted from: at the frame register's
    /// setting, or at the end of the prologue.
    fn base_depth(&self, before: &Frame) -> u32 {
        let mut depth = before.depth;
        for (_, operation) in &self.operations {
            match operation {
                Operation::Push(_) => depth = depth.saturating_add(8),
                Operation::Allocate(bytes) => depth = depth.saturating_add(*bytes),
                Operation::SetFrame => return depth,
                Operation::Save(..) | Operation::Other | Operation::Machine => {}
            }
        }
        depth
    }
}

/// The codes in their order, which is from the last instruction to the first.
fn operations(codes: &[u8]) -> Result<Vec<(u8, Operation)>, Bad> {
    let bytes = Bytes(codes);
    let mut found = Vec::new();
    let mut at = 0_usize;
    while at < codes.len() {
        let code = |slot: usize| at.checked_add(slot.saturating_mul(2)).ok_or(Bad::Missing);
        let short = |slot| Ok(u32::from(bytes.u16(code(slot)?).ok_or(Bad::Missing)?));
        let long = |slot| bytes.u32(code(slot)?).ok_or(Bad::Missing);
        let offset = bytes.u8(at).ok_or(Bad::Missing)?;
        let word = bytes.u8(code(0)?.saturating_add(1)).ok_or(Bad::Missing)?;
        let (kind, info) = (word & 15, word >> 4);
        let (operation, slots) = match (kind, info) {
            (0, register) => (Operation::Push(register), 1),
            (1, 0) => (Operation::Allocate(short(1)?.saturating_mul(8)), 2),
            (1, 1) => (Operation::Allocate(long(1)?), 3),
            (2, info) => {
                (Operation::Allocate(u32::from(info).saturating_mul(8).saturating_add(8)), 1)
            }
            (3, _) => (Operation::SetFrame, 1),
            (4, register) => (Operation::Save(register, short(1)?.saturating_mul(8)), 2),
            (5, register) => (Operation::Save(register, long(1)?), 3),
            // Where the epilogues are (version 2), which comes first and in pairs.
            (6, _) => (Operation::Other, 2),
            (8, _) => (Operation::Other, 2),
            (7 | 9, _) => (Operation::Other, 3),
            (10, _) => (Operation::Machine, 1),
            _ => return Err(Bad::Unknown),
        };
        if kind != 6 {
            found.push((offset, operation));
        }
        at = code(slots)?;
    }
    Ok(found)
}

/// What is on the stack at one instruction.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    /// Bytes below the return address.
    depth: u32,
    /// From the frame register to the CFA, if it is `rbp` and set.
    bp_to_cfa: Option<i32>,
    /// From the CFA to where the caller's `rbp` is saved.
    bp_at: Option<i32>,
    /// It begins with what the system pushed.
    is_machine: bool,
}

impl Frame {
    fn apply(&mut self, operation: Operation, info: &Info, base: u32) -> Result<(), Bad> {
        let signed = |bytes: u32| i32::try_from(bytes).map_err(|_| Bad::Unknown);
        let grown = |bytes: u32| self.depth.checked_add(bytes).ok_or(Bad::Unknown);
        // The return address is the eight bytes below the CFA.
        const RETURN_BYTES: i32 = 8;
        match operation {
            Operation::Push(register) => {
                self.depth = grown(8)?;
                if register == RBP {
                    let depth = signed(self.depth)?;
                    self.bp_at = Some(depth.saturating_add(RETURN_BYTES).saturating_neg());
                }
            }
            Operation::Allocate(bytes) => self.depth = grown(bytes)?,
            Operation::SetFrame if info.frame_register == RBP => {
                let up = signed(self.depth)?.saturating_sub(signed(info.frame_offset)?);
                self.bp_to_cfa = Some(up.saturating_add(RETURN_BYTES));
            }
            Operation::Save(RBP, above) => {
                let below = signed(base)?.saturating_sub(signed(above)?);
                self.bp_at = Some(below.saturating_add(RETURN_BYTES).saturating_neg());
            }
            Operation::Machine => self.is_machine = true,
            Operation::SetFrame | Operation::Save(..) | Operation::Other => {}
        }
        Ok(())
    }

    fn rule(&self) -> Rule {
        let Some(sp_offset) = i32::try_from(self.depth).ok().and_then(|depth| depth.checked_add(8))
        else {
            return Rule::UNSUPPORTED;
        };
        // What the system interrupted lies in a `CONTEXT` at the stack pointer, as it does where it
        // has exceptions dispatched (`KiUserExceptionDispatcher`).
        if self.is_machine {
            return Rule { cfa: Cfa::SignalFrame, bp: SavedBp::Unknown };
        }
        Rule {
            cfa: match self.bp_to_cfa {
                Some(bp_offset) => Cfa::BpOrSp { bp_offset, sp_offset },
                None => Cfa::Sp(sp_offset),
            },
            bp: self.bp_at.map_or(SavedBp::Same, SavedBp::AtCfa),
        }
    }
}

#[cfg(test)]
mod tests;
