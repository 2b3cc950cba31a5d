//! Checked reading of a metadata blob. A reader that failed once gives nothing more, so that code
//! which builds what it can needs to look only once.

use crate::metadata::Token;

/// A position in a blob.
#[derive(Clone, Debug)]
pub(crate) struct Blob<'a> {
    rest: &'a [u8],
    failed: bool,
}

impl<'a> Blob<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, failed: false }
    }

    /// Nothing more can be read: gives `None`, so that it can end a reading function.
    pub(crate) fn fail<T>(&mut self) -> Option<T> {
        self.failed = true;
        self.rest = &[];
        None
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// The next byte, which stays.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                Some(*first)
            }
            None => self.fail(),
        }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Some(taken)
            }
            None => self.fail(),
        }
    }

    /// A compressed unsigned integer (ECMA-335 II.23.2): 1, 2 or 4 bytes.
    pub(crate) fn compressed(&mut self) -> Option<u32> {
        let first = u32::from(self.byte()?);
        match first {
            0x00..=0x7f => Some(first),
            0x80..=0xbf => {
                let low = u32::from(self.byte()?);
                Some((first & 0x3f) << 8 | low)
            }
            0xc0..=0xdf => match self.bytes(3)? {
                [b, c, d] => Some(u32::from_be_bytes([(first & 0x1f) as u8, *b, *c, *d])),
                _ => self.fail(),
            },
            _ => self.fail(),
        }
    }

    /// A type's token, as a `TypeDefOrRef` coded index.
    pub(crate) fn type_token(&mut self) -> Option<Token> {
        let coded = self.compressed()?;
        match Token::from_type_def_or_ref(coded) {
            Some(token) => Some(token),
            None => self.fail(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Option<u32>) {
        assert_eq!(Blob::new(bytes).compressed(), expected, "{bytes:02x?}");
    }

    #[test]
    fn compressed_integers_of_the_standard() {
        check(&[0x03], Some(0x03));
        check(&[0x7f], Some(0x7f));
        check(&[0x80, 0x80], Some(0x80));
        check(&[0xae, 0x57], Some(0x2e57));
        check(&[0xbf, 0xff], Some(0x3fff));
        check(&[0xc0, 0x00, 0x40, 0x00], Some(0x4000));
        check(&[0xdf, 0xff, 0xff, 0xff], Some(0x1fff_ffff));
    }

    #[test]
    fn truncated_or_reserved_integers_are_refused() {
        check(&[], None);
        check(&[0x80], None);
        check(&[0xc0, 0, 0], None);
        check(&[0xff], None);
        check(&[0xe0, 0, 0, 0], None);
    }

    #[test]
    fn a_failed_reader_gives_nothing_more() {
        let mut blob = Blob::new(&[0xff, 0x01]);
        assert_eq!(blob.compressed(), None);
        assert_eq!(blob.byte(), None);
        assert!(blob.has_failed());
    }

    #[test]
    fn coded_tokens() {
        assert_eq!(Blob::new(&[0x49]).type_token(), Some(Token(0x0100_0012)));
        assert_eq!(Blob::new(&[0x0c]).type_token(), Some(Token(0x0200_0003)));
        assert_eq!(Blob::new(&[0x06]).type_token(), Some(Token(0x1b00_0001)));
        assert_eq!(Blob::new(&[0x07]).type_token(), None);
        assert_eq!(Blob::new(&[0x00]).type_token(), None);
    }
}
