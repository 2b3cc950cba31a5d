//! A prologue, read from its first instruction: how the frame grows, instruction by instruction.

use signal::rule::{Cfa, Rule, SavedBp};

use crate::managed::instruction::{Instruction, Kind};

/// Instructions that a prologue may have; real ones have at most twenty.
const INSTRUCTIONS_OF_PROLOGUE: usize = 64;

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

/// `mov rax, [rbp]; push rax`: the first two instructions of an on-stack-replacement method, by
/// which it copies the caller's `rbp` below the frame that it replaces.
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
        for _ in 0..INSTRUCTIONS_OF_PROLOGUE {
            let Some(rest) = code.get(at..) else { break };
            if let Some(probing) = ProbeLoop::find(rest) {
                at = frame.probe(probing, at);
                continue;
            }
            let Some(next) = Instruction::decode(rest) else { break };
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
            Kind::Touch | Kind::ZeroUpper | Kind::Nop => {}
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

    /// In the loop the stack pointer is anywhere; behind it, back where it was.
    fn probe(&mut self, probing: ProbeLoop, at: usize) -> usize {
        let moved = at.saturating_add(probing.moves_at);
        self.steps.push(Step { offset: moved, rule: Rule::UNSUPPORTED });
        let end = at.saturating_add(probing.len);
        self.step(end, Cfa::Sp(self.size));
        end
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

/// The loop by which .NET Core 3.1 touches the pages of a frame of three or more:
///
/// ```text
///        lea  rax, [rsp - size]
/// next:  lea  rsp, [rsp - 4096]
///        test [rsp], rax
///        cmp  rsp, rax
///        jge  next
///        lea  rsp, [rax + size]
/// ```
#[derive(Clone, Copy)]
struct ProbeLoop {
    /// Offset behind the first instruction that moves the stack pointer.
    moves_at: usize,
    /// Bytes of the whole.
    len: usize,
}

impl ProbeLoop {
    fn find(code: &[u8]) -> Option<Self> {
        const LEA_RAX: [u8; 4] = [0x48, 0x8d, 0x84, 0x24];
        const LOOP: [u8; 17] = [
            0x48, 0x8d, 0xa4, 0x24, 0x00, 0xf0, 0xff, 0xff, 0x48, 0x85, 0x04, 0x24, 0x48, 0x3b,
            0xe0, 0x7d, 0xef,
        ];
        const LEA_RSP: [u8; 3] = [0x48, 0x8d, 0xa0];

        let (down, rest) = code.strip_prefix(&LEA_RAX)?.split_first_chunk()?;
        let rest = rest.strip_prefix(&LOOP)?.strip_prefix(&LEA_RSP)?;
        let (up, _) = rest.split_first_chunk()?;
        let back = i32::from_le_bytes(*down).checked_add(i32::from_le_bytes(*up))? == 0;
        back.then_some(Self { moves_at: 16, len: 32 })
    }
}

/// An on-stack-replacement method is entered by a jump out of the unoptimised version's body: until
/// it sets `rbp`, that one's frame is whole and `rbp` points into it. What holds afterwards is not
/// in the prologue.
fn osr(code: &[u8]) -> Prologue {
    let mut at = 0usize;
    for _ in 0..INSTRUCTIONS_OF_PROLOGUE {
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(offset: usize, cfa: Cfa, bp: SavedBp) -> Step {
        Step { offset, rule: Rule { cfa, bp } }
    }

    const PUSHED: SavedBp = SavedBp::AtCfa(-16);

    #[track_caller]
    fn check(code: &[u8], shape: Shape, steps: &[Step]) {
        let prologue = Prologue::read(code);
        assert_eq!(prologue.shape, shape);
        let (first, rest) = prologue.steps.split_first().unwrap();
        assert_eq!(*first, Step { offset: 0, rule: Rule::ENTRY });
        assert_eq!(rest, steps);
        assert_eq!(prologue.len, steps.last().map_or(0, |step| step.offset));
    }

    #[test]
    fn framed() {
        // push rbp; push r15, r14, r13, r12, rbx; sub rsp, 0x88; lea rbp, [rsp + 0xb0]; xor eax,
        // eax
        let code = [
            0x55, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x53, 0x48, 0x81, 0xec, 0x88, 0,
            0, 0, 0x48, 0x8d, 0xac, 0x24, 0xb0, 0, 0, 0, 0x33, 0xc0,
        ];
        check(
            &code,
            Shape::Framed { m: 0xb0 },
            &[
                at(1, Cfa::Sp(16), PUSHED),
                at(3, Cfa::Sp(24), PUSHED),
                at(5, Cfa::Sp(32), PUSHED),
                at(7, Cfa::Sp(40), PUSHED),
                at(9, Cfa::Sp(48), PUSHED),
                at(10, Cfa::Sp(56), PUSHED),
                at(17, Cfa::Sp(192), PUSHED),
                at(25, Cfa::BpOrSp { bp_offset: 16, sp_offset: 192 }, PUSHED),
            ],
        );
        // push rbp; mov rbp, rsp; nop
        check(
            &[0x55, 0x48, 0x8b, 0xec, 0x90],
            Shape::Framed { m: 0 },
            &[
                at(1, Cfa::Sp(16), PUSHED),
                at(4, Cfa::BpOrSp { bp_offset: 16, sp_offset: 16 }, PUSHED),
            ],
        );
        // push rbp; sub rsp, 0x10; vzeroupper; lea rbp, [rsp + 0x10]
        let code = [0x55, 0x48, 0x83, 0xec, 0x10, 0xc5, 0xf8, 0x77, 0x48, 0x8d, 0x6c, 0x24, 0x10];
        check(
            &code,
            Shape::Framed { m: 16 },
            &[
                at(1, Cfa::Sp(16), PUSHED),
                at(5, Cfa::Sp(32), PUSHED),
                at(13, Cfa::BpOrSp { bp_offset: 16, sp_offset: 32 }, PUSHED),
            ],
        );
    }

    #[test]
    fn frameless() {
        // mov eax, [rdi + 8]; ret
        check(&[0x8b, 0x47, 0x08, 0xc3], Shape::Frameless { size: 8 }, &[]);
        // push rax; call
        check(
            &[0x50, 0xff, 0x15, 1, 2, 3, 4],
            Shape::Frameless { size: 16 },
            &[at(1, Cfa::Sp(16), SavedBp::Same)],
        );
        // sub rsp, 8
        check(
            &[0x48, 0x83, 0xec, 0x08, 0x90],
            Shape::Frameless { size: 16 },
            &[at(4, Cfa::Sp(16), SavedBp::Same)],
        );
        // push r15; push rbp; push rbx; mov rbp, rdi: rbp is an ordinary register
        let code = [0x41, 0x57, 0x55, 0x53, 0x48, 0x8b, 0xef];
        check(
            &code,
            Shape::Frameless { size: 32 },
            &[
                at(2, Cfa::Sp(16), SavedBp::Same),
                at(3, Cfa::Sp(24), SavedBp::AtCfa(-24)),
                at(4, Cfa::Sp(32), SavedBp::AtCfa(-24)),
            ],
        );
        // push rbp; sub rsp, 0x20; lea rbp, [rsp + 8]: the address of a local
        let code = [0x55, 0x48, 0x83, 0xec, 0x20, 0x48, 0x8d, 0x6c, 0x24, 0x08];
        check(
            &code,
            Shape::Frameless { size: 48 },
            &[at(1, Cfa::Sp(16), PUSHED), at(5, Cfa::Sp(48), PUSHED)],
        );
    }

    #[test]
    fn probed() {
        // push rbp; lea r11, [rsp - 0x4000]; call [rip + x]; mov rsp, r11; lea rbp, [rsp + 0x4000]
        let code = [
            0x55, 0x4c, 0x8d, 0x9c, 0x24, 0x00, 0xc0, 0xff, 0xff, 0xff, 0x15, 1, 2, 3, 4, 0x49,
            0x8b, 0xe3, 0x48, 0x8d, 0xac, 0x24, 0x00, 0x40, 0, 0,
        ];
        check(
            &code,
            Shape::Framed { m: 0x4000 },
            &[
                at(1, Cfa::Sp(16), PUSHED),
                at(18, Cfa::Sp(0x4010), PUSHED),
                at(26, Cfa::BpOrSp { bp_offset: 16, sp_offset: 0x4010 }, PUSHED),
            ],
        );
        // push rbp; push r14; push rbx; nop, then the loop; sub rsp, 0x6e40;
        // lea rbp, [rsp + 0x6e50]
        let code = [
            0x55, 0x41, 0x56, 0x53, 0x90, 0x48, 0x8d, 0x84, 0x24, 0xc0, 0x91, 0xff, 0xff, 0x48,
            0x8d, 0xa4, 0x24, 0x00, 0xf0, 0xff, 0xff, 0x48, 0x85, 0x04, 0x24, 0x48, 0x3b, 0xe0,
            0x7d, 0xef, 0x48, 0x8d, 0xa0, 0x40, 0x6e, 0, 0, 0x48, 0x81, 0xec, 0x40, 0x6e, 0, 0,
            0x48, 0x8d, 0xac, 0x24, 0x50, 0x6e, 0, 0,
        ];
        check(
            &code,
            Shape::Framed { m: 0x6e50 },
            &[
                at(1, Cfa::Sp(16), PUSHED),
                at(3, Cfa::Sp(24), PUSHED),
                at(4, Cfa::Sp(32), PUSHED),
                at(21, Cfa::Unsupported, SavedBp::Unknown),
                at(37, Cfa::Sp(32), PUSHED),
                at(44, Cfa::Sp(0x6e60), PUSHED),
                at(52, Cfa::BpOrSp { bp_offset: 16, sp_offset: 0x6e60 }, PUSHED),
            ],
        );
    }

    #[test]
    fn replacing() {
        // mov rax, [rbp]; push rax; sub rsp, 0x20; mov rbx, [rbp - 8]; lea rbp, [rsp + 0x20]
        let code = [
            0x48, 0x8b, 0x45, 0x00, 0x50, 0x48, 0x83, 0xec, 0x20, 0x48, 0x8b, 0x5d, 0xf8, 0x48,
            0x8d, 0x6c, 0x24, 0x20, 0x90,
        ];
        let prologue = Prologue::read(&code);
        assert_eq!(prologue.shape, Shape::Osr { m: 0x20 });
        let expected =
            [Step { offset: 0, rule: Rule::FRAME }, Step { offset: 18, rule: Rule::UNSUPPORTED }];
        assert_eq!(prologue.steps, expected);
    }
}
