//! The few pieces of protobuf that profiles are made of: numbers, bytes and packed lists.

/// How a field's value is stored.
const VARINT: u64 = 0;
const FIXED: u64 = 1;
const BYTES: u64 = 2;

/// A message being written; fields with the default value are left out, as proto3 does.
#[derive(Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The fields of another message.
    pub(crate) fn append(&mut self, fields: &Self) {
        self.bytes.extend_from_slice(&fields.bytes);
    }

    /// A number that is not zero.
    pub(crate) fn number(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.key(field, VARINT);
            self.varint(number);
        }
    }

    /// A number that says something by being there, also a zero.
    pub(crate) fn chosen_number(&mut self, field: u64, number: u64) {
        self.key(field, VARINT);
        self.varint(number);
    }

    /// A number of eight bytes that is not zero.
    pub(crate) fn fixed(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.key(field, FIXED);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Bytes, a string or a nested message; also an empty one.
    pub(crate) fn nested(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, BYTES);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A list of numbers; its length has to be known first, so the list is gone through twice.
    pub(crate) fn packed(&mut self, field: u64, numbers: impl Iterator<Item = u64> + Clone) {
        let len = numbers.clone().fold(0_u64, |sum, n| sum.saturating_add(varint_len(n)));
        self.key(field, BYTES);
        self.varint(len);
        numbers.for_each(|number| self.varint(number));
    }

    fn key(&mut self, field: u64, kind: u64) {
        self.varint((field << 3) | kind);
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push((number as u8) | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

fn varint_len(number: u64) -> u64 {
    // Seven bits a byte, and zero takes one byte too.
    u64::from((number | 1).ilog2() / 7).saturating_add(1)
}

#[cfg(feature = "read")]
pub(crate) use reader::{Fields, Value, packed};

#[cfg(feature = "read")]
mod reader {
    //! Reading, of bytes that anybody may have made.

    /// A field's value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Value<'a> {
        Number(u64),
        Bytes(&'a [u8]),
        /// Eight or four bytes in a row, the lowest first; pprof doesn't use them.
        Fixed(u64),
    }

    /// The fields of a message; an item is an error if the bytes don't make sense, then it ends.
    #[derive(Clone, Debug)]
    pub(crate) struct Fields<'a> {
        rest: &'a [u8],
    }

    impl<'a> Fields<'a> {
        pub(crate) fn new(message: &'a [u8]) -> Self {
            Self { rest: message }
        }

        fn field(&mut self) -> Result<(u64, Value<'a>), &'static str> {
            let key = varint(&mut self.rest)?;
            let value = match key & 7 {
                0 => Value::Number(varint(&mut self.rest)?),
                1 => take(&mut self.rest, 8).map(|bytes| Value::Fixed(fixed(bytes)))?,
                2 => {
                    let len = varint(&mut self.rest)?;
                    Value::Bytes(take(&mut self.rest, usize::try_from(len).unwrap_or(usize::MAX))?)
                }
                5 => take(&mut self.rest, 4).map(|bytes| Value::Fixed(fixed(bytes)))?,
                _ => return Err("a field of a kind that does not exist"),
            };
            if key >> 3 == 0 { Err("a field with number 0") } else { Ok((key >> 3, value)) }
        }
    }

    impl<'a> Iterator for Fields<'a> {
        type Item = Result<(u64, Value<'a>), &'static str>;

        fn next(&mut self) -> Option<Self::Item> {
            if self.rest.is_empty() {
                return None;
            }
            let field = self.field();
            if field.is_err() {
                self.rest = &[];
            }
            Some(field)
        }
    }

    /// The numbers of a packed list.
    pub(crate) fn packed(mut bytes: &[u8]) -> impl Iterator<Item = Result<u64, &'static str>> + '_ {
        std::iter::from_fn(move || {
            if bytes.is_empty() {
                return None;
            }
            let number = varint(&mut bytes);
            if number.is_err() {
                bytes = &[];
            }
            Some(number)
        })
    }

    fn fixed(bytes: &[u8]) -> u64 {
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], &'static str> {
        let (head, tail) = rest.split_at_checked(len).ok_or("a field ends after the data does")?;
        *rest = tail;
        Ok(head)
    }

    fn varint(rest: &mut &[u8]) -> Result<u64, &'static str> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, tail) = rest.split_first().ok_or("a number ends after the data does")?;
            *rest = tail;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number longer than ten bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_length_they_are_counted_with() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut message = Message::default();
            message.varint(number);
            assert_eq!(message.bytes().len() as u64, varint_len(number), "{number}");
        }
    }

    #[cfg(feature = "read")]
    #[test]
    fn fields_are_read_back() {
        let mut message = Message::default();
        message.number(1, 300);
        message.number(2, 0);
        message.nested(3, b"");
        message.packed(4, [0, 1, u64::MAX].into_iter());
        let fields: Result<Vec<_>, _> = Fields::new(message.bytes()).collect();
        let fields = fields.unwrap();
        assert_eq!(fields[0], (1, Value::Number(300)));
        assert_eq!(fields[1], (3, Value::Bytes(b"")));
        let Value::Bytes(list) = fields[2].1 else { panic!("not a list") };
        let list: Result<Vec<_>, _> = packed(list).collect();
        assert_eq!(list.unwrap(), [0, 1, u64::MAX]);
    }

    #[cfg(feature = "read")]
    #[test]
    fn nonsense_is_an_error_and_ends() {
        for bytes in [&[0x08][..], &[0x0b, 0x01], &[0x12, 0x7f, 1], &[0xff; 11], &[0x00, 0x01]] {
            let fields: Vec<_> = Fields::new(bytes).collect();
            assert!(matches!(fields.as_slice(), [Err(_)]), "{bytes:?}: {fields:?}");
        }
    }
}
