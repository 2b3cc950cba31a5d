//! Spans: what a request was doing when a sample was taken, by the ids that a tracer gave.

use std::num::NonZeroU32;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::index::StringIndex;
use crate::interned::Interned;

/// The ids of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SpanIds {
    /// The trace, in the byte order of the W3C's `traceparent`: most significant first.
    pub trace_id: [u8; 16],
    /// The span.
    pub span_id: u64,
    /// The span that the request began with in this process; 0 if unknown.
    pub local_root_span_id: u64,
}

impl SpanIds {
    /// Ids that are left out.
    pub const NONE: Self = Self { trace_id: [0; 16], span_id: 0, local_root_span_id: 0 };

    /// The trace's id as 32 hex digits.
    #[must_use]
    pub fn trace_text(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.trace_id))
    }

    /// A trace's id from 32 hex digits; `None` for anything else.
    #[must_use]
    pub fn trace_from_text(text: &str) -> Option<[u8; 16]> {
        // The parser alone would take a sign.
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()?;
        Some(number.to_be_bytes())
    }

    /// A span's id from 16 hex digits; `None` for anything else.
    #[must_use]
    pub fn span_from_text(text: &str) -> Option<u64> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten()
    }
}

/// A span as samples refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpanKey {
    pub(crate) ids: SpanIds,
    /// The endpoint that came with the span, as in files; in the host it is the root's.
    pub(crate) endpoint: StringIndex,
}

/// A span's place among those of a period: its position and one.
pub(crate) type SpanNumber = NonZeroU32;

/// The spans of a period, and the endpoints of their local roots.
#[derive(Debug)]
pub(crate) struct Spans {
    keys: Interned<SpanKey>,
    /// Each local root that samples have; its endpoint is empty until one is told.
    roots: HashMap<u64, StringIndex, FxBuildHasher>,
    spans_max: usize,
    /// Whether all ids are kept, or only the root's, for its endpoint.
    pub(crate) with_ids: bool,
}

impl Spans {
    pub(crate) fn new(spans_max: usize) -> Self {
        Self {
            keys: Interned::new(spans_max),
            roots: HashMap::with_hasher(FxBuildHasher),
            spans_max,
            with_ids: true,
        }
    }

    /// The span's number; `None` if it is new and there is no room. One lookup for a known span.
    pub(crate) fn intern(&mut self, mut key: SpanKey) -> Option<SpanNumber> {
        let root = key.ids.local_root_span_id;
        if !self.with_ids {
            key.ids = SpanIds { local_root_span_id: root, ..SpanIds::NONE };
        }
        let before = self.keys.len();
        let position = self.keys.intern(key)?;
        if self.keys.len() > before && root != 0 {
            // No more roots than spans, so the bound is the same.
            let endpoint = self.roots.entry(root).or_insert(StringIndex::EMPTY);
            if key.endpoint != StringIndex::EMPTY {
                *endpoint = key.endpoint;
            }
        }
        NonZeroU32::new(position.saturating_add(1))
    }

    /// Whether a sample has this local root.
    pub(crate) fn has_root(&self, root: u64) -> bool {
        self.roots.contains_key(&root)
    }

    /// Sets a local root's endpoint.
    pub(crate) fn set_endpoint(&mut self, root: u64, endpoint: StringIndex) {
        if let Some(slot) = self.roots.get_mut(&root) {
            *slot = endpoint;
        }
    }

    /// A span as it goes into a profile: with its root's endpoint if it has none of its own, and
    /// with its ids if they are wanted.
    pub(crate) fn get(&self, number: SpanNumber) -> Option<SpanKey> {
        let mut key = self.keys.get(number.get().saturating_sub(1) as usize)?;
        if key.endpoint == StringIndex::EMPTY {
            let root = self.roots.get(&key.ids.local_root_span_id);
            key.endpoint = root.copied().unwrap_or(StringIndex::EMPTY);
        }
        if !self.with_ids {
            key.ids = SpanIds::NONE;
        }
        Some(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Forgets all spans; keeps the memory unless it was much.
    pub(crate) fn clear(&mut self) {
        if self.keys.is_half_full() {
            *self = Self { with_ids: self.with_ids, ..Self::new(self.spans_max) };
        }
        self.keys.clear();
        self.roots.clear();
    }

    /// Bytes in use, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let root = size_of::<(u64, StringIndex)>().saturating_add(1);
        let roots = self.roots.capacity().saturating_mul(root);
        self.keys.bytes().saturating_add(roots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hex_digits_and_nothing_else() {
        let text = "0af7651916cd43dd8448eb211c80319c";
        let trace_id = SpanIds::trace_from_text(text).unwrap();
        assert_eq!(trace_id[..2], [0x0a, 0xf7]);
        assert_eq!(SpanIds { trace_id, ..SpanIds::NONE }.trace_text(), text);
        assert_eq!(SpanIds::span_from_text("B7ad6b7169203331"), Some(0xb7ad_6b71_6920_3331));
        for text in
            ["", "+7ad6b7169203331", "b7ad6b716920333", "b7ad6b71692033311", "g7ad6b7169203331"]
        {
            assert_eq!(SpanIds::span_from_text(text), None, "{text}");
            assert_eq!(SpanIds::trace_from_text(&text.repeat(2)), None, "{text}");
        }
    }
}
