//! One function, decoded along its control flow: whom it calls, jumps to or takes the address of,
//! and what it does that no list allows.
//!
//! Code is followed from the entry, so that landing pads, which only an unwinder enters, count only
//! if something jumps to them. The registers are followed as far as constants go: compilers keep a
//! callee's address in a register, and a jump table is known by the sum it is reached by.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use iced_x86::{
    Code, ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};

use super::image::{Image, Slot};

/// Entries of a jump table, at most; no function has a switch of more cases.
const TABLE_ENTRIES_MAX: u64 = 4096;
/// Instructions before a jump through a table among which the check of its index is looked for.
const BOUND_DISTANCE: usize = 24;
/// Registers that a call leaves undefined: rax rcx rdx rsi rdi r8 to r11.
const CLOBBERED: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

/// Where an edge leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Code of the library.
    Code(u64),
    /// A function of another library; `lazy` if it is looked up at the first call.
    Import { name: String, lazy: bool },
}

/// How an edge leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It calls.
    Call,
    /// It jumps and does not come back.
    Jump,
    /// It takes the address, so it, or somebody it gives it to, may call.
    Address,
}

/// What an instruction does that needs leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// Calls or jumps to an address that can't be told.
    Indirect,
    /// Touches thread-local storage.
    ThreadLocal,
    /// Makes a system call; the number if it can be told.
    SystemCall(Option<u64>),
    /// Is no instruction, or lies outside all code.
    Undecodable,
}

/// What a function does.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Where it leads, by the address of the instruction.
    pub edges: BTreeSet<(u64, How, Target)>,
    /// What it does, by the address of the instruction.
    pub deeds: BTreeSet<(u64, Deed)>,
    /// Bytes of instructions that can be reached.
    pub bytes: u64,
}

/// What a register is known to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Unknown,
    Number(u64),
    Address(u64),
    Import {
        name: String,
        lazy: bool,
    },
    /// An entry of the jump table at that address.
    Entry(u64),
    /// An entry of a jump table, added to what it counts from.
    Case {
        table: u64,
        from: u64,
    },
}

/// The sixteen general registers.
type State = [Value; 16];

const UNKNOWN: State = [const { Value::Unknown }; 16];

struct Scanner<'a> {
    image: &'a Image,
    range: Range<u64>,
    states: BTreeMap<u64, State>,
    pending: Vec<u64>,
    info: InstructionInfoFactory,
    /// Where else a jump table may begin, in order to know where one ends.
    data: BTreeSet<u64>,
    tables: BTreeMap<(u64, u64), BTreeSet<u64>>,
}

/// Scans the code at `entry`, which lies in a function with that range.
pub fn scan(image: &Image, entry: u64, range: Range<u64>) -> Scan {
    let mut scanner = Scanner {
        image,
        data: data_addresses(image, &range),
        range,
        states: BTreeMap::new(),
        pending: Vec::new(),
        info: InstructionInfoFactory::new(),
        tables: BTreeMap::new(),
    };
    scanner.arrive(entry, &UNKNOWN);
    // What is known only ever shrinks, so this ends; only then are the findings final.
    while let Some(ip) = scanner.pending.pop() {
        scanner.visit(ip, &mut Scan::default());
    }
    let mut scan = Scan::default();
    let reached: Vec<u64> = scanner.states.keys().copied().collect();
    for ip in reached {
        scanner.visit(ip, &mut scan);
    }
    scan
}

/// Data that a function's instructions point to.
fn data_addresses(image: &Image, range: &Range<u64>) -> BTreeSet<u64> {
    let instructions = linear(image, range.clone());
    let pointed = instructions.filter(Instruction::is_ip_rel_memory_operand);
    pointed.map(|i| i.ip_rel_memory_address()).filter(|at| !image.is_code(*at)).collect()
}

/// All instructions of a range, one after the other.
fn linear(image: &Image, range: Range<u64>) -> impl Iterator<Item = Instruction> {
    let bytes = image.bytes(range.start).unwrap_or_default();
    let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
    let bytes = bytes.get(..length).unwrap_or(bytes);
    Decoder::with_ip(64, bytes, range.start, DecoderOptions::NONE).into_iter()
}

