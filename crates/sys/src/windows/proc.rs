//! Threads of this process, as the system tells of them.

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::sync::OnceLock;

use super::api::{self, Handle, MemoryCounters, MemoryInfo, ThreadEntry};
use super::overlapped::own;
use super::{clock, handles, suspension};

/// What is known of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// When it was made, in steps of 100 ns since 1601: tells it from an earlier thread of the same
    /// id.
    pub start_ticks: u64,
}

impl Stat {
    /// Asks; `None` once the thread has ended.
    #[must_use]
    pub fn read(tid: u32) -> Option<Self> {
        let times = clock::times(handles::of(tid)?.raw())?;
        (!times.has_ended).then_some(Self { start_ticks: times.created_steps })
    }
}

/// Whether a thread is running or ready to run. Where the system does not tell: whether it has run
/// since this was last asked.
#[must_use]
pub fn is_running(tid: u32) -> bool {
    let Some(thread) = handles::of(tid) else { return false };
    match suspension::state_of(&thread) {
        Some(waits) => !waits,
        None => clock::handle_cpu_ns(thread.raw()).is_some_and(|cpu_ns| thread.has_moved(cpu_ns)),
    }
}

/// What tells this process from an earlier one of the same id in the names of its places. A pipe
/// goes with its process, so that nothing is needed for it.
#[must_use]
pub fn own_start_ticks() -> u64 {
    0
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// It has a processor, or is ready for one.
    Running,
    /// It waits.
    At {
        /// The system call's number: not known here, and never `None`.
        call: Option<u32>,
        /// Its stack pointer.
        sp: u64,
        /// Its instruction pointer, just after the call instruction.
        ip: u64,
        /// Its frame pointer's register.
        bp: Option<u64>,
    },
}

impl Blocked {
    /// Whether it waits where a signal does no harm: there are no signals.
    #[must_use]
    pub fn is_in_futex(&self) -> bool {
        false
    }

    /// Not asked for here: a thread's place can't be had without its stack.
    #[must_use]
    pub fn read(_tid: u32) -> Option<Self> {
        None
    }
}

/// How a thread was scheduled; Windows counts no delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SchedStat {
    /// Time on a processor, in nanoseconds.
    pub run_ns: u64,
    /// Time that it was ready and another thread had the processor, in nanoseconds.
    pub delay_ns: u64,
    /// How often it was given a processor.
    pub turns: u64,
}

impl SchedStat {
    /// Not told.
    #[must_use]
    pub fn read(_tid: u32) -> Option<Self> {
        None
    }
}

/// How often a thread has given up the processor by itself: not told.
#[must_use]
pub fn voluntary_switches(_tid: u32) -> Option<u64> {
    None
}

/// A thread's name, as set by `SetThreadDescription`; `None` if there is no such thread, or if the
/// system keeps no names (before Windows 10).
#[must_use]
pub fn thread_name(tid: u32) -> Option<String> {
    type Get = unsafe extern "system" fn(Handle, *mut *mut u16) -> i32;
    static GET: OnceLock<Option<Get>> = OnceLock::new();
    let get = *GET.get_or_init(|| {
        let found = [c"kernelbase.dll", c"kernel32.dll"]
            .map(|module| api::optional(module, c"GetThreadDescription"));
        let found = found.into_iter().find(|found| !found.is_null())?;
        // SAFETY: the function has that type (processthreadsapi.h).
        Some(unsafe { std::mem::transmute::<*const c_void, Get>(found) })
    });
    let thread = handles::of(tid)?;
    let mut text = std::ptr::null_mut();
    // SAFETY: an open handle; the text's address is written to a valid place.
    let status = unsafe { get?(thread.raw(), &raw mut text) };
    if status < 0 || text.is_null() {
        return None;
    }
    // SAFETY: the system's text ends with NUL.
    let length = (0..NAME_UNITS_MAX).take_while(|n| unsafe { *text.add(*n) } != 0).count();
    // SAFETY: so many units are there.
    let name = String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(text, length) });
    // SAFETY: the system allocated it for us, by that allocator.
    unsafe { api::LocalFree(text.cast()) };
    Some(name)
}

/// Longest name of a thread, in units of 16 bits.
const NAME_UNITS_MAX: usize = 1024;

/// The ids of all threads of this process. Allocates.
///
/// # Errors
/// If the system gives no list.
pub fn thread_ids() -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    let mut next = next_thread(None);
    if next.is_none() {
        return listed_ids();
    }
    while let Some(thread) = next {
        // SAFETY: an open handle with the right to ask.
        match unsafe { api::GetThreadId(thread.as_raw_handle().addr()) } {
            0 => {}
            id => ids.push(id),
        }
        next = next_thread(Some(&thread));
    }
    Ok(ids)
}

