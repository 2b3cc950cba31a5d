//! Plain programs of unwind entries (DWARF 5, 6.4.2), run for the two registers that a walk wants.
//!
//! Compilers write hardly any others. What is not plain, such as an expression for one of the two,
//! is left to gimli, which keeps a row of all registers and takes several times as long.

use gimli::{CallFrameInstruction, Register, X86_64};
use signal::rule::{Cfa, Rule, SavedBp};

/// States that may be remembered at a time; gimli allows no more.
const REMEMBERED_MAX: usize = 3;
/// The return address, on x86-64, is just below the frame.
const RETURN_AT: i64 = -8;

/// What holds at an instruction, as far as a walk wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// The register from which the CFA is counted, and its distance in bytes.
    cfa: (u64, i64),
    bp: SavedBp,
    /// Whether there is a return address: just below the CFA.
    has_caller: bool,
}

impl State {
    /// Before anything is said.
    const NOTHING: Self = Self { cfa: (0, 0), bp: SavedBp::Same, has_caller: false };

    fn rule(self) -> Rule {
        if !self.has_caller {
            return Rule { cfa: Cfa::End, bp: SavedBp::Unknown };
        }
        let (register, offset) = self.cfa;
        let cfa = match (i32::try_from(offset), register) {
            (Ok(offset), SP) => Cfa::Sp(offset),
            (Ok(offset), BP) => Cfa::Bp(offset),
            _ => return Rule::UNSUPPORTED,
        };
        Rule { cfa, bp: self.bp }
    }

    /// A register's value is saved at that distance from the CFA.
    fn save(&mut self, register: u64, offset: i64) -> Option<()> {
        match register {
            BP => self.bp = i32::try_from(offset).map_or(SavedBp::Unknown, SavedBp::AtCfa),
            RA if offset == RETURN_AT => self.has_caller = true,
            RA => return None,
            _ => {}
        }
        Some(())
    }
}

const BP: u64 = number(X86_64::RBP);
const SP: u64 = number(X86_64::RSP);
const RA: u64 = number(X86_64::RA);

const fn number(register: Register) -> u64 {
    register.0 as u64
}

/// What the entries of one object file have in common.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    code_factor: u64,
    data_factor: i64,
    initial: State,
}

impl Common {
    /// What such factors and initial instructions come to; `None` if they are not plain.
    pub fn new(
        code_factor: u64,
        data_factor: i64,
        initial: impl IntoIterator<Item = CallFrameInstruction<usize>>,
    ) -> Option<Self> {
        let mut state = State::NOTHING;
        for instruction in initial {
            match instruction {
                CallFrameInstruction::Nop => {}
                CallFrameInstruction::DefCfa { register, offset } => {
                    state.cfa = (number(register), offset.cast_signed());
                }
                CallFrameInstruction::Offset { register, factored_offset } => {
                    let offset = factored_offset.cast_signed().wrapping_mul(data_factor);
                    state.save(number(register), offset)?;
                }
                _ => return None,
            }
        }
        Some(Self { code_factor, data_factor, initial: state })
    }

    /// Runs the program of a function that begins at an address, and appends a row for each place
    /// where something changes. `None`, with some rows, if it is not plain.
    pub fn run(&self, program: &[u8], start: u64, rows: &mut Vec<(u64, Rule)>) -> Option<()> {
        let mut run = Run {
            common: self,
            code: program,
            at: start,
            state: self.initial,
            remembered: [State::NOTHING; REMEMBERED_MAX],
            depth: 0,
        };
        while let Some(code) = run.next() {
            run.execute(code, rows)?;
        }
        rows.push((run.at, run.state.rule()));
        Some(())
    }
}

/// A program that is being run.
struct Run<'a> {
    common: &'a Common,
    code: &'a [u8],
    at: u64,
    state: State,
    remembered: [State; REMEMBERED_MAX],
    depth: usize,
}