impl Scanner<'_> {
    /// Notes that an instruction is reached with registers in a state.
    fn arrive(&mut self, ip: u64, state: &State) {
        let Some(known) = self.states.get_mut(&ip) else {
            self.states.insert(ip, state.clone());
            self.pending.push(ip);
            return;
        };
        let mut changed = false;
        for (known, new) in known.iter_mut().zip(state) {
            if known != new && *known != Value::Unknown {
                *known = Value::Unknown;
                changed = true;
            }
        }
        if changed {
            self.pending.push(ip);
        }
    }

    /// Decodes one instruction, notes what it does and passes its state on.
    fn visit(&mut self, ip: u64, scan: &mut Scan) {
        let Some(state) = self.states.get(&ip).cloned() else { return };
        let bytes = self.image.bytes(ip).filter(|_| self.image.is_code(ip)).unwrap_or_default();
        let instruction = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            scan.deeds.insert((ip, Deed::Undecodable));
            return;
        }
        scan.bytes += instruction.len() as u64;
        self.note_memory(&instruction, scan);
        let after = self.step(&instruction, &state);
        let next = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Next => self.jump(ip, next, &after, scan),
            FlowControl::ConditionalBranch => {
                self.jump(ip, instruction.near_branch_target(), &after, scan);
                self.jump(ip, next, &after, scan);
            }
            FlowControl::UnconditionalBranch => {
                self.jump(ip, instruction.near_branch_target(), &after, scan);
            }
            FlowControl::IndirectBranch => {
                let value = self.callee(&instruction, &state);
                self.jump_to(ip, value, &after, scan);
            }
            FlowControl::Call if instruction.is_call_near() => {
                let target = Target::Code(instruction.near_branch_target());
                scan.edges.insert((ip, How::Call, target));
                self.returned(next, &after);
            }
            FlowControl::Call if instruction.code() == Code::Syscall => {
                let number = match &state[0] {
                    Value::Number(number) => Some(*number),
                    _ => None,
                };
                scan.deeds.insert((ip, Deed::SystemCall(number)));
                self.jump(ip, next, &after, scan);
            }
            FlowControl::IndirectCall => {
                let value = self.callee(&instruction, &state);
                self.edge(ip, How::Call, value, scan);
                self.returned(next, &after);
            }
            // A far call, a virtual machine's call, a transaction: no compiler makes them.
            FlowControl::Call | FlowControl::XbeginXabortXend => {
                scan.deeds.insert((ip, Deed::Indirect));
            }
            // A trap ends the process or goes to the host's handler; there is no way back.
            FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => {}
        }
    }

    /// What an instruction's memory operand and segment tell.
    fn note_memory(&mut self, instruction: &Instruction, scan: &mut Scan) {
        let ip = instruction.ip();
        let is_memory = |n| instruction.op_kind(n) == OpKind::Memory;
        // Compilers pad with long forms of `nop` that name memory and a segment.
        if !(0..instruction.op_count()).any(is_memory) || instruction.mnemonic() == Mnemonic::Nop {
            return;
        }
        if matches!(instruction.memory_segment(), Register::FS | Register::GS) {
            scan.deeds.insert((ip, Deed::ThreadLocal));
        }
        if !instruction.is_ip_rel_memory_operand() {
            return;
        }
        let start = instruction.ip_rel_memory_address();
        if instruction.code() == Code::Lea_r64_m {
            if self.image.slot(start) == Some(&Slot::ThreadLocal) {
                scan.deeds.insert((ip, Deed::ThreadLocal));
            } else if self.range.contains(&start) {
                self.arrive(start, &UNKNOWN);
            } else if self.image.is_code(start) {
                scan.edges.insert((ip, How::Address, Target::Code(start)));
            }
            return;
        }
        // A vector load reads several pointers at once.
        let size = instruction.memory_size().size() as u64;
        for place in (start..start + size.max(1)).step_by(8) {
            self.note_pointer(instruction, place, scan);
        }
    }

    /// A pointer that is read is reached, since it may be called, or handed on to who calls it.
    fn note_pointer(&self, instruction: &Instruction, place: u64, scan: &mut Scan) {
        let ip = instruction.ip();
        let branches = instruction.is_call_near_indirect() || instruction.is_jmp_near_indirect();
        match self.image.slot(place) {
            Some(Slot::ThreadLocal) => {
                scan.deeds.insert((ip, Deed::ThreadLocal));
            }
            Some(Slot::Address(address)) if !branches && self.image.is_code(*address) => {
                scan.edges.insert((ip, How::Address, Target::Code(*address)));
            }
            Some(Slot::Import { name, lazy }) if !branches => {
                let target = Target::Import { name: name.clone(), lazy: *lazy };
                scan.edges.insert((ip, How::Address, target));
            }
            _ => {}
        }
    }

    /// The registers after an instruction, calls aside.
    fn step(&mut self, instruction: &Instruction, before: &State) -> State {
        let mut after = before.clone();
        let result = instruction.op0_register();
        let whole = result.is_gpr64() || result.is_gpr32();
        let used = self.info.info(instruction).used_registers().to_vec();
        for used in used {
            let written = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            if let (true, Some(index)) = (written, general(used.register())) {
                let is_result = whole && general(result) == Some(index);
                after[index] =
                    if is_result { self.result(instruction, before) } else { Value::Unknown };
            }
        }
        if instruction.code() == Code::Syscall {
            after[0] = Value::Unknown;
        }
        after
    }

    /// What an instruction leaves in its first operand.
    fn result(&self, instruction: &Instruction, before: &State) -> Value {
        let register = |n| general(instruction.op_register(n)).map(|index| &before[index]);
        match instruction.code() {
            Code::Mov_r32_imm32
            | Code::Mov_r64_imm64
            | Code::Mov_rm64_imm32
            | Code::Mov_rm32_imm32 => Value::Number(instruction.immediate(1)),
            Code::Xor_r32_rm32 | Code::Xor_rm32_r32
                if instruction.op0_register() == instruction.op1_register() =>
            {
                Value::Number(0)
            }
            Code::Lea_r64_m if instruction.is_ip_rel_memory_operand() => {
                Value::Address(instruction.ip_rel_memory_address())
            }
            Code::Mov_r64_rm64 if instruction.is_ip_rel_memory_operand() => {
                self.pointer(instruction.ip_rel_memory_address())
            }
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64
                if instruction.op_kind(1) == OpKind::Register =>
            {
                register(1).cloned().unwrap_or(Value::Unknown)
            }
            Code::Movsxd_r64_rm32 if instruction.memory_index_scale() == 4 => {
                let base = general(instruction.memory_base()).map(|index| &before[index]);
                match base {
                    Some(Value::Address(table)) => {
                        Value::Entry(table.wrapping_add(instruction.memory_displacement64()))
                    }
                    _ => Value::Unknown,
                }
            }
            Code::Add_r64_rm64 | Code::Add_rm64_r64
                if instruction.op_kind(1) == OpKind::Register =>
            {
                match (register(0), register(1)) {
                    (Some(Value::Entry(table)), Some(Value::Address(from)))
                    | (Some(Value::Address(from)), Some(Value::Entry(table))) => {
                        Value::Case { table: *table, from: *from }
                    }
                    _ => Value::Unknown,
                }
            }
            _ => Value::Unknown,
        }
    }

    /// What the pointer at a place holds, if the loader writes it.
    fn pointer(&self, place: u64) -> Value {
        match self.image.slot(place) {
            Some(Slot::Address(address)) => Value::Address(*address),
            Some(Slot::Import { name, lazy }) => Value::Import { name: name.clone(), lazy: *lazy },
            Some(Slot::ThreadLocal | Slot::Resolved) | None => Value::Unknown,
        }
    }

    /// What an indirect call or jump leads to.
    fn callee(&self, instruction: &Instruction, state: &State) -> Value {
        if instruction.op0_kind() == OpKind::Register {
            let index = general(instruction.op0_register());
            return index.map_or(Value::Unknown, |index| state[index].clone());
        }
        if instruction.is_ip_rel_memory_operand() {
            return self.pointer(instruction.ip_rel_memory_address());
        }
        Value::Unknown
    }

    /// A call came back. One at a function's very end does not.
    fn returned(&mut self, next: u64, state: &State) {
        if !self.range.contains(&next) {
            return;
        }
        let mut state = state.clone();
        for index in CLOBBERED {
            state[index] = Value::Unknown;
        }
        self.arrive(next, &state);
    }

    /// Execution goes on at an address: of this function, or of another one.
    fn jump(&mut self, ip: u64, target: u64, state: &State, scan: &mut Scan) {
        if self.range.contains(&target) {
            self.arrive(target, state);
        } else {
            scan.edges.insert((ip, How::Jump, Target::Code(target)));
        }
    }

    fn jump_to(&mut self, ip: u64, value: Value, state: &State, scan: &mut Scan) {
        match value {
            Value::Case { table, from } => {
                let targets = self.cases(ip, table, from);
                if targets.is_empty() {
                    scan.deeds.insert((ip, Deed::Indirect));
                }
                for target in targets {
                    self.jump(ip, target, state, scan);
                }
            }
            Value::Address(target) => self.jump(ip, target, state, scan),
            other => self.edge(ip, How::Jump, other, scan),
        }
    }

    fn edge(&self, ip: u64, how: How, value: Value, scan: &mut Scan) {
        match value {
            Value::Address(address) => {
                scan.edges.insert((ip, how, Target::Code(address)));
            }
            Value::Import { name, lazy } => {
                scan.edges.insert((ip, how, Target::Import { name, lazy }));
            }
            _ => {
                scan.deeds.insert((ip, Deed::Indirect));
            }
        }
    }

    /// The targets of a jump table: as many as the check of its index says, and as many more as
    /// look like targets, since a table too long only makes this check stricter.
    fn cases(&mut self, ip: u64, table: u64, from: u64) -> BTreeSet<u64> {
        if let Some(known) = self.tables.get(&(ip, table)) {
            return known.clone();
        }
        let checked = self.bound(ip).unwrap_or(0).min(TABLE_ENTRIES_MAX);
        let mut targets = BTreeSet::new();
        for n in 0..TABLE_ENTRIES_MAX {
            let place = table.wrapping_add(n * 4);
            let Some(offset) = self.image.offset(place) else { break };
            let target = from.wrapping_add_signed(i64::from(offset));
            let next_table = n > 0 && self.data.contains(&place);
            if n >= checked && (next_table || !self.range.contains(&target)) {
                break;
            }
            targets.insert(target);
        }
        self.tables.insert((ip, table), targets.clone());
        targets
    }

    /// How many entries the check before a jump at `ip` lets through: `cmp index, n; ja default`.
    fn bound(&self, ip: u64) -> Option<u64> {
        let before: Vec<Instruction> = linear(self.image, self.range.start..ip).collect();
        let near = &before[before.len().saturating_sub(BOUND_DISTANCE)..];
        near.windows(2).rev().find_map(|pair| {
            let compares = matches!(
                pair[0].code(),
                Code::Cmp_rm8_imm8
                    | Code::Cmp_rm32_imm8
                    | Code::Cmp_rm32_imm32
                    | Code::Cmp_rm64_imm8
                    | Code::Cmp_rm64_imm32
                    | Code::Cmp_AL_imm8
                    | Code::Cmp_EAX_imm32
                    | Code::Cmp_RAX_imm32
            );
            let limit = compares.then(|| pair[0].immediate(1))?;
            match pair[1].condition_code() {
                ConditionCode::a => limit.checked_add(1),
                ConditionCode::ae => Some(limit),
                _ => None,
            }
        })
    }
}

/// A general register's number, for all its widths.
fn general(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}
