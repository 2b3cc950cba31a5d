//! What Pyroscope's servers take: a push request with a profile in it and its labels.
//!
//! The messages are `push.v1.PushRequest`, `RawProfileSeries`, `RawSample` and
//! `types.v1.LabelPair` of `github.com/grafana/pyroscope/api`.

use std::collections::HashMap;

use crate::index::StringIndex;
use crate::profile::{Profile, Sample};
use crate::wire::Message;

/// Field numbers of the messages.
pub(crate) mod field {
    pub(crate) const REQUEST_SERIES: u64 = 1;
    pub(crate) const SERIES_LABELS: u64 = 1;
    pub(crate) const SERIES_SAMPLES: u64 = 2;
    pub(crate) const SAMPLE_PROFILE: u64 = 1;
    pub(crate) const SAMPLE_ID: u64 = 2;
    pub(crate) const LABEL_NAME: u64 = 1;
    pub(crate) const LABEL_VALUE: u64 = 2;
}

/// A push request for one profile, which is a gzipped pprof file.
#[must_use]
pub fn push_request(labels: &[(String, String)], pprof: &[u8], id: &str) -> Vec<u8> {
    let (mut series, mut nested) = (Message::default(), Message::default());
    for (name, value) in labels {
        nested.clear();
        nested.nested(field::LABEL_NAME, name.as_bytes());
        nested.nested(field::LABEL_VALUE, value.as_bytes());
        series.nested(field::SERIES_LABELS, nested.bytes());
    }
    nested.clear();
    nested.nested(field::SAMPLE_PROFILE, pprof);
    nested.nested(field::SAMPLE_ID, id.as_bytes());
    series.nested(field::SERIES_SAMPLES, nested.bytes());
    let mut request = Message::default();
    request.nested(field::REQUEST_SERIES, series.bytes());
    request.into_bytes()
}

/// A profile's samples without their threads and states, which Pyroscope is not told: those that
/// differ in nothing else are one. Its servers take so many samples a profile and no more.
#[must_use]
pub(crate) fn samples(profile: &Profile) -> Vec<Sample> {
    let mut merged: Vec<Sample> = Vec::new();
    let mut known = HashMap::new();
    for sample in &profile.samples {
        let span = profile.span_of(sample);
        let endpoint = span.map_or(StringIndex::EMPTY, |span| span.endpoint);
        let root = span.map_or(0, |span| span.ids.local_root_span_id);
        let next = merged.len();
        let at = *known.entry((sample.stack, endpoint, root, sample.labels)).or_insert(next);
        match merged.get_mut(at) {
            Some(same) => same.values.add(sample.values),
            None => merged.push(Sample { thread: None, state: None, ..*sample }),
        }
    }
    merged
}

/// A name that Pyroscope takes for a label: letters, digits and `_`, and no digit first.
#[must_use]
pub fn label_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    let begins_wrong = name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit());
    if begins_wrong { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_fit() {
        for (name, fit) in [
            ("region", "region"),
            ("k8s.pod-name", "k8s_pod_name"),
            ("1st", "_1st"),
            ("", "_"),
            ("größe", "gr__e"),
        ] {
            assert_eq!(label_name(name), fit);
        }
    }
}
