//! What a blocked thread waits for: by the system call it is in, and, where that says little, by
//! the methods above it.
//!
//! The `lock` statement calls the runtime directly, and so does a method of the base library that
//! waits. Once the compiler has put that method into its caller, the two look the same. But each
//! enters the runtime at a place of its own: which one it is, is learned while the method still has
//! a frame.

use model::ThreadState;
use rustc_hash::FxHashMap;

/// Places at which methods enter the runtime to wait; it has a few dozen.
const ENTRIES_MAX: usize = 1000;

/// What a frame tells about the wait below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Native code of the runtime itself, which waits on behalf of the method above it.
    InRuntime,
    /// A method that sleeps.
    Sleep,
    /// A method that takes a lock.
    Lock,
    /// A method that enters the runtime to wait for something else: an event, a thread.
    Event,
    /// A method of the base library that does neither, or code that calls native code for one.
    Library,
    /// A method of anybody else.
    Other,
}

/// Methods that sleep, by the beginning of their display name.
const SLEEPS: [&str; 1] = ["System.Threading.Thread.Sleep"];
/// Methods that enter the runtime to wait, and not for a lock, by the beginning of their display
/// name.
const WAITS: [&str; 4] = [
    "System.Threading.Thread.Join",
    "System.Threading.Monitor.Wait",
    "System.Threading.Monitor.ObjWait",
    "System.Threading.WaitHandle.Wait",
];
/// Methods that take a lock, by the beginning of their display name.
const LOCKS: [&str; 7] = [
    "System.Threading.Monitor.Enter",
    "System.Threading.Monitor.TryEnter",
    "System.Threading.Monitor.ReliableEnter",
    "System.Threading.Lock.",
    "System.Threading.SpinLock.",
    "System.Threading.ReaderWriterLockSlim.TryEnter",
    "System.Threading.ReaderWriterLock.Acquire",
];

impl Wait {
    /// What a native frame of that module tells.
    #[must_use]
    pub fn of_native(module: &str) -> Option<Self> {
        let is_runtime = module.starts_with("libcoreclr") || module == "coreclr.dll";
        is_runtime.then_some(Self::InRuntime)
    }

    /// What a managed frame of that display name tells.
    #[must_use]
    pub fn of_method(display: &str) -> Self {
        let begins = |names: &[&str]| names.iter().any(|name| display.starts_with(name));
        if begins(&SLEEPS) {
            Self::Sleep
        } else if begins(&LOCKS) {
            Self::Lock
        } else if begins(&WAITS) {
            Self::Event
        } else if display.starts_with("System.") || display.starts_with("[stub]") {
            Self::Library
        } else {
            Self::Other
        }
    }
}

/// What a system call says by itself. Numbers are those of x86-64.
fn of_call(call: u32) -> Option<ThreadState> {
    match call {
        // nanosleep, clock_nanosleep
        35 | 230 => Some(ThreadState::Sleeping),
        // read write, poll, pread pwrite readv writev, select, sendfile, connect accept
        // sendto recvfrom sendmsg recvmsg
        0 | 1 | 7 | 17..=20 | 23 | 40 | 42..=47
        // flock fsync fdatasync, io_getevents, epoll_wait, pselect6 ppoll, epoll_pwait
        | 73..=75 | 208 | 232 | 270 | 271 | 281
        // accept4, preadv pwritev, recvmmsg sendmmsg, preadv2 pwritev2, io_uring_enter,
        // epoll_pwait2
        | 288 | 295 | 296 | 299 | 307 | 327 | 328 | 426 | 441 => Some(ThreadState::Io),
        _ => None,
    }
}

/// What is known of the places at which methods enter the runtime to wait.
#[derive(Debug, Default)]
pub struct Waits {
    /// By the return address in the runtime's code that is next to the method.
    entries: FxHashMap<u64, ThreadState>,
}

impl Waits {
    /// What a thread waits for that is blocked in `call` (`None`: in a page fault) below `frames`,
    /// given leaf first, with their addresses.
    #[must_use]
    pub fn state(
        &mut self,
        call: Option<u32>,
        frames: impl Iterator<Item = (u64, Option<Wait>)>,
    ) -> ThreadState {
        let Some(call) = call else { return ThreadState::Io };
        if let Some(state) = of_call(call) {
            return state;
        }
        let mut entry = None;
        let mut library = false;
        for (address, frame) in frames {
            match frame {
                None => {}
                Some(Wait::InRuntime) => entry = Some(address),
                // The base library's other waits are not locks: events, semaphores. Looking further
                // up would take the caller's `lock` statement for theirs.
                Some(Wait::Library) => library = true,
                Some(Wait::Sleep) => return self.learn(entry, library, ThreadState::Sleeping),
                Some(Wait::Event) => {
                    self.learn(entry, library, ThreadState::Waiting);
                    library = true;
                }
                Some(Wait::Lock) => return ThreadState::Lock,
                Some(Wait::Other) if library => return ThreadState::Waiting,
                Some(Wait::Other) => return self.of_entry(entry),
            }
        }
        ThreadState::Waiting
    }

