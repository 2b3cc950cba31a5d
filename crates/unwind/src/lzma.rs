//! The LZMA decoder: a range coder over bits whose odds it learns, which yield literals and copies
//! of earlier bytes.

/// Where all odds begin: one half, of `1 << ODDS_BITS`.
const HALF: u16 = 1 << (ODDS_BITS - 1);
const ODDS_BITS: u32 = 11;
/// How fast odds follow what is seen.
const ODDS_SHIFT: u32 = 5;
/// What the last operations were, as the format numbers that.
const STATES: usize = 12;
/// From this state on, the last operation was a copy.
const AFTER_COPY: u8 = 7;
/// The shortest copy.
const COPY_BYTES_MIN: usize = 2;
/// Distance slots from which on the low bits are not learned, but for the last four.
const DIRECT_SLOT: u32 = 14;
/// The low bits of long distances that are learned.
const ALIGN_BITS: u32 = 4;

/// How literals and positions are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// High bits of the byte before that a literal depends on.
    literal_context: u32,
    /// Low bits of the position that a literal depends on.
    literal_position: u32,
    /// Low bits of the position that everything else depends on.
    position: u32,
}

impl Properties {
    /// From the byte that holds all three.
    #[must_use]
    pub fn read(byte: u8) -> Option<Self> {
        let byte = u32::from(byte);
        let properties =
            Self { literal_context: byte % 9, literal_position: byte / 9 % 5, position: byte / 45 };
        // LZMA2 allows no more.
        let literal = properties.literal_context.saturating_add(properties.literal_position);
        (literal <= 4 && properties.position <= 4).then_some(properties)
    }
}

/// What is kept from chunk to chunk.
#[derive(Clone, Debug)]
pub struct Decoder {
    properties: Properties,
    odds: Odds,
    state: u8,
    /// The last four distances, less one.
    distances: [u32; 4],
}

/// The odds of all bits, by what they decide.
#[derive(Clone, Debug)]
struct Odds {
    literals: Vec<[u16; 0x300]>,
    is_copy: [[u16; 16]; STATES],
    is_repeat: [u16; STATES],
    is_not_first: [u16; STATES],
    is_not_second: [u16; STATES],
    is_not_third: [u16; STATES],
    is_long: [[u16; 16]; STATES],
    slots: [[u16; 64]; 4],
    /// Trees of the low bits of middle distances, one behind the other.
    middle: [u16; 128],
    align: [u16; 16],
    lengths: Lengths,
    repeat_lengths: Lengths,
}

#[derive(Clone, Debug)]
struct Lengths {
    is_not_low: u16,
    is_high: u16,
    low: [[u16; 8]; 16],
    middle: [[u16; 8]; 16],
    high: [u16; 256],
}

impl Lengths {
    const NEW: Self = Self {
        is_not_low: HALF,
        is_high: HALF,
        low: [[HALF; 8]; 16],
        middle: [[HALF; 8]; 16],
        high: [HALF; 256],
    };

    fn read(&mut self, bits: &mut Bits<'_>, position: usize) -> Option<usize> {
        let len = if bits.bit(&mut self.is_not_low)? == 0 {
            bits.tree(self.low.get_mut(position)?, 3)?
        } else if bits.bit(&mut self.is_high)? == 0 {
            bits.tree(self.middle.get_mut(position)?, 3)?.wrapping_add(8)
        } else {
            bits.tree(&mut self.high, 8)?.wrapping_add(16)
        };
        usize::try_from(len).ok()
    }
}

impl Odds {
    fn new(properties: Properties) -> Self {
        let contexts = properties.literal_context.wrapping_add(properties.literal_position);
        Self {
            literals: vec![[HALF; 0x300]; 1 << contexts],
            is_copy: [[HALF; 16]; STATES],
            is_repeat: [HALF; STATES],
            is_not_first: [HALF; STATES],
            is_not_second: [HALF; STATES],
            is_not_third: [HALF; STATES],
            is_long: [[HALF; 16]; STATES],
            slots: [[HALF; 64]; 4],
            middle: [HALF; 128],
            align: [HALF; 16],
            lengths: Lengths::NEW,
            repeat_lengths: Lengths::NEW,
        }
    }
}

