//! Messages: a header of 20 bytes, and what comes after it.

use std::fmt;

use crate::Command;

/// What each message begins with.
const MAGIC: [u8; 14] = *b"DOTNET_IPC_V1\0";
/// Bytes of a header: magic, size, command set and number, two reserved.
pub(crate) const HEADER_BYTES: usize = 20;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub command: Command,
    /// What comes after the header.
    pub payload: Vec<u8>,
}

/// What is wrong with bytes that should be a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It does not begin as messages do: another protocol.
    Magic,
    /// It is shorter than it says, or than its parts need.
    Short,
    /// It says that it is longer than the bound for such things.
    Long,
    /// A text is not UTF-16, or does not end in zero.
    Text,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Magic => "it is no message of the diagnostics protocol",
            Self::Short => "the message is too short",
            Self::Long => "the message is too long",
            Self::Text => "a text in the message is damaged",
        })
    }
}

impl Frame {
    /// The message as bytes; `None` if it is longer than the 65,535 bytes that a header can say.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let size = u16::try_from(HEADER_BYTES + self.payload.len()).ok()?;
        let (set, number) = self.command.code();
        let mut bytes = Vec::with_capacity(usize::from(size));
        bytes.extend(MAGIC);
        bytes.extend(size.to_le_bytes());
        bytes.extend([set, number, 0, 0]);
        bytes.extend(&self.payload);
        Some(bytes)
    }

    /// What a header says: the command, and how many bytes of payload follow.
    pub(crate) fn header(bytes: [u8; HEADER_BYTES]) -> Result<(Command, usize), Malformed> {
        if bytes[..MAGIC.len()] != MAGIC {
            return Err(Malformed::Magic);
        }
        let size = usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
        let payload = size.checked_sub(HEADER_BYTES).ok_or(Malformed::Short)?;
        Ok((Command::of(bytes[16], bytes[17]), payload))
    }

    /// A message from its bytes; what comes after it is not looked at.
    ///
    /// # Errors
    /// If they are no message, or not all of one.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (head, rest) = bytes.split_first_chunk().ok_or(Malformed::Short)?;
        let (command, length) = Self::header(*head)?;
        let payload = rest.get(..length).ok_or(Malformed::Short)?.to_vec();
        Ok(Self { command, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_in_the_specification_is_read_and_written() {
        let bytes = b"DOTNET_IPC_V1\0\x14\0\xff\0\0\0";
        let frame = Frame { command: Command::Ok, payload: Vec::new() };
        assert_eq!(Frame::decode(bytes), Ok(frame.clone()));
        assert_eq!(frame.encode().unwrap(), bytes);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let good =
            Frame { command: Command::Other(9, 7), payload: vec![1, 2, 3] }.encode().unwrap();
        assert_eq!(Frame::decode(&good).unwrap().command, Command::Other(9, 7));
        for length in 0..good.len() {
            assert_eq!(Frame::decode(&good[..length]), Err(Malformed::Short), "{length}");
        }
        let mut other = good.clone();
        other[12] = b'2';
        assert_eq!(Frame::decode(&other), Err(Malformed::Magic));
        let mut shrunk = good;
        shrunk[14] = 19;
        assert_eq!(Frame::decode(&shrunk), Err(Malformed::Short));
    }

    #[test]
    fn a_message_too_long_for_its_header_is_not_made() {
        let frame = |bytes| Frame { command: Command::Ok, payload: vec![0; bytes] };
        assert_eq!(frame(65_515).encode().unwrap().len(), 65_535);
        assert_eq!(frame(65_516).encode(), None);
    }
}
