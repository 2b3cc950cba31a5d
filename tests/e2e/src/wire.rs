//! What a profile is on the way to each target, taken apart by others' rules: the messages as
//! their own definitions have them, and a form by its standard.

use anyhow::{Context, Result, ensure};
use prost::Message;

use crate::intake::Received;

/// `push.v1.PushRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct PushRequest {
    /// The series.
    #[prost(message, repeated, tag = "1")]
    pub series: Vec<PushSeries>,
}

/// `push.v1.RawProfileSeries`.
#[derive(Clone, PartialEq, Message)]
pub struct PushSeries {
    /// Its labels.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<PushLabel>,
    /// Its profiles.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<PushSample>,
}

/// `types.v1.LabelPair`.
#[derive(Clone, PartialEq, Message)]
pub struct PushLabel {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `push.v1.RawSample`.
#[derive(Clone, PartialEq, Message)]
pub struct PushSample {
    /// A gzipped pprof file.
    #[prost(bytes = "vec", tag = "1")]
    pub raw_profile: Vec<u8>,
    /// The profile's id.
    #[prost(string, tag = "2")]
    pub id: String,
}

/// What Pyroscope gets: labels, and the profile's file.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// The labels of the series, in the order they came.
    pub labels: Vec<(String, String)>,
    /// The gzipped pprof file.
    pub pprof: Vec<u8>,
    /// The profile's id.
    pub id: String,
}

/// A push request taken apart.
///
/// # Errors
/// What a server would refuse it for.
pub fn pushed(received: &Received) -> Result<Pushed> {
    ensure!(received.path.ends_with("/push.v1.PusherService/Push"), "{}", received.path);
    ensure!(received.header("content-type") == "application/proto", "its type");
    let request = PushRequest::decode(received.body.as_slice()).context("no push request")?;
    let [series] = &request.series[..] else { anyhow::bail!("{} series", request.series.len()) };
    let [sample] = &series.samples[..] else { anyhow::bail!("{} samples", series.samples.len()) };
    let labels: Vec<_> =
        series.labels.iter().map(|label| (label.name.clone(), label.value.clone())).collect();
    ensure!(labels.is_sorted(), "labels out of order: {labels:?}");
    for (name, value) in &labels {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        ensure!(name.chars().all(fits) && !value.is_empty(), "the label {name}={value}");
    }
    ensure!(labels.iter().any(|(name, _)| name == "service_name"), "no service: {labels:?}");
    Ok(Pushed { labels, pprof: sample.raw_profile.clone(), id: sample.id.clone() })
}

/// A part of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its file's name.
    pub file: String,
    /// Its type; empty if it says none.
    pub kind: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The parts of a form, in their order.
///
/// # Errors
/// What makes it none.
pub fn form(content_type: &str, body: &[u8]) -> Result<Vec<Part>> {
    let boundary = content_type
        .strip_prefix("multipart/form-data; boundary=")
        .with_context(|| format!("no form: {content_type}"))?
        .trim_matches('"');
    let delimiter = format!("--{boundary}");
    let mut rest = body.strip_prefix(delimiter.as_bytes()).context("no first part")?;
    let mut parts = Vec::new();
    let inner = format!("\r\n{delimiter}");
    loop {
        if rest == b"--\r\n" || rest == b"--" {
            return Ok(parts);
        }
        rest = rest.strip_prefix(b"\r\n").context("no line after a boundary")?;
        let end = find(rest, inner.as_bytes()).context("a part without an end")?;
        parts.push(part(&rest[..end])?);
        rest = &rest[end + inner.len()..];
    }
}

fn part(bytes: &[u8]) -> Result<Part> {
    let end = find(bytes, b"\r\n\r\n").context("a part without a head")?;
    let head = std::str::from_utf8(&bytes[..end])?;
    let (mut name, mut file, mut kind) = (String::new(), String::new(), String::new());
    for line in head.split("\r\n") {
        let (key, value) = line.split_once(": ").with_context(|| format!("no header: {line}"))?;
        match key.to_ascii_lowercase().as_str() {
            "content-type" => kind = value.to_owned(),
            "content-disposition" => {
                for field in value.split("; ").skip(1) {
                    let (key, value) = field.split_once('=').context("no field")?;
                    let value = value.trim_matches('"').to_owned();
                    match key {
                        "name" => name = value,
                        "filename" => file = value,
                        other => anyhow::bail!("the field {other}"),
                    }
                }
            }
            other => anyhow::bail!("the header {other}"),
        }
    }
    Ok(Part { name, file, kind, bytes: bytes[end + 4..].to_vec() })
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
