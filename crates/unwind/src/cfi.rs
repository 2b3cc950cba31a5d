//! Call frame information (`.eh_frame` entries) turned into the rows of one module.
//!
//! Each FDE is a small program that yields a table for one function. All are run here, once, so
//! that the handler has only to search.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, CommonInformationEntry, EndianSlice, FrameDescriptionEntry,
    LittleEndian, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
    UnwindTableRow, X86_64,
};
use model::limits::UNWIND_ROWS_MAX;
use signal::rule::{Cfa, Rule, SavedBp};
use signal::table::Row;

use crate::blocks::{Block, Blocks, Losses, tidy};
use crate::bytes::{Bytes, ReadMemory, Window};
use crate::eh_frame::EhFrame;
use crate::hijack;
use crate::managed::instruction::{Instruction, Kind};
use crate::rules::Rules;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Section<'a> = gimli::EhFrame<Slice<'a>>;
type Cie<'a> = CommonInformationEntry<Slice<'a>>;
type Fde<'a> = FrameDescriptionEntry<Slice<'a>>;

/// Runs all entries of a module and sorts what they say into its executable ranges. Ranges must be
/// ascending; one longer than 4 GiB gets no rows. `read_memory` fills a buffer with the code at an
/// address, and says how much it could.
#[must_use]
pub fn blocks(
    frames: &EhFrame,
    code: &[Range<u64>],
    rules: &mut Rules,
    read_memory: ReadMemory,
) -> Blocks {
    let blocks = code.iter().map(|range| Block { range: range.clone(), rows: Vec::new() });
    let mut reader = Reader {
        section: Section::new(&frames.bytes, LittleEndian),
        bases: BaseAddresses::default()
            .set_eh_frame(frames.address)
            .set_eh_frame_hdr(frames.hdr_address),
        rules,
        read_memory,
        window: Window::new(read_memory),
        blocks: blocks.collect(),
        count: 0,
        losses: Losses::default(),
        hijack: None,
    };
    reader.run();
    for block in &mut reader.blocks {
        tidy(&mut block.rows);
    }
    Blocks { blocks: reader.blocks, losses: reader.losses, hijack: reader.hijack }
}

struct Reader<'a, 'r> {
    section: Section<'a>,
    bases: BaseAddresses,
    rules: &'r mut Rules,
    read_memory: ReadMemory,
    window: Window,
    blocks: Vec<Block>,
    count: usize,
    losses: Losses,
    hijack: Option<u64>,
}

