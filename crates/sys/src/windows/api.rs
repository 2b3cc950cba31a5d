//! The system's functions and structures, as far as they are used here. Source: the headers of the
//! Windows SDK (`winnt.h`, `processthreadsapi.h`, `memoryapi.h`, `winternl.h`, `psapi.h`).

use std::ffi::c_void;

/// A handle; 0 is none.
pub type Handle = usize;

/// Rights to a thread: suspend and resume it, read its registers, ask about it, wait for its end.
pub const THREAD_RIGHTS: u32 = 0x0002 | 0x0008 | 0x0040 | 0x0010_0000;
/// A wait's answer: what was waited for has happened.
pub const WAIT_OBJECT_0: u32 = 0;
/// A list of all threads.
pub const TH32CS_SNAPTHREAD: u32 = 4;
/// Where a handle should be: there is none.
pub const INVALID_HANDLE: Handle = usize::MAX;
/// All of x86-64's general registers.
pub const CONTEXT_GENERAL: u32 = 0x0010_0003;
/// Memory to be reserved, and to be had.
pub const MEM_RESERVE_COMMIT: u32 = 0x3000;
/// Memory that is there.
pub const MEM_COMMIT: u32 = 0x1000;
/// To be read and written.
pub const PAGE_READWRITE: u32 = 4;
/// Any protection that lets code run.
pub const PAGE_ANY_EXECUTE: u32 = 0xf0;
/// Standard error.
pub const STD_ERROR_HANDLE: u32 = (-12_i32).cast_unsigned();
/// A module is named by an address in it.
pub const FROM_ADDRESS: u32 = 4;
/// It stays loaded until the process ends.
pub const PIN: u32 = 1;

/// Opened for calls that may take their time.
pub const FILE_OVERLAPPED: u32 = 0x4000_0000;
/// A pipe to be read and written, by such calls.
pub const PIPE_BOTH_WAYS_OVERLAPPED: u32 = 3 | FILE_OVERLAPPED;
/// There must be no pipe of that name yet.
pub const PIPE_FIRST: u32 = 0x0008_0000;
/// A pipe of messages, for this machine alone.
pub const PIPE_MESSAGES_LOCAL: u32 = 4 | 2 | 8;
/// As many ends as are asked for.
pub const PIPE_ENDS: u32 = 255;
/// What was begun goes on.
pub const ERROR_IO_PENDING: i32 = 997;
/// All of the pipe's places are taken.
pub const ERROR_PIPE_BUSY: i32 = 231;
/// Somebody had connected already.
pub const ERROR_PIPE_CONNECTED: i32 = 535;
/// Nobody waited at the pipe in that time.
pub const ERROR_SEM_TIMEOUT: i32 = 121;
/// What was begun was called off.
pub const ERROR_OPERATION_ABORTED: i32 = 995;

/// What the system keeps of something that takes its time (`OVERLAPPED`).
#[repr(C)]
pub struct Overlapped {
    internal: [usize; 2],
    offset: u64,
    event: Handle,
}

impl Overlapped {
    /// Nothing begun; that event is set at the end.
    pub const fn new(event: Handle) -> Self {
        Self { internal: [0; 2], offset: 0, event }
    }
}

/// A moment or a length of time, in steps of 100 ns.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct FileTime {
    low: u32,
    high: u32,
}

impl FileTime {
    /// The steps.
    pub const fn steps(self) -> u64 {
        (self.high as u64) << 32 | self.low as u64
    }

    /// As nanoseconds.
    pub const fn ns(self) -> u64 {
        self.steps().saturating_mul(100)
    }
}

/// One thread in a list of all threads.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ThreadEntry {
    pub size: u32,
    pub usage: u32,
    pub tid: u32,
    pub pid: u32,
    pub base_priority: i32,
    pub delta_priority: i32,
    pub flags: u32,
}

