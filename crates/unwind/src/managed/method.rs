//! A whole method: its prologue and body, and its exception handlers.
//!
//! `catch`, `filter`, `finally` and `fault` blocks are compiled as functions of their own
//! ("funclets"), which lie behind the method's body in the same run of code, each with a prologue.
//! Up to .NET 9 a funclet saves `rbp`, then loads the method's; from .NET 10 on it finds the
//! method's in `rbp` and leaves it alone. Either way `rbp` says nothing about the funclet's own
//! frame, so its rules go by `rsp`.

//!
//! An on-stack-replacement method lies on top of the frame of the version that it replaced, whose
//! size its prologue doesn't show. Its epilogues do: they drop both frames.

use model::limits::METHOD_CODE_BYTES_MAX;
use signal::epilogue::epilogue;
use signal::rule::{Cfa, Rule, SavedBp};

use crate::managed::instruction::{Instruction, Kind};
use crate::managed::prologue::{Prologue, Shape, Step};

/// The unwind rules of one method's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// The kind of frame of the method itself, not of its funclets.
    pub shape: Shape,
    /// Ascending; the first is at 0, the last holds to the end.
    pub steps: Vec<Step>,
    /// How many funclets were found.
    pub funclets: usize,
    /// How much of the code was read, bytes. Less than there is if an instruction is not known, or
    /// if there is more than `limits::METHOD_CODE_BYTES_MAX`; a funclet behind it is not seen.
    pub read: usize,
}

impl Method {
    /// Reads a method's code from its first byte. `tier0_m` is the M of [`Shape::Framed`] that
    /// reading the unoptimised version gave. It only matters for an on-stack-replacement version
    /// that never returns: any other tells by its epilogue, which is to be trusted more, since a
    /// method may have had several unoptimised versions with different frames.
    #[must_use]
    pub fn read(code: &[u8], tier0_m: Option<i32>) -> Self {
        let code = code.get(..METHOD_CODE_BYTES_MAX.min(code.len())).unwrap_or_default();
        let Prologue { shape, steps, len } = Prologue::read(code);
        let mut method = Self { shape, steps, funclets: 0, read: len };
        let mut replaced_m = None;
        let mut sp_moves = false;
        let mut flow_ended = false;
        while let Some(rest) = code.get(method.read..)
            && let Some(next) = Instruction::decode(rest)
        {
            let moves = matches!(next.kind, Kind::SubSp(_) | Kind::OtherSp);
            if flow_ended && matches!(next.kind, Kind::Push(_) | Kind::SubSp(_)) {
                method.funclet(rest);
                flow_ended = false;
                continue;
            }
            if let Shape::Osr { m } = shape
                && method.funclets == 0
                && replaced_m.is_none()
            {
                replaced_m = epilogue(rest).and_then(|rule| replaced_m_of(rule, m));
            }
            sp_moves |= moves && method.funclets == 0;
            method.read = method.read.saturating_add(next.len);
            flow_ended = match next.kind {
                Kind::EndsFlow | Kind::Call => true,
                Kind::Nop => flow_ended,
                _ => false,
            };
        }
        if sp_moves {
            method.distrust_sp();
        }
        if let (Shape::Osr { .. }, Some(m)) = (shape, replaced_m.or(tier0_m)) {
            method.set_replaced_m(m);
        }
        method
    }

    /// Reads the funclet that starts where the reader stands.
    fn funclet(&mut self, rest: &[u8]) {
        let funclet = Prologue::read(rest);
        let start = self.read;
        self.steps.extend(
            funclet
                .steps
                .iter()
                .map(|step| Step { offset: step.offset.saturating_add(start), rule: step.rule }),
        );
        self.funclets = self.funclets.saturating_add(1);
        // A funclet begins with an instruction of a prologue, so this is never 0.
        self.read = start.saturating_add(funclet.len.max(1));
    }

    /// The body moves `rsp`: only the frame pointer counts.
    fn distrust_sp(&mut self) {
        for step in &mut self.steps {
            if let Rule { cfa: Cfa::BpOrSp { bp_offset, .. }, bp } = step.rule {
                step.rule = Rule { cfa: Cfa::Bp(bp_offset), bp };
            }
        }
    }
    /// The rule of an on-stack-replacement method's body, which its prologue left open.
    fn set_replaced_m(&mut self, tier0_bp_offset: i32) {
        let body = self.steps.iter_mut().find(|step| step.rule == Rule::UNSUPPORTED);
        if let Some(body) = body {
            body.rule = Rule { cfa: Cfa::Osr { tier0_bp_offset }, bp: SavedBp::AtCfa(-16) };
        }
    }
}

