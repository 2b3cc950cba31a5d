//! Damaged and random unwind data and files: gaps and causes, never a panic, never an endless loop.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::fs;
use std::path::PathBuf;

use signal::table::Row;
use testing::Random;
use unwind::blocks::Blocks;
use unwind::cfi;
use unwind::eh_frame::{EhFrame, length};
use unwind::modules::{self, Kind, Module};
use unwind::rules::Rules;
use unwind::symbols::{NoSymbols, Symbols};

fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.number().to_le_bytes()[3]).collect()
}

fn check_rows(frames: &EhFrame, module: &Module) {
    let mut rules = Rules::default();
    let Blocks { blocks, .. } =
        cfi::blocks(frames, &module.code, &mut rules, sys::memory::copy_own);
    for block in blocks {
        assert!(block.rows.is_sorted_by(|a, b| a.offset < b.offset && a.rule != b.rule));
        let len = block.range.end - block.range.start;
        assert!(block.rows.iter().all(|row| u64::from(row.offset) <= len));
        assert!(block.rows.last().is_none_or(|row| row.rule == Row::NO_RULE));
        let rules = rules.as_slice().len();
        let known = |row: &Row| row.rule == Row::NO_RULE || (row.rule as usize) < rules;
        assert!(block.rows.iter().all(known));
    }
}

#[test]
fn damaged_frames() {
    let mut random = Random(0x6a09_e667_f3bc_c908);
    for fresh in modules::scan(&[], sys::memory::copy_own).fresh {
        let Ok(frames) = fresh.unwind_data else { continue };
        check_rows(&frames, &fresh.module);
        for _ in 0..20 {
            let mut damaged = frames.clone();
            for _ in 0..=random.index(50) {
                let at = random.index(damaged.bytes.len());
                damaged.bytes[at] = random.number() as u8;
            }
            damaged.bytes.truncate(random.index(damaged.bytes.len() + 1));
            check_rows(&damaged, &fresh.module);
        }
        for _ in 0..200 {
            let mut hdr = frames.hdr_bytes.clone();
            for _ in 0..=random.index(4) {
                let at = random.index(16.min(hdr.len()));
                hdr[at] = random.number() as u8;
            }
            hdr.truncate(random.index(hdr.len() + 1));
            let _ = EhFrame::address(&hdr, frames.hdr_address);
            let bytes = frames.bytes.clone();
            let copy = EhFrame::new(hdr, frames.hdr_address, bytes, frames.address);
            assert!(copy.is_ok_and(|copy| copy.bytes.len() <= frames.bytes.len()));
        }
    }
}

#[test]
fn random_frames() {
    let mut random = Random(0xbb67_ae85_84ca_a73b);
    let module = Module {
        path: PathBuf::from("none"),
        kind: Kind::Library,
        bias: 0x10_0000,
        code: std::iter::once(0x10_0000..0x20_0000).collect(),
        build_id: Vec::new(),
        eh_frame_hdr: 0,
    };
    for _ in 0..20_000 {
        let len = random.index(300);
        let mut bytes = bytes(&mut random, len);
        // Plausible lengths lead deeper into the parser.
        if let Some(first) = bytes.first_chunk_mut::<4>() {
            *first = (random.index(64) as u32).to_le_bytes();
        }
        assert!(length(&bytes, None) <= bytes.len());
        let frames =
            EhFrame { address: 0x1f_0000, bytes, hdr_address: 0x1e_0000, hdr_bytes: Vec::new() };
        check_rows(&frames, &module);
    }
}

