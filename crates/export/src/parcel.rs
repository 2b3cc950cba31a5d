//! A profile made ready for one target: all of the request but the address and the secrets, so that
//! it can wait on disk and be sent by another process.
//!
//! On disk it is a few lines of text, an empty one, and the body. The length and a checksum tell
//! whether all of it is there.

use std::fmt;
use std::sync::Arc;

use config::Target;

const MAGIC: &str = "corprof-parcel 1";
/// Bytes of the lines before the body.
const HEAD_BYTES_MAX: usize = 4096;

/// A profile for a target.
#[derive(Clone, PartialEq, Eq)]
pub struct Parcel {
    /// For whom.
    pub target: Target,
    /// When its period began, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// What kind of body it is.
    pub content_type: String,
    /// Whether the body is gzipped as a whole.
    pub is_gzipped: bool,
    /// What is sent.
    pub body: Arc<[u8]>,
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parcel({}, {} bytes)", self.target.name(), self.body.len())
    }
}

impl Parcel {
    /// As bytes of a file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = format!(
            "{MAGIC}\ntarget={}\nstart={}\ntype={}\ngzip={}\nlength={}\nsum={:016x}\n\n",
            self.target.name(),
            self.start_unix_ns,
            self.content_type.replace(['\n', '\r'], " "),
            self.is_gzipped,
            self.body.len(),
            checksum(&self.body),
        );
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// From bytes of a file; `None` if they are not those of a whole parcel.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..bytes.len().min(HEAD_BYTES_MAX))?;
        let end = head.windows(2).position(|two| two == b"\n\n")?;
        let body = bytes.get(end.checked_add(2)?..)?;
        let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
        let mut lines = head.lines();
        let is_ours = lines.next() == Some(MAGIC);
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix('=');
        let target = value("target")?;
        let target = Target::ALL.into_iter().find(|known| known.name() == target)?;
        let start_unix_ns = value("start")?.parse().ok()?;
        let content_type = value("type")?.to_owned();
        let is_gzipped = value("gzip")?.parse().ok()?;
        let length = value("length")?.parse::<usize>().ok()?;
        let sum = u64::from_str_radix(value("sum")?, 16).ok()?;
        let is_whole = is_ours && body.len() == length && checksum(body) == sum;
        is_whole.then(|| Self {
            target,
            start_unix_ns,
            content_type,
            is_gzipped,
            body: body.into(),
        })
    }
}

/// FNV-1a: against what got lost or mixed up on a disk, not against people.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel() -> Parcel {
        Parcel {
            target: Target::Pyroscope,
            start_unix_ns: 5,
            content_type: "application/proto".into(),
            is_gzipped: false,
            body: b"a\n\nb\0".to_vec().into(),
        }
    }

    #[test]
    fn a_parcel_is_read_back() {
        for target in Target::ALL {
            let parcel = Parcel { target, ..parcel() };
            assert_eq!(Parcel::from_bytes(&parcel.to_bytes()), Some(parcel));
        }
    }

    #[test]
    fn half_a_parcel_is_none() {
        let bytes = parcel().to_bytes();
        for end in 0..bytes.len() {
            assert_eq!(Parcel::from_bytes(&bytes[..end]), None, "{end}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Parcel::from_bytes(&longer), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            // The type's letters are not summed, and nothing hangs on them.
            if let Some(read) = Parcel::from_bytes(&damaged) {
                assert_eq!(read.body, parcel().body, "{at}");
            }
        }
    }
}
