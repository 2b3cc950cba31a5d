//! Digests: SHA-256 of files and of lists of inputs, in hexadecimal.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// The checksum of the file's content.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..count]);
    }
}

/// The checksum of a list. Each part is preceded by its length, so that moving a byte from one part
/// to the next gives another digest.
pub(crate) fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_published_digest() {
        let path = std::env::temp_dir().join(format!("rig-digest-{}", std::process::id()));
        std::fs::write(&path, b"abc").unwrap();
        let digest = of_file(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let one: [&[u8]; 2] = [b"ab", b"c"];
        let other: [&[u8]; 2] = [b"a", b"bc"];
        assert_ne!(of_parts(one), of_parts(other));
    }
}
