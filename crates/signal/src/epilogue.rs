//! Whether a managed method is about to return, read off the instructions that it is about to run.
//!
//! A method's rows hold for its prologue and body; an epilogue undoes the frame step by step. It is
//! short, straight and ends in `ret` or a tail call's `jmp`, so reading forward from the current
//! instruction tells exactly what is left on the stack: Windows unwinds x86-64 the same way.

use crate::rule::{Cfa, Rule, SavedBp};

/// Bytes that an epilogue can have: `lea`, six `pop`s, a `jmp` take 25.
pub const EPILOGUE_BYTES: usize = 32;

/// The rule at an instruction of an epilogue; `None` if the code that follows is not one.
///
/// `code` starts at the current instruction of a managed method; [`EPILOGUE_BYTES`] are enough, and
/// fewer, where the method ends, do. A `jmp` counts only if it can't be a jump inside the method:
/// after something was taken off the stack, or with the REX.W prefix by which RyuJIT marks tail
/// calls.
///
/// # Signal safety
/// Reads only the slice, which the caller has made sure is mapped.
#[must_use]
pub fn epilogue(code: &[u8]) -> Option<Rule> {
    let mut rest = code.get(..EPILOGUE_BYTES.min(code.len()))?;
    let mut stack = Stack { from: Base::Sp, size: 0, bp_at: None };
    let mut popped = false;
    // Each round takes at least one byte.
    for _ in 0..EPILOGUE_BYTES {
        if let Some((step, after)) = stack_step(rest, popped) {
            stack.apply(step)?;
            popped = true;
            rest = after;
        } else if is_return(rest) || is_tail_jump(rest, popped) {
            return stack.rule();
        } else {
            return None;
        }
    }
    None
}

/// What the CFA will be counted from.
#[derive(Clone, Copy)]
enum Base {
    Sp,
    Bp,
}

/// One instruction that takes something off the stack.
enum Step {
    /// `add rsp, imm` or, first only, `lea rsp, [rsp + disp]`: bytes dropped.
    Drop(i32),
    /// `lea rsp, [rbp + disp]` or `mov rsp, rbp`: where the stack pointer goes.
    FromBp(i32),
    /// `pop` of a register.
    Pop,
    /// `pop rbp`.
    PopBp,
}

/// What the instructions read so far leave of the frame.
struct Stack {
    from: Base,
    /// Bytes from `from` up to the next thing on the stack.
    size: i32,
    /// Where the caller's `rbp` lies, from `from`, if it is still on the stack.
    bp_at: Option<i32>,
}

impl Stack {
    fn apply(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Drop(bytes) => self.size = self.size.checked_add(bytes)?,
            Step::FromBp(offset) => {
                self.from = Base::Bp;
                self.size = offset;
            }
            Step::Pop => self.size = self.size.checked_add(8)?,
            Step::PopBp => {
                self.bp_at = Some(self.size);
                self.size = self.size.checked_add(8)?;
            }
        }
        Some(())
    }

    fn rule(&self) -> Option<Rule> {
        // The return address is what remains.
        let size = self.size.checked_add(8)?;
        let cfa = match self.from {
            Base::Sp => Cfa::Sp(size),
            Base::Bp => Cfa::Bp(size),
        };
        let bp = match self.bp_at {
            Some(at) => SavedBp::AtCfa(at.checked_sub(size)?),
            None => SavedBp::Same,
        };
        Some(Rule { cfa, bp })
    }
}

/// The step at the start of `code` and what follows it.
fn stack_step(code: &[u8], popped: bool) -> Option<(Step, &[u8])> {
    match code {
        [0x5d, rest @ ..] => Some((Step::PopBp, rest)),
        // 0x5c is pop rsp, which no compiler emits.
        [0x58..=0x5b | 0x5e | 0x5f, rest @ ..] | [0x41, 0x58..=0x5f, rest @ ..] => {
            Some((Step::Pop, rest))
        }
        // The frame is dropped first, then the registers are popped.
        _ if popped => None,
        [0x48, 0x83, 0xc4, imm, rest @ ..] => positive(i8_at(*imm)).map(|n| (Step::Drop(n), rest)),
        [0x48, 0x81, 0xc4, a, b, c, d, rest @ ..] => {
            positive(i32::from_le_bytes([*a, *b, *c, *d])).map(|n| (Step::Drop(n), rest))
        }
        [0x48, 0x8d, 0x65, disp, rest @ ..] => Some((Step::FromBp(i8_at(*disp)), rest)),
        [0x48, 0x8d, 0xa5, a, b, c, d, rest @ ..] => {
            Some((Step::FromBp(i32::from_le_bytes([*a, *b, *c, *d])), rest))
        }
        [0x48, 0x8b, 0xe5, rest @ ..] | [0x48, 0x89, 0xec, rest @ ..] => {
            Some((Step::FromBp(0), rest))
        }
        _ => None,
    }
}

fn i8_at(byte: u8) -> i32 {
    i32::from(i8::from_le_bytes([byte]))
}

fn positive(bytes: i32) -> Option<i32> {
    (bytes > 0).then_some(bytes)
}

fn is_return(code: &[u8]) -> bool {
    matches!(code, [0xc3, ..] | [0xf3, 0xc3, ..] | [0xc2, _, _, ..])
}