impl Decoder {
    /// A decoder that has learned nothing.
    #[must_use]
    pub fn new(properties: Properties) -> Self {
        Self { properties, odds: Odds::new(properties), state: 0, distances: [0; 4] }
    }

    /// Forgets all that was learned.
    pub fn reset(&mut self) {
        *self = Self::new(self.properties);
    }

    /// Decodes one chunk, which gives `len` bytes, to the end of `out`. What lies before `start`
    /// belongs to others. `None` if the chunk is damaged.
    pub fn decode(
        &mut self,
        chunk: &[u8],
        out: &mut Vec<u8>,
        start: usize,
        len: usize,
    ) -> Option<()> {
        let mut bits = Bits::new(chunk)?;
        let end = out.len().checked_add(len)?;
        while out.len() < end {
            let position = self.masked(out.len().wrapping_sub(start), self.properties.position);
            let state = usize::from(self.state);
            if bits.bit(self.odds.is_copy.get_mut(state)?.get_mut(position)?)? == 0 {
                self.literal(&mut bits, out, start)?;
                continue;
            }
            let bytes = if bits.bit(self.odds.is_repeat.get_mut(state)?)? == 0 {
                self.copy(&mut bits, position)?
            } else {
                self.repeat(&mut bits, position)?
            };
            if bytes > end.wrapping_sub(out.len()) {
                return None;
            }
            for _ in 0..bytes {
                let byte = self.earlier(out, start)?;
                out.push(byte);
            }
        }
        Some(())
    }

    fn masked(&self, position: usize, bits: u32) -> usize {
        position & (1_usize << bits).wrapping_sub(1)
    }

    /// The byte at the last distance.
    fn earlier(&self, out: &[u8], start: usize) -> Option<u8> {
        let [distance, ..] = self.distances;
        let at = out.len().checked_sub(usize::try_from(distance).ok()?)?.checked_sub(1)?;
        if at < start { None } else { out.get(at).copied() }
    }

    fn literal(&mut self, bits: &mut Bits<'_>, out: &mut Vec<u8>, start: usize) -> Option<()> {
        let Properties { literal_context, literal_position, .. } = self.properties;
        let before = out.get(start..)?.last().copied().unwrap_or(0);
        let position = self.masked(out.len().wrapping_sub(start), literal_position);
        let high = usize::from(before) >> 8_u32.wrapping_sub(literal_context);
        let context = (position << literal_context) | high;
        let mut like = match self.state {
            AFTER_COPY.. => Some(self.earlier(out, start)?),
            _ => None,
        };
        let odds = self.odds.literals.get_mut(context)?;
        let mut symbol = 1_usize;
        while symbol < 0x100 {
            // After a copy the literal differs from the byte that would have followed: as long as
            // the bits are that one's, they have odds of their own.
            let of = match like {
                Some(byte) => 0x100 << (byte >> 7),
                None => 0,
            };
            let bit = bits.bit(odds.get_mut(of | symbol)?)?;
            symbol = (symbol << 1) | usize::try_from(bit).ok()?;
            like = like.filter(|byte| u32::from(*byte >> 7) == bit).map(|byte| byte << 1);
        }
        out.push((symbol & 0xff) as u8);
        self.state = match self.state {
            0..4 => 0,
            state @ 4..10 => state.wrapping_sub(3),
            state => state.wrapping_sub(6),
        };
        Some(())
    }

    /// A copy from a new distance; returns its length.
    fn copy(&mut self, bits: &mut Bits<'_>, position: usize) -> Option<usize> {
        let len = self.odds.lengths.read(bits, position)?;
        let slot = bits.tree(self.odds.slots.get_mut(len.min(3))?, 6)?;
        let distance = if slot < 4 {
            slot
        } else {
            let low_bits = (slot >> 1).wrapping_sub(1);
            let high = (2 | (slot & 1)) << low_bits;
            let low = if slot < DIRECT_SLOT {
                let tree = usize::try_from(high.wrapping_sub(slot)).ok()?;
                bits.reverse_tree(self.odds.middle.get_mut(tree..)?, low_bits)?
            } else {
                let direct = bits.direct(low_bits.wrapping_sub(ALIGN_BITS))?;
                let align = bits.reverse_tree(&mut self.odds.align, ALIGN_BITS)?;
                (direct << ALIGN_BITS) | align
            };
            high | low
        };
        let [first, second, third, _] = self.distances;
        self.distances = [distance, first, second, third];
        self.state = if self.state < AFTER_COPY { 7 } else { 10 };
        len.checked_add(COPY_BYTES_MIN)
    }

