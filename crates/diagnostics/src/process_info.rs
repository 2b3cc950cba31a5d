//! What a runtime says of its process.

use crate::payload::Reader;
use crate::{Command, Guid, Malformed};

/// The answer to `ProcessInfo` and its successors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The process's number in its own namespace.
    pub pid: u64,
    /// The runtime's own id, new with each start.
    pub cookie: Guid,
    /// The program and its arguments, with blanks between.
    pub command_line: String,
    /// `Linux`, `Windows` or `macOS`.
    pub os: String,
    /// `x64`, `arm64`, `x86` or `arm32`.
    pub arch: String,
    /// The entry assembly's name, since .NET 6; empty before `Main` is known.
    pub entry_assembly: Option<String>,
    /// The runtime's version, since .NET 6, such as `8.0.4`, or `8.0.4+commit` in some builds.
    pub runtime_version: Option<String>,
    /// The portable runtime id, such as `linux-x64` or `linux-musl-x64`, since .NET 8.
    pub runtime_id: Option<String>,
}

impl ProcessInfo {
    /// Reads the payload of the answer to a command.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn decode(command: Command, payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        if command == Command::ProcessInfo3 {
            // The version of the structure: newer ones only add fields at its end.
            reader.u32()?;
        }
        let is_second = matches!(command, Command::ProcessInfo2 | Command::ProcessInfo3);
        Ok(Self {
            pid: reader.u64()?,
            cookie: reader.guid()?,
            command_line: reader.text()?,
            os: reader.text()?,
            arch: reader.text()?,
            entry_assembly: if is_second { Some(reader.text()?) } else { None },
            runtime_version: if is_second { Some(reader.text()?) } else { None },
            runtime_id: if command == Command::ProcessInfo3 { Some(reader.text()?) } else { None },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::write_text;

    fn payload(texts: &[&str]) -> Vec<u8> {
        let mut bytes = 42_u64.to_le_bytes().to_vec();
        bytes.extend([7; 16]);
        for text in texts {
            write_text(&mut bytes, text);
        }
        bytes
    }

    #[test]
    fn each_version_has_more() {
        let first = payload(&["/a b", "Linux", "x64"]);
        let info = ProcessInfo::decode(Command::ProcessInfo, &first).unwrap();
        assert_eq!((info.pid, info.command_line.as_str()), (42, "/a b"));
        assert_eq!(
            (info.os.as_str(), info.arch.as_str(), info.runtime_version),
            ("Linux", "x64", None)
        );
        let second = payload(&["/a b", "Linux", "x64", "Shop", "8.0.4"]);
        let info = ProcessInfo::decode(Command::ProcessInfo2, &second).unwrap();
        assert_eq!(info.entry_assembly.as_deref(), Some("Shop"));
        assert_eq!(info.runtime_version.as_deref(), Some("8.0.4"));
        let third = [
            1_u32.to_le_bytes().to_vec(),
            payload(&["/a b", "Linux", "x64", "Shop", "8.0.4", "linux-x64"]),
        ]
        .concat();
        let info = ProcessInfo::decode(Command::ProcessInfo3, &third).unwrap();
        assert_eq!(info.runtime_id.as_deref(), Some("linux-x64"));
        assert_eq!(info.pid, 42);
        for length in 0..third.len() {
            let cut = ProcessInfo::decode(Command::ProcessInfo3, &third[..length]);
            assert_eq!(cut, Err(Malformed::Short));
        }
    }
}
