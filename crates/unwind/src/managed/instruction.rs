//! How long an x86-64 instruction is, and the few kinds that move the stack or end a flow.
//!
//! Reading a method from its start needs lengths only. The tables follow the processor manuals'
//! opcode maps for 64-bit mode; what does not exist there, or what compilers never emit, is `None`,
//! and the reader stops.

use crate::bytes::Bytes;

/// What an instruction means for the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `push` of a 64-bit register; 5 is `rbp`.
    Push(u8),
    /// `sub rsp, imm`, bytes.
    SubSp(i32),
    /// `lea r11, [rsp + disp]`: the new stack pointer of a probed frame.
    LeaProbe(i32),
    /// `mov rsp, r11`.
    MovSpProbe,
    /// `lea rbp, [rsp + disp]`, or `mov rbp, rsp`, which is the same with 0.
    LeaBp(i32),
    /// `mov rax, [rbp]`, with which an on-stack-replacement method begins.
    LoadSavedBp,
    /// A move of `rsp` by what is not known here: `localloc`.
    OtherSp,
    /// `test [rsp + ...], reg`: touches a page of a large frame.
    Touch,
    /// `ret`, `jmp`, `int3`, `ud2`: what follows in memory is not reached from here.
    EndsFlow,
    /// `call`. One that does not return may end a method.
    Call,
    /// One byte or more of `nop`.
    Nop,
    /// `vzeroupper`.
    ZeroUpper,
    /// Anything else.
    Other,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Bytes.
    pub len: usize,
    /// Meaning.
    pub kind: Kind,
}

/// The longest legal instruction, bytes.
const LONGEST: usize = 15;

impl Instruction {
    /// The instruction at the start of `code`; `None` if it is cut off or unknown.
    #[must_use]
    pub fn decode(code: &[u8]) -> Option<Self> {
        let code = Bytes(code.get(..LONGEST.min(code.len()))?);
        let mut prefixes = Prefixes::default();
        let mut at = 0usize;
        loop {
            match code.u8(at)? {
                0x66 => prefixes.operand16 = true,
                0x67 | 0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 => {}
                _ => break,
            }
            at = at.checked_add(1)?;
        }
        if let Some(rex @ 0x40..=0x4f) = code.u8(at) {
            prefixes.rex = rex;
            at = at.checked_add(1)?;
        }
        let opcode = code.u8(at)?;
        let after = at.checked_add(1)?;
        let (map, opcode, after) = match opcode {
            0x0f => match code.u8(after)? {
                0x38 => (Map::M0f38, code.u8(at.checked_add(2)?)?, at.checked_add(3)?),
                0x3a => (Map::M0f3a, code.u8(at.checked_add(2)?)?, at.checked_add(3)?),
                second => (Map::M0f, second, at.checked_add(2)?),
            },
            0xc5 => (Map::M0f, code.u8(at.checked_add(2)?)?, at.checked_add(3)?),
            0xc4 => {
                let map = Map::vex(code.u8(after)? & 0x1f)?;
                (map, code.u8(at.checked_add(3)?)?, at.checked_add(4)?)
            }
            0x62 => {
                let map = Map::vex(code.u8(after)? & 0x07)?;
                (map, code.u8(at.checked_add(4)?)?, at.checked_add(5)?)
            }
            _ => (Map::One, opcode, after),
        };
        let vex = matches!(code.u8(at)?, 0xc4 | 0xc5 | 0x62);
        let shape = match map {
            Map::One => one_byte(opcode, code.u8(after).unwrap_or(0), prefixes)?,
            Map::M0f => two_byte(opcode, vex)?,
            Map::M0f38 | Map::M5 | Map::M6 => Shape { modrm: true, immediate: 0 },
            Map::M0f3a => Shape { modrm: true, immediate: 1 },
        };
        let operand = if shape.modrm { modrm_len(code, after)? } else { 0 };
        let len = after.checked_add(operand)?.checked_add(shape.immediate)?;
        code.slice(0, len)?;
        let kind = if vex {
            if opcode == 0x77 { Kind::ZeroUpper } else { Kind::Other }
        } else {
            kind(code, map, opcode, after, prefixes)
        };
        Some(Self { len, kind })
    }
}