/// The M of the replaced version, by the rule at the first instruction of an epilogue. `m` is the
/// replacing version's own. The frames from the bottom: its own up to `rbp`, then the copied `rbp`
/// and a return address (16 bytes), M bytes, and the saved `rbp` and the true return address.
fn replaced_m_of(epilogue: Rule, m: i32) -> Option<i32> {
    let above_bp = match epilogue.cfa {
        Cfa::Sp(size) => size.checked_sub(m)?,
        Cfa::Bp(size) => size,
        _ => return None,
    };
    let replaced = above_bp.checked_sub(32)?;
    (replaced >= 0 && epilogue.bp == SavedBp::AtCfa(-16)).then_some(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule at an offset.
    fn at(method: &Method, offset: usize) -> Rule {
        method.steps.iter().rev().find(|step| step.offset <= offset).unwrap().rule
    }

    const PUSHED: SavedBp = SavedBp::AtCfa(-16);

    #[test]
    fn funclets_that_load_the_frame_pointer() {
        // A method of .NET 8 that ends in int3, and its funclet:
        // push rbp; sub rsp, 16; mov rbp, [rdi]; mov [rsp], rbp; lea rbp, [rbp + 0x30];
        // xor eax, eax; mov [rbp - 16], rax; add rsp, 16; pop rbp; ret
        let method = [0x55, 0x48, 0x8b, 0xec, 0xff, 0x15, 1, 2, 3, 4, 0xcc];
        let funclet = [
            0x55, 0x48, 0x83, 0xec, 0x10, 0x48, 0x8b, 0x2f, 0x48, 0x89, 0x2c, 0x24, 0x48, 0x8d,
            0x6d, 0x30, 0x33, 0xc0, 0x48, 0x89, 0x45, 0xf0, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3,
        ];
        let code = [&method[..], &funclet, &funclet].concat();
        let read = Method::read(&code, None);
        assert_eq!((read.shape, read.funclets), (Shape::Framed { m: 0 }, 2));
        assert_eq!(read.read, code.len());
        assert_eq!(at(&read, 10).cfa, Cfa::BpOrSp { bp_offset: 16, sp_offset: 16 });
        for start in [11, 11 + 28] {
            assert_eq!(at(&read, start), Rule::ENTRY);
            assert_eq!(at(&read, start + 1), Rule { cfa: Cfa::Sp(16), bp: PUSHED });
            assert_eq!(at(&read, start + 27), Rule { cfa: Cfa::Sp(32), bp: PUSHED });
        }
    }

    #[test]
    fn funclets_that_leave_the_frame_pointer() {
        // .NET 10: push rax; xor edi, edi; mov [rbp - 0x40], rdi; add rsp, 8; ret
        let method = [0x55, 0x48, 0x8b, 0xec, 0x5d, 0xc3];
        let funclet = [0x50, 0x33, 0xff, 0x48, 0x89, 0x7d, 0xc0, 0x48, 0x83, 0xc4, 0x08, 0xc3];
        let read = Method::read(&[&method[..], &funclet].concat(), None);
        assert_eq!(read.funclets, 1);
        assert_eq!(at(&read, 6), Rule::ENTRY);
        assert_eq!(at(&read, 7), Rule { cfa: Cfa::Sp(16), bp: SavedBp::Same });
    }

    #[test]
    fn localloc() {
        // push rbp; mov rbp, rsp; test [rsp], esp; sub rsp, 0x100; lea rdi, [rsp];
        // lea rsp, [rbp]; pop rbp; ret
        let code = [
            0x55, 0x48, 0x8b, 0xec, 0x85, 0x24, 0x24, 0x48, 0x81, 0xec, 0, 1, 0, 0, 0x48, 0x8d,
            0x3c, 0x24, 0x48, 0x8d, 0x65, 0x00, 0x5d, 0xc3,
        ];
        let read = Method::read(&code, None);
        assert_eq!(read.funclets, 0);
        assert_eq!(at(&read, 14), Rule { cfa: Cfa::Bp(16), bp: PUSHED });
    }

    #[test]
    fn replacing() {
        // mov rax, [rbp]; push rax; mov rbp, rsp; call [rip + x]; add rsp, 112; pop rbp; ret
        let code = [
            0x48, 0x8b, 0x45, 0x00, 0x50, 0x48, 0x8b, 0xec, 0xff, 0x15, 1, 2, 3, 4, 0x48, 0x83,
            0xc4, 0x70, 0x5d, 0xc3,
        ];
        let osr = |tier0_bp_offset| Rule { cfa: Cfa::Osr { tier0_bp_offset }, bp: PUSHED };
        let read = Method::read(&code, None);
        assert_eq!(at(&read, 5), Rule::FRAME);
        assert_eq!(at(&read, 8), osr(96));
        // The epilogue knows better.
        assert_eq!(at(&Method::read(&code, Some(64)), 8), osr(96));
        // Without one, the caller does.
        let endless = [&code[..14], &[0xeb, 0xf8]].concat();
        assert_eq!(at(&Method::read(&endless, Some(64)), 8), osr(64));
        assert_eq!(at(&Method::read(&endless, None), 8), Rule::UNSUPPORTED);
    }

    #[test]
    fn any_bytes() {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        for round in 0..20_000 {
            let code: Vec<u8> = (0..round % 200)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state.to_le_bytes()[2]
                })
                .collect();
            let starts: [&[u8]; 4] =
                [&[], &[0x55, 0x48, 0x8b, 0xec], &[0x48, 0x8b, 0x45, 0, 0x50], &[0x55, 0xc3]];
            let code = [starts[round % 4], &code].concat();
            let read = Method::read(&code, Some(8));
            assert!(read.read <= code.len());
            assert!(read.steps.is_sorted_by_key(|step| step.offset));
        }
    }
}