    /// A copy from one of the last distances; returns its length.
    fn repeat(&mut self, bits: &mut Bits<'_>, position: usize) -> Option<usize> {
        let state = usize::from(self.state);
        let [first, second, third, fourth] = self.distances;
        let odds = &mut self.odds;
        if bits.bit(odds.is_not_first.get_mut(state)?)? == 0 {
            if bits.bit(odds.is_long.get_mut(state)?.get_mut(position)?)? == 0 {
                self.state = if self.state < AFTER_COPY { 9 } else { 11 };
                return Some(1);
            }
        } else if bits.bit(odds.is_not_second.get_mut(state)?)? == 0 {
            self.distances = [second, first, third, fourth];
        } else if bits.bit(odds.is_not_third.get_mut(state)?)? == 0 {
            self.distances = [third, first, second, fourth];
        } else {
            self.distances = [fourth, first, second, third];
        }
        self.state = if self.state < AFTER_COPY { 8 } else { 11 };
        odds.repeat_lengths.read(bits, position)?.checked_add(COPY_BYTES_MIN)
    }
}

/// The range coder's bits.
struct Bits<'a> {
    input: std::slice::Iter<'a, u8>,
    range: u32,
    code: u32,
}

impl<'a> Bits<'a> {
    fn new(input: &'a [u8]) -> Option<Self> {
        let (head, rest) = input.split_first_chunk::<5>()?;
        let [0, code @ ..] = *head else { return None };
        Some(Self { input: rest.iter(), range: u32::MAX, code: u32::from_be_bytes(code) })
    }

    fn fill(&mut self) -> Option<()> {
        if self.range < 1 << 24 {
            self.range <<= 8;
            self.code = (self.code << 8) | u32::from(*self.input.next()?);
        }
        Some(())
    }

    /// A bit of learned odds.
    fn bit(&mut self, odds: &mut u16) -> Option<u32> {
        self.fill()?;
        let bound = (self.range >> ODDS_BITS).wrapping_mul(u32::from(*odds));
        if self.code < bound {
            self.range = bound;
            let room = (1_u16 << ODDS_BITS).wrapping_sub(*odds);
            *odds = odds.wrapping_add(room >> ODDS_SHIFT);
            Some(0)
        } else {
            self.range = self.range.wrapping_sub(bound);
            self.code = self.code.wrapping_sub(bound);
            *odds = odds.wrapping_sub(*odds >> ODDS_SHIFT);
            Some(1)
        }
    }

    /// Bits that are as likely as not.
    fn direct(&mut self, count: u32) -> Option<u32> {
        let mut number = 0;
        for _ in 0..count {
            self.fill()?;
            self.range >>= 1;
            let bit = u32::from(self.code >= self.range);
            self.code = self.code.wrapping_sub(self.range.wrapping_mul(bit));
            number = (number << 1) | bit;
        }
        Some(number)
    }

    /// A number of so many bits, the highest first; each bit's odds depend on those before.
    fn tree(&mut self, odds: &mut [u16], count: u32) -> Option<u32> {
        let mut symbol = 1_usize;
        for _ in 0..count {
            symbol = (symbol << 1) | usize::try_from(self.bit(odds.get_mut(symbol)?)?).ok()?;
        }
        u32::try_from(symbol & (1_usize << count).wrapping_sub(1)).ok()
    }

    /// The same with the lowest bit first.
    fn reverse_tree(&mut self, odds: &mut [u16], count: u32) -> Option<u32> {
        let (mut symbol, mut number) = (1_usize, 0);
        for at in 0..count {
            let bit = self.bit(odds.get_mut(symbol)?)?;
            symbol = (symbol << 1) | usize::try_from(bit).ok()?;
            number |= bit << at;
        }
        Some(number)
    }
}