#[derive(Clone, Copy, Default)]
struct Prefixes {
    operand16: bool,
    rex: u8,
}

impl Prefixes {
    fn wide(self) -> bool {
        self.rex & 8 != 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Map {
    One,
    M0f,
    M0f38,
    M0f3a,
    M5,
    M6,
}

impl Map {
    /// The opcode map that a VEX or EVEX prefix names.
    fn vex(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::M0f),
            2 => Some(Self::M0f38),
            3 => Some(Self::M0f3a),
            5 => Some(Self::M5),
            6 => Some(Self::M6),
            _ => None,
        }
    }
}

/// What follows the opcode.
struct Shape {
    modrm: bool,
    /// Bytes.
    immediate: usize,
}

fn one_byte(opcode: u8, modrm: u8, prefixes: Prefixes) -> Option<Shape> {
    let full = if prefixes.operand16 { 2 } else { 4 };
    let (modrm, immediate) = match opcode {
        // The eight arithmetic operations, in six forms each.
        0x00..=0x3f => match opcode & 7 {
            0..=3 => (true, 0),
            4 => (false, 1),
            5 => (false, full),
            _ => return None,
        },
        0x50..=0x5f => (false, 0),
        0x63 => (true, 0),
        0x68 => (false, full),
        0x69 => (true, full),
        0x6a => (false, 1),
        0x6b => (true, 1),
        0x70..=0x7f => (false, 1),
        0x80 | 0x83 => (true, 1),
        0x81 => (true, full),
        0x84..=0x8f => (true, 0),
        0x90..=0x99 | 0x9b..=0x9f => (false, 0),
        0xa0..=0xa3 => (false, 8),
        0xa4..=0xa7 | 0xaa..=0xaf => (false, 0),
        0xa8 => (false, 1),
        0xa9 => (false, full),
        0xb0..=0xb7 => (false, 1),
        0xb8..=0xbf => (false, if prefixes.wide() { 8 } else { full }),
        0xc0 | 0xc1 | 0xc6 => (true, 1),
        0xc2 => (false, 2),
        0xc3 | 0xc9 | 0xcc => (false, 0),
        0xc7 => (true, full),
        0xcd => (false, 1),
        0xd0..=0xd3 | 0xd8..=0xdf => (true, 0),
        0xe0..=0xe3 | 0xeb => (false, 1),
        0xe8 | 0xe9 => (false, 4),
        0xf4 | 0xf5 | 0xf8..=0xfd => (false, 0),
        0xf6 => (true, if modrm & 0x38 <= 0x08 { 1 } else { 0 }),
        0xf7 => (true, if modrm & 0x38 <= 0x08 { full } else { 0 }),
        0xfe | 0xff => (true, 0),
        _ => return None,
    };
    Some(Shape { modrm, immediate })
}

fn two_byte(opcode: u8, vex: bool) -> Option<Shape> {
    let (modrm, immediate) = match opcode {
        0x77 => (false, 0),
        0x70..=0x73 | 0xc2 | 0xc4..=0xc6 => (true, 1),
        _ if vex => (true, 0),
        0x05 | 0x0b | 0x31 | 0xa2 | 0xc8..=0xcf => (false, 0),
        0x04 | 0x06..=0x0a | 0x0c | 0x0e | 0x0f | 0x24..=0x27 | 0x30..=0x3f => return None,
        0x80..=0x8f => (false, 4),
        0xa0 | 0xa1 | 0xa8 | 0xa9 => (false, 0),
        0xa4 | 0xac | 0xba => (true, 1),
        _ => (true, 0),
    };
    Some(Shape { modrm, immediate })
}

/// Length of a ModRM byte with its SIB byte and displacement.
fn modrm_len(code: Bytes<'_>, at: usize) -> Option<usize> {
    let modrm = code.u8(at)?;
    let (mode, rm) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return Some(1);
    }
    let sib = rm == 4;
    let base = if sib { code.u8(at.checked_add(1)?)? & 7 } else { rm };
    let displacement = match mode {
        0 if base == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(if sib { displacement + 2 } else { displacement + 1 })
}

