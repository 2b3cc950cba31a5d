//! Numbers as the pages read them: 7 bits a byte, the lowest first, and all bytes but the last have
//! the highest bit set (as in pprof).

/// Adds a number.
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
