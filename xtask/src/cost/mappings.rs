//! What of a process's memory is resident, by kind of mapping: the kernel tells of each in `smaps`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The agent's library, as it is named in mappings.
const LIBRARY: &str = "libcorprof.so";

/// Resident memory by kind, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mappings {
    /// All of it.
    pub all: f64,
    /// The agent's library.
    pub library: f64,
    /// What the agent has mapped: the ring, records, signal stacks. They are reserved without
    /// being accounted for (`nr`) and have no huge pages (`nh`), which nothing else in a .NET
    /// process has at once.
    pub mapped: f64,
    /// The arenas of malloc in which the agent's threads allocate. Arenas are reserved, too, and no
    /// more.
    pub own_arenas: f64,
    /// Its other arenas.
    pub arenas: f64,
    /// Its first heap, which is no arena.
    pub heap: f64,
    /// Other memory without a file: large allocations of malloc (the agent's unwind table is one),
    /// the runtime's heap of objects, stacks.
    pub anonymous: f64,
}

/// glibc's arenas are as large, and begin at multiples of it (`HEAP_MAX_SIZE`).
const ARENA_BYTES: u64 = 64 << 20;

impl Mappings {
    /// Of a process whose agent allocates at these addresses.
    pub fn of(pid: u32, own: &[u64]) -> Result<Self> {
        let path = format!("/proc/{pid}/smaps");
        // Mappings come and go while it is read; the bytes of file names need not be UTF-8.
        let text = fs::read(&path).with_context(|| path)?;
        Self::read(&String::from_utf8_lossy(&text), own).context("smaps has an unknown form")
    }

    /// A mapping begins with a line of addresses, and ends with one of flags.
    fn read(text: &str, own: &[u64]) -> Option<Self> {
        const KIB_A_MIB: f64 = 1024.0;
        let arena = |address: u64| address / ARENA_BYTES;
        let mut all = Self::default();
        let (mut name, mut mib, mut is_own) = ("", 0.0, false);
        for line in text.lines() {
            let (key, rest) = line.split_once(' ')?;
            match key {
                "Rss:" => mib = rest.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / KIB_A_MIB,
                "VmFlags:" => all.add(name, rest, mib, is_own),
                _ if key.ends_with(':') => {}
                _ => {
                    let start = u64::from_str_radix(key.split('-').next()?, 16).ok()?;
                    is_own = own.iter().any(|own| arena(*own) == arena(start));
                    // Access, offset, device and file number; the name may have blanks.
                    name = rest.splitn(5, ' ').nth(4).unwrap_or_default().trim();
                }
            }
        }
        (all.all > 0.0).then_some(all)
    }

    fn add(&mut self, name: &str, flags: &str, mib: f64, is_own: bool) {
        let has = |flag: &str| flags.split(' ').any(|other| other == flag);
        self.all += mib;
        let file = Path::new(name.trim_end_matches(" (deleted)")).file_name();
        if file.is_some_and(|file| file == LIBRARY) {
            self.library += mib;
        } else if name == "[heap]" {
            self.heap += mib;
        } else if name.is_empty() {
            *match (has("nr"), has("nh")) {
                (true, true) => &mut self.mapped,
                (true, false) if is_own => &mut self.own_arenas,
                (true, false) => &mut self.arenas,
                (false, _) => &mut self.anonymous,
            } += mib;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(address: u64, name: &str, kib: u32, flags: &str) -> String {
        let line = format!("{address:x}-7fffffff0000 rw-p 00000000 00:00 0 {name}");
        format!("{line}\nSize: 99 kB\nRss:    {kib} kB\nTHPeligible:  0\nVmFlags: {flags} \n")
    }

    #[test]
    fn each_mapping_has_its_kind() {
        const OWN: u64 = 0x7fe8_8000_0000;
        let text = [
            mapping(OWN, "                   /a b/libcorprof.so", 1024, "rd ex mr"),
            mapping(OWN, "                   /a b/libcorprof.so (deleted)", 512, "rd mr"),
            mapping(OWN, "                   /usr/lib/libc.so.6", 4096, "rd ex mr"),
            mapping(OWN - 4096, "                   [heap]", 256, "rd wr mr ac"),
            mapping(OWN, "", 2048, "rd wr mr nr"),
            mapping(OWN + ARENA_BYTES - 4096, "", 512, "rd wr mr nr"),
            mapping(OWN + ARENA_BYTES, "", 768, "rd wr mr nr"),
            mapping(OWN, "", 3072, "rd wr mr nr nh"),
            mapping(OWN, "", 5120, "rd wr mr ac nh"),
        ];
        let found = Mappings::read(&text.concat(), &[1, OWN + 2000]);
        let expected = Mappings {
            all: 1.5 + 4.0 + 0.25 + 2.5 + 0.75 + 3.0 + 5.0,
            library: 1.5,
            mapped: 3.0,
            own_arenas: 2.5,
            arenas: 0.75,
            heap: 0.25,
            anonymous: 5.0,
        };
        assert_eq!(found, Some(expected));
        assert_eq!(Mappings::read("", &[]), None);
        assert_eq!(Mappings::read("no mapping", &[]), None);
    }

    #[test]
    fn this_process_has_a_heap_and_no_agent() {
        let own = Mappings::of(std::process::id(), &[]).unwrap();
        assert!(own.heap + own.arenas > 0.0 && own.all > own.heap + own.anonymous, "{own:?}");
        assert_eq!((own.library, own.own_arenas), (0.0, 0.0));
    }
}