/// What an instruction without VEX prefix means. `at` is where its ModRM byte or immediate is.
fn kind(code: Bytes<'_>, map: Map, opcode: u8, at: usize, prefixes: Prefixes) -> Kind {
    let modrm = code.u8(at).unwrap_or(0);
    let Map::One = map else {
        return match opcode {
            0x0b if map == Map::M0f => Kind::EndsFlow,
            0x1f if map == Map::M0f => Kind::Nop,
            _ => Kind::Other,
        };
    };
    match opcode {
        0x50..=0x57 => Kind::Push((opcode & 7) | (prefixes.rex & 1) << 3),
        0x90 => Kind::Nop,
        0xc2 | 0xc3 | 0xcc | 0xe9 | 0xeb => Kind::EndsFlow,
        0xe8 => Kind::Call,
        0x68 | 0x6a => Kind::OtherSp,
        0xff if modrm & 0x38 == 0x10 => Kind::Call,
        0xff if modrm & 0x38 == 0x20 => Kind::EndsFlow,
        0x29 | 0x2b | 0x81 | 0x83 | 0x85 | 0x89 | 0x8b | 0x8d => {
            stack_kind(code, opcode, at, prefixes).unwrap_or(Kind::Other)
        }
        _ => Kind::Other,
    }
}

fn stack_kind(code: Bytes<'_>, opcode: u8, at: usize, prefixes: Prefixes) -> Option<Kind> {
    const SP: u8 = 4;
    const BP: u8 = 5;
    const R11: u8 = 11;
    let modrm = code.u8(at)?;
    let register = (modrm >> 3 & 7) | (prefixes.rex & 4) << 1;
    let rm = (modrm & 7) | (prefixes.rex & 1) << 3;
    let direct = modrm >> 6 == 3;
    let kind = match opcode {
        0x85 if !direct && modrm & 7 == SP && code.u8(at.checked_add(1)?)? & 7 == SP => Kind::Touch,
        _ if !prefixes.wide() => Kind::Other,
        0x81 | 0x83 if direct && rm == SP => {
            let next = at.checked_add(1)?;
            let value = if opcode == 0x83 { code.i8(next)? } else { code.i32(next)? };
            match modrm & 0x38 {
                0x28 => Kind::SubSp(value),
                0x20 => Kind::OtherSp,
                _ => Kind::Other,
            }
        }
        // mov rbp, rsp and mov rsp, r11, in both encodings.
        0x8b if direct && (register, rm) == (BP, SP) => Kind::LeaBp(0),
        0x89 if direct && (register, rm) == (SP, BP) => Kind::LeaBp(0),
        0x8b if direct && (register, rm) == (SP, R11) => Kind::MovSpProbe,
        0x89 if direct && (register, rm) == (R11, SP) => Kind::MovSpProbe,
        0x8b if modrm == 0x45 && prefixes.rex == 0x48 && code.u8(at.checked_add(1)?)? == 0 => {
            Kind::LoadSavedBp
        }
        0x8d if !direct && matches!(register, BP | R11) => {
            let Some(offset) = from_sp(code, at, prefixes)? else { return Some(Kind::Other) };
            if register == BP { Kind::LeaBp(offset) } else { Kind::LeaProbe(offset) }
        }
        0x2b | 0x8b if register == SP => Kind::OtherSp,
        0x29 | 0x89 if direct && rm == SP => Kind::OtherSp,
        _ => Kind::Other,
    };
    Some(kind)
}

/// The displacement of a memory operand `[rsp + disp]`; `Some(None)` for any other operand.
fn from_sp(code: Bytes<'_>, at: usize, prefixes: Prefixes) -> Option<Option<i32>> {
    const SP_ONLY: u8 = 0x24;
    let modrm = code.u8(at)?;
    if modrm & 7 != 4 || code.u8(at.checked_add(1)?)? != SP_ONLY || prefixes.rex & 3 != 0 {
        return Some(None);
    }
    let displacement = at.checked_add(2)?;
    Some(Some(match modrm >> 6 {
        0 => 0,
        1 => code.i8(displacement)?,
        _ => code.i32(displacement)?,
    }))
}