/// x86-64's `CONTEXT`: only the fields that are used have names.
#[repr(C, align(16))]
#[derive(Clone)]
pub struct Context {
    home: [u64; 6],
    pub flags: u32,
    before_rsp: [u32; 25],
    pub rsp: u64,
    pub rbp: u64,
    before_rip: [u64; 10],
    pub rip: u64,
    rest: [u64; 122],
}

const _: () = {
    assert!(size_of::<Context>() == 1232, "as in winnt.h");
    assert!(std::mem::offset_of!(Context, flags) == 0x30, "as in winnt.h");
    assert!(std::mem::offset_of!(Context, rsp) == 0x98, "as in winnt.h");
    assert!(std::mem::offset_of!(Context, rip) == 0xf8, "as in winnt.h");
};

impl Context {
    /// An empty one, for the general registers.
    pub const fn new() -> Self {
        Self {
            home: [0; 6],
            flags: CONTEXT_GENERAL,
            before_rsp: [0; 25],
            rsp: 0,
            rbp: 0,
            before_rip: [0; 10],
            rip: 0,
            rest: [0; 122],
        }
    }
}

/// What `VirtualQuery` says of a run of pages.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct MemoryInfo {
    pub base: u64,
    pub allocation_base: u64,
    pub allocation_protect: u32,
    pub partition: u16,
    pub size: u64,
    pub state: u32,
    pub protect: u32,
    pub kind: u32,
}

/// `THREAD_BASIC_INFORMATION`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ThreadBasic {
    pub exit_status: i32,
    pub teb: u64,
    pub client: [u64; 2],
    pub affinity: u64,
    pub priority: [i32; 2],
}

/// `PROCESS_MEMORY_COUNTERS`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct MemoryCounters {
    pub size: u32,
    pub faults: u32,
    pub peak_working_set: usize,
    pub working_set: usize,
    pub rest: [usize; 6],
}

/// `BY_HANDLE_FILE_INFORMATION`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct FileInformation {
    pub attributes: u32,
    pub times: [FileTime; 3],
    pub volume: u32,
    pub size: [u32; 2],
    pub links: u32,
    pub index_high: u32,
    pub index_low: u32,
}

/// `RUNTIME_FUNCTION`: a function, and where its unwind data is; all from a base.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RuntimeFunction {
    pub begin: u32,
    pub end: u32,
    pub unwind: u32,
}

