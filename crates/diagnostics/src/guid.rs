//! Class ids, as COM has them.

use std::fmt;

/// A GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guid([u8; 16]);

impl Guid {
    /// A GUID from its text, with or without braces.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'))?;
        let groups: Vec<&str> = text.split('-').collect();
        if groups.iter().map(|group| group.len()).ne([8, 4, 4, 4, 12]) {
            return None;
        }
        let digits = groups.concat();
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
        // The first three groups are numbers, which are little-endian in memory.
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
        Some(Self(bytes))
    }

    /// A GUID as it lies in memory and in messages.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// As it lies in memory and in messages.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.0;
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
        let digits = format!("{:032X}", u128::from_be_bytes(bytes));
        let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
        write!(f, "{{{a}-{b}-{c}-{}-{}}}", &digits[16..20], &digits[20..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_little_endian_and_the_rest_is_as_written() {
        let text = "{8A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41}";
        let guid = Guid::parse(text).unwrap();
        assert_eq!(guid.to_bytes()[..9], [0x52, 0x1c, 0x3f, 0x8a, 0x0d, 0x6b, 0x57, 0x4e, 0x9c]);
        assert_eq!(guid.to_string(), text);
        assert_eq!(Guid::parse(text.trim_matches(['{', '}'])), Some(guid));
        assert_eq!(Guid::from_bytes(guid.to_bytes()), guid);
        for bad in [
            "",
            "{}",
            "{8A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41",
            "8A3F1C526B0D4E57",
            "{+A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41}",
        ] {
            assert_eq!(Guid::parse(bad), None, "{bad}");
        }
    }
}