    /// What a method waits for that has entered the runtime there. The `lock` statement has no
    /// method of its own, so what was never learned is one.
    fn of_entry(&self, entry: Option<u64>) -> ThreadState {
        let Some(entry) = entry else { return ThreadState::Waiting };
        self.entries.get(&entry).copied().unwrap_or(ThreadState::Lock)
    }

    /// Learns where a method has entered the runtime, unless another of the library is in between:
    /// that may have taken a lock of its own.
    fn learn(&mut self, entry: Option<u64>, library: bool, state: ThreadState) -> ThreadState {
        if let Some(entry) = entry
            && !library
            && self.entries.len() < ENTRIES_MAX
        {
            self.entries.insert(entry, state);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(call: Option<u32>, methods: &[&str], expected: ThreadState) {
        assert_eq!(state(&mut Waits::default(), call, methods), expected, "{call:?} {methods:?}");
    }

    /// Native frames are `native:<module>` or `native:<module>@<address>`.
    fn state(waits: &mut Waits, call: Option<u32>, methods: &[&str]) -> ThreadState {
        let frames = methods.iter().map(|name| match name.strip_prefix("native:") {
            Some(native) => {
                let (module, address) = native.split_once('@').unwrap_or((native, "1"));
                (address.parse().expect("a number"), Wait::of_native(module))
            }
            None => (7, Some(Wait::of_method(name))),
        });
        waits.state(call, frames)
    }

    #[test]
    fn a_method_that_has_become_part_of_its_caller_is_known_by_where_it_enters_the_runtime() {
        const FUTEX: Option<u32> = Some(202);
        let mut waits = Waits::default();
        let mut check = |methods: &[&str], expected: ThreadState| {
            assert_eq!(state(&mut waits, FUTEX, methods), expected, "{methods:?}");
        };
        let join = "native:libcoreclr.so@20";
        check(&["native:libcoreclr.so@10", join, "A.B()"], ThreadState::Lock);
        let joins = ["native:libcoreclr.so@10", join, "System.Threading.Thread.Join()", "A.B()"];
        check(&joins, ThreadState::Waiting);
        check(&["native:libcoreclr.so@10", join, "A.B()"], ThreadState::Waiting);
        check(&["native:libcoreclr.so@10", join, "C.D()"], ThreadState::Waiting);
        check(&["native:libcoreclr.so@10", "native:libcoreclr.so@30", "A.B()"], ThreadState::Lock);
        let sleep = "native:libcoreclr.so@40";
        check(&[sleep, "System.Threading.Thread.Sleep(int)", "A.B()"], ThreadState::Sleeping);
        check(&[sleep, "A.B()"], ThreadState::Sleeping);
        // A lock that is made of an event.
        let event = ["native:libcoreclr.so@70", "System.Threading.WaitHandle.WaitOne(int)"];
        let enter = "System.Threading.ReaderWriterLockSlim.TryEnterReadLockCore(int)";
        check(&[&event[..], &[enter, "A.B()"]].concat(), ThreadState::Lock);
        check(&["native:libcoreclr.so@70", enter, "A.B()"], ThreadState::Lock);
        check(&["native:libcoreclr.so@70", "A.B()"], ThreadState::Waiting);
        // A lock that the library takes teaches nothing about those of the program.
        let lock = "native:libcoreclr.so@60";
        check(&[lock, "System.IO.Stream.Flush()", "A.B()"], ThreadState::Waiting);
        let inner = [lock, "System.IO.Stream.Flush()", "System.Threading.Thread.Join()", "A.B()"];
        check(&inner, ThreadState::Waiting);
        check(&[lock, "A.B()"], ThreadState::Lock);
        // Code that calls native code for a method of the library which has no frame any more.
        check(&["native:libcoreclr.so@50", "[stub] PInvoke(int)", "A.B()"], ThreadState::Waiting);
    }

    #[test]
    fn calls_and_methods_tell() {
        const FUTEX: Option<u32> = Some(202);
        check(Some(230), &[], ThreadState::Sleeping);
        check(Some(47), &["System.Net.Sockets.SocketPal.Receive(int)"], ThreadState::Io);
        check(None, &[], ThreadState::Io);
        let native = ["native:libc.so.6", "native:libcoreclr.so"];
        let with = |methods: &[&'static str]| [&native[..], methods].concat();
        check(
            FUTEX,
            &with(&["System.Threading.Thread.Sleep(int)", "A.B()"]),
            ThreadState::Sleeping,
        );
        check(FUTEX, &with(&["Shop.Cart.Add()", "A.B()"]), ThreadState::Lock);
        check(
            FUTEX,
            &with(&["System.Threading.Monitor.Wait(object, int)", "A.B()"]),
            ThreadState::Waiting,
        );
        check(FUTEX, &with(&["System.Threading.Lock.Enter()", "A.B()"]), ThreadState::Lock);
        check(FUTEX, &["native:libc.so.6", "A.B()"], ThreadState::Waiting);
        check(FUTEX, &[], ThreadState::Waiting);
    }
}
