//! Stacks of other threads, found without their help.
//!
//! Both C libraries keep a thread's control block at the top of its stack, and the kernel knows a
//! place in that block: the list of robust locks, which each thread registers as it starts. Up to
//! there the memory is the thread's own and stays as long as the thread does; what comes behind may
//! be anybody's, even where it belongs to the same mapping. So nothing is guessed, whether the
//! thread runs or waits. The main thread's block lies elsewhere, but its stack has a name.
//!
//! A thread that was made without a C library has no list, and one that runs on a stack of a
//! coroutine is not on this one: whoever walks has to see that the stack pointer is inside.

use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::thread::StackRange;

/// What the list of mappings says of threads' stacks.
#[derive(Clone, Debug)]
pub struct Stacks {
    /// The threads' stacks, in their order; `None` for one that can't be known.
    pub of_threads: Vec<Option<StackRange>>,
    /// How many mappings the process has.
    pub mappings: usize,
}

/// The stacks of these threads. Reads the list of mappings once, which takes a millisecond for some
/// thousand. Allocates.
#[must_use]
pub fn stacks_of(tids: &[u32]) -> Stacks {
    let mut found = vec![None; tids.len()];
    let mut mappings = 0_usize;
    let main = std::process::id();
    let block = |(index, tid): (usize, &u32)| Some((control_block(*tid)?, index));
    let mut blocks: Vec<(u64, usize)> = tids.iter().enumerate().filter_map(block).collect();
    blocks.retain(|(_, index)| tids.get(*index) != Some(&main));
    blocks.sort_unstable();
    let mut blocks = blocks.into_iter().peekable();
    each_mapping(|mapping| {
        mappings = mappings.saturating_add(1);
        while let Some((block, index)) = blocks.next_if(|(block, _)| *block < mapping.end) {
            let inside = mapping.is_writable && block >= mapping.start;
            if let (true, Some(place)) = (inside, found.get_mut(index)) {
                *place = Some(StackRange { start: mapping.start, end: block & !7 });
            }
        }
        if mapping.is_main_stack
            && let Some(index) = tids.iter().position(|tid| *tid == main)
            && let Some(place) = found.get_mut(index)
        {
            *place = Some(StackRange { start: mapping.start, end: mapping.end });
        }
    });
    Stacks { of_threads: found, mappings }
}

/// How many mappings a process may have; `None` if the kernel doesn't say.
#[must_use]
pub fn mappings_max() -> Option<usize> {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim_ascii_end().parse().ok()
}

/// A place in a thread's control block: the head of its list of robust locks.
fn control_block(tid: u32) -> Option<u64> {
    let mut head: u64 = 0;
    let mut length: usize = 0;
    // SAFETY: the kernel writes one pointer and one length to valid places.
    let answer =
        unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut length) };
    (answer == 0 && head != 0).then_some(head)
}

/// A line of the list of mappings.
struct Mapping {
    start: u64,
    end: u64,
    is_writable: bool,
    is_main_stack: bool,
}

impl Mapping {
    fn parse(line: &str) -> Option<Self> {
        let (addresses, rest) = line.split_once(' ')?;
        let (start, end) = addresses.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            start: address(start)?,
            end: address(end)?,
            is_writable: rest.starts_with("rw"),
            is_main_stack: rest.trim_ascii_end().ends_with(" [stack]"),
        })
    }
}

/// All mappings of this process, by rising addresses; none if `/proc` can't be read.
fn each_mapping(mut see: impl FnMut(Mapping)) {
    let Ok(file) = File::open("/proc/self/maps") else { return };
    let mut file = BufReader::with_capacity(64 * 1024, file);
    let mut line = Vec::new();
    while matches!(file.read_until(b'\n', &mut line), Ok(1..)) {
        if let Some(mapping) = std::str::from_utf8(&line).ok().and_then(Mapping::parse) {
            see(mapping);
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::thread::{own_id, own_stack};

    #[test]
    fn the_stack_is_what_the_thread_itself_says() {
        // Between these lie the thread's local variables, and the block itself.
        const BLOCK_BYTES_MAX: u64 = 64 * 1024;
        let (tell, told) = mpsc::channel();
        let ends: Vec<_> = (0..3)
            .map(|_| {
                let tell = tell.clone();
                let (end, ended) = mpsc::channel::<()>();
                std::thread::spawn(move || {
                    let here = 0_u64;
                    let place = std::ptr::from_ref(&here).addr() as u64;
                    tell.send((own_id(), own_stack(), place)).expect("somebody listens");
                    let _closed = ended.recv();
                });
                end
            })
            .collect();
        let mut threads: Vec<_> = told.iter().take(3).collect();
        threads.reverse();
        let mut tids: Vec<u32> = threads.iter().map(|(tid, _, _)| *tid).collect();
        tids.push(u32::MAX);
        let Stacks { of_threads: found, mappings } = stacks_of(&tids);
        assert!(mappings > 3 && mappings_max().is_some_and(|max| max > mappings));
        assert_eq!(found[3], None, "nobody's");
        for ((_, stack, place), found) in threads.iter().zip(&found) {
            let (stack, found) = (stack.expect("its own"), found.expect("found"));
            assert!(found.start <= *place && *place < found.end, "{found:?} {place:x}");
            assert!(found.end <= stack.end && stack.end - found.end < BLOCK_BYTES_MAX);
        }
        drop(ends);
    }

    #[test]
    fn the_main_threads_stack_has_a_name() {
        let main = std::process::id();
        let found = stacks_of(&[main]).of_threads[0].expect("found");
        assert!(found.end > found.start);
        let line = "7ffc1000-7ffc3000 rw-p 00000000 00:00 0      [stack]\n";
        assert!(Mapping::parse(line).is_some_and(|mapping| mapping.is_main_stack));
        assert!(Mapping::parse("7ffc1000-7ffc3000 r--p 0 0 0\n").is_some_and(|m| !m.is_writable));
        assert!(Mapping::parse("").is_none());
    }
}
