//! The table of all modules of this process against gimli's own evaluation, address by address.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/rig.rs"]
mod rig;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use gimli::{
    BaseAddresses, CfaRule, EhFrameHdr, EndianSlice, Evaluation, EvaluationResult, LittleEndian,
    Location, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
    UnwindTableRow, Value, X86_64,
};
use signal::rule::{Cfa, Rule, SavedBp};
use signal::table::{Found, Row};
use testing::Random;
use unwind::eh_frame::EhFrame;
use unwind::modules::{self, Module};
use unwind::native::TableBuilder;

const TEST: &str = "every_module_of_this_process, the runtime's part";

type Section<'a> = gimli::EhFrame<EndianSlice<'a, LittleEndian>>;

const SP: u64 = 0x7f00_0000_1000;
const BP: u64 = 0x7f00_0000_2000;

/// Some content for any address.
fn memory(address: u64) -> u64 {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}

/// What one frame's unwinding gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    NoRule,
    Root,
    Signal,
    Unsupported,
    /// The return address is in a register.
    Popped,
    Caller {
        cfa: u64,
        ip: u64,
        bp: Option<u64>,
    },
}

fn by_rule(found: Found<Rule>, ip: u64) -> Outcome {
    let Found::Rule(Rule { cfa, bp }) = found else { return Outcome::NoRule };
    let ip_at = match cfa {
        Cfa::Faulted { ip_at, .. } => ip_at,
        _ => -8,
    };
    let cfa = match cfa {
        Cfa::Sp(offset) => SP.wrapping_add_signed(offset.into()),
        Cfa::Bp(offset) | Cfa::BpAgain(offset) => BP.wrapping_add_signed(offset.into()),
        Cfa::DerefBp(offset) => memory(BP.wrapping_add_signed(offset.into())),
        Cfa::Plt { pushed_from } => SP + 8 + 8 * u64::from(ip & 15 >= u64::from(pushed_from)),
        Cfa::Faulted { sp_offset, .. } => SP.wrapping_add_signed(sp_offset.into()),
        Cfa::Popped => return Outcome::Popped,
        Cfa::SignalFrame => return Outcome::Signal,
        Cfa::End => return Outcome::Root,
        _ => return Outcome::Unsupported,
    };
    let bp = match bp {
        SavedBp::Same => Some(BP),
        SavedBp::AtCfa(offset) => Some(memory(cfa.wrapping_add_signed(offset.into()))),
        SavedBp::Unknown => None,
    };
    Outcome::Caller { cfa, ip: memory(cfa.wrapping_add_signed(ip_at.into())), bp }
}

/// The value of an expression, if it needs no registers but those that a walk has.
fn evaluate(section: &Section<'_>, expression: UnwindExpression<usize>, ip: u64) -> Option<u64> {
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
    let mut evaluation: Evaluation<_> = expression.get(section).ok()?.evaluation(encoding);
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = match register {
                    X86_64::RSP => SP,
                    X86_64::RBP => BP,
                    Register(16) => ip,
                    _ => return None,
                };
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            EvaluationResult::RequiresMemory { address, .. } => {
                evaluation.resume_with_memory(Value::Generic(memory(address))).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.as_result().first()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}

fn by_row(section: &Section<'_>, row: &UnwindTableRow<usize>, ip: u64) -> Outcome {
    let by_sp = |wanted: Option<i64>| {
        matches!(row.cfa(), CfaRule::RegisterAndOffset { register: X86_64::RSP, offset }
            if wanted.is_none_or(|wanted| *offset == wanted))
    };
    let ip_at = match row.register(X86_64::RA) {
        None | Some(RegisterRule::Undefined) => return Outcome::Root,
        Some(RegisterRule::Offset(at)) if at == -8 || by_sp(None) => at,
        Some(RegisterRule::Register(_)) if by_sp(Some(0)) => return Outcome::Popped,
        Some(_) => return Outcome::Unsupported,
    };
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => {
            Some(SP.wrapping_add_signed(*offset))
        }
        CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => {
            Some(BP.wrapping_add_signed(*offset))
        }
        CfaRule::RegisterAndOffset { .. } => None,
        CfaRule::Expression(expression) => evaluate(section, *expression, ip),
    };
    let Some(cfa) = cfa else { return Outcome::Unsupported };
    let bp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue) => Some(BP),
        Some(RegisterRule::Offset(offset)) => Some(memory(cfa.wrapping_add_signed(offset))),
        Some(RegisterRule::Expression(expression)) => evaluate(section, expression, ip).map(memory),
        Some(_) => None,
    };
    Outcome::Caller { cfa, ip: memory(cfa.wrapping_add_signed(ip_at)), bp }
}

struct Oracle<'a> {
    frames: &'a EhFrame,
    context: UnwindContext<usize>,
}

