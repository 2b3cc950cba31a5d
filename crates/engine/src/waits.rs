//! What a blocked thread waits for: by the system call it is in, and, where that says little, by
//! the methods above it.

use model::ThreadState;

/// What a frame tells about the wait below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Native code of the runtime itself, which waits on behalf of the method above it.
    InRuntime,
    /// A method that sleeps.
    Sleep,
    /// A method that takes a lock.
    Lock,
    /// A method of the base library that does neither.
    Library,
    /// A method of anybody else.
    Other,
}

/// Methods that sleep, by the beginning of their display name.
const SLEEPS: [&str; 1] = ["System.Threading.Thread.Sleep"];
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
        module.starts_with("libcoreclr").then_some(Self::InRuntime)
    }

    /// What a managed frame of that display name tells.
    #[must_use]
    pub fn of_method(display: &str) -> Self {
        let begins = |names: &[&str]| names.iter().any(|name| display.starts_with(name));
        if begins(&SLEEPS) {
            Self::Sleep
        } else if begins(&LOCKS) {
            Self::Lock
        } else if display.starts_with("System.") {
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

/// What a thread waits for that is blocked in `call` (`None`: in a page fault) below `frames`,
/// given leaf first.
#[must_use]
pub fn state(call: Option<u32>, frames: impl Iterator<Item = Option<Wait>>) -> ThreadState {
    let Some(call) = call else { return ThreadState::Io };
    if let Some(state) = of_call(call) {
        return state;
    }
    let mut in_runtime = false;
    let mut library = false;
    for frame in frames.flatten() {
        match frame {
            Wait::Sleep => return ThreadState::Sleeping,
            Wait::Lock => return ThreadState::Lock,
            // The base library's other waits are not locks: events, semaphores, joins. Looking
            // further up would take the caller's `lock` statement for theirs.
            Wait::Library => library = true,
            Wait::InRuntime => in_runtime = true,
            // The `lock` statement calls the runtime directly, without a method of its own.
            Wait::Other if in_runtime && !library => return ThreadState::Lock,
            Wait::Other => return ThreadState::Waiting,
        }
    }
    ThreadState::Waiting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(call: Option<u32>, methods: &[&str], expected: ThreadState) {
        let frames = methods.iter().map(|name| match name.strip_prefix("native:") {
            Some(module) => Wait::of_native(module),
            None => Some(Wait::of_method(name)),
        });
        assert_eq!(state(call, frames), expected, "{call:?} {methods:?}");
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
