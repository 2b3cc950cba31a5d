//! Decompression: what the `xz` tool packs, comes out as it was; damaged files end in an error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use testing::Random;
use unwind::xz::{NotXz, decompress};

const BYTES_MAX: usize = 64 << 20;

/// `None`, loudly, where the tool is not installed.
fn packed(bytes: &[u8], options: &[&str]) -> Option<Vec<u8>> {
    let spawned = Command::new("xz")
        .args(["--stdout", "--format=xz"])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        eprintln!("SKIPPED: there is no xz");
        return None;
    };
    let mut input = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "xz {options:?}");
    Some(output.stdout)
}

/// Bytes of many kinds: text, numbers, noise, runs.
fn samples() -> Vec<Vec<u8>> {
    let mut random = Random(0x510e_527f_ade6_82d1);
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let noise: Vec<u8> = (0..300_000).map(|_| random.number() as u8).collect();
    let text: String = (0..50_000).map(|n| format!("symbol_{}\0", n * 7 % 1000)).collect();
    let mut mixed = noise[..100_000].to_vec();
    mixed.extend(std::iter::repeat_n(b'x', 100_000));
    mixed.extend(text.as_bytes());
    vec![
        Vec::new(),
        b"a".to_vec(),
        noise,
        text.into_bytes(),
        mixed,
        program[..program.len().min(1 << 20)].to_vec(),
    ]
}

#[test]
fn what_was_packed_comes_out() {
    for bytes in samples() {
        for options in [
            &["-6"][..],
            &["-0", "--check=crc32"],
            &["-1", "--check=sha256", "--block-size=100000"],
            &["--check=none", "--lzma2=preset=6,lc=0,lp=4,pb=4"],
            &["--lzma2=preset=4,lc=1,lp=2,pb=0,dict=64KiB"],
            &["-T2", "--block-size=1MiB"],
        ] {
            let Some(file) = packed(&bytes, options) else { return };
            assert!(decompress(&file, BYTES_MAX) == Ok(bytes.clone()), "{options:?}");
            if !bytes.is_empty() {
                assert_eq!(decompress(&file, bytes.len() - 1), Err(NotXz::TooLarge));
            }
        }
    }
}

#[test]
fn damaged_files_end() {
    let mut random = Random(0x9b05_688c_2b3e_6c1f);
    let text: String = (0..3_000).map(|n| format!("symbol_{}\0", n * 7 % 1000)).collect();
    let Some(file) = packed(text.as_bytes(), &["-6", "--block-size=5000"]) else { return };
    let mut errors = 0;
    for _ in 0..5_000 {
        let mut damaged = file.clone();
        for _ in 0..=random.index(3) {
            let at = random.index(damaged.len());
            damaged[at] = random.number() as u8;
        }
        damaged.truncate(random.index(damaged.len() * 4));
        match decompress(&damaged, 1 << 20) {
            Ok(bytes) => assert!(bytes.len() <= 1 << 20),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 500, "{errors} of 5,000 damaged files were seen to be");
    for _ in 0..5_000 {
        let len = random.index(200);
        let mut noise: Vec<u8> = file[..24].to_vec();
        noise.extend((0..len).map(|_| random.number() as u8));
        let _ = decompress(&noise, 1 << 20);
    }
    for file in [&b""[..], b"\xfd7zXZ", b"\xfd7zXZ\0\0\x04", b"\x7fELF"] {
        assert_eq!(decompress(file, 1 << 20), Err(NotXz::Bad));
    }
}