impl<'a> Reader<'a, '_> {
    fn run(&mut self) {
        let section = self.section;
        let bases = self.bases.clone();
        let mut context = UnwindContext::new();
        // Entries of one object file share a CIE, and follow it.
        let mut last_cie: Option<Cie<'a>> = None;
        let mut entries = section.entries(&bases);
        loop {
            let partial = match entries.next() {
                Ok(Some(CieOrFde::Fde(partial))) => partial,
                Ok(Some(CieOrFde::Cie(_))) => continue,
                Ok(None) => return,
                Err(_) => {
                    // Without its length there is no way to the entries behind it.
                    count(&mut self.losses.bad_entries);
                    return;
                }
            };
            let parsed = partial.parse(|section, bases, offset| {
                if let Some(cie) = last_cie.as_ref().filter(|cie| cie.offset() == offset.0) {
                    return Ok(cie.clone());
                }
                let cie = section.cie_from_offset(bases, offset)?;
                last_cie = Some(cie.clone());
                Ok(cie)
            });
            match parsed {
                Ok(fde) => self.fde(&fde, &mut context),
                Err(_) => count(&mut self.losses.bad_entries),
            }
        }
    }

    /// Appends an entry's rows, and one without a rule behind them; `tidy` drops that where the
    /// next entry follows at once.
    fn fde(&mut self, fde: &Fde<'a>, context: &mut UnwindContext<usize>) {
        let (start, end) = (fde.initial_address(), fde.end_address());
        let block = self
            .blocks
            .iter()
            .position(|block| block.range.start <= start && start < end && end <= block.range.end);
        let Some(block) = block else {
            // Linkers leave entries of discarded functions behind, at address 0.
            return count(&mut self.losses.outside);
        };
        let section = self.section;
        let bases = self.bases.clone();
        let mut rows: Vec<(u64, Rule)> = Vec::new();
        let Ok(mut table) = fde.rows(&section, &bases, context) else {
            return count(&mut self.losses.bad_programs);
        };
        loop {
            let (at, rule) = match table.next_row() {
                Ok(Some(row)) => (row.start_address(), rule(&section, fde, row)),
                Ok(None) => break,
                Err(_) => {
                    count(&mut self.losses.bad_programs);
                    break;
                }
            };
            if at < start || at >= end {
                continue;
            }
            rows.push((at, rule));
        }
        if hijack::mend(&mut rows, self.read_memory) {
            self.hijack = Some(start);
        }
        self.rows(block, &rows, end);
    }

    /// Appends the rows of one entry.
    fn rows(&mut self, block: usize, rows: &[(u64, Rule)], end: u64) {
        let mut framed = None;
        for (at, rule) in rows {
            if self.count >= UNWIND_ROWS_MAX {
                count(&mut self.losses.over_limit);
                break;
            }
            if *rule == Rule::UNSUPPORTED {
                count(&mut self.losses.unsupported);
            }
            if *rule == Rule::FRAME {
                self.framed(block, *at..end, &mut framed);
                continue;
            }
            let rule = self.rules.intern(*rule);
            self.push(block, *at, rule);
        }
        self.push(block, end, Row::NO_RULE);
    }

    /// Appends the rows of a frame that the data describes by its frame pointer. Once its prologue
    /// is over, the stack pointer stands at a fixed distance too, which the data does not tell: it
    /// is read off the instructions, for walks that start without the frame pointer.
    fn framed(&mut self, block: usize, range: Range<u64>, framed: &mut Option<Framed>) {
        let at = range.start;
        let Framed { body, sp_offset } =
            *framed.get_or_insert_with(|| Framed::read(at, &mut self.window));
        if at < body {
            let rule = self.rules.intern(Rule::FRAME);
            self.push(block, at, rule);
        }
        let body = at.max(body);
        if body < range.end {
            let cfa = Cfa::BpOrSp { bp_offset: 16, sp_offset };
            let rule = self.rules.intern(Rule { cfa, ..Rule::FRAME });
            self.push(block, body, rule);
        }
    }

    fn push(&mut self, block: usize, address: u64, rule: u32) {
        let Some(block) = self.blocks.get_mut(block) else { return };
        match u32::try_from(address.wrapping_sub(block.range.start)) {
            Ok(offset) => {
                block.rows.push(Row { offset, rule });
                self.count = self.count.saturating_add(1);
            }
            Err(_) => count(&mut self.losses.over_limit),
        }
    }
}

/// What a framed function's prologue does after it has set its frame pointer.
#[derive(Clone, Copy)]
struct Framed {
    /// Where the body begins.
    body: u64,
    /// From the stack pointer up to the CFA, bytes, in the body.
    sp_offset: i32,
}

impl Framed {
    /// Reads on from where the frame pointer has just been set: pushes, then one `sub rsp`.
    fn read(at: u64, window: &mut Window) -> Self {
        /// Six pushes of two bytes and a long `sub`.
        const BYTES: usize = 24;
        let mut code = window.at(at, BYTES);
        let mut framed = Self { body: at, sp_offset: 16 };
        while let Some(next) = Instruction::decode(code) {
            let (grown, last) = match next.kind {
                Kind::Push(_) => (8, false),
                Kind::SubSp(bytes) => (bytes, true),
                _ => break,
            };
            framed.sp_offset = framed.sp_offset.saturating_add(grown);
            framed.body = framed.body.saturating_add(next.len as u64);
            code = code.get(next.len..).unwrap_or_default();
            if last {
                break;
            }
        }
        framed
    }
}

