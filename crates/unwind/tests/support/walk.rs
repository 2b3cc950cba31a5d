//! A plain walker over a table, and the same walk by framehop: the one checks the other.

use std::arch::asm;
use std::ffi::{c_int, c_void};

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Unwinder};
use signal::rule::{Cfa, SavedBp};
use signal::table::{Found, Table};
use unwind::modules;

/// The registers that a walk needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
}

impl Registers {
    /// Those of the function that this is inlined into.
    #[inline(always)]
    pub fn here() -> Self {
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: reads three registers and changes none.
        unsafe {
            asm!("lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp", out(reg) ip, out(reg) sp,
                out(reg) bp, options(nomem, nostack, preserves_flags));
        }
        Self { ip, sp, bp }
    }
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Root,
    NoRule,
    Unsupported,
    NoFramePointer,
}

fn load(address: u64) -> u64 {
    // SAFETY: the tests walk their own thread's stack, whose frames are alive.
    unsafe { std::ptr::with_exposed_provenance::<u64>(address as usize).read_unaligned() }
}

/// Instruction pointers from the leaf to the root.
pub fn by_table(table: Table<'_>, registers: Registers) -> (Vec<u64>, End) {
    let Registers { ip, mut sp, bp } = registers;
    let (mut bp, mut ips, mut exact) = (Some(bp), vec![ip], true);
    loop {
        let ip = *ips.last().unwrap();
        // A return address may lie behind its function's end; an interrupted one doesn't.
        let Found::Rule(rule) = table.find(if exact { ip } else { ip - 1 }) else {
            return (ips, End::NoRule);
        };
        exact = false;
        let by_bp = |offset: i32| bp.map(|bp| bp.wrapping_add_signed(offset.into()));
        let cfa = match rule.cfa {
            Cfa::Sp(offset) => Some(sp.wrapping_add_signed(offset.into())),
            Cfa::Bp(offset) | Cfa::BpAgain(offset) => by_bp(offset),
            Cfa::DerefBp(offset) => by_bp(offset).map(load),
            Cfa::Plt { pushed_from } => {
                Some(sp + 8 + 8 * u64::from(ip & 15 >= u64::from(pushed_from)))
            }
            Cfa::SignalFrame => {
                // gregs begin at 40; RBP is 10, RSP 15, RIP 16.
                ips.push(load(sp + 40 + 16 * 8));
                bp = Some(load(sp + 40 + 10 * 8));
                sp = load(sp + 40 + 15 * 8);
                exact = true;
                continue;
            }
            Cfa::End => return (ips, End::Root),
            _ => return (ips, End::Unsupported),
        };
        let Some(cfa) = cfa else { return (ips, End::NoFramePointer) };
        bp = match rule.bp {
            SavedBp::Same => bp,
            SavedBp::AtCfa(offset) => Some(load(cfa.wrapping_add_signed(offset.into()))),
            SavedBp::Unknown => None,
        };
        assert!(cfa > sp, "the stack grows");
        sp = cfa;
        ips.push(load(cfa - 8));
    }
}

/// The same by framehop.
pub struct Framehop {
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
}

impl Framehop {
    pub fn new() -> Self {
        let mut unwinder = UnwinderX86_64::new();
        for fresh in modules::scan(&[], sys::memory::copy_own).fresh {
            let Ok(frames) = fresh.unwind_data else { continue };
            let module = fresh.module;
            let bias = module.bias;
            for code in &module.code {
                let info = ExplicitModuleSectionInfo {
                    base_svma: 0,
                    text_svma: Some(code.start - bias..code.end - bias),
                    eh_frame_svma: Some(
                        frames.address - bias..frames.address - bias + frames.bytes.len() as u64,
                    ),
                    eh_frame: Some(frames.bytes.clone()),
                    eh_frame_hdr_svma: Some(
                        frames.hdr_address - bias
                            ..frames.hdr_address - bias + frames.hdr_bytes.len() as u64,
                    ),
                    eh_frame_hdr: Some(frames.hdr_bytes.clone()),
                    ..Default::default()
                };
                let name = module.name();
                unwinder.add_module(framehop::Module::new(name, code.clone(), bias, info));
            }
        }
        Self { unwinder, cache: CacheX86_64::new() }
    }

    /// Instruction pointers from the leaf to the root, and whether it was reached.
    pub fn walk(&mut self, registers: Registers) -> (Vec<u64>, bool) {
        let Registers { ip, sp, bp } = registers;
        let registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut read = |address| Ok(load(address));
        let mut frames = self.unwinder.iter_frames(ip, registers, &mut self.cache, &mut read);
        let mut ips = Vec::new();
        loop {
            match frames.next() {
                Ok(Some(FrameAddress::InstructionPointer(ip))) => ips.push(ip),
                Ok(Some(FrameAddress::ReturnAddress(ip))) => ips.push(ip.get()),
                Ok(None) => return (ips, true),
                Err(_) => return (ips, false),
            }
        }
    }
}

/// The C runtime's own unwinder.
#[allow(non_snake_case, reason = "these are their names")]
mod runtime {
    use std::ffi::{c_int, c_void};

    pub type Visit = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

    unsafe extern "C" {
        pub fn _Unwind_Backtrace(visit: Visit, data: *mut c_void) -> c_int;
        pub fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }
}

unsafe extern "C" fn collect(context: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes its context, valid for the call.
    let ip = unsafe { runtime::_Unwind_GetIP(context) };
    // SAFETY: `by_runtime` passed this vector.
    unsafe { &mut *data.cast::<Vec<u64>>() }.push(ip as u64);
    0
}

/// The return addresses that the C runtime's unwinder sees from here, leaf first.
#[inline(never)]
pub fn by_runtime() -> Vec<u64> {
    let mut ips: Vec<u64> = Vec::new();
    // SAFETY: `collect` has the type asked for and gets the vector it expects.
    unsafe { runtime::_Unwind_Backtrace(collect, (&raw mut ips).cast()) };
    ips
}
