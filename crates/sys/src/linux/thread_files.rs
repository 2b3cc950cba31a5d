//! Files of threads in `/proc` that stay open between readings: for less than half of the price,
//! most of which is to find them by name (`docs/design/0012`).
//!
//! Descriptors are the host's: it may have few, and may close them all and get the same numbers for
//! files of its own. So the thread that reads has a table of descriptors for itself alone.

use super::proc::{self, Blocked, SchedStat};

/// Threads whose files stay open. Those that are read at each beat are few; the others take their
/// places in turn. The kernel has more than a page for each open file.
const PLACES: usize = 64;
/// The files that are kept.
const FILES: [&str; 3] = ["schedstat", "syscall", "status"];
const SCHEDSTAT: usize = 0;
const SYSCALL: usize = 1;
const STATUS: usize = 2;
/// Instead of a descriptor.
const NONE: i32 = -1;

/// The files of a thread.
#[derive(Clone, Copy)]
struct Place {
    tid: u32,
    descriptors: [i32; FILES.len()],
}

/// No thread's.
const FREE: Place = Place { tid: 0, descriptors: [NONE; FILES.len()] };

/// Room for what a file says: `status` has up to about 2,000 bytes.
const ROOM_BYTES: usize = 4096;

/// Files of threads of this process, for one thread that reads them.
pub struct ThreadFiles {
    /// None: files are opened for each reading.
    places: Option<Box<[Place; PLACES]>>,
    room: Box<[u8; ROOM_BYTES]>,
}

impl Default for ThreadFiles {
    fn default() -> Self {
        Self { places: None, room: Box::new([0; ROOM_BYTES]) }
    }
}

impl ThreadFiles {
    /// Has files stay open from now on; only to be called by the thread that will read them, and
    /// does nothing else with descriptors that others have, but for standard error. It gets a table
    /// of descriptors of its own, which ends with it. Where the kernel can't (before 5.9, or a
    /// sandbox forbids it), all stays as it was.
    pub fn keep(&mut self) {
        if self.places.is_none() && has_own_descriptors() {
            self.places = Some(Box::new([FREE; PLACES]));
        }
    }

    /// Reads `schedstat`; `None` once the thread has ended, or if the kernel doesn't count.
    pub fn sched_stat(&mut self, tid: u32) -> Option<SchedStat> {
        SchedStat::parse(self.read(tid, SCHEDSTAT)?)
    }

    /// Reads `syscall`; `None` once the thread has ended, or if the kernel refuses.
    pub fn blocked(&mut self, tid: u32) -> Option<Blocked> {
        Blocked::parse(self.read(tid, SYSCALL)?)
    }

    /// How often a thread has given up the processor by itself, which is how often it has waited;
    /// `None` once it has ended.
    pub fn voluntary_switches(&mut self, tid: u32) -> Option<u64> {
        proc::switches_of(self.read(tid, STATUS)?)
    }

    fn read(&mut self, tid: u32, file: usize) -> Option<&[u8]> {
        let name = FILES.get(file)?;
        let room = self.room.as_mut_slice();
        let Some(places) = &mut self.places else { return proc::read_file(tid, name, room) };
        let place = places.get_mut(tid as usize % PLACES)?;
        if let Some(bytes) = place.read(tid, file, room) {
            return room.get(..bytes);
        }
        if place.descriptors.get(file) == Some(&NONE) {
            // There may be no descriptor left: by the process's limit, or by the system's.
            places.iter_mut().for_each(Place::release);
        } else {
            // It has ended, and perhaps another thread has its number by now.
            place.release();
        }
        proc::read_file(tid, name, room)
    }
}

impl Place {
    /// Reads a thread's file from its beginning, opened before or now. Returns how many bytes there
    /// are; `None` if there are none, as of a thread that has ended.
    fn read(&mut self, tid: u32, file: usize, room: &mut [u8]) -> Option<usize> {
        if self.tid != tid {
            self.release();
            self.tid = tid;
        }
        let descriptor = self.descriptors.get_mut(file)?;
        if *descriptor == NONE {
            *descriptor = proc::open_file(tid, FILES.get(file)?)?;
        }
        // SAFETY: the kernel writes at most as many bytes as there is room.
        let bytes = unsafe { libc::pread(*descriptor, room.as_mut_ptr().cast(), room.len(), 0) };
        usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
    }

    fn release(&mut self) {
        for descriptor in std::mem::replace(self, FREE).descriptors {
            if descriptor != NONE {
                // SAFETY: opened by this thread in a table that no other thread has, and closed
                // once: the place has forgotten it.
                unsafe { libc::close(descriptor) };
            }
        }
    }
}

/// Gives the calling thread a table of descriptors of its own, with nothing in it but standard
/// error: it must not keep open what the host closes. Returns whether it has one.
fn has_own_descriptors() -> bool {
    const AFTER_STANDARD: u32 = libc::STDERR_FILENO as u32 + 1;
    // The others first: what is to be closed isn't even copied then.
    if !close_range(AFTER_STANDARD, u32::MAX, libc::CLOSE_RANGE_UNSHARE) {
        return false;
    }
    close_range(libc::STDIN_FILENO as u32, libc::STDOUT_FILENO as u32, 0)
}

