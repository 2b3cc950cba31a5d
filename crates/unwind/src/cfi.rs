//! Call frame information (`.eh_frame` entries) turned into the rows of one module.
//!
//! Each FDE is a small program that yields a table for one function. All are run here, once, so
//! that the handler has only to search. Nearly all are plain ([`crate::entries`]); gimli runs the
//! others.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EndianSlice, FrameDescriptionEntry, LittleEndian, Register,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};
use model::limits::UNWIND_ROWS_MAX;
use signal::rule::{Cfa, Rule, SavedBp};
use signal::table::Row;

use crate::blocks::{Block, Blocks, Losses, tidy};
use crate::bytes::{Bytes, ReadMemory};
use crate::eh_frame::EhFrame;
use crate::entries::{Entries, Entry};
use crate::hijack;
use crate::rules::Rules;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Section<'a> = gimli::EhFrame<Slice<'a>>;
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
    let mut blocks: Vec<Block> =
        code.iter().map(|range| Block { range: range.clone(), rows: Vec::new() }).collect();
    // Nearly all code is in one range. An entry has a row for some six bytes.
    if let Some(block) = blocks.first_mut() {
        block.rows.reserve(frames.bytes.len() / 6);
    }
    let section = Section::new(&frames.bytes, LittleEndian);
    let bases =
        BaseAddresses::default().set_eh_frame(frames.address).set_eh_frame_hdr(frames.hdr_address);
    let mut reader = Reader {
        entries: Entries::new(section, bases.clone(), frames),
        section,
        bases,
        rules,
        read_memory,
        blocks,
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
    entries: Entries<'a>,
    section: Section<'a>,
    bases: BaseAddresses,
    rules: &'r mut Rules,
    read_memory: ReadMemory,
    blocks: Vec<Block>,
    count: usize,
    losses: Losses,
    hijack: Option<u64>,
}

impl<'a> Reader<'a, '_> {
    fn run(&mut self) {
        let mut context = UnwindContext::new();
        let mut rows = Vec::new();
        loop {
            rows.clear();
            match self.entries.next(&mut rows) {
                None => break,
                Some(Entry::Plain(range)) => self.function(range, &mut rows),
                Some(Entry::Other(offset)) => match self.parsed(offset) {
                    Some(fde) => {
                        self.evaluate(&fde, &mut context, &mut rows);
                        self.function(fde.initial_address()..fde.end_address(), &mut rows);
                    }
                    None => count(&mut self.losses.bad_entries),
                },
            }
        }
        // Without its length there is no way to the entries behind it.
        if self.entries.is_cut {
            count(&mut self.losses.bad_entries);
        }
    }

    fn parsed(&self, offset: usize) -> Option<Fde<'a>> {
        let from_offset = Section::cie_from_offset;
        self.section.fde_from_offset(&self.bases, offset.into(), from_offset).ok()
    }

    /// Runs an entry's program as gimli does.
    fn evaluate(
        &mut self,
        fde: &Fde<'a>,
        context: &mut UnwindContext<usize>,
        rows: &mut Vec<(u64, Rule)>,
    ) {
        let section = self.section;
        let Ok(mut table) = fde.rows(&section, &self.bases, context) else {
            return count(&mut self.losses.bad_programs);
        };
        loop {
            match table.next_row() {
                Ok(Some(row)) => rows.push((row.start_address(), rule(&section, fde, row))),
                Ok(None) => return,
                Err(_) => return count(&mut self.losses.bad_programs),
            }
        }
    }

    /// Appends a function's rows, and one without a rule behind them; `tidy` drops that where the
    /// next function follows at once.
    fn function(&mut self, range: Range<u64>, rows: &mut Vec<(u64, Rule)>) {
        let Range { start, end } = range;
        let block = self
            .blocks
            .iter()
            .position(|block| block.range.start <= start && start < end && end <= block.range.end);
        let Some(block) = block else {
            // Linkers leave entries of discarded functions behind, at address 0.
            return count(&mut self.losses.outside);
        };
        rows.retain(|(at, _)| (start..end).contains(at));
        if hijack::mend(rows, self.read_memory) {
            self.hijack = Some(start);
        }
        self.rows(block, rows);
        self.push(block, end, Row::NO_RULE);
    }

    /// Appends the rows of one function.
    fn rows(&mut self, block: usize, rows: &[(u64, Rule)]) {
        let (mut last, mut is_framed) = (None, false);
        for (at, rule) in rows {
            if self.count >= UNWIND_ROWS_MAX {
                return count(&mut self.losses.over_limit);
            }
            if *rule == Rule::UNSUPPORTED {
                count(&mut self.losses.unsupported);
            }
            // What else is saved is nothing to a walk.
            if last.replace(*rule) == Some(*rule) {
                continue;
            }
            let is_frame = *rule == Rule::FRAME;
            let rule = if is_frame && is_framed { Rule::FRAME_AGAIN } else { *rule };
            is_framed |= is_frame;
            let rule = self.rules.intern(rule);
            self.push(block, *at, rule);
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
