//! CPU timers: a signal to a thread each time it has used so much processor time.
//!
//! The system calls are made directly, since glibc's wrapper allocates a block for each timer.

use std::io;
use std::time::Duration;

use crate::clock::thread_cpu_clock;

/// The kernel's `struct sigevent` as far as a thread-directed signal needs it; 64 bytes in all.
#[repr(C)]
struct SigEvent {
    value: u64,
    signal: libc::c_int,
    notify: libc::c_int,
    tid: libc::c_int,
    rest: [u8; 44],
}

const _: () = assert!(size_of::<SigEvent>() == 64, "the kernel reads 64 bytes");

/// Whether there are such timers at all.
pub const ARE_THERE: bool = true;

/// A timer on a thread's CPU clock; deleted when dropped.
#[derive(Debug)]
pub struct CpuTimer(libc::c_int);

impl CpuTimer {
    /// Makes a timer that sends `signal` with `value` to thread `tid` whenever it has used another
    /// `interval` of processor time. It costs nothing while the thread doesn't run.
    ///
    /// # Errors
    /// `EAGAIN` if the user's `RLIMIT_SIGPENDING` is used up, `EINVAL` if the thread has ended.
    pub fn start(tid: u32, signal: i32, value: u64, interval: Duration) -> io::Result<Self> {
        let event = SigEvent {
            value,
            signal,
            notify: libc::SIGEV_THREAD_ID,
            tid: tid.cast_signed(),
            rest: [0; 44],
        };
        let mut id: libc::c_int = 0;
        // SAFETY: the kernel reads 64 bytes of the event and writes one int.
        let made = unsafe {
            libc::syscall(
                libc::SYS_timer_create,
                thread_cpu_clock(tid),
                &raw const event,
                &raw mut id,
            )
        };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        let timer = Self(id);
        timer.set(interval)?;
        Ok(timer)
    }

    /// The kernel's number for it.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.0
    }

    /// Lets it expire at the next tick of the kernel at which the thread runs, and then each
    /// `interval` again.
    ///
    /// Told by a difference from the clock's time of that instant, and not by a time: a time that
    /// has passed would expire at once, wherever the thread is, and could interrupt a system call.
    ///
    /// # Errors
    /// `EINVAL` if the timer is gone, as in a forked child.
    pub fn expire_soon(&self, interval: Duration) -> io::Result<()> {
        self.set_to(Duration::from_nanos(1), interval)
    }

    fn set(&self, interval: Duration) -> io::Result<()> {
        self.set_to(interval, interval)
    }

    fn set_to(&self, value: Duration, interval: Duration) -> io::Result<()> {
        let times = libc::itimerspec { it_interval: timespec(interval), it_value: timespec(value) };
        let old: *mut libc::itimerspec = std::ptr::null_mut();
        // SAFETY: the kernel reads one itimerspec; a null old value is allowed.
        let set =
            unsafe { libc::syscall(libc::SYS_timer_settime, self.0, 0, &raw const times, old) };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for CpuTimer {
    fn drop(&mut self) {
        // SAFETY: the id is this process's own timer, deleted once. After a fork the child has no
        // timers, and the kernel answers EINVAL.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.0) };
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(duration.subsec_nanos()),
    }
}