#[link(name = "kernel32")]
unsafe extern "system" {
    pub fn CancelIoEx(file: Handle, state: *mut Overlapped) -> i32;
    pub fn CloseHandle(handle: Handle) -> i32;
    pub fn ConnectNamedPipe(pipe: Handle, state: *mut Overlapped) -> i32;
    pub fn CreateEventW(
        attributes: *const c_void,
        by_hand: i32,
        is_set: i32,
        name: *const u16,
    ) -> Handle;
    pub fn CreateNamedPipeW(
        name: *const u16,
        open_mode: u32,
        pipe_mode: u32,
        instances_max: u32,
        out_bytes: u32,
        in_bytes: u32,
        time_out_ms: u32,
        attributes: *const c_void,
    ) -> Handle;
    pub fn CreateToolhelp32Snapshot(flags: u32, pid: u32) -> Handle;
    pub fn FreeLibrary(module: Handle) -> i32;
    pub fn GetCurrentProcess() -> Handle;
    pub fn GetCurrentThread() -> Handle;
    pub fn GetCurrentThreadId() -> u32;
    pub fn GetCurrentThreadStackLimits(low: *mut usize, high: *mut usize);
    pub fn GetFileInformationByHandle(file: Handle, out: *mut FileInformation) -> i32;
    pub fn GetModuleFileNameW(module: Handle, name: *mut u16, size: u32) -> u32;
    pub fn GetModuleHandleA(name: *const u8) -> Handle;
    pub fn GetModuleHandleExW(flags: u32, name: *const u16, module: *mut Handle) -> i32;
    pub fn GetNamedPipeServerProcessId(pipe: Handle, pid: *mut u32) -> i32;
    pub fn GetOverlappedResult(
        file: Handle,
        state: *mut Overlapped,
        bytes: *mut u32,
        wait: i32,
    ) -> i32;
    pub fn GetProcAddress(module: Handle, name: *const u8) -> *const c_void;
    pub fn GetProcessAffinityMask(process: Handle, own: *mut usize, system: *mut usize) -> i32;
    pub fn GetProcessTimes(
        process: Handle,
        created: *mut FileTime,
        ended: *mut FileTime,
        kernel: *mut FileTime,
        user: *mut FileTime,
    ) -> i32;
    pub fn GetStdHandle(which: u32) -> Handle;
    pub fn GetSystemTimePreciseAsFileTime(time: *mut FileTime);
    pub fn GetThreadContext(thread: Handle, context: *mut Context) -> i32;
    pub fn GetThreadId(thread: Handle) -> u32;
    pub fn GetThreadTimes(
        thread: Handle,
        created: *mut FileTime,
        ended: *mut FileTime,
        kernel: *mut FileTime,
        user: *mut FileTime,
    ) -> i32;
    pub fn K32EnumProcessModules(
        process: Handle,
        modules: *mut Handle,
        bytes: u32,
        needed: *mut u32,
    ) -> i32;
    pub fn K32GetProcessMemoryInfo(process: Handle, out: *mut MemoryCounters, bytes: u32) -> i32;
    pub fn LocalFree(memory: *mut c_void) -> *mut c_void;
    pub fn OpenThread(rights: u32, inherit: i32, tid: u32) -> Handle;
    pub fn QueryPerformanceCounter(count: *mut i64) -> i32;
    pub fn QueryPerformanceFrequency(frequency: *mut i64) -> i32;
    pub fn ReadFile(
        file: Handle,
        to: *mut u8,
        count: u32,
        read: *mut u32,
        state: *mut Overlapped,
    ) -> i32;
    pub fn ReadProcessMemory(
        process: Handle,
        address: u64,
        buffer: *mut u8,
        bytes: usize,
        read: *mut usize,
    ) -> i32;
    pub fn ResumeThread(thread: Handle) -> u32;
    pub fn RtlLookupFunctionEntry(
        address: u64,
        base: *mut u64,
        history: *mut c_void,
    ) -> *const RuntimeFunction;
    pub fn SuspendThread(thread: Handle) -> u32;
    pub fn Thread32First(list: Handle, entry: *mut ThreadEntry) -> i32;
    pub fn Thread32Next(list: Handle, entry: *mut ThreadEntry) -> i32;
    pub fn VirtualAlloc(address: u64, bytes: usize, kind: u32, protection: u32) -> *mut c_void;
    pub fn VirtualQuery(address: u64, out: *mut MemoryInfo, bytes: usize) -> usize;
    pub fn WaitForSingleObject(handle: Handle, limit_ms: u32) -> u32;
    pub fn WaitNamedPipeW(name: *const u16, limit_ms: u32) -> i32;
    pub fn WriteFile(
        file: Handle,
        bytes: *const u8,
        count: u32,
        written: *mut u32,
        state: *mut Overlapped,
    ) -> i32;
}

#[link(name = "ntdll")]
unsafe extern "system" {
    pub fn NtQueryInformationThread(
        thread: Handle,
        class: u32,
        room: *mut c_void,
        bytes: u32,
        written: *mut u32,
    ) -> i32;
}

/// Looks up a function that older systems don't have.
pub fn optional(module: &std::ffi::CStr, name: &std::ffi::CStr) -> *const c_void {
    // SAFETY: reads a string that ends with NUL; the library is one that is always loaded.
    let module = unsafe { GetModuleHandleA(module.as_ptr().cast()) };
    if module == 0 {
        return std::ptr::null();
    }
    // SAFETY: a module that was just found, and a string that ends with NUL.
    unsafe { GetProcAddress(module, name.as_ptr().cast()) }
}