fn close_range(first: u32, last: u32, flags: u32) -> bool {
    // SAFETY: three numbers. What is closed is closed for this thread alone: the first call has the
    // flag that makes it so, and the second is made only if that was done.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::sync::mpsc;

    use super::*;
    use crate::thread::own_id;

    /// The descriptors of the calling thread's table.
    fn descriptors() -> Vec<i32> {
        let entries = std::fs::read_dir("/proc/thread-self/fd").expect("a list");
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut all: Vec<i32> = names.filter_map(|name| name.parse().ok()).collect();
        all.sort_unstable();
        // The list's own is closed by now.
        all.retain(|descriptor| is_open(*descriptor));
        all
    }

    fn is_open(descriptor: i32) -> bool {
        // SAFETY: asks for flags.
        unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
    }

    /// Runs a body on a thread that keeps files, and has its table to itself.
    fn keeping<T: Send>(body: impl FnOnce(&mut ThreadFiles) -> T + Send) -> T {
        let with = || {
            let mut files = ThreadFiles::default();
            files.keep();
            assert!(files.places.is_some(), "close_range is not to be had here");
            body(&mut files)
        };
        std::thread::scope(|scope| scope.spawn(with).join().expect("no panic"))
    }

    #[test]
    fn nothing_of_the_process_is_kept_open_but_standard_error() {
        let file = File::open("/proc/self/status").expect("a file");
        let kept = keeping(|files| {
            let at_first = descriptors();
            assert!(files.sched_stat(own_id()).is_some() && files.blocked(own_id()).is_some());
            (at_first, descriptors())
        });
        assert_eq!(kept.0, [libc::STDERR_FILENO]);
        assert_eq!(kept.1.len(), 3, "both files stay open: {kept:?}");
        assert!(is_open(file.as_raw_fd()), "the process has its own still");
        assert!(is_open(libc::STDIN_FILENO) && is_open(libc::STDOUT_FILENO));
    }

    #[test]
    fn says_what_reading_by_name_says() {
        let (end, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            scope.spawn(move || {
                tell.send(own_id()).expect("somebody listens");
                let _over = ended.recv();
            });
            let tid = told.recv().expect("a thread");
            // Until it waits there.
            while !Blocked::read(tid).is_some_and(|blocked| blocked.is_in_futex()) {
                std::thread::yield_now();
            }
            keeping(|files| {
                for _ in 0..3 {
                    assert_eq!(files.blocked(tid), Blocked::read(tid));
                    assert_eq!(files.sched_stat(tid), ThreadFiles::default().sched_stat(tid));
                    let switches = files.voluntary_switches(tid);
                    assert!(switches.is_some_and(|switches| switches >= 1));
                    assert_eq!(switches, ThreadFiles::default().voluntary_switches(tid));
                }
                assert!(matches!(files.blocked(tid), Some(Blocked::At { .. })));
            });
            drop(end);
        });
    }

    #[test]
    fn a_thread_that_has_ended_says_nothing_and_what_comes_in_its_place_does() {
        keeping(|files| {
            let ended = std::thread::scope(|scope| scope.spawn(own_id).join().expect("no panic"));
            while ThreadFiles::default().sched_stat(ended).is_some() {
                std::thread::yield_now();
            }
            assert_eq!((files.sched_stat(ended), files.blocked(ended)), (None, None));
            // A file of a thread that ended after it was opened.
            let own = own_id();
            let dead = std::thread::scope(|scope| {
                let (tell, told) = mpsc::channel();
                let (end, over) = mpsc::channel::<()>();
                scope.spawn(move || {
                    tell.send(own_id()).expect("somebody listens");
                    let _over = over.recv();
                });
                let tid = told.recv().expect("a thread");
                assert!(files.blocked(tid).is_some());
                drop(end);
                tid
            });
            while ThreadFiles::default().sched_stat(dead).is_some() {
                std::thread::yield_now();
            }
            assert_eq!(files.blocked(dead), None);
            assert!(files.sched_stat(own).is_some());
        });
    }

    #[test]
    fn more_threads_than_places_take_turns() {
        let count = PLACES * 2;
        keeping(|files| {
            let (end, over) =
                (std::sync::Barrier::new(count + 1), std::sync::Barrier::new(count + 1));
            std::thread::scope(|scope| {
                let (tell, told) = mpsc::channel();
                for _ in 0..count {
                    let (tell, end, over) = (tell.clone(), &end, &over);
                    scope.spawn(move || {
                        tell.send(own_id()).expect("somebody listens");
                        end.wait();
                        over.wait();
                    });
                }
                let all: Vec<u32> = told.iter().take(count).collect();
                for tid in all.iter().chain(&all) {
                    assert!(files.blocked(*tid).is_some() && files.sched_stat(*tid).is_some());
                }
                assert!(descriptors().len() <= PLACES * FILES.len() + 1);
                end.wait();
                over.wait();
            });
        });
    }
}
