//! Handlers that each break one rule, and some that break none; the tests of `signal-closure`
//! compile this into a library. What compilers would not write reliably is in assembly.

use std::cell::Cell;
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

unsafe extern "C" {
    fn pthread_mutex_lock(mutex: *mut c_void) -> i32;
    fn getpid() -> i32;
}

static COUNT: AtomicUsize = AtomicUsize::new(0);
// Exported, so that the compiler must take it to be written elsewhere.
#[unsafe(no_mangle)]
static CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static TABLE: Mutex<usize> = Mutex::new(0);

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

#[inline(never)]
fn helper_allocates(value: usize) -> usize {
    *black_box(Box::new(value))
}

#[inline(never)]
fn helper_middle(value: usize) -> usize {
    helper_allocates(value).wrapping_mul(value)
}

#[unsafe(no_mangle)]
extern "C" fn clean(from: *const u8, to: *mut u8, count: usize) -> usize {
    unsafe { std::ptr::copy_nonoverlapping(from, to, count) };
    COUNT.fetch_add(count, Ordering::Relaxed)
}

#[unsafe(no_mangle)]
extern "C" fn allocates(value: usize) -> usize {
    helper_middle(value).wrapping_add(1)
}

#[unsafe(no_mangle)]
extern "C" fn locks() -> usize {
    TABLE.lock().map(|value| *value).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn locks_pthread(mutex: *mut c_void) -> i32 {
    unsafe { pthread_mutex_lock(mutex) }
}

#[unsafe(no_mangle)]
extern "C" fn panics(values: &[u8; 16], index: usize) -> u8 {
    values[index]
}

#[unsafe(no_mangle)]
extern "C" fn touches_tls() -> usize {
    DEPTH.with(|depth| {
        depth.set(depth.get().wrapping_add(1));
        depth.get()
    })
}

#[unsafe(no_mangle)]
extern "C" fn calls_pointer(value: usize) -> usize {
    let callback = CALLBACK.load(Ordering::Relaxed);
    if callback.is_null() {
        return value;
    }
    let callback: extern "C" fn(usize) -> usize = unsafe { std::mem::transmute(callback) };
    callback(value).wrapping_add(1)
}

#[unsafe(no_mangle)]
extern "C" fn calls_import() -> i32 {
    unsafe { getpid() }.wrapping_add(1)
}

#[unsafe(no_mangle)]
extern "C" fn calls_std() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

std::arch::global_asm!(
    ".macro function name",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    ".endm",
    ".macro finish name",
    ".size \\name, . - \\name",
    ".endm",
    ".text",
    // An import, by way of a linkage stub.
    "function through_plt",
    "sub rsp, 8",
    "call malloc@PLT",
    "add rsp, 8",
    "ret",
    "finish through_plt",
    // An import, by way of the global offset table.
    "function through_got",
    "sub rsp, 8",
    "call qword ptr [rip + malloc@GOTPCREL]",
    "add rsp, 8",
    "ret",
    "finish through_got",
    // An import whose address a register keeps, across another call.
    "function through_register",
    "push rbx",
    "mov rbx, qword ptr [rip + malloc@GOTPCREL]",
    "call leaf",
    "call rbx",
    "pop rbx",
    "ret",
    "finish through_register",
    // A function of the library, by way of the global offset table.
    "function through_own_got",
    "sub rsp, 8",
    "call qword ptr [rip + asm_allocates@GOTPCREL]",
    "add rsp, 8",
    "ret",
    "finish through_own_got",
    // A register that holds one of two things.
    "function through_either",
    "sub rsp, 8",
    "lea rax, [rip + leaf]",
    "test edi, edi",
    "je 2f",
    "mov rax, rsi",
    "2:",
    "call rax",
    "add rsp, 8",
    "ret",
    "finish through_either",
    "function tail_jump",
    "inc edi",
    "jmp asm_allocates",
    "finish tail_jump",
    "function conditional_jump",
    "test edi, edi",
    "jne asm_allocates",
    "ret",
    "finish conditional_jump",
    "function falls_through",
    "inc edi",
    "finish falls_through",
    "function asm_allocates",
    "sub rsp, 8",
    "call malloc@PLT",
    "add rsp, 8",
    "ret",
    "finish asm_allocates",
    "function takes_address",
    "lea rax, [rip + asm_allocates]",
    "ret",
    "finish takes_address",
    "function reads_table_of_pointers",
    "movups xmm0, xmmword ptr [rip + pointers]",
    "movups xmmword ptr [rdi], xmm0",
    "ret",
    "finish reads_table_of_pointers",
    // Three cases; the last of them allocates.
    "function jump_table",
    "cmp edi, 2",
    "ja 3f",
    "mov eax, edi",
    "lea rcx, [rip + cases]",
    "movsxd rax, dword ptr [rcx + 4*rax]",
    "add rax, rcx",
    "jmp rax",
    "case_one:",
    "mov eax, 1",
    "ret",
    "case_two:",
    "mov eax, 2",
    "ret",
    "case_three:",
    "jmp asm_allocates",
    "3:",
    "ret",
    "finish jump_table",
    // Without a check of the index, as when an enum is matched; the second case lies elsewhere.
    "function jump_table_unchecked",
    "lea rcx, [rip + cases_unchecked]",
    "movsxd rax, dword ptr [rcx + 4*rdi]",
    "add rax, rcx",
    "jmp rax",
    "unchecked_one:",
    "ret",
    "unchecked_two:",
    "jmp asm_allocates",
    "finish jump_table_unchecked",
    "function jump_unknown",
    "jmp qword ptr [rdi + 8*rsi]",
    "finish jump_unknown",
    "function leaf",
    "ret",
    "finish leaf",
    // What only an unwinder would enter is not reached.
    "function landing_pad",
    "call leaf",
    "ret",
    "mov rdi, rax",
    "call _Unwind_Resume@PLT",
    "finish landing_pad",
    "function unwinds",
    "jmp _Unwind_Resume@PLT",
    "finish unwinds",
    "function touches_fs",
    "mov rax, qword ptr fs:[0]",
    "ret",
    "finish touches_fs",
    "function pads",
    ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0",
    ".byte 0x64, 0x0f, 0x1f, 0x40, 0",
    "ret",
    "finish pads",
    "function asks_thread_id",
    "mov eax, 186",
    "syscall",
    "ret",
    "finish asks_thread_id",
    "function waits_on_futex",
    "mov eax, 202",
    "syscall",
    "ret",
    "finish waits_on_futex",
    "function sleeps",
    "mov eax, 35",
    "syscall",
    "ret",
    "finish sleeps",
    "function calls_any",
    "mov eax, edi",
    "syscall",
    "ret",
    "finish calls_any",
    "function copies",
    "jmp memcpy@PLT",
    "finish copies",
    "function undecodable",
    ".byte 0x06",
    "finish undecodable",
    ".section .rodata",
    ".p2align 2",
    "cases:",
    ".long case_one - cases",
    ".long case_two - cases",
    ".long case_three - cases",
    "cases_unchecked:",
    ".long unchecked_one - cases_unchecked",
    ".long unchecked_two - cases_unchecked",
    ".section .data.rel.ro, \"aw\"",
    ".p2align 4",
    "pointers:",
    ".quad 0",
    ".quad asm_allocates",
    ".text",
);
