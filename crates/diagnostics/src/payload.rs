//! What messages are made of: numbers, ids and texts.

use crate::{Guid, Malformed};

/// Writes a text: its length in UTF-16 units with a zero at the end, and these.
pub fn write_text(bytes: &mut Vec<u8>, text: &str) {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    // A text of 4 GiB fits in no message.
    bytes.extend(u32::try_from(units.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
}

/// Reads what a message is made of, in order.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A number of 32 bits.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number of 64 bits.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A GUID.
    pub fn guid(&mut self) -> Result<Guid, Malformed> {
        Ok(Guid::from_bytes(self.array()?))
    }

    /// A text. What is not UTF-16 in it is replaced: command lines may be anything.
    pub fn text(&mut self) -> Result<String, Malformed> {
        let length = usize::try_from(self.u32()?).map_err(|_| Malformed::Short)?;
        let bytes = self.take(length.checked_mul(2).ok_or(Malformed::Short)?)?;
        let units: Vec<u16> =
            bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
        match units.split_last() {
            None => Ok(String::new()),
            Some((0, text)) => Ok(String::from_utf16_lossy(text)),
            Some(_) => Err(Malformed::Text),
        }
    }
}

#[cfg(unix)]
/// Reads an environment: a count, and texts such as `NAME=value`. Those without a `=` are left out.
pub fn environment(bytes: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
    let mut reader = Reader(bytes);
    let mut variables = Vec::new();
    for _ in 0..reader.u32()? {
        if let Some((name, value)) = reader.text()?.split_once('=') {
            variables.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_counted_with_their_zero() {
        let mut bytes = Vec::new();
        write_text(&mut bytes, "aü😀");
        assert_eq!(bytes[..6], [5, 0, 0, 0, b'a', 0]);
        assert_eq!(bytes.len(), 4 + 2 * 5);
        let mut reader = Reader(&bytes);
        assert_eq!(reader.text().unwrap(), "aü😀");
        assert!(reader.0.is_empty());
        assert_eq!(Reader(&[0; 4]).text().unwrap(), "");
        for length in 0..bytes.len() {
            assert_eq!(Reader(&bytes[..length]).text(), Err(Malformed::Short));
        }
        assert_eq!(Reader(&[1, 0, 0, 0, 65, 0]).text(), Err(Malformed::Text));
        assert_eq!(Reader(&[255; 8]).text(), Err(Malformed::Short));
    }

    #[cfg(unix)]
    #[test]
    fn an_environment_is_counted_texts() {
        let mut bytes = 3_u32.to_le_bytes().to_vec();
        for text in ["A=1", "odd", "B=x=y"] {
            write_text(&mut bytes, text);
        }
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(environment(&bytes), Ok(vec![pair("A", "1"), pair("B", "x=y")]));
        assert_eq!(environment(&bytes[..bytes.len() - 1]), Err(Malformed::Short));
        // A count that the bytes can't hold ends at their end.
        assert_eq!(environment(&[255; 4]), Err(Malformed::Short));
    }
}