impl Oracle<'_> {
    fn at(&mut self, ip: u64) -> Outcome {
        let frames = self.frames;
        let bases = BaseAddresses::default()
            .set_eh_frame(frames.address)
            .set_eh_frame_hdr(frames.hdr_address);
        let section = Section::new(&frames.bytes, LittleEndian);
        let hdr = EhFrameHdr::new(&frames.hdr_bytes, LittleEndian).parse(&bases, 8).unwrap();
        let from_offset = Section::cie_from_offset;
        let fde = match hdr.table() {
            Some(table) => table.fde_for_address(&section, &bases, ip, from_offset),
            None => section.fde_for_address(&bases, ip, from_offset),
        };
        let Ok(fde) = fde else { return Outcome::NoRule };
        if fde.is_signal_trampoline() {
            return Outcome::Signal;
        }
        match fde.unwind_info_for_address(&section, &bases, &mut self.context, ip) {
            Ok(row) => by_row(&section, row, ip),
            Err(_) => Outcome::NoRule,
        }
    }
}

/// Addresses of a module that matter: where rows begin, just before, and random ones.
fn addresses(module: &Module, rows: impl Fn(u64) -> Vec<Row>) -> Vec<u64> {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut addresses = Vec::new();
    for code in &module.code {
        let len = code.end - code.start;
        addresses.extend((0..5000).map(|_| code.start + random.below(len)));
        let rows = rows(code.start);
        let stride = (rows.len() / 5000).max(1);
        for row in rows.iter().step_by(stride) {
            let at = code.start + u64::from(row.offset);
            addresses.extend([at.saturating_sub(1).max(code.start), at.min(code.end - 1)]);
        }
    }
    addresses
}

#[test]
fn every_module_of_this_process() {
    // Loaded, not run.
    for library in rig::files(TEST, &["libcoreclr.so", "libclrjit.so", "libSystem.Native.so"]) {
        let path = CString::new(library.as_os_str().as_bytes()).unwrap();
        // SAFETY: the runtime's libraries do nothing much when loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{}", library.display());
    }
    let mut builder = TableBuilder::new(sys::memory::copy_own);
    let start = Instant::now();
    builder.refresh();
    let elapsed = start.elapsed();
    let table = builder.table();
    let view = table.view();
    println!(
        "{} modules, {} rows, {} rules, {} bytes, built in {elapsed:?}",
        builder.entries().len(),
        view.rows.len(),
        view.rules.len(),
        table.bytes()
    );
    let mut modules_checked = 0;
    for fresh in modules::scan(&[], sys::memory::copy_own).fresh {
        let entry = builder.entries().iter().find(|e| e.module == fresh.module).unwrap();
        let Ok(frames) = fresh.unwind_data else {
            println!("{}: {:?}", fresh.module.name(), entry.missing);
            continue;
        };
        let rows_of = |start: u64| {
            let region = view.region(start).unwrap();
            view.rows[region.rows_start as usize..][..region.rows_len as usize].to_vec()
        };
        let mut oracle = Oracle { frames: &frames, context: UnwindContext::new() };
        let (mut checked, mut unsupported, mut no_rule, mut bp_lost) = (0, 0, 0, 0);
        // The one routine whose data is wrong, and mended; see `unwind::hijack`.
        let mended = entry.hijack.map_or(0..0, |start| start..start + 0x60);
        for ip in addresses(&fresh.module, rows_of).into_iter().filter(|ip| !mended.contains(ip)) {
            let (ours, theirs) = (by_rule(view.find(ip), ip), oracle.at(ip));
            checked += 1;
            unsupported += u32::from(theirs == Outcome::Unsupported);
            no_rule += u32::from(theirs == Outcome::NoRule);
            match (ours, theirs) {
                // Saved where only an expression leads: the walker goes on without.
                (
                    Outcome::Caller { cfa, ip, bp: None },
                    Outcome::Caller { cfa: their_cfa, ip: their_ip, bp: Some(_) },
                ) if (cfa, ip) == (their_cfa, their_ip) => {
                    bp_lost += 1;
                }
                _ => assert_eq!(ours, theirs, "{} {ip:#x}", fresh.module.name()),
            }
        }
        let rows: usize = fresh.module.code.iter().map(|code| rows_of(code.start).len()).sum();
        println!(
            "{}: {rows} rows, {} bytes of .eh_frame; {checked} addresses equal, {no_rule} without \
             rule, {unsupported} unsupported, {bp_lost} lose rbp, {:?}",
            fresh.module.name(),
            frames.bytes.len(),
            entry.losses,
        );
        modules_checked += 1;
    }
    assert!(modules_checked >= 3, "the program, libc and the vDSO at least");
}