#[test]
fn lengths() {
    let entry = |len: u32| [&len.to_le_bytes()[..], &vec![0xaa; len as usize]].concat();
    let two = [entry(12), entry(20)].concat();
    assert_eq!(length(&two, None), 40);
    assert_eq!(length(&[&two[..], &[0; 4]].concat(), None), 40, "a terminator ends it");
    assert_eq!(length(&[&two[..], &[0; 4], &two[..]].concat(), None), 40);
    assert_eq!(length(&two[..39], None), 16, "a cut entry doesn't count");
    let followed = [two.clone(), entry(8)].concat();
    assert_eq!(length(&followed, Some(16)), 40, "the last known entry ends it");
    let extended = [&[0xff; 4][..], &3u64.to_le_bytes(), &[1, 2, 3]].concat();
    assert_eq!(length(&extended, None), 15);
    let huge = [&[0xff; 4][..], &u64::MAX.to_le_bytes()].concat();
    assert_eq!(length(&huge, None), 0);
}

/// This test's own program, as a loaded module.
fn program() -> Module {
    let scan = modules::scan(&[], sys::memory::copy_own);
    let program = scan.fresh.iter().find(|fresh| fresh.module.kind == Kind::Executable).unwrap();
    Module::clone(&program.module)
}

fn open(module: &Module) -> Result<Symbols, NoSymbols> {
    Symbols::open(module, sys::memory::copy_own)
}

/// A file of this test's own, deleted at the end.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("unwind-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn open(&self, module: &Module) -> Result<Symbols, NoSymbols> {
        open(&Module { path: self.0.clone(), ..module.clone() })
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn a_function_that_the_test_knows(n: u64) -> u64 {
    std::hint::black_box(n) + 1
}

#[test]
fn symbols_of_this_program() {
    assert_eq!(a_function_that_the_test_knows(1), 2);
    let symbols = open(&program()).unwrap();
    let start = a_function_that_the_test_knows as *const () as u64;
    for offset in [0, 1, 4] {
        let symbol = symbols.find(start + offset).unwrap();
        assert_eq!((symbol.name, symbol.offset), ("a_function_that_the_test_knows", offset));
    }
    assert_eq!(symbols.find(0), None);
    assert_eq!(symbols.find(u64::MAX), None);
    println!("{} functions, {} bytes", symbols.len(), symbols.bytes());
}

#[test]
fn symbols_of_libc() {
    let scan = modules::scan(&[], sys::memory::copy_own);
    let address = libc::qsort as *const () as u64;
    let libc = scan.fresh.iter().find(|fresh| fresh.module.contains(address)).unwrap();
    let symbols = open(&libc.module).unwrap();
    let symbol = symbols.find(address).unwrap();
    assert_eq!((symbol.name, symbol.offset), ("qsort", 0));
}

#[test]
fn files_without_symbols() {
    let module = program();
    let whole = fs::read(&module.path).unwrap();
    let causes = |bytes: &[u8]| TempFile::new("whole", bytes).open(&module).map(|_| ());
    assert_eq!(causes(&whole), Ok(()), "a copy is as good");

    let gone = Module { path: PathBuf::from("/nonexistent/file"), ..module.clone() };
    assert_eq!(open(&gone).err(), Some(NoSymbols::Deleted));
    let folder = Module { path: std::env::temp_dir(), ..module.clone() };
    assert!(matches!(open(&folder), Err(NoSymbols::BadFile | NoSymbols::Unreadable)));
    let vdso = Module { kind: Kind::Vdso, bias: 8, ..module.clone() };
    assert_eq!(open(&vdso).err(), Some(NoSymbols::BadFile));
    assert_eq!(causes(b"#!/bin/sh\n"), Err(NoSymbols::BadFile));
    assert_eq!(causes(&whole[..whole.len() / 2]), Err(NoSymbols::BadFile), "cut off");

    let replaced = Module { build_id: vec![1, 2, 3], ..module.clone() };
    assert_eq!(open(&replaced).err(), Some(NoSymbols::Replaced));
    let replaced = Module { code: std::iter::once(0..1).collect(), ..module.clone() };
    assert_eq!(open(&replaced).err(), Some(NoSymbols::Replaced));

    // No section headers.
    let mut stripped = whole.clone();
    stripped[40..48].fill(0);
    stripped[60..62].fill(0);
    assert_eq!(causes(&stripped), Err(NoSymbols::Stripped));
}