impl Run<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.code.split_first()?;
        self.code = rest;
        Some(*first)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.code.split_first_chunk()?;
        self.code = rest;
        Some(*taken)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0_u64, 0_u32);
        loop {
            let byte = self.next()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            // What has more bits is nothing that a compiler writes.
            shift = shift.checked_add(7).filter(|shift| *shift < 63)?;
        }
    }

    /// An offset in units of the common factor, as bytes.
    fn factored(&mut self) -> Option<i64> {
        let factored = self.unsigned()?.cast_signed();
        Some(factored.wrapping_mul(self.common.data_factor))
    }

    fn advance(&mut self, delta: u64, rows: &mut Vec<(u64, Rule)>) -> Option<()> {
        rows.push((self.at, self.state.rule()));
        self.at = self.at.checked_add(delta.checked_mul(self.common.code_factor)?)?;
        Some(())
    }

    /// One instruction; `None` if it is not plain.
    fn execute(&mut self, code: u8, rows: &mut Vec<(u64, Rule)>) -> Option<()> {
        const ADVANCE: u8 = 0x40;
        const OFFSET: u8 = 0x80;
        const RESTORE: u8 = 0xc0;
        let operand = code & 0x3f;
        match code & 0xc0 {
            ADVANCE => self.advance(operand.into(), rows),
            OFFSET => {
                let offset = self.factored()?;
                self.state.save(operand.into(), offset)
            }
            RESTORE => self.restore(operand.into()),
            _ => self.extended(code, rows),
        }
    }

    fn extended(&mut self, code: u8, rows: &mut Vec<(u64, Rule)>) -> Option<()> {
        match code {
            NOP => {}
            ADVANCE1 => return self.next().and_then(|delta| self.advance(delta.into(), rows)),
            ADVANCE2 => {
                let delta = u16::from_le_bytes(self.take()?);
                return self.advance(delta.into(), rows);
            }
            ADVANCE4 => {
                let delta = u32::from_le_bytes(self.take()?);
                return self.advance(delta.into(), rows);
            }
            OFFSET_EXTENDED => {
                let (register, offset) = (self.unsigned()?, self.factored()?);
                return self.state.save(register, offset);
            }
            RESTORE_EXTENDED => return self.unsigned().and_then(|number| self.restore(number)),
            UNDEFINED => match self.unsigned()? {
                BP => self.state.bp = SavedBp::Unknown,
                RA => self.state.has_caller = false,
                _ => {}
            },
            SAME_VALUE => match self.unsigned()? {
                BP => self.state.bp = SavedBp::Same,
                RA => return None,
                _ => {}
            },
            REMEMBER => {
                *self.remembered.get_mut(self.depth)? = self.state;
                self.depth = self.depth.saturating_add(1);
            }
            RECALL => {
                self.depth = self.depth.checked_sub(1)?;
                self.state = *self.remembered.get(self.depth)?;
            }
            DEF_CFA => {
                self.state.cfa = (self.unsigned()?, self.unsigned()?.cast_signed());
            }
            DEF_CFA_REGISTER => self.state.cfa.0 = self.unsigned()?,
            DEF_CFA_OFFSET => self.state.cfa.1 = self.unsigned()?.cast_signed(),
            ARGS_SIZE => {
                self.unsigned()?;
            }
            _ => return None,
        }
        Some(())
    }

    /// A register is as it was at the function's beginning.
    fn restore(&mut self, register: u64) -> Option<()> {
        match register {
            BP => self.state.bp = self.common.initial.bp,
            RA => self.state.has_caller = self.common.initial.has_caller,
            _ => {}
        }
        Some(())
    }
}

