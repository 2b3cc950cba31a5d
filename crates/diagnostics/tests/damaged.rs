//! Messages may be anybody's: whatever the bytes are, they are read or refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use diagnostics::{Command, Frame, Guid, Library, Process, ProcessInfo, Status};
use testing::Random;

const ROUNDS: usize = 20_000;

fn info() -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0];
    bytes.extend([7; 24]);
    for text in ["/app/Shop --port 80", "Linux", "x64", "Shop", "8.0.4", "linux-x64"] {
        let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
        bytes.extend(u32::try_from(units.len()).unwrap().to_le_bytes());
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    }
    bytes
}

/// The bytes with some changed, and perhaps cut off.
fn damaged(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.index(4) {
        let at = random.index(bytes.len());
        bytes[at] = u8::try_from(random.below(256)).unwrap();
    }
    if random.below(3) == 0 {
        bytes.truncate(random.index(bytes.len()));
    }
    bytes
}

#[test]
fn messages() {
    let mut random = Random(1);
    let payload = info();
    let frame = Frame { command: Command::ProcessInfo3, payload: payload.clone() };
    let frame = frame.encode().unwrap();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        match ProcessInfo::decode(Command::ProcessInfo3, &damaged(&payload, &mut random)) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
        if let Ok(frame) = Frame::decode(&damaged(&frame, &mut random)) {
            assert!(frame.payload.len() <= payload.len());
        }
    }
    // Both happen, or the test would say nothing.
    assert!(read > ROUNDS / 20 && refused > ROUNDS / 20, "{read} {refused}");
}

#[test]
fn texts() {
    let mut random = Random(2);
    let status = b"NSpid:\t4711\t12\nUid:\t0\t1\t2\t3\nSigQ:\t3/62793\nSigCgt:\t00000003bb818ef9\n";
    let guid = b"{8A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41}";
    for _ in 0..ROUNDS {
        let text = damaged(status, &mut random);
        let status = Status::new(String::from_utf8_lossy(&text).into_owned());
        let _ = (status.own_pid(), status.user(), status.groups(), status.pending_signals());
        let _ = status.catches(27);
        let text = damaged(guid, &mut random);
        if let Some(guid) = Guid::parse(&String::from_utf8_lossy(&text)) {
            assert_eq!(Guid::parse(&guid.to_string()), Some(guid));
        }
    }
}

#[test]
fn libraries() {
    let mut random = Random(3);
    let path = std::env::temp_dir().join(format!("corprof-damaged-{}", std::process::id()));
    let mapped = Process::new(std::process::id()).mapped_files().unwrap();
    // The C library has both tables of versions.
    let (_, libc) = diagnostics::libc_of(&mapped);
    let good = std::fs::read(libc.unwrap()).unwrap();
    std::fs::write(&path, &good).unwrap();
    assert!(Library::read(&path).unwrap().offers.is_some());
    // Its ELF header and the headers of its sections, where a change has an effect.
    let sections = usize::try_from(u64::from_le_bytes(good[40..48].try_into().unwrap())).unwrap();
    for _ in 0..200 {
        let mut bytes = good.clone();
        let head = damaged(&good[..64], &mut random);
        bytes[..head.len()].copy_from_slice(&head);
        let table = damaged(&good[sections..], &mut random);
        bytes[sections..sections + table.len()].copy_from_slice(&table);
        std::fs::write(&path, &bytes).unwrap();
        let _ = Library::read(&path);
        let _ = Library::exports(&path, &["malloc"]);
    }
    std::fs::remove_file(path).unwrap();
}