/// `jmp rel32`, `jmp [mem]`, `jmp reg`; the opcode is enough, the operand doesn't matter.
fn is_tail_jump(code: &[u8], popped: bool) -> bool {
    match code {
        [0x48..=0x4f, 0xff, modrm, ..] => modrm & 0x38 == 0x20,
        [0x40..=0x47, 0xff, modrm, ..] | [0xff, modrm, ..] => popped && modrm & 0x38 == 0x20,
        [0xe9, _, _, _, _, ..] | [0xeb, _, ..] => popped,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn sp(size: i32, bp: SavedBp) -> Option<Rule> {
        Some(Rule { cfa: Cfa::Sp(size), bp })
    }

    #[track_caller]
    fn check(code: &[u8], rule: Option<Rule>) {
        assert_eq!(epilogue(code), rule, "{code:02x?}");
    }

    #[test]
    fn returns() {
        check(&[0xc3], sp(8, SavedBp::Same));
        check(&[0xf3, 0xc3], sp(8, SavedBp::Same));
        check(&[0x5d, 0xc3], sp(16, SavedBp::AtCfa(-16)));
        // add rsp, 8; ret
        check(&[0x48, 0x83, 0xc4, 0x08, 0xc3], sp(16, SavedBp::Same));
        // add rsp, 0x10; pop rbp; ret (a funclet's)
        check(&[0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3], sp(32, SavedBp::AtCfa(-16)));
        // add rsp, 0x88; pop rbx; pop r15; ret
        let long = [0x48, 0x81, 0xc4, 0x88, 0, 0, 0, 0x5b, 0x41, 0x5f, 0xc3];
        check(&long, sp(0x88 + 24, SavedBp::Same));
        // pop rbx; pop r12; pop r13; pop r14; pop r15; pop rbp; ret
        let pops = [0x5b, 0x41, 0x5c, 0x41, 0x5d, 0x41, 0x5e, 0x41, 0x5f, 0x5d, 0xc3];
        check(&pops, sp(56, SavedBp::AtCfa(-16)));
        // pop rbx; pop rbp; pop r12; ret: rbp as an ordinary register
        check(&[0x5b, 0x5d, 0x41, 0x5c, 0xc3], sp(32, SavedBp::AtCfa(-24)));
    }

    #[test]
    fn by_frame_pointer() {
        // lea rsp, [rbp - 0x20]; pop rbx; pop r14; pop r15; pop rbp; ret
        let code = [0x48, 0x8d, 0x65, 0xe8, 0x5b, 0x41, 0x5e, 0x41, 0x5f, 0x5d, 0xc3];
        let rule = Rule { cfa: Cfa::Bp(16), bp: SavedBp::AtCfa(-16) };
        check(&code, Some(rule));
        // lea rsp, [rbp]; pop rbp; ret
        check(&[0x48, 0x8d, 0x65, 0x00, 0x5d, 0xc3], Some(rule));
        check(&[0x48, 0x8b, 0xe5, 0x5d, 0xc3], Some(rule));
        check(
            &[0x48, 0x8d, 0xa5, 0x00, 0xff, 0xff, 0xff, 0x5d, 0xc3],
            Some(Rule { cfa: Cfa::Bp(-256 + 16), bp: SavedBp::AtCfa(-16) }),
        );
    }

    #[test]
    fn tail_calls() {
        // add rsp, 8; jmp [rip + x]
        check(&[0x48, 0x83, 0xc4, 0x08, 0xff, 0x25, 1, 2, 3, 4], sp(16, SavedBp::Same));
        // pop rbp; jmp rel32
        check(&[0x5d, 0xe9, 1, 2, 3, 4], sp(16, SavedBp::AtCfa(-16)));
        // pop rbx; rex.jmp rax
        check(&[0x5b, 0x48, 0xff, 0xe0], sp(16, SavedBp::Same));
        // rex.jmp rax alone
        check(&[0x48, 0xff, 0xe0], sp(8, SavedBp::Same));
    }

    #[test]
    fn not_epilogues() {
        check(&[], None);
        check(&[0xe9, 1, 2, 3, 4], None);
        check(&[0xeb, 0x10], None);
        check(&[0xff, 0xe0], None);
        check(&[0xff, 0x25, 1, 2, 3, 4], None);
        // call [rip + x]
        check(&[0x48, 0xff, 0x15, 1, 2, 3, 4], None);
        // add rsp, 8; mov eax, ebx
        check(&[0x48, 0x83, 0xc4, 0x08, 0x8b, 0xc3], None);
        // sub rsp, 8 written as add
        check(&[0x48, 0x83, 0xc4, 0xf8, 0xc3], None);
        // cut off
        check(&[0x5d], None);
        check(&[0x48, 0x83, 0xc4], None);
        // endless pops
        check(&[0x5b; 64], None);
    }

    #[test]
    fn any_bytes() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..200_000 {
            let mut code = [0u8; 40];
            for byte in &mut code {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = state.to_le_bytes()[3];
            }
            // Bytes that begin like an epilogue reach further.
            if let Some(first) = code.first_mut() {
                *first = if state & 1 == 0 { 0x48 } else { 0x5d };
            }
            let _ = epilogue(&code);
        }
    }
}