/// The thread of this process that the kernel has after another; the first one for none. It looks
/// at no other process, which a list of all threads does: milliseconds on a machine with many.
fn next_thread(after: Option<&OwnedHandle>) -> Option<OwnedHandle> {
    /// To ask for its id.
    const LIMITED: u32 = 0x0800;
    type Next = unsafe extern "system" fn(Handle, Handle, u32, u32, u32, *mut Handle) -> i32;
    static NEXT: OnceLock<Option<Next>> = OnceLock::new();
    let ask = (*NEXT.get_or_init(|| {
        let found = api::optional(c"ntdll.dll", c"NtGetNextThread");
        // SAFETY: the function has that type (Windows Vista and later).
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*const c_void, Next>(found) })
    }))?;
    let after = after.map_or(0, |thread| thread.as_raw_handle().addr());
    let mut next = 0;
    // SAFETY: the process's own handle, a thread's or none, and a valid place.
    let status = unsafe { ask(api::GetCurrentProcess(), after, LIMITED, 0, 0, &raw mut next) };
    // SAFETY: just opened, and nobody else closes it.
    (status >= 0 && next != 0).then(|| unsafe { own(next) })
}

/// The same where threads can't be gone through: by a list of all processes' threads.
fn listed_ids() -> io::Result<Vec<u32>> {
    // SAFETY: asks for a list.
    let list = unsafe { api::CreateToolhelp32Snapshot(api::TH32CS_SNAPTHREAD, 0) };
    if list == api::INVALID_HANDLE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else closes it.
    let list = unsafe { own(list) };
    let process = std::process::id();
    let size = u32::try_from(size_of::<ThreadEntry>()).unwrap_or(0);
    let mut entry = ThreadEntry { size, ..ThreadEntry::default() };
    let mut ids = Vec::new();
    // SAFETY: an open list, and an entry that says its size.
    let mut more = unsafe { api::Thread32First(list.as_raw_handle().addr(), &raw mut entry) };
    while more != 0 {
        if entry.pid == process {
            ids.push(entry.tid);
        }
        // SAFETY: as above.
        more = unsafe { api::Thread32Next(list.as_raw_handle().addr(), &raw mut entry) };
    }
    Ok(ids)
}

/// How many threads this process has.
#[must_use]
pub fn thread_count() -> Option<usize> {
    thread_ids().ok().map(|ids| ids.len())
}

/// The executable memory of this process, as first and one-past-last addresses. Allocates.
#[must_use]
pub fn executable_ranges() -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut address = 0;
    loop {
        let mut info = MemoryInfo::default();
        // SAFETY: asks about an address, and writes to a structure of that size.
        let told = unsafe { api::VirtualQuery(address, &raw mut info, size_of::<MemoryInfo>()) };
        let end = info.base.saturating_add(info.size);
        if told == 0 || end <= address {
            return ranges;
        }
        if info.state == api::MEM_COMMIT && info.protect & api::PAGE_ANY_EXECUTE != 0 {
            match ranges.last_mut() {
                Some((_, last)) if *last == info.base => *last = end,
                _ => ranges.push((info.base, end)),
            }
        }
        address = end;
    }
}

/// This process's resident memory in bytes.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let size = u32::try_from(size_of::<MemoryCounters>()).ok()?;
    let mut counters = MemoryCounters { size, ..MemoryCounters::default() };
    // SAFETY: the process's own handle, and a structure of that size.
    let told =
        unsafe { api::K32GetProcessMemoryInfo(api::GetCurrentProcess(), &raw mut counters, size) };
    (told != 0).then_some(counters.working_set as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_is_known_while_it_lives() {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let body = move || {
            tell.send(super::super::thread::own_id()).expect("somebody listens");
            let _closed = ended.recv();
        };
        let named = std::thread::Builder::new().name("a name".to_owned());
        let thread = named.spawn(body).expect("a thread");
        let tid = told.recv().expect("an id");
        let mut ids = thread_ids().expect("a list");
        assert!(ids.contains(&tid) && ids.contains(&super::super::thread::own_id()));
        // Other tests' threads come and go.
        let known = [tid, super::super::thread::own_id()];
        let mut listed = listed_ids().expect("a list");
        for list in [&mut ids, &mut listed] {
            list.retain(|id| known.contains(id));
            list.sort_unstable();
        }
        assert_eq!(ids, listed);
        let timed = |list: fn() -> io::Result<Vec<u32>>| {
            let begin_ns = clock::monotonic_ns();
            (0..100).for_each(|_| drop(list()));
            (clock::monotonic_ns() - begin_ns) / 100_000
        };
        println!("threads: {} us, listed: {} us", timed(thread_ids), timed(listed_ids));
        assert!(thread_count().is_some_and(|count| count >= 2));
        assert_eq!(thread_name(tid).as_deref(), Some("a name"));
        let stat = Stat::read(tid).expect("it lives");
        assert!(stat.start_ticks > 0);
        assert_eq!(Stat::read(tid), Some(stat));
        drop(end);
        thread.join().expect("it ends");
        assert_eq!(Stat::read(tid), None);
        assert_eq!(clock::thread_cpu_ns(tid), None);
    }

    #[test]
    fn code_is_executable_and_data_is_not() {
        let ranges = executable_ranges();
        assert!(ranges.is_sorted() && ranges.iter().all(|(start, end)| start < end));
        let holds =
            |address: u64| ranges.iter().any(|(start, end)| (*start..*end).contains(&address));
        assert!(holds(executable_ranges as fn() -> Vec<(u64, u64)> as usize as u64));
        assert!(!holds(ranges.as_ptr() as u64));
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 16));
    }
}
