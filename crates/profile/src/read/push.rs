//! What Pyroscope's senders push: series of labels with profiles in them.

use super::error::DecodeError;
use super::tables::fields;
use crate::pyroscope::field;
use crate::wire::Value;

/// Labels and profiles of a push request at most.
const LABELS: usize = 256;
const PROFILES: usize = 256;

/// A series of a push request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series<'a> {
    /// Names and values.
    pub labels: Vec<(String, String)>,
    /// Profiles, as they were sent: pprof, gzipped or plain.
    pub profiles: Vec<&'a [u8]>,
}

/// Reads a push request (`push.v1.PushRequest`).
///
/// # Errors
/// If the bytes are none.
pub fn push_request(bytes: &[u8]) -> Result<Vec<Series<'_>>, DecodeError> {
    let mut all = Vec::new();
    let mut profiles = 0_usize;
    for field in fields("push request", bytes) {
        if let (field::REQUEST_SERIES, Value::Bytes(bytes)) = field? {
            let series = series(bytes)?;
            profiles = profiles.saturating_add(series.profiles.len()).saturating_add(1);
            if profiles > PROFILES {
                return Err(DecodeError::TooMany { what: "profiles" });
            }
            all.push(series);
        }
    }
    Ok(all)
}

fn series(bytes: &[u8]) -> Result<Series<'_>, DecodeError> {
    let mut series = Series::default();
    for field in fields("series", bytes) {
        match field? {
            (field::SERIES_LABELS, Value::Bytes(bytes)) => {
                if series.labels.len() >= LABELS {
                    return Err(DecodeError::TooMany { what: "labels" });
                }
                series.labels.push(label(bytes)?);
            }
            (field::SERIES_SAMPLES, Value::Bytes(bytes)) => {
                for field in fields("raw sample", bytes) {
                    if let (field::SAMPLE_PROFILE, Value::Bytes(profile)) = field? {
                        series.profiles.push(profile);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(series)
}

fn label(bytes: &[u8]) -> Result<(String, String), DecodeError> {
    let (mut name, mut value) = (String::new(), String::new());
    for field in fields("label", bytes) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match field? {
            (field::LABEL_NAME, Value::Bytes(bytes)) => name = text(bytes),
            (field::LABEL_VALUE, Value::Bytes(bytes)) => value = text(bytes),
            _ => {}
        }
    }
    Ok((name, value))
}