fn count(counter: &mut u32) {
    *counter = counter.saturating_add(1);
}

/// One row's rule, in the walker's words.
fn rule(section: &Section<'_>, fde: &Fde<'_>, row: &UnwindTableRow<usize>) -> Rule {
    if fde.is_signal_trampoline() {
        return Rule { cfa: Cfa::SignalFrame, bp: SavedBp::Unknown };
    }
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => cfa_register(*register, *offset),
        CfaRule::Expression(expression) => cfa_expression(section, *expression),
    };
    let cfa = match (row.register(X86_64::RA), cfa) {
        (Some(RegisterRule::Offset(-8)), cfa) => cfa,
        // The outermost frame says that its return address does not exist.
        (None | Some(RegisterRule::Undefined), _) => {
            return Rule { cfa: Cfa::End, bp: SavedBp::Unknown };
        }
        (Some(RegisterRule::Offset(at)), Some(Cfa::Sp(sp_offset))) => {
            i32::try_from(at).ok().map(|ip_at| Cfa::Faulted { sp_offset, ip_at })
        }
        (Some(RegisterRule::Register(_)), Some(Cfa::Sp(0))) => Some(Cfa::Popped),
        _ => None,
    };
    match cfa {
        Some(cfa) => Rule { cfa, bp: saved_bp(row) },
        None => Rule::UNSUPPORTED,
    }
}

fn cfa_register(register: Register, offset: i64) -> Option<Cfa> {
    let offset = i32::try_from(offset).ok()?;
    match register {
        X86_64::RSP => Some(Cfa::Sp(offset)),
        X86_64::RBP => Some(Cfa::Bp(offset)),
        _ => None,
    }
}

fn saved_bp(row: &UnwindTableRow<usize>) -> SavedBp {
    match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue) => SavedBp::Same,
        Some(RegisterRule::Offset(offset)) => {
            i32::try_from(offset).map_or(SavedBp::Unknown, SavedBp::AtCfa)
        }
        Some(_) => SavedBp::Unknown,
    }
}

/// The expressions that occur: a realigned frame's `*(rbp + offset)`, and a lazy-binding stub's
/// `rsp + 8 + ((rip & 15) >= n) * 8`. They are compared as bytes, since linkers write them so.
fn cfa_expression(section: &Section<'_>, expression: UnwindExpression<usize>) -> Option<Cfa> {
    const DEREF: u8 = 0x06;
    const BREG6: u8 = 0x76;
    const LIT0: u8 = 0x30;
    // breg7 8, breg16 0, lit15, and, ...
    const PLT_HEAD: [u8; 6] = [0x77, 8, 0x80, 0, 0x3f, 0x1a];
    // ..., ge, lit3, shl, plus
    const PLT_TAIL: [u8; 4] = [0x2a, 0x33, 0x24, 0x22];

    let code = expression.get(section).ok()?.0.slice();
    if let Some(rest) = code.strip_prefix(&PLT_HEAD) {
        let pushed_from = Bytes(rest).u8(0)?.checked_sub(LIT0).filter(|n| *n < 16)?;
        return (rest.get(1..)? == PLT_TAIL).then_some(Cfa::Plt { pushed_from });
    }
    let (first, rest) = code.split_first()?;
    let (last, offset) = rest.split_last()?;
    if *first != BREG6 || *last != DEREF {
        return None;
    }
    sleb128(offset).map(Cfa::DerefBp)
}

/// A signed LEB128 number that fills the slice and fits.
fn sleb128(bytes: &[u8]) -> Option<i32> {
    let (last, head) = bytes.split_last()?;
    if bytes.len() > 4 || *last & 0x80 != 0 || head.iter().any(|byte| byte & 0x80 == 0) {
        return None;
    }
    let bits = u32::try_from(bytes.len().checked_mul(7)?).ok()?;
    let value = bytes.iter().rev().fold(0u32, |value, byte| value << 7 | u32::from(byte & 0x7f));
    let unused = 32u32.checked_sub(bits)?;
    Some((value << unused).cast_signed() >> unused)
}