#[test]
fn damaged_files() {
    let module = program();
    let whole = fs::read(&module.path).unwrap();
    let mut random = Random(0x3c6e_f372_fe94_f82b);
    let sections = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
    let file = TempFile::new("damaged", &whole);
    for _ in 0..300 {
        let mut edits = Vec::new();
        for _ in 0..=random.index(6) {
            let at = match random.index(3) {
                0 => random.index(64),
                1 => random.index(64 + 56 * 14),
                _ => (sections + random.index(64 * 40)).min(whole.len() - 1),
            };
            edits.push((at, random.number() as u8));
        }
        let handle = fs::OpenOptions::new().write(true).open(&file.0).unwrap();
        use std::os::unix::fs::FileExt;
        for (at, byte) in &edits {
            handle.write_all_at(&[*byte], *at as u64).unwrap();
        }
        if let Ok(symbols) = file.open(&module) {
            for _ in 0..20 {
                let _ = symbols.find(module.bias + random.number() % 0x40_0000);
            }
        }
        for (at, _) in &edits {
            handle.write_all_at(&whole[*at..=*at], *at as u64).unwrap();
        }
    }
}

/// Two million symbols that share a name without an end: given up in time.
#[test]
fn hostile_symbols_take_no_time() {
    const SYMBOLS: usize = 2_000_000;
    const NAMES: usize = 1 << 20;
    let mut file = vec![0_u8; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let (symbols_at, names_at) = (64 + 3 * 64, 64 + 3 * 64 + 24 * SYMBOLS);
    file[32..40].copy_from_slice(&64_u64.to_le_bytes());
    file[40..48].copy_from_slice(&64_u64.to_le_bytes());
    for (at, value) in [(54, 56_u16), (58, 64), (60, 3)] {
        file[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    let mut section = |kind: u32, offset: usize, size: usize, link: u32| {
        let mut bytes = [0_u8; 64];
        bytes[4..8].copy_from_slice(&kind.to_le_bytes());
        bytes[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
        bytes[32..40].copy_from_slice(&(size as u64).to_le_bytes());
        bytes[40..44].copy_from_slice(&link.to_le_bytes());
        file.extend(bytes);
    };
    section(0, 0, 0, 0);
    section(2, symbols_at, 24 * SYMBOLS, 2);
    section(3, names_at, NAMES, 0);
    for number in 0..SYMBOLS {
        let mut symbol = [0_u8; 24];
        symbol[4] = 2;
        symbol[6] = 1;
        symbol[8..16].copy_from_slice(&(4096 + number as u64).to_le_bytes());
        file.extend(symbol);
    }
    file.extend(std::iter::repeat_n(b'x', NAMES));
    let module = Module { build_id: Vec::new(), code: Vec::new(), bias: 0, ..program() };
    let started = std::time::Instant::now();
    assert_eq!(TempFile::new("hostile", &file).open(&module).err(), Some(NoSymbols::Stripped));
    // A name of four thousand bytes for each would be 8 GB.
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    // The same with an end: as many bytes are kept as are allowed.
    for at in (names_at..file.len()).step_by(4000) {
        file[at] = 0;
    }
    for number in 0..SYMBOLS {
        let at = symbols_at + 24 * number;
        file[at..at + 4].copy_from_slice(&((1 + number % 64) as u32).to_le_bytes());
    }
    let started = std::time::Instant::now();
    let symbols = TempFile::new("hostile", &file).open(&module).unwrap();
    assert!(symbols.bytes() <= 2 * model::limits::SYMBOL_BYTES_MAX, "{}", symbols.bytes());
    println!("{} functions, {} bytes, {:?}", symbols.len(), symbols.bytes(), started.elapsed());
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}