// Their names in the standard begin with `DW_CFA_`.
const NOP: u8 = 0x00;
const ADVANCE1: u8 = 0x02;
const ADVANCE2: u8 = 0x03;
const ADVANCE4: u8 = 0x04;
const OFFSET_EXTENDED: u8 = 0x05;
const RESTORE_EXTENDED: u8 = 0x06;
const UNDEFINED: u8 = 0x07;
const SAME_VALUE: u8 = 0x08;
/// `restore_state`.
const RECALL: u8 = 0x0b;
/// `remember_state`.
const REMEMBER: u8 = 0x0a;
const DEF_CFA: u8 = 0x0c;
const DEF_CFA_REGISTER: u8 = 0x0d;
const DEF_CFA_OFFSET: u8 = 0x0e;
/// `GNU_args_size`.
const ARGS_SIZE: u8 = 0x2e;

#[cfg(test)]
mod tests {
    use super::*;

    /// As compilers have it: `CFA = rsp + 8`, the return address just below.
    fn common() -> Common {
        let initial = [
            CallFrameInstruction::DefCfa { register: X86_64::RSP, offset: 8 },
            CallFrameInstruction::Offset { register: X86_64::RA, factored_offset: 1 },
        ];
        Common::new(1, -8, initial).expect("plain")
    }

    #[track_caller]
    fn check(program: &[u8], expected: Option<&[(u64, Rule)]>) {
        let mut rows = Vec::new();
        let plain = common().run(program, 0x1000, &mut rows);
        assert_eq!(plain.map(|()| rows.as_slice()), expected);
    }

    const PUSHED: SavedBp = SavedBp::AtCfa(-16);

    #[test]
    fn a_frame_comes_and_goes() {
        let at_sp = |offset, bp| Rule { cfa: Cfa::Sp(offset), bp };
        // push rbp; mov rbp, rsp; push rbx; …; pop; ret; and on as before the pop.
        let program = [
            0x41,
            DEF_CFA_OFFSET,
            16,
            0x86,
            2,
            0x43,
            DEF_CFA_REGISTER,
            6,
            0x41,
            0x83,
            3,
            ADVANCE1,
            0x80,
            REMEMBER,
            DEF_CFA,
            7,
            8,
            0x41,
            RECALL,
            NOP,
            NOP,
        ];
        let expected = [
            (0x1000, Rule::ENTRY),
            (0x1001, at_sp(16, PUSHED)),
            (0x1004, Rule::FRAME),
            (0x1005, Rule::FRAME),
            (0x1085, at_sp(8, PUSHED)),
            (0x1086, Rule::FRAME),
        ];
        check(&program, Some(&expected));
        let restored = [0x86, 2, 0x41, 0xc6, ADVANCE2, 0, 1, RESTORE_EXTENDED, 6, UNDEFINED, 16];
        let end = Rule { cfa: Cfa::End, bp: SavedBp::Unknown };
        let expected = [(0x1000, at_sp(8, PUSHED)), (0x1001, Rule::ENTRY), (0x1101, end)];
        check(&restored, Some(&expected));
        let other = [DEF_CFA, 10, 0, OFFSET_EXTENDED, 6, 4, ADVANCE4, 1, 0, 0, 0, SAME_VALUE, 6];
        check(&other, Some(&[(0x1000, Rule::UNSUPPORTED), (0x1001, Rule::UNSUPPORTED)]));
        check(&[], Some(&[(0x1000, Rule::ENTRY)]));
    }

    #[test]
    fn what_is_not_plain_is_left() {
        const EXPRESSION: u8 = 0x0f;
        for program in [
            &[EXPRESSION, 1, 0x77][..],
            &[RECALL],
            &[REMEMBER; 4],
            &[DEF_CFA, 7],
            &[DEF_CFA_OFFSET, 0x80],
            &[SAME_VALUE, 16],
            &[0x90, 2],
            &[ADVANCE4, 0, 0],
            &[DEF_CFA_OFFSET, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x3f],
        ] {
            check(program, None);
        }
        let moved = [CallFrameInstruction::AdvanceLoc { delta: 1 }];
        assert!(Common::new(1, -8, moved).is_none());
    }
}
