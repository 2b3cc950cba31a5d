//! How to find a caller's frame from a callee's: one rule, for native and managed code alike.
//!
//! Names are DWARF's: the CFA (canonical frame address) is the stack pointer's value in the caller
//! just after the call returns. On x86-64 the return address is always at `CFA - 8`.

/// Where the canonical frame address is, as seen at one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cfa {
    /// `sp + offset`.
    Sp(i32),
    /// `bp + offset`.
    Bp(i32),
    /// The same, in a function that has had such a rule at an earlier address: it set its frame
    /// pointer there, not here.
    BpAgain(i32),
    /// Either `bp + bp_offset` or, where the frame pointer is not known, `sp + sp_offset`. For
    /// methods whose stack pointer does not move between prologue and epilogue.
    BpOrSp {
        /// Offset from the frame pointer, preferred because it survives `localloc`.
        bp_offset: i32,
        /// Offset from the stack pointer.
        sp_offset: i32,
    },
    /// The eight bytes at `bp + offset`: functions that realign their stack.
    DerefBp(i32),
    /// A lazy-binding stub: `sp + 8`, plus 8 once its push has run, which is when the low four
    /// bits of the address are at least `pushed_from`.
    Plt {
        /// The offset in the 16-byte stub after which `sp` has moved.
        pushed_from: u8,
    },
    /// `sp + sp_offset`, but the return address is not just below that: it is at `CFA + ip_at`, and
    /// is that of an instruction which has not been executed. So CoreCLR ties its handler of a
    /// fault, which runs on the stack of the code that faulted, to that code, beyond its red zone.
    Faulted {
        /// Up to the CFA.
        sp_offset: i32,
        /// From the CFA to the address, negative.
        ip_at: i32,
    },
    /// `sp`: the return address has been taken off the stack and is in a register, and still just
    /// below the stack pointer. The C library's `vfork` does so around its system call.
    Popped,
    /// The kernel's signal frame: all registers are in the `ucontext` that `sp` points to.
    SignalFrame,
    /// An on-stack-replacement method (.NET 7 and later): its own frame lies below the frame of
    /// the unoptimised version that it replaced, and `bp` points to the replica of the saved frame
    /// pointer. `tier0_bp_offset` is M in the unoptimised version's `lea rbp, [rsp + M]`; the true
    /// return address is at `bp + 16 + M + 8`.
    Osr {
        /// M, in bytes.
        tier0_bp_offset: i32,
    },
    /// There is no caller: the thread's first frame.
    End,
    /// The unwind data uses what the walker does not speak.
    Unsupported,
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SavedBp {
    /// Still in the register.
    Same,
    /// The eight bytes at `CFA + offset`.
    AtCfa(i32),
    /// Lost.
    Unknown,
}

/// The rule of a run of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Where the CFA is.
    pub cfa: Cfa,
    /// Where the caller's frame pointer is.
    pub bp: SavedBp,
}

impl Rule {
    /// The state at a function's first instruction: nothing pushed but the return address.
    pub const ENTRY: Self = Self { cfa: Cfa::Sp(8), bp: SavedBp::Same };
    /// A function that has set up an ordinary frame: `push rbp; mov rbp, rsp`.
    pub const FRAME: Self = Self { cfa: Cfa::Bp(16), bp: SavedBp::AtCfa(-16) };
    /// The same, after a part of the function that has another rule, such as a return.
    pub const FRAME_AGAIN: Self = Self { cfa: Cfa::BpAgain(16), bp: SavedBp::AtCfa(-16) };
    /// Not supported.
    pub const UNSUPPORTED: Self = Self { cfa: Cfa::Unsupported, bp: SavedBp::Unknown };
}
