//! Gzip or plain bytes, with a bound on what they become.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::read::MultiGzDecoder;

use super::error::DecodeError;

/// Bytes of an inflated profile at most: seven times the largest that our own bounds allow in
/// practice, and small enough for a machine to hold.
pub(super) const INFLATED_BYTES: usize = 256 << 20;
/// How gzip begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The profile's bytes, inflated if they are gzip.
pub(super) fn inflate(bytes: &[u8], bytes_max: usize) -> Result<Cow<'_, [u8]>, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty);
    }
    let plain = if bytes.starts_with(&GZIP) {
        let mut plain = Vec::new();
        // One more than is allowed, so that the bound is noticed and not taken for the end.
        let bound = (bytes_max as u64).saturating_add(1);
        let read = MultiGzDecoder::new(bytes).take(bound).read_to_end(&mut plain);
        read.map_err(|error| DecodeError::Gzip(error.to_string()))?;
        Cow::Owned(plain)
    } else {
        Cow::Borrowed(bytes)
    };
    match plain.len() {
        0 => Err(DecodeError::Empty),
        len if len > bytes_max => Err(DecodeError::TooLarge { bytes_max }),
        _ => Ok(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_and_plain_are_read() {
        assert_eq!(inflate(b"abc", 3).unwrap().as_ref(), b"abc");
        assert_eq!(inflate(&gzip(b"abc"), 3).unwrap().as_ref(), b"abc");
        let twice = [gzip(b"abc"), gzip(b"def")].concat();
        assert_eq!(inflate(&twice, 6).unwrap().as_ref(), b"abcdef");
    }

    #[test]
    fn bombs_and_cuts_are_refused() {
        let bomb = gzip(&vec![0; 10 << 20]);
        assert!(bomb.len() < 20_000);
        assert_eq!(inflate(&bomb, 1 << 20), Err(DecodeError::TooLarge { bytes_max: 1 << 20 }));
        assert_eq!(inflate(b"abcd", 3), Err(DecodeError::TooLarge { bytes_max: 3 }));
        let whole = gzip(b"some text");
        for len in 2..whole.len() {
            assert!(matches!(inflate(&whole[..len], 99), Err(DecodeError::Gzip(_))), "{len}");
        }
        for empty in [&[][..], &gzip(b"")] {
            assert_eq!(inflate(empty, 99), Err(DecodeError::Empty));
        }
    }
}
