//! A prologue, read from its first instruction: how the frame grows, instruction by instruction.

use signal::rule::{Cfa, Rule, SavedBp};

use crate::managed::instruction::{Instruction, Kind};

/// Instructions that a prologue may have; real ones have at most twenty.
const INSTRUCTIONS_MAX: usize = 64;

/// From an offset on, a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes from the start of the code that was read.
    pub offset: usize,
    /// The rule that holds from there.
    pub rule: Rule,
}

/// What kind of frame a prologue builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `rbp` points to the saved `rbp`. `m` is the displacement of `lea rbp, [rsp + m]`, bytes.
    Framed {
        /// From the stack pointer up to the frame pointer.
        m: i32,
    },
    /// `rbp` is an ordinary register, or its caller's, or (in an exception handler) its method's.
    Frameless {
        /// From the stack pointer up to the CFA, bytes; 8 if the prologue does nothing.
        size: i32,
    },
    /// An on-stack-replacement method's own frame, below the one of the version that it replaced.
    Osr {
        /// From the stack pointer up to the frame pointer, bytes.
        m: i32,
    },
    /// It begins like an on-stack-replacement method, and goes on like none.
    Unknown,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prologue {
    /// The frame.
    pub shape: Shape,
    /// Ascending; the first is at 0, the last one holds in the body.
    pub steps: Vec<Step>,
    /// Where the body begins, bytes.
    pub len: usize,
}

/// `mov rax, [rbp]; push rax`: the first two instructions of an on-stack-replacement method.
const OSR_START: [u8; 5] = [0x48, 0x8b, 0x45, 0x00, 0x50];

impl Prologue {
    /// Reads the prologue at the start of `code`.
    #[must_use]
    pub fn read(code: &[u8]) -> Self {
        if code.starts_with(&OSR_START) {
            return osr(code);
        }
        let mut frame = Frame::new();
        let mut at = 0usize;
        for _ in 0..INSTRUCTIONS_MAX {
            let Some(next) = code.get(at..).and_then(Instruction::decode) else { break };
            let end = at.saturating_add(next.len);
            match frame.apply(next.kind, end) {
                Progress::More => at = end,
                Progress::Last | Progress::Over => break,
            }
        }
        frame.finish()
    }
}

/// The frame as far as the prologue has built it.
struct Frame {
    /// CFA minus the stack pointer.
    size: i32,
    bp: SavedBp,
    /// What a probed frame will add when `rsp` is set.
    probed: Option<i32>,
    steps: Vec<Step>,
    /// Where the last instruction that belongs to the frame ends.
    len: usize,
    m: Option<i32>,
}

enum Progress {
    More,
    Last,
    Over,
}

impl Frame {
    fn new() -> Self {
        let first = Step { offset: 0, rule: Rule::ENTRY };
        Self { size: 8, bp: SavedBp::Same, probed: None, steps: vec![first], len: 0, m: None }
    }

    fn apply(&mut self, kind: Kind, end: usize) -> Progress {
        const BP: u8 = 5;
        match kind {
            Kind::Push(register) => {
                if !self.grow(8) {
                    return Progress::Over;
                }
                if register == BP && self.bp == SavedBp::Same {
                    self.bp = SavedBp::AtCfa(self.size.saturating_neg());
                }
                self.step(end, Cfa::Sp(self.size));
            }
            Kind::SubSp(bytes) => {
                if !self.grow(bytes) {
                    return Progress::Over;
                }
                self.step(end, Cfa::Sp(self.size));
            }
            Kind::LeaProbe(offset) if self.probed.is_none() && offset < 0 => {
                self.probed = Some(offset.saturating_neg());
            }
            Kind::MovSpProbe => {
                let Some(bytes) = self.probed.take() else { return Progress::Over };
                if !self.grow(bytes) {
                    return Progress::Over;
                }
                self.step(end, Cfa::Sp(self.size));
            }
            Kind::Call if self.probed.is_some() => {}
            Kind::Touch | Kind::ZeroUpper => {}
            Kind::LeaBp(m) if self.is_frame_pointer(m) => {
                self.m = Some(m);
                let sp_offset = self.size;
                self.step(end, Cfa::BpOrSp { bp_offset: 16, sp_offset });
                return Progress::Last;
            }
            _ => return Progress::Over,
        }
        Progress::More
    }

    /// A frame pointer points to the saved one, which is pushed first. Anything else that looks
    /// like it is the body taking an address.
    fn is_frame_pointer(&self, m: i32) -> bool {
        self.bp == SavedBp::AtCfa(-16) && self.size.checked_sub(m) == Some(16)
    }

    fn grow(&mut self, bytes: i32) -> bool {
        match self.size.checked_add(bytes) {
            Some(size) if bytes > 0 => {
                self.size = size;
                true
            }
            _ => false,
        }
    }

    fn step(&mut self, offset: usize, cfa: Cfa) {
        self.steps.push(Step { offset, rule: Rule { cfa, bp: self.bp } });
        self.len = offset;
    }

    fn finish(self) -> Prologue {
        let shape = match self.m {
            Some(m) => Shape::Framed { m },
            None => Shape::Frameless { size: self.size },
        };
        Prologue { shape, steps: self.steps, len: self.len }
    }
}

/// An on-stack-replacement method is entered by a jump out of the unoptimised version's body: until
/// it sets `rbp`, that one's frame is whole and `rbp` points into it. What holds afterwards is not
/// in the prologue.
fn osr(code: &[u8]) -> Prologue {
    let mut at = 0usize;
    for _ in 0..INSTRUCTIONS_MAX {
        let Some(next) = code.get(at..).and_then(Instruction::decode) else { break };
        at = at.saturating_add(next.len);
        match next.kind {
            Kind::LeaBp(m) => {
                let entry = Step { offset: 0, rule: Rule::FRAME };
                let body = Step { offset: at, rule: Rule::UNSUPPORTED };
                return Prologue { shape: Shape::Osr { m }, steps: vec![entry, body], len: at };
            }
            Kind::EndsFlow => break,
            _ => {}
        }
    }
    // Where the frame pointer is set is not known, so nothing is.
    let steps = vec![Step { offset: 0, rule: Rule::UNSUPPORTED }];
    Prologue { shape: Shape::Unknown, steps, len: 0 }
}
